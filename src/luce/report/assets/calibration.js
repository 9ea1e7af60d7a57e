// Do probabilities come true? Ties and preferences between two documents of a query.

panel(
  "probabilities",
  "Probabilities",
  "Do the probabilities come true?",
  "For pairs of documents of one test query: the chance that they are tied, and, among pairs of different grade, the chance that the better one is better. On the diagonal predictions are what they say. The area of a point is the share of pairs (below 0.1% it is left out); every query weighs the same. The error in brackets is the expected calibration error.",
  ["a", "b"],
  (body) => {
    const remarks = h("div", { class: "remarks" }),
      grid = h("div", { class: "pair" });
    body.append(remarks, grid);
    return () => {
      const found = ["a", "b"]
        .map((letter) => ({
          letter,
          ...(facts.calibration[state[letter]] || { why_not: "its file is not in the run folder" }),
        }))
        .filter((c, i, all) => i === 0 || state.a !== state.b);
      remarks.replaceChildren(key(false), ...found.map(calibrationRemark));
      // Figures first, charts then: a chart takes the width that its figure has among the others.
      const charts = [
        reliabilityChart(
          found.filter((c) => c.better),
          "better",
          "Better document",
          "chance to be better",
        ),
        reliabilityChart(
          found.filter((c) => c.tie),
          "tie",
          "Ties",
          "chance of a tie",
        ),
        ...found.filter((c) => c.histogram).map(tieHistogram),
      ].filter(Boolean);
      grid.replaceChildren(...charts.map((chart) => chart.figure));
      charts.forEach((chart) => chart.draw());
    };
  },
);

function calibrationRemark(entry) {
  const name = facts.models[state[entry.letter]];
  if (entry.why_not) return note(`${name} has no probabilities: ${entry.why_not}.`);
  const how = entry.draws ? `, each query's chances from ${entry.draws} exact draws` : ", in closed form";
  return note(
    `${name}: ${plural(entry.pairs, "pair")} of ${plural(entry.queries, "query", "queries")}${how}${entry.tie ? "" : "; this model knows no ties"}.`,
  );
}

function reliabilityChart(entries, field, title, axis) {
  if (!entries.length) return null;
  const host = h("div", {}),
    errors = entries.map((e) => `${e.letter.toUpperCase()} (${e[field].error.toFixed(3)})`).join(", ");
  return {
    figure: h("figure", {}, h("figcaption", {}, h("strong", { text: title }), `  ${errors}`), host),
    draw: () => drawReliability(host, entries, field, axis),
  };
}

function drawReliability(host, entries, field, axis) {
  const chart = frame(host, {
    x: [0, 1],
    y: [0, 1],
    height: 290,
    xLabel: `predicted ${axis}`,
    yLabel: "",
    xTicks: [0, 0.25, 0.5, 0.75, 1],
    yTicks: [0, 0.25, 0.5, 0.75, 1],
    label: `Reliability of the ${axis}: ${entries.map((e) => `${facts.models[state[e.letter]]}, error ${e[field].error}`).join("; ")}`,
  });
  chart.svg.append(
    s("line", { class: "zero dash", x1: chart.sx(0), y1: chart.sy(0), x2: chart.sx(1), y2: chart.sy(1) }),
  );
  for (const { letter, [field]: curve } of entries) {
    const bins = [...curve.share.keys()].filter((i) => curve.share[i] >= 0.001),
      place = (i) => [chart.sx(curve.predicted[i]), chart.sy(curve.observed[i])];
    chart.svg.append(s("path", { class: `line ${letter}`, d: path(bins.map(place)) }));
    bins
      .map((i) => [...place(i), i])
      .forEach(([x, y, i]) =>
        chart.svg.append(
          s(
            "circle",
            { class: `fill-${letter}`, cx: x, cy: y, r: 2.5 + 9 * Math.sqrt(curve.share[i]), opacity: 0.85 },
            s("title", {
              text: `predicted ${percent(curve.predicted[i])}, came true ${percent(curve.observed[i])}, ${percent(curve.share[i])} of pairs`,
            }),
          ),
        ),
      );
  }
}

function tieHistogram({ letter, histogram }) {
  const host = h("div", {}),
    caption = h(
      "figcaption",
      {},
      tag(letter),
      " ",
      h("strong", { text: "Chance of a tie" }),
      ", tied pairs (filled), others (line)",
    );
  return { figure: h("figure", {}, caption, host), draw: () => drawHistogram(host, letter, histogram) };
}

function drawHistogram(host, letter, [tied, differ]) {
  const top = Math.max(...tied, ...differ, 1e-9);
  const chart = frame(host, {
    x: [0, 1],
    y: [0, top * 1.05],
    height: 290,
    xLabel: "predicted chance of a tie",
    xTicks: [0, 0.25, 0.5, 0.75, 1],
    yText: (v) => percent(v, 0),
    label: `Tie probabilities of ${facts.models[state[letter]]}, tied pairs and others`,
  });
  const width = 1 / tied.length,
    base = chart.sy(0);
  tied.forEach((share, i) =>
    chart.svg.append(
      s("rect", {
        class: `fill-${letter}`,
        opacity: 0.55,
        x: chart.sx(i * width) + 0.5,
        width: Math.max(chart.sx(width) - chart.sx(0) - 1, 0.5),
        y: chart.sy(share),
        height: base - chart.sy(share),
      }),
    ),
  );
  const outline = differ.flatMap((share, i) => [
    [chart.sx(i * width), chart.sy(share)],
    [chart.sx((i + 1) * width), chart.sy(share)],
  ]);
  chart.svg.append(
    s("path", { class: "zero", "stroke-width": 1.5, d: path([[chart.sx(0), base], ...outline, [chart.sx(1), base]]) }),
  );
}
