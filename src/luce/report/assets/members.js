// What a blend is made of: a row a member, and what was expected of it beside what came.

if (Object.values(facts.members).some((found) => found))
  panel(
    "members",
    "Members",
    "What blends are made of",
    "Every member was fitted on folds of the training queries. “Alone” is its metric on queries that it did not see, “best blends” its share in the blends that were best on random halves of them: the weight is that share, shrunk to equal weights of the members that are not clearly worse than the best. Means over the folds of the run, with least and greatest.",
    ["a", "b"],
    (body) => {
      const host = h("div", {});
      body.append(host);
      return () => {
        const shown = [...new Set([state.a, state.b])].filter((model) => facts.members[model]);
        host.replaceChildren(
          ...(shown.length
            ? shown.map((model) => blendOf(model === state.a ? "a" : "b", facts.members[model]))
            : [note("Neither A nor B is a blend.")]),
        );
      };
    },
  );

function blendOf(letter, blend) {
  const words = ["Member", "Weight", `Alone, ${blend.metric}`, "Best blends", "Trees or penalty", "What it is, and why"];
  const rows = blend.members.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "text", text: row.member }),
      h("td", { text: ranged(row.weight, (value) => value.toFixed(3)) }),
      h("td", { text: ranged(row.alone, metric4) }),
      h("td", { text: ranged(row.chosen, (value) => percent(value, 0)) }),
      h("td", { text: ranged(row.trees, whole) }),
      h("td", { class: "text", text: reasons(row).join("; ") }),
    ),
  );
  return h(
    "div",
    { class: "blend" },
    modelTitle(letter),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, words.map((word, i) => h("th", { scope: "col", class: i % 5 ? null : "text", text: word })))),
        h("tbody", {}, rows),
      ),
    ),
    ...blend.worth.map((one) => note(expected(one, blend.metric))),
    ...blend.remarks.map((remark) => note(`Remark: ${remark}.`)),
  );
}

/** The mean of the values of folds, and in brackets how far they lie apart. */
function ranged(values, format) {
  const known = values.filter((value) => !missing(value));
  if (!known.length) return "–";
  const mean = format(known.reduce((x, y) => x + y, 0) / known.length),
    ends = [format(Math.min(...known)), format(Math.max(...known))];
  return ends[0] === ends[1] ? mean : `${mean} (${ends[0]} to ${ends[1]})`;
}

function reasons(row) {
  const worse = row.worse ? [`clearly worse than the best member in ${row.worse} of ${plural(row.folds, "fold")}`] : [];
  return [row.about, ...worse, ...row.failed.map((why) => `left out: ${why}`)].filter((text) => text);
}

function expected(one, metric) {
  const fold = facts.folds.length > 1 ? `${facts.folds[one.fold]}: ` : "",
    came = missing(one.test) ? "" : `; on the test queries it has ${metric4(one.test)}`;
  if (missing(one.value)) return `${fold}too few queries to say what it would be worth${came}.`;
  return `${fold}${metric} of ${metric4(one.value)} was expected (95%: ${metric4(one.low)} to ${metric4(one.high)})${came}.`;
}
