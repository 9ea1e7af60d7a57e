// Why is document 1 above document 2? The difference of two scores, feature by feature.

const MOST_ROWS = 12;

if (facts.why)
  panel(
    "why",
    "Why",
    "Why is one document above another?",
    whyNote(),
    ["a", "b", "query", "one", "two"],
    async (body) => {
      await make(panels.find((p) => p.id === "rankings"));
      const context = {
        features: await bundle(facts.why.features.data),
        documents: await bundle(facts.rankings.documents),
        ranks: await bundle(facts.rankings.data),
        values: await bundle(facts.queries.data),
        names: await bundle(facts.queries.names),
      };
      const heading = h("p", { class: "lede" }),
        columns = h("div", { class: "pair" });
      body.append(heading, columns);
      return async () => {
        const found = documentsOf(context),
          pair = [state.one, state.two].map((place) => found.find((d) => d.place === place));
        if (pair.some((d) => !d)) {
          heading.textContent = "Choose two documents in the rankings above.";
          columns.replaceChildren();
          return;
        }
        heading.replaceChildren(
          "Query ",
          h("strong", { text: context.names[state.query] }),
          ": document 1, ",
          h("strong", { text: pair[0].name }),
          " ",
          gradeMark(pair[0].grade),
          ", beside document 2, ",
          h("strong", { text: pair[1].name }),
          " ",
          gradeMark(pair[1].grade),
        );
        columns.replaceChildren(...(await Promise.all(["a", "b"].map((letter) => whyColumn(letter, context, pair)))));
      };
    },
  );

function whyNote() {
  const { depth, queries } = facts.why.features;
  const limited =
    queries < facts.queries.count ? `, in the ${whole(queries)} queries on which the models differ most` : "";
  return `Shapley values of the change from document 2 to document 1: each feature gets its mean effect over all orders in which the features of the one replace those of the other. They sum to the difference of the scores; for a linear model they are weight times difference, for trees they are exact as well. Choose the documents with the buttons 1 and 2 in the rankings; documents among the first ${depth} of some model can be chosen${limited}.`;
}

/** The features of a document of the chosen query, or null where they are not embedded. */
function featuresOf({ features }, place) {
  const { starts, place: places, x } = features,
    n = places.length;
  for (let i = starts[state.query]; i < starts[state.query + 1]; i++)
    if (places[i] === place) return Float32Array.from({ length: x.shape[0] }, (_, f) => x[f * n + i]);
  return null;
}

async function whyColumn(letter, context, pair) {
  const model = state[letter],
    parts = facts.why.parts[`${model}/${context.values.fold[state.query]}`];
  const [one, two] = pair.map((d) => featuresOf(context, d.place));
  if (!parts)
    return h(
      "div",
      {},
      modelTitle(letter),
      note(`Left out: ${facts.why.left_out[model] || "this model has no fitted file for this fold"}.`),
    );
  if (!one || !two)
    return h(
      "div",
      {},
      modelTitle(letter),
      note(
        `The features of ${!one ? pair[0].name : pair[1].name} are not embedded: it is not among the first ${facts.why.features.depth} of any model.`,
      ),
    );
  return h("div", {}, modelTitle(letter), whyTable(await shapley(parts, one, two), one, two));
}

function whyTable(effects, one, two) {
  const total = effects.reduce((x, y) => x + y, 0),
    names = facts.why.features.names;
  const order = [...effects.keys()]
    .filter((i) => effects[i] !== 0)
    .sort((i, j) => Math.abs(effects[j]) - Math.abs(effects[i]));
  const shown = order.slice(0, MOST_ROWS),
    rest = order.slice(MOST_ROWS);
  const most = Math.max(...order.map((i) => Math.abs(effects[i])), 1e-300);
  const rows = shown.map((i) => whyRow(names[i], short(one[i], 3), short(two[i], 3), effects[i], most));
  if (rest.length)
    rows.push(
      whyRow(
        `${plural(rest.length, "other feature")}`,
        "",
        "",
        rest.reduce((sum, i) => sum + effects[i], 0),
        most,
      ),
    );
  if (!order.length) return note("This model has the same score for both: no feature moves it.");
  const verdict =
    Math.abs(total) < 1e-12
      ? "The two have equal scores."
      : `Document ${total > 0 ? 1 : 2} is above document ${total > 0 ? 2 : 1}: the scores differ by ${short(Math.abs(total))}.`;
  return h(
    "div",
    {},
    h("p", { class: "why-total", "data-total": total, text: verdict }),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Contributions of features" },
      h(
        "table",
        { class: "why" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "text", text: "Feature" }),
            h("th", { scope: "col", class: "text", text: "for 2 · for 1" }),
            ["Effect", "Doc. 1", "Doc. 2"].map((text) => h("th", { scope: "col", text })),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}

function whyRow(name, one, two, effect, most) {
  const width = 88,
    half = width / 2,
    size = Math.min(1, Math.abs(effect) / most) * (half - 2);
  const bar = s(
    "svg",
    { width, height: 18, viewBox: `0 0 ${width} 18`, "aria-hidden": "true" },
    s("line", { class: "zero", x1: half, x2: half, y1: 0, y2: 18 }),
    s("rect", {
      class: effect > 0 ? "bar-one" : "bar-two",
      x: effect > 0 ? half : half - size,
      y: 4,
      width: size,
      height: 10,
    }),
  );
  return h(
    "tr",
    { "data-effect": effect },
    h("th", { scope: "row", class: "text document", title: name, text: name }),
    h("td", { class: "text" }, bar),
    [signedShort(effect, 3), one, two].map((text) => h("td", { text })),
  );
}
