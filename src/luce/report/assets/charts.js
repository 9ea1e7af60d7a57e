// Charts: one frame with axes, lines with the nearest one lit, a tip that follows the pointer.

/** Round steps between two numbers. */
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    result.push(Number((i * step).toPrecision(12)));
  return result;
}

/** An interval that holds all numbers, with a little air. */
function extent(values, air = 0.04) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values)
    if (!missing(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  if (low > high) return [0, 1];
  if (low === high) {
    const half = Math.abs(low) * 0.05 || 0.5;
    return [low - half, high + half];
  }
  return [low - (high - low) * air, high + (high - low) * air];
}

/** An empty chart that fills the width of its host. */
function frame(
  host,
  {
    x,
    y,
    height = 260,
    left = 46,
    right = 12,
    top = 10,
    bottom = 40,
    xLabel,
    yLabel,
    label,
    xTicks,
    yTicks,
    xText = short,
    yText = short,
  },
) {
  const width = Math.max(220, Math.floor(host.clientWidth || 600));
  const sx = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const sy = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of yTicks || ticks(y[0], y[1], Math.round((height - top - bottom) / 48))) {
    svg.append(
      s("line", { class: "axis", x1: left, x2: width - right, y1: sy(value), y2: sy(value) }),
      s("text", { x: left - 7, y: sy(value) + 4, "text-anchor": "end", text: yText(value) }),
    );
  }
  for (const value of xTicks || ticks(x[0], x[1], Math.round((width - left - right) / 70))) {
    svg.append(s("text", { x: sx(value), y: height - bottom + 17, "text-anchor": "middle", text: xText(value) }));
  }
  if (xLabel)
    svg.append(s("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", text: xLabel }));
  if (yLabel) svg.append(s("text", { x: 0, y: top - 1, "text-anchor": "start", text: yLabel }));
  host.replaceChildren(svg);
  return { svg, sx, sy, width, height, left, right, top, bottom };
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Lines over a frame; `lines` hold `points` (pairs), a `class` and a `name`. The nearest line to the pointer is lit. */
function drawLines(chart, lines, describe) {
  const drawn = lines.map((line) => {
    const points = line.points.filter(([, y]) => !missing(y)).map(([x, y]) => [chart.sx(x), chart.sy(y)]);
    const node = s("path", { class: `line ${line.class}`, d: path(points) });
    chart.svg.append(node);
    return { line, points, node, known: line.points.filter(([, y]) => !missing(y)) };
  });
  const dot = s("circle", { r: 4, class: "fill-soft", visibility: "hidden" });
  const hit = s("rect", {
    class: "hit",
    x: chart.left,
    y: 0,
    width: Math.max(0, chart.width - chart.left - chart.right),
    height: chart.height - chart.bottom,
  });
  chart.svg.append(dot, hit);
  const clear = () => {
    drawn.forEach(({ node }) => node.classList.remove("lit"));
    dot.setAttribute("visibility", "hidden");
    hideTip();
  };
  hit.addEventListener("pointermove", (event) => {
    const [px, py] = within(chart.svg, event);
    let best = null,
      least = Infinity;
    for (const entry of drawn) {
      entry.points.forEach(([x, y], i) => {
        const distance = 4 * Math.abs(x - px) + Math.abs(y - py);
        if (distance < least) {
          least = distance;
          best = [entry, i];
        }
      });
    }
    clear();
    if (!best) return;
    const [entry, i] = best;
    entry.node.classList.add("lit");
    dot.setAttribute("cx", entry.points[i][0]);
    dot.setAttribute("cy", entry.points[i][1]);
    dot.setAttribute("visibility", "visible");
    showTip(event, describe(entry.line, entry.known[i]));
  });
  hit.addEventListener("pointerleave", clear);
}

/** A shaded band between two rows of points. */
function drawBand(chart, points, name) {
  const known = points.filter(([, low, high]) => !missing(low) && !missing(high));
  const upper = known.map(([x, , high]) => [chart.sx(x), chart.sy(high)]);
  const lower = known.map(([x, low]) => [chart.sx(x), chart.sy(low)]).reverse();
  if (known.length) chart.svg.append(s("path", { class: name, d: path([...upper, ...lower]) + "Z" }));
}

function within(svg, event) {
  const box = svg.getBoundingClientRect();
  return [
    (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width),
    (event.clientY - box.top) * (svg.viewBox.baseVal.height / box.height),
  ];
}

const tipBox = document.getElementById("tip");

function showTip(event, text) {
  tipBox.textContent = text;
  tipBox.hidden = false;
  const box = tipBox.getBoundingClientRect();
  tipBox.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tipBox.style.top = `${event.clientY - box.height - 12 < 4 ? event.clientY + 18 : event.clientY - box.height - 12}px`;
}

function hideTip() {
  tipBox.hidden = true;
}

/** What the colours stand for. */
function key(others = true) {
  const entry = (name, text) => h("span", { class: name }, h("i", { "aria-hidden": "true" }), text);
  const entries = [entry("a", `A: ${facts.models[state.a]}`), entry("b", `B: ${facts.models[state.b]}`)];
  if (others && facts.models.length > 2) entries.push(entry("", "the other models"));
  return h("div", { class: "key" }, entries);
}

/** A reader's table of the numbers in a chart. */
function asTable(head, rows) {
  const details = h("details", {}, h("summary", { text: "As a table" }));
  details.addEventListener("toggle", () => {
    if (details.querySelector("table") || !details.open) return;
    details.append(
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers of the chart" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              head.map((text, i) => h("th", { scope: "col", class: i ? null : "text", text })),
            ),
          ),
          h(
            "tbody",
            {},
            rows().map(([name, ...cells]) =>
              h(
                "tr",
                {},
                h("th", { scope: "row", class: "text", text: name }),
                cells.map((text) => h("td", { text })),
              ),
            ),
          ),
        ),
      ),
    );
  });
  return details;
}
