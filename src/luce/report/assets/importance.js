// Weights and importances, with the spread over folds.

panel(
  "features",
  "Features",
  "What the models look at",
  "The strongest features of each model: the mean over folds, with a tick for every fold. What is measured depends on the model and stands above each chart; sizes of different models are on different scales.",
  ["a", "b"],
  (body) => {
    const columns = h("div", { class: "pair" });
    body.append(columns);
    return () => {
      columns.replaceChildren(...["a", "b"].map((letter) => h("div", { "data-letter": letter })));
      for (const host of columns.children) drawImportance(host, host.dataset.letter);
    };
  },
);

function drawImportance(host, letter) {
  const found = facts.importance[state[letter]];
  host.append(modelTitle(letter));
  if (!found || !found.names.length) {
    host.append(
      note(
        found
          ? "No feature has any weight."
          : "This model has no weights or importances, or its file is not in the run folder.",
      ),
    );
    return;
  }
  const names = found.names.slice(0, 15),
    values = found.values.slice(0, 15),
    mean = values.map((row) => row.reduce((x, y) => x + y, 0) / row.length);
  const chartHost = h("div", {});
  host.append(
    h(
      "figure",
      {},
      h("figcaption", {
        text: `${found.meaning}${found.total > names.length ? `; the first ${names.length} of ${found.total}` : ""}`,
      }),
      chartHost,
    ),
  );
  const row = 24,
    height = names.length * row + 34,
    widest = Math.min(190, 0.4 * host.clientWidth),
    left = Math.max(46, Math.min(widest, 12 + 7 * Math.max(...names.map((n) => n.length)))),
    letters = Math.floor((left - 12) / 7);
  const all = values.flat(),
    x = [Math.min(0, ...all), Math.max(0, ...all)];
  const chart = frame(chartHost, {
    x: x[0] === x[1] ? [0, 1] : x,
    y: [0, 1],
    height,
    left,
    right: 14,
    top: 4,
    bottom: 30,
    yTicks: [],
    label: `Strongest features of ${facts.models[state[letter]]}: ${names.slice(0, 5).join(", ")}`,
  });
  names.forEach((name, i) => {
    const y = 4 + i * row,
      zero = chart.sx(0),
      at = chart.sx(mean[i]);
    const line = s(
      "g",
      {},
      s("title", { text: `${name}: ${short(mean[i])}` }),
      s("text", {
        class: "ink",
        x: left - 8,
        y: y + 16,
        "text-anchor": "end",
        text: name.length > letters ? name.slice(0, letters - 1) + "…" : name,
      }),
      s("rect", {
        class: `fill-${letter}`,
        x: Math.min(zero, at),
        y: y + 5,
        width: Math.max(Math.abs(at - zero), 0.5),
        height: row - 10,
        opacity: 0.8,
      }),
    );
    if (values[i].length > 1)
      values[i].forEach((value) =>
        line.append(s("line", { class: "zero", x1: chart.sx(value), x2: chart.sx(value), y1: y + 3, y2: y + row - 3 })),
      );
    chart.svg.append(line);
  });
  chart.svg.append(s("line", { class: "zero", x1: chart.sx(0), x2: chart.sx(0), y1: 2, y2: height - 30 }));
}
