// Query by query: where A is better than B and where it is not.

panel(
  "queries",
  "Queries",
  "Query by query",
  "Each test query is a bar: how much better A is than B by the metric chosen above, sorted. Choose a bar, or a query from the lists, to see its rankings.",
  ["a", "b", "metric"],
  async (body) => {
    const values = await bundle(facts.queries.data),
      names = await bundle(facts.queries.names);
    const summary = h("dl", { class: "figures" }),
      host = h("div", {}),
      lists = h("div", { class: "pair" });
    body.append(
      summary,
      h("figure", {}, host),
      lists,
      note(
        "p and the interval of the mean difference are those of a paired randomisation test (random signs) and a percentile bootstrap over queries, drawn in this page with a fixed seed.",
      ),
    );
    return () => {
      const found = differencesOf(values);
      if (!found.length) {
        summary.replaceChildren();
        lists.replaceChildren();
        host.replaceChildren(
          note(`The values of ${metricName()} by query are not embedded; the file would become too large.`),
        );
        return;
      }
      summary.replaceChildren(...summaryOf(found));
      drawDifferences(host, found, names);
      lists.replaceChildren(extremes("a", found, names), extremes("b", found, names));
    };
  },
);

/** The value of a model on a query by the chosen metric; NaN where that metric is not embedded. */
function valueOf(values, model, query) {
  if (state.metric >= facts.queries.metrics) return NaN;
  return values.values[(model * facts.queries.metrics + state.metric) * facts.queries.count + query];
}

/** How much better A is on a query. */
const gainOf = (values, query) =>
  (lowerIsBetter() ? -1 : 1) * (valueOf(values, state.a, query) - valueOf(values, state.b, query));

function differencesOf(values) {
  const pairs = [];
  for (let q = 0; q < facts.queries.count; q++) {
    const a = valueOf(values, state.a, q),
      b = valueOf(values, state.b, q);
    if (!missing(a) && !missing(b)) pairs.push({ query: q, a, b, difference: gainOf(values, q) });
  }
  return pairs.sort((p, q) => q.difference - p.difference || p.query - q.query);
}

function summaryOf(pairs) {
  const wins = pairs.filter((p) => p.difference > 1e-9).length,
    losses = pairs.filter((p) => p.difference < -1e-9).length;
  const { mean, low, high, p } = tested(pairs.map((pair) => pair.difference));
  const entry = (term, text, more) =>
    h("div", {}, h("dt", { text: term }), h("dd", {}, text, more ? h("small", { text: ` ${more}` }) : null));
  return [
    entry("A better", whole(wins)),
    entry("Equal", whole(pairs.length - wins - losses)),
    entry("B better", whole(losses)),
    entry(
      `Mean of ${gainName()}, ${metricName()}`,
      signed(mean),
      missing(low) ? "" : `${signed(low)} to ${signed(high)}`,
    ),
    entry("p", pText(p), "randomisation"),
  ];
}

/** Mean, 95% bootstrap interval and two-sided randomisation p-value of paired differences. */
function tested(differences) {
  const n = differences.length;
  if (!n) return { mean: null, low: null, high: null, p: null };
  const random = generator(20240229),
    samples = Math.max(200, Math.min(10000, Math.floor(2e7 / n)));
  const d = Float64Array.from(differences),
    total = d.reduce((x, y) => x + y, 0),
    size = d.reduce((x, y) => x + Math.abs(y), 0);
  const means = new Float64Array(Math.max(200, Math.floor(samples / 4)));
  for (let i = 0; i < means.length; i++) {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += d[Math.floor(random() * n)];
    means[i] = sum / n;
  }
  means.sort();
  let hits = 0;
  const bar = Math.abs(total) - 1e-12 * size;
  for (let i = 0; i < samples; i++) {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += random() < 0.5 ? d[j] : -d[j];
    if (Math.abs(sum) >= bar) hits++;
  }
  return {
    mean: total / n,
    low: means[Math.floor(0.025 * means.length)],
    high: means[Math.ceil(0.975 * means.length) - 1],
    p: size ? (1 + hits) / (1 + samples) : 1,
  };
}

function drawDifferences(host, pairs, names) {
  const top = pairs.reduce((most, p) => Math.max(most, Math.abs(p.difference)), 1e-9);
  const n = Math.max(pairs.length, 1);
  const chart = frame(host, {
    x: [0, n],
    y: [-top * 1.05, top * 1.05],
    height: 260,
    xTicks: [],
    bottom: 22,
    label: `Differences of ${plural(n, "query", "queries")}, sorted`,
    yText: (v) => (v === 0 ? "0" : signed(v, 2)),
    xLabel: `${plural(pairs.length, "test query", "test queries")}, sorted by ${gainName()}`,
  });
  const zero = chart.sy(0),
    bar = (chart.sx(n) - chart.sx(0)) / n,
    gap = bar > 4 ? 1 : 0;
  const outline = (keep) =>
    pairs
      .map((p, i) =>
        keep(p.difference)
          ? `M${chart.sx(i).toFixed(2)} ${zero}V${chart.sy(p.difference).toFixed(2)}h${(bar - gap).toFixed(2)}V${zero}Z`
          : "",
      )
      .join("");
  const mark = s("rect", { class: "fill-soft", visibility: "hidden", width: Math.max(bar - gap, 2) });
  const hit = s("rect", {
    class: "hit",
    x: chart.left,
    y: 0,
    width: Math.max(0, chart.width - chart.left - chart.right),
    height: chart.height - chart.bottom,
  });
  chart.svg.classList.add("clickable");
  chart.svg.append(
    s("path", { class: "fill-a", d: outline((d) => d > 0) }),
    s("path", { class: "fill-b", d: outline((d) => d < 0) }),
    s("line", { class: "zero", x1: chart.left, x2: chart.width - chart.right, y1: zero, y2: zero }),
    mark,
    s("text", {
      class: "fill-a",
      x: chart.left + 0.3 * (chart.width - chart.left),
      y: chart.top + 14,
      text: "▲ A better",
    }),
    s("text", {
      class: "fill-b",
      x: chart.left + 0.7 * (chart.width - chart.left),
      y: chart.height - chart.bottom - 8,
      "text-anchor": "end",
      text: "B better ▼",
    }),
    hit,
  );
  const under = (event) =>
    pairs[Math.min(pairs.length - 1, Math.max(0, Math.floor((within(chart.svg, event)[0] - chart.left) / bar)))];
  hit.addEventListener("pointermove", (event) => {
    const pair = under(event);
    if (!pair) return;
    const y = chart.sy(pair.difference);
    mark.setAttribute("x", chart.sx(pairs.indexOf(pair)));
    mark.setAttribute("y", Math.min(y, zero) - 1);
    mark.setAttribute("height", Math.abs(y - zero) + 2);
    mark.setAttribute("visibility", "visible");
    showTip(
      event,
      `query ${names[pair.query]}\nA ${metric4(pair.a)}, B ${metric4(pair.b)}: ${signed(pair.difference)}`,
    );
  });
  hit.addEventListener("pointerleave", () => {
    mark.setAttribute("visibility", "hidden");
    hideTip();
  });
  hit.addEventListener("click", (event) => {
    const pair = under(event);
    if (pair) showQuery(pair.query);
  });
}

function extremes(letter, pairs, names) {
  const ours =
    letter === "a"
      ? pairs.filter((p) => p.difference > 0).slice(0, 5)
      : pairs
          .filter((p) => p.difference < 0)
          .slice(-5)
          .reverse();
  const rows = ours.map((p) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row", class: "text" },
        h("button", {
          type: "button",
          class: "plain",
          title: names[p.query],
          text: names[p.query],
          onclick: () => showQuery(p.query),
        }),
      ),
      h("td", { text: metric4(p.a) }),
      h("td", { text: metric4(p.b) }),
      h("td", { text: signed(p.difference) }),
    ),
  );
  return h(
    "div",
    {},
    h("h3", {}, tag(letter), ` gains most`),
    ours.length
      ? h(
          "div",
          {
            class: "scroll",
            tabindex: 0,
            role: "region",
            "aria-label": `Queries on which ${letter.toUpperCase()} gains most`,
          },
          h(
            "table",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                h("th", { scope: "col", class: "text", text: "Query" }),
                ["A", "B", gainName()].map((text) => h("th", { scope: "col", text })),
              ),
            ),
            h("tbody", {}, rows),
          ),
        )
      : note("On no query."),
  );
}

/** Show the rankings of a query. */
function showQuery(query) {
  hideTip();
  change({ query, one: null, two: null });
  go("rankings");
}
