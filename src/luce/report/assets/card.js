// The data and the settings: what was compared, on what, and how.

panel("data", "Data", "The data", "", [], (body) => {
  const overall = facts.card.overall || {},
    charts = h("div", { class: "pair" });
  if (overall.covers)
    body.append(note(`Counted over ${overall.covers}. A tied pair is two documents of one query with the same grade.`));
  body.append(
    h(
      "dl",
      { class: "figures" },
      [
        ["Queries", whole(overall.queries)],
        ["Documents", whole(overall.documents)],
        ["Features", whole(overall.features)],
        ["Tied pairs", percent(overall.tied_pairs)],
        ["Queries of one grade only", whole(overall.all_equal_queries)],
        ["Without a relevant document", whole(overall.empty_queries)],
      ]
        .filter(([, text]) => text !== "–")
        .map(([term, text]) => h("div", {}, h("dt", { text: term }), h("dd", { text }))),
    ),
    charts,
    foldTable(),
  );
  return async () => {
    const ranks = await bundle(facts.rankings.data);
    const grades = Object.entries(overall.grades || {});
    charts.replaceChildren(
      h("figure", {}, h("figcaption", {}, h("strong", { text: "Grades" }), ", share of documents"), h("div", {})),
      h("figure", {}, h("figcaption", {}, h("strong", { text: "Documents of a test query" })), h("div", {})),
    );
    drawGrades(charts.children[0].lastChild, grades);
    drawSizes(charts.children[1].lastChild, ranks.sizes);
  };
});

function drawGrades(host, grades) {
  const total = grades.reduce((sum, [, n]) => sum + n, 0);
  if (!total || grades.length > 20) {
    host.replaceChildren(note("Too many different grades to be shown one by one."));
    return;
  }
  const chart = frame(host, {
    x: [0, 1],
    y: [0, 1],
    height: grades.length * 30 + 30,
    left: 40,
    right: 110,
    top: 2,
    bottom: 26,
    yTicks: [],
    xText: (v) => percent(v, 0),
    label: `Grades: ${grades.map(([g, n]) => `${g}: ${n}`).join(", ")}`,
  });
  grades.forEach(([grade, n], i) =>
    chart.svg.append(
      s("text", { class: "ink", x: 30, y: i * 30 + 20, "text-anchor": "end", text: grade }),
      s("rect", {
        class: "fill-soft",
        x: chart.sx(0),
        y: i * 30 + 6,
        width: Math.max(chart.sx(n / total) - chart.sx(0), 1),
        height: 19,
      }),
      s("text", { x: chart.sx(n / total) + 7, y: i * 30 + 20, text: `${whole(n)} (${percent(n / total)})` }),
    ),
  );
}

function drawSizes(host, sizes) {
  const top = sizes.reduce((most, size) => Math.max(most, size), 1),
    step = ticks(0, top, 16),
    width = step.length > 1 ? Math.max(1, Math.round(step[1] - step[0])) : 1,
    counts = new Array(Math.floor(top / width) + 1).fill(0);
  for (const size of sizes) counts[Math.floor(size / width)]++;
  const chart = frame(host, {
    x: [0, counts.length * width],
    y: [0, Math.max(...counts) * 1.05],
    height: 190,
    xLabel: "documents",
    yText: whole,
    label: "Histogram of the number of documents of test queries",
  });
  counts.forEach((n, i) => {
    if (n)
      chart.svg.append(
        s(
          "rect",
          {
            class: "fill-soft",
            x: chart.sx(i * width) + 0.5,
            width: Math.max(chart.sx(width) - chart.sx(0) - 1, 1),
            y: chart.sy(n),
            height: chart.sy(0) - chart.sy(n),
          },
          s("title", {
            text: `${width > 1 ? `${i * width} to ${(i + 1) * width - 1}` : i} documents: ${plural(n, "query", "queries")}`,
          }),
        ),
      );
  });
}

function foldTable() {
  const parts = Object.entries(facts.card.folds || {})
    .flatMap(([fold, card]) => Object.entries(card).map(([part, facts]) => [fold, part, facts]))
    .filter(([, , card]) => card && typeof card === "object" && "queries" in card);
  if (!parts.length) return null;
  return h(
    "details",
    {},
    h("summary", { text: "Fold by fold" }),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Folds" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Fold", "Part"].map((text) => h("th", { scope: "col", class: "text", text })),
            ["Queries", "Documents", "Tied pairs", "Without a relevant document"].map((text) =>
              h("th", { scope: "col", text }),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          parts.map(([fold, part, card]) =>
            h(
              "tr",
              {},
              h("th", { scope: "row", class: "text", text: fold }),
              h("td", { class: "text", text: part }),
              [whole(card.queries), whole(card.documents), percent(card.tied_pairs), whole(card.empty_queries)].map(
                (text) => h("td", { text }),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

panel("settings", "Settings", "How it was done", "", [], (body) => {
  const { notes = [], seed, tune_on: tune } = facts.settings;
  body.append(
    h("p", {
      text: `Validation data chose the settings of each model by ${tune || facts.metrics[0]}; test queries were scored once, by the chosen model. Seed ${seed ?? 0}.`,
    }),
    ...notes.map((text) => h("p", { text })),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Chosen settings" },
      h(
        "table",
        { id: "fits" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Model", "Folds", "Chosen settings"].map((text) => h("th", { scope: "col", class: "text", text })),
            ["Validation", "Fit, s"].map((text) => h("th", { scope: "col", text })),
          ),
        ),
        h(
          "tbody",
          {},
          chosenSettings().map((row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row", class: "text", text: row.model }),
              h("td", { class: "text", text: row.folds.join(", ") }),
              h("td", { class: "text mono", text: row.text }),
              h("td", { text: metric4(mean(row.validation)) }),
              h("td", { text: missing(mean(row.seconds)) ? "–" : mean(row.seconds).toFixed(2) }),
            ),
          ),
        ),
      ),
    ),
    h(
      "details",
      {},
      h("summary", { text: "All settings of the run" }),
      h("pre", { tabindex: 0, text: JSON.stringify(facts.settings, null, 2) }),
    ),
  );
});

const mean = (values) => {
  const known = values.filter((v) => !missing(v));
  return known.length ? known.reduce((x, y) => x + y, 0) / known.length : null;
};

/** What validation chose, a row for all folds of a model that agree. */
function chosenSettings() {
  const rows = new Map();
  for (const fit of facts.fits) {
    const text = settingsText(fit.chosen),
      key = `${fit.model}\u0000${text}`;
    if (!rows.has(key)) rows.set(key, { model: fit.model, text, folds: [], validation: [], seconds: [] });
    const row = rows.get(key);
    row.folds.push(fit.fold);
    row.validation.push(fit.validation);
    row.seconds.push(fit.seconds);
  }
  return [...rows.values()].sort((p, q) => facts.models.indexOf(p.model) - facts.models.indexOf(q.model));
}

function settingsText(chosen) {
  const parts = Object.entries(chosen || {}).map(([key, value]) =>
    value && typeof value === "object" ? settingsText(value) : `${key} ${value}`,
  );
  return parts.join(", ") || "as they come";
}
