// Learning curves: what every round of training gave, fold by fold.

if (facts.learning.length)
  panel(
    "learning",
    "Learning",
    "How they learned",
    "By round of training (iterations, trees or steps), a line a fold: what was minimised, and the metric on validation data that chose the round to keep, which has a dot.",
    ["a", "b"],
    (body) => {
      const grid = h("div", { class: "pair" });
      body.append(grid);
      return () => {
        const charts = [];
        const kinds = [...new Set(facts.learning.map((c) => `${c.measure}\u0000${c.part}`))];
        for (const kind of kinds)
          for (const letter of ["a", "b"]) {
            const [measure, part] = kind.split("\u0000");
            const curves = facts.learning.filter(
              (c) => c.measure === measure && c.part === part && c.model === state[letter],
            );
            const both = facts.learning.filter(
              (c) => c.measure === measure && c.part === part && (c.model === state.a || c.model === state.b),
            );
            if (!both.length) continue;
            const host = h("div", {});
            const figure = h(
              "figure",
              {},
              h("figcaption", {}, tag(letter), " ", h("strong", { text: measure }), `, ${part} data`),
              host,
            );
            charts.push({
              figure,
              draw: () =>
                curves.length
                  ? drawLearning(host, curves, letter, measure === "objective" ? curves : both, measure)
                  : host.append(note(`${facts.models[state[letter]]} has no such curve.`)),
            });
          }
        grid.replaceChildren(...charts.map((chart) => chart.figure));
        charts.forEach((chart) => chart.draw());
      };
    },
  );

function drawLearning(host, curves, letter, scale, measure) {
  const chart = frame(host, {
    x: extent(
      curves.flatMap((c) => c.round),
      0,
    ),
    y: extent(scale.flatMap((c) => c.value)),
    height: 220,
    left: 54,
    xLabel: "round",
    label: `${measure} by round, ${facts.models[state[letter]]}, ${plural(curves.length, "fold")}`,
  });
  for (const c of curves) {
    const kept = facts.fits.find(
        (fit) => fit.model === facts.models[c.model] && fit.fold === facts.folds[c.fold],
      )?.best_round,
      i = c.part === "valid" ? c.round.indexOf(kept) : -1;
    if (i >= 0)
      chart.svg.append(
        s("circle", { class: `fill-${letter}`, cx: chart.sx(c.round[i]), cy: chart.sy(c.value[i]), r: 3.5 }),
      );
  }
  drawLines(
    chart,
    curves.map((c) => ({ curve: c, class: `thin ${letter}`, points: c.round.map((r, i) => [r, c.value[i]]) })),
    (line, [round, value]) => `${facts.folds[line.curve.fold]}, round ${round}\n${measure} ${short(value)}`,
  );
}
