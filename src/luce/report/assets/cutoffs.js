// Metrics at every cut-off: A and B with their 95% bands, the other models behind them.

panel(
  "cutoffs",
  "Cut-offs",
  "How deep the ranking holds",
  "Each metric cut off after the first k documents, recomputed from the scores of the test documents under the conventions of the run. Bands are 1.96 standard errors of the mean over queries.",
  ["a", "b"],
  (body) => {
    const { families, k } = facts.cutoffs;
    const legend = h("div", {}),
      grid = h("div", { class: "grid" });
    const figures = Object.entries(families).map(([family, curves]) => {
      const host = h("div", {});
      grid.append(h("figure", {}, h("figcaption", {}, h("strong", { text: `${curves.name} at k` })), host));
      return { family, curves, host };
    });
    body.append(
      legend,
      grid,
      asTable(["Model", ...Object.values(families).flatMap((f) => shown(k).map((i) => `${f.name}@${k[i]}`))], () =>
        facts.models.map((model, m) => [
          model,
          ...Object.values(families).flatMap((f) => shown(k).map((i) => metric4(f.mean[m][i]))),
        ]),
      ),
    );
    return () => {
      legend.replaceChildren(key());
      for (const figure of figures) drawCutoffs(figure, k);
    };
  },
);

const shown = (k) =>
  k
    .map((value, i) => [value, i])
    .filter(([value]) => [1, 3, 5, 10, 20].includes(value))
    .map(([, i]) => i);

function drawCutoffs({ curves, host }, k) {
  const bounds = [state.a, state.b].flatMap((m) =>
    k.flatMap((_, i) =>
      missing(curves.half[m][i]) ? [] : [curves.mean[m][i] - curves.half[m][i], curves.mean[m][i] + curves.half[m][i]],
    ),
  );
  const y = extent([...curves.mean.flat(), ...bounds], 0.03);
  const chart = frame(host, {
    x: [k[0], Math.max(k[k.length - 1], k[0] + 1)],
    y,
    height: 230,
    xLabel: "k",
    xTicks: k.filter((v) => v === 1 || v % 5 === 0),
    label: `${curves.name} at k, ${facts.models[state.a]} and ${facts.models[state.b]} among ${facts.models.length} models`,
    yText: (v) => v.toFixed(2),
  });
  const order = [...facts.models.keys()].sort((p, q) => rankOf(p) - rankOf(q));
  for (const [m, name] of [
    [state.b, "band-b"],
    [state.a, "band-a"],
  ]) {
    drawBand(
      chart,
      k.map((x, i) => {
        const mean = curves.mean[m][i],
          half = curves.half[m][i];
        return missing(mean) || missing(half) ? [x, null, null] : [x, mean - half, mean + half];
      }),
      name,
    );
  }
  drawLines(
    chart,
    order.map((m) => ({ model: m, class: roleOf(m), points: k.map((x, i) => [x, curves.mean[m][i]]) })),
    (line, [x, value]) => `${facts.models[line.model]}\n${curves.name}@${x}: ${metric4(value)}`,
  );
}

const roleOf = (m) => (m === state.a ? "a" : m === state.b ? "b" : "other");
const rankOf = (m) => (m === state.a ? 2 : m === state.b ? 1 : 0);
