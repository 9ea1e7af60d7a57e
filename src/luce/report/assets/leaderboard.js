// The leaderboard: means, an interval drawn to scale, p-values; every column sorts, every row can become A or B.

panel("leaderboard", "Leaderboard", "Leaderboard", boardNote(), ["a", "b", "metric"], (body) => {
  if (facts.failures.length) body.append(failures());
  if (facts.remarks.length) body.append(h("div", { class: "notice mild" }, h("ul", {}, facts.remarks.map((text) => h("li", { text })))));
  const host = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Leaderboard, scrolls sideways" });
  body.append(host);
  const columns = boardColumns();
  let sorted = { column: 1, down: true };
  const rows = facts.leaderboard.map((row) => boardRow(row, columns));
  const table = h("table", { id: "board" }, h("thead", {}, h("tr", {}, columns.map((column, i) => heading(column, i, (c) => sort(c))))), h("tbody", {}));
  host.append(table);

  function sort(index) {
    sorted = { column: index, down: sorted.column === index ? !sorted.down : columns[index].down };
    order();
  }
  function order() {
    const { key } = columns[sorted.column], way = sorted.down ? -1 : 1;
    rows.sort((p, q) => compareKeys(key(p.data), key(q.data), way));
    table.tBodies[0].replaceChildren(...rows.map((row) => row.node));
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (columns[i].key) cell.setAttribute("aria-sort", i === sorted.column ? (sorted.down ? "descending" : "ascending") : "none");
    });
  }
  order();
  return () => {
    drawWhiskers(rows);
    for (const row of rows) {
      row.node.className = row.index === state.a ? "is-a" : row.index === state.b ? "is-b" : "";
      row.a.setAttribute("aria-pressed", row.index === state.a);
      row.b.setAttribute("aria-pressed", row.index === state.b);
    }
  };
});

function boardNote() {
  const many = facts.folds.length > 1;
  return `Means over ${many ? `the ${facts.folds.length} folds' test queries (the mean of the folds' means)` : "the test queries"}. ` +
    `The interval is a 95% bootstrap interval over queries of ${facts.metrics[0]}; p compares with the best model by a paired randomisation test, with Holm's correction for the number of models. Choose any two models as A and B: every panel below follows.`;
}

function compareKeys(p, q, way) {
  if (missing(p) || missing(q)) return missing(p) - missing(q);
  return way * (typeof p === "string" ? p.localeCompare(q, "en", { numeric: true }) : p - q);
}

function boardColumns() {
  const best = (metric) => Math.max(...facts.leaderboard.map((row) => row[metric] ?? -Infinity));
  return [
    { name: "Model", text: true, down: false, key: (row) => row.model },
    ...facts.metrics.map((metric) => ({ name: metric, down: true, key: (row) => row[metric], cell: (row) => h("td", { class: row[metric] === best(metric) ? "best" : null, text: metric4(row[metric]) }) })),
    { name: `95% interval`, whiskers: true, down: true, key: (row) => row.low, cell: (row) => h("td", { class: "whiskers" }) },
    { name: "p (Holm)", down: false, key: (row) => row.p_holm, cell: (row) => h("td", { text: row.p_holm === null || row.p_holm === undefined ? "" : row.p_holm < 0.001 ? "< 0.001" : row.p_holm.toFixed(3) }) },
    { name: "Fit, s", down: false, key: (row) => row.seconds, cell: (row) => h("td", { text: missing(row.seconds) ? "–" : row.seconds.toFixed(2) }) },
    { name: "Compare", key: null },
  ];
}

function heading(column, index, sort) {
  const props = { scope: "col", class: column.text ? "text" : null };
  if (!column.key) return h("th", { ...props, text: column.name });
  return h("th", { ...props, "aria-sort": "none" }, h("button", { type: "button", text: column.name, onclick: () => sort(index) }));
}

function boardRow(data, columns) {
  const index = facts.models.indexOf(data.model);
  const button = (letter) => h("button", { type: "button", class: letter, "aria-pressed": "false", "aria-label": `${data.model} as model ${letter.toUpperCase()}`, text: letter.toUpperCase(), onclick: () => choose(letter, index) });
  const a = button("a"), b = button("b");
  const node = h("tr", {}, h("th", { scope: "row", class: "text", text: data.model }), columns.slice(1, -1).map((column) => column.cell(data)), h("td", {}, h("span", { class: "choose" }, a, b)));
  return { data, index, node, a, b };
}

/** Take a model as A or B; taking the other one swaps the two. */
function choose(letter, index) {
  const other = letter === "a" ? "b" : "a";
  const news = { [letter]: index };
  if (state[other] === index && facts.models.length > 1) news[other] = state[letter];
  change(news);
}

function drawWhiskers(rows) {
  const [low, high] = extent(facts.leaderboard.flatMap((row) => [row.low, row.high]), 0.06);
  const width = 150, at = (value) => 4 + ((value - low) / (high - low)) * (width - 8);
  for (const row of rows) {
    const { data } = row, cell = row.node.querySelector(".whiskers");
    if (missing(data.low)) { cell.textContent = "–"; continue; }
    const name = row.index === state.a ? "a" : row.index === state.b ? "b" : "other";
    const mean = data.interval_mean ?? (data.low + data.high) / 2;
    cell.replaceChildren(s("svg", { width, height: 26, viewBox: `0 0 ${width} 26`, role: "img", "aria-label": `${metric4(data.low)} to ${metric4(data.high)}` },
      s("line", { class: "axis", x1: 0, x2: width, y1: 13, y2: 13 }),
      s("line", { class: name, "stroke-width": 2.5, x1: at(data.low), x2: at(data.high), y1: 13, y2: 13, opacity: 1 }),
      s("circle", { class: `fill-${name}`, cx: at(mean), cy: 13, r: 4.5 }), s("title", { text: `${metric4(data.low)} to ${metric4(data.high)}` })));
  }
}

function failures() {
  return h("div", { class: "notice", role: "note", id: "failures" }, h("strong", { text: `${plural(facts.failures.length, "fit")} failed; the rest went on.` }),
    h("ul", {}, facts.failures.map((f) => h("li", { text: `${f.model}${f.fold ? `, ${f.fold}` : ""}: ${f.error}` }))));
}
