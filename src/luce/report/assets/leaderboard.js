// The leaderboard: means, an interval drawn to scale, p-values; every column sorts, every row can become A or B.

panel("leaderboard", "Leaderboard", "Leaderboard", boardNote(), ["a", "b", "metric"], (body) => {
  if (facts.failures.length) body.append(failures());
  if (facts.remarks.length)
    body.append(
      h(
        "div",
        { class: "notice mild" },
        h(
          "ul",
          {},
          facts.remarks.map((text) => h("li", { text })),
        ),
      ),
    );
  const host = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "Leaderboard, scrolls sideways",
  });
  body.append(host);
  const columns = boardColumns();
  let sorted = { column: 2, down: columns[2].down };
  const rows = facts.leaderboard.map((row) => boardRow(row, columns));
  const table = h(
    "table",
    { id: "board" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        columns.map((column, i) => heading(column, i, (c) => sort(c))),
      ),
    ),
    h("tbody", {}),
  );
  host.append(table);

  function sort(index) {
    sorted = { column: index, down: sorted.column === index ? !sorted.down : columns[index].down };
    order();
  }
  function order() {
    const { key } = columns[sorted.column],
      way = sorted.down ? -1 : 1;
    rows.sort((p, q) => compareKeys(key(p.data), key(q.data), way));
    table.tBodies[0].replaceChildren(...rows.map((row) => row.node));
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (columns[i].key)
        cell.setAttribute("aria-sort", i === sorted.column ? (sorted.down ? "descending" : "ascending") : "none");
    });
  }
  order();
  return () => {
    for (const row of rows) {
      row.fill();
      row.node.className = row.index === state.a ? "is-a" : row.index === state.b ? "is-b" : "";
      row.a.setAttribute("aria-pressed", row.index === state.a);
      row.b.setAttribute("aria-pressed", row.index === state.b);
    }
  };
});

function boardNote() {
  const many = facts.folds.length > 1,
    best = facts.leaderboard[0].model;
  return (
    `Means over ${many ? `the test queries of ${facts.folds.length} folds (the mean of the folds' means)` : "the test queries"}. ` +
    `Intervals are 95% bootstrap intervals over queries of the metric chosen above; p compares each model with ${best} by a paired randomisation test, after Holm's correction for the number of models, and beside it stand the queries on which the model is better, equal and worse. Choose any two models as A and B: every panel below follows.`
  );
}

function compareKeys(p, q, way) {
  if (missing(p) || missing(q)) return missing(p) - missing(q);
  return way * (typeof p === "string" ? p.localeCompare(q, "en", { numeric: true }) : p - q);
}

function boardColumns() {
  const best = (metric) => {
    const all = facts.leaderboard.map((row) => row[metric]).filter((v) => !missing(v));
    return facts.lower_is_better.includes(metric) ? Math.min(...all) : Math.max(...all);
  };
  const tested = (row) => facts.statistics.find((t) => t.model === row.model && t.metric === metricName());
  return [
    { name: "Model", text: true, down: false, key: (row) => row.model },
    { name: "Compare", key: null },
    ...facts.metrics.map((metric) => ({
      name: metric,
      down: !facts.lower_is_better.includes(metric),
      key: (row) => row[metric],
      cell: (cell, row) => {
        cell.className = row[metric] === best(metric) ? "best" : "";
        cell.textContent = metric4(row[metric]);
      },
    })),
    { name: "95% interval", down: true, key: (row) => intervalOf(row)[0], cell: drawWhiskers },
    {
      name: "p (Holm)",
      down: false,
      key: (row) => tested(row)?.p_holm,
      cell: (cell, row) => {
        cell.textContent = pText(tested(row)?.p_holm, "");
      },
    },
    {
      name: "+ / = / −",
      title: "queries better, equal, worse",
      down: true,
      key: (row) => tested(row)?.wins,
      cell: (cell, row) => {
        const t = tested(row);
        cell.textContent = t ? `${t.wins} / ${t.ties} / ${t.losses}` : "";
        cell.className = "counts";
      },
    },
    {
      name: "Fit, s",
      down: false,
      key: (row) => row.seconds,
      cell: (cell, row) => {
        cell.textContent = missing(row.seconds) ? "–" : row.seconds.toFixed(2);
      },
    },
  ];
}

const intervalOf = (row) =>
  (row.intervals && row.intervals[metricName()]) || (state.metric === 0 ? [row.low, row.high] : [null, null]);
const pText = (p, otherwise = "–") => (missing(p) ? otherwise : p < 0.001 ? "< 0.001" : p.toFixed(3));

function heading(column, index, sort) {
  const props = { scope: "col", class: column.text ? "text" : null };
  if (!column.key) return h("th", { ...props, text: column.name });
  return h(
    "th",
    { ...props, "aria-sort": "none" },
    h("button", { type: "button", text: column.name, title: column.title, onclick: () => sort(index) }),
  );
}

function boardRow(data, columns) {
  const index = facts.models.indexOf(data.model);
  const button = (letter) =>
    h("button", {
      type: "button",
      class: letter,
      "aria-pressed": false,
      "aria-label": `${data.model} as model ${letter.toUpperCase()}`,
      text: letter.toUpperCase(),
      onclick: () => choose(letter, index),
    });
  const a = button("a"),
    b = button("b"),
    cells = columns.slice(2).map(() => h("td", {}));
  const node = h(
    "tr",
    {},
    h("th", { scope: "row", class: "text", text: data.model }),
    h("td", {}, h("span", { class: "choose" }, a, b)),
    cells,
  );
  return { data, index, node, a, b, fill: () => cells.forEach((cell, i) => columns[i + 2].cell(cell, data, index)) };
}

/** Take a model as A or B; taking the other one swaps the two. */
function choose(letter, index) {
  const other = letter === "a" ? "b" : "a";
  const news = { [letter]: index };
  if (state[other] === index && facts.models.length > 1) news[other] = state[letter];
  change(news);
}

function drawWhiskers(cell, data, index) {
  const [low, high] = intervalOf(data),
    [least, most] = extent(facts.leaderboard.flatMap(intervalOf), 0.06);
  cell.className = "whiskers";
  if (missing(low)) {
    cell.textContent = "–";
    return;
  }
  const width = 150,
    at = (value) => 4 + ((value - least) / (most - least)) * (width - 8),
    name = roleOf(index),
    text = `${metric4(low)} to ${metric4(high)}`;
  cell.replaceChildren(
    s(
      "svg",
      { width, height: 26, viewBox: `0 0 ${width} 26`, role: "img", "aria-label": text },
      s("title", { text }),
      s("line", { class: "axis", x1: 0, x2: width, y1: 13, y2: 13 }),
      s("line", { class: `whisker ${name}`, x1: at(low), x2: at(high), y1: 13, y2: 13 }),
      s("circle", { class: `fill-${name}`, cx: at(Math.min(Math.max(data[metricName()], low), high)), cy: 13, r: 4.5 }),
    ),
  );
}

function failures() {
  const failed = Object.keys(facts.failed);
  const title = failed.length
    ? `${plural(failed.length, "model")} failed and ${failed.length === 1 ? "is" : "are"} not compared; the rest went on.`
    : "Some settings failed; the best of the others was taken.";
  const grouped = new Map();
  for (const { model, fold, error } of facts.failures) {
    const key = `${model}\u0000${error}`;
    grouped.set(key, { model, error, folds: [...new Set([...(grouped.get(key)?.folds || []), fold])] });
  }
  const all = [...grouped.values()],
    several = all.length > 12 ? [h("li", { text: `and ${all.length - 12} more` })] : [];
  return h(
    "div",
    { class: "notice", role: "note", id: "failures" },
    h("strong", { text: title }),
    h(
      "ul",
      {},
      all.slice(0, 12).map((f) => h("li", { text: `${f.model} (${f.folds.join(", ")}): ${f.error}` })),
      several,
    ),
  );
}
