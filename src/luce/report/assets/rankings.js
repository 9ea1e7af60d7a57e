// One query, two rankings side by side, with grades; any query can be found by typing a part of its name.

const FIRST = 10;

panel(
  "rankings",
  "Rankings",
  "One query, two rankings",
  rankingNote(),
  ["a", "b", "metric", "query", "one", "two"],
  async (body) => {
    const values = await bundle(facts.queries.data),
      names = await bundle(facts.queries.names),
      ranks = await bundle(facts.rankings.data);
    const documents = await bundle(facts.rankings.documents);
    const context = { values, names, ranks, documents, all: false, last: null };
    if (state.query === null) state.query = widest(context);
    const heading = h("h3", { id: "query-name", "aria-live": "polite" }),
      tables = h("div", { class: "pair" }),
      more = h("div", { class: "controls" });
    body.append(
      h("div", { class: "controls" }, finder(context), step(context, -1), step(context, 1)),
      heading,
      tables,
      more,
    );
    return () => {
      if (context.last !== state.query) {
        context.all = false;
        context.last = state.query;
      }
      drawRankings(context, heading, tables, more);
    };
  },
);

function rankingNote() {
  const { depth, queries } = facts.rankings;
  const limited =
    queries < facts.queries.count
      ? ` Rankings are embedded for ${whole(queries)} of ${whole(facts.queries.count)} queries, those on which the models differ most.`
      : "";
  return `The documents of a test query as A and B order them, with their grades. Documents among the first ${depth} of any model are embedded; equal scores stand in the order of the data.${limited}`;
}

/** The embedded query on which the models differ most. */
function widest({ values, ranks }) {
  let best = 0,
    most = -1;
  for (let q = 0; q < facts.queries.count; q++)
    if (ranks.starts[q + 1] > ranks.starts[q] && values.spread[q] > most) {
      most = values.spread[q];
      best = q;
    }
  return best;
}

function step({ ranks }, by) {
  const turn = () => {
    let query = state.query;
    do {
      query = (query + by + facts.queries.count) % facts.queries.count;
    } while (ranks.starts[query + 1] === ranks.starts[query] && query !== state.query);
    change({ query, one: null, two: null });
  };
  return h("button", {
    type: "button",
    text: by < 0 ? "← Previous" : "Next →",
    "aria-label": by < 0 ? "Previous query" : "Next query",
    onclick: turn,
  });
}

/** The documents of the chosen query: place in the data, grade, and rank and score by any model. */
function documentsOf({ ranks, documents, values }) {
  const found = [],
    { rank, score, low, step, starts, place, grade } = ranks,
    n = place.length;
  const fold = values.fold[state.query],
    folds = facts.folds.length;
  for (let i = starts[state.query]; i < starts[state.query + 1]; i++) {
    found.push({
      place: place[i],
      grade: grade[i],
      name: documents[i],
      rank: (m) => rank[m * n + i],
      score: (m) => low[m * folds + fold] + step[m * folds + fold] * score[m * n + i],
    });
  }
  return found;
}

function drawRankings(context, heading, tables, more) {
  const { values, names, ranks } = context,
    found = documentsOf(context),
    q = state.query;
  heading.replaceChildren(
    `Query ${names[q]}`,
    h("small", {
      class: "note",
      text: `  ${facts.folds.length > 1 ? facts.folds[values.fold[q]] + ", " : ""}${plural(ranks.sizes[q], "document")}`,
    }),
  );
  if (!found.length) {
    tables.replaceChildren(note("The rankings of this query are not embedded; the file would become too large."));
    more.replaceChildren();
    return;
  }
  pickPair(found);
  const shown = context.all ? facts.rankings.depth : FIRST;
  tables.replaceChildren(
    ...["a", "b"].map((letter) => rankingTable(letter, found, shown, valueOf(values, state[letter], q))),
  );
  const deeper = Math.min(facts.rankings.depth, ranks.sizes[q]);
  more.replaceChildren(
    ...(deeper > FIRST
      ? [
          h("button", {
            type: "button",
            text: context.all ? `First ${FIRST} only` : `First ${deeper}`,
            onclick: () => {
              context.all = !context.all;
              drawRankings(context, heading, tables, more);
            },
          }),
        ]
      : []),
  );
}

/** Without a choice: the first document of A and the first of B, or the first two of A where those are the same. */
function pickPair(found) {
  if (state.one !== null && state.two !== null) return;
  const first = (m, k) => found.find((d) => d.rank(m) === k);
  const one = first(state.a, 1) || first(state.b, 1),
    other = first(state.b, 1);
  const two = other && other !== one ? other : first(state.a, 2) || first(state.b, 2);
  queueMicrotask(() => change({ one: one ? one.place : null, two: two ? two.place : null }));
}

function rankingTable(letter, found, shown, value) {
  const model = state[letter],
    other = state[letter === "a" ? "b" : "a"];
  const top = found.filter((d) => d.rank(model) <= shown).sort((p, q) => p.rank(model) - q.rank(model));
  const caption = h(
    "div",
    { class: "controls" },
    h("span", {}, tag(letter), " ", h("strong", { text: facts.models[model] })),
    h("span", { class: "note", text: `${metricName()} ${metric4(value)}` }),
  );
  const head = [
    ["#", ""],
    ["Document", "text"],
    ["Grade", ""],
    ["Score", "score"],
    [`In ${letter === "a" ? "B" : "A"}`, ""],
  ];
  if (facts.why) head.push(["Why", ""]);
  return h(
    "div",
    {},
    caption,
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": `Ranking by ${facts.models[model]}` },
      h(
        "table",
        { class: "ranking" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map(([text, name]) => h("th", { scope: "col", class: name || null, text })),
          ),
        ),
        h(
          "tbody",
          {},
          top.map((d) => rankingRow(d, model, other)),
        ),
      ),
    ),
  );
}

function rankingRow(d, model, other) {
  const there = d.rank(other),
    moved = there - d.rank(model);
  const arrow = moved === 0 ? `${there}` : `${there} ${moved > 0 ? "▼" : "▲"}`;
  const held = d.place === state.one || d.place === state.two;
  const pick = (which, number) =>
    h("button", {
      type: "button",
      class: which === "one" ? "above" : "below",
      "aria-pressed": d.place === state[which],
      "aria-label": `${d.name} as document ${number}`,
      text: number,
      onclick: () => pickDocument(which, d.place),
    });
  return h(
    "tr",
    { class: held ? "held" : null },
    h("td", { text: d.rank(model) }),
    h("th", { scope: "row", class: "text document", title: d.name, text: d.name }),
    h("td", {}, gradeMark(d.grade)),
    h("td", { class: "score", text: d.score(model).toPrecision(4).replace("-", "−") }),
    h("td", { class: `moved ${moved > 0 ? "down" : moved < 0 ? "up" : ""}`, text: arrow }),
    facts.why ? h("td", {}, h("span", { class: "choose" }, pick("one", 1), pick("two", 2))) : null,
  );
}

function pickDocument(which, place) {
  const other = which === "one" ? "two" : "one",
    label = document.activeElement && document.activeElement.getAttribute("aria-label");
  change(state[other] === place ? { [which]: place, [other]: state[which] } : { [which]: place });
  if (label)
    [...document.querySelectorAll("#rankings .choose button")]
      .find((b) => b.getAttribute("aria-label") === label)
      ?.focus();
}

/** A grade as a number on a tint that deepens with it. */
function gradeMark(index) {
  const last = Math.max(facts.rankings.grades.length - 1, 1);
  return h("span", {
    class: `grade grade-${Math.round((4 * index) / last)}`,
    text: short(facts.rankings.grades[index]),
  });
}

// ---- finding a query ------------------------------------------------------------------------------------------------

/** A combobox over the names of all embedded queries. */
function finder({ names, ranks, values }) {
  const MOST = 40;
  let hits = [],
    active = -1;
  const list = h("ul", { id: "query-list", role: "listbox", "aria-label": "Queries", hidden: true });
  const input = h("input", {
    type: "search",
    id: "query-search",
    role: "combobox",
    "aria-label": "Find a query",
    "aria-controls": "query-list",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: `Find one of ${plural(facts.rankings.queries, "query", "queries")} …`,
  });

  function search() {
    const text = input.value.trim().toLowerCase();
    const exact = [],
      starting = [],
      inside = [];
    for (let q = 0; q < names.length; q++) {
      if (ranks.starts[q + 1] === ranks.starts[q]) continue;
      const at = names[q].toLowerCase().indexOf(text);
      if (at === 0) (names[q].length === text.length ? exact : starting).push(q);
      else if (at > 0) inside.push(q);
    }
    hits = [...exact, ...starting, ...inside];
    const rest = hits.length - MOST;
    hits = hits.slice(0, MOST);
    active = hits.length ? 0 : -1;
    list.replaceChildren(
      ...hits.map((q, i) =>
        h(
          "li",
          {
            id: `query-option-${i}`,
            role: "option",
            "aria-selected": "false",
            onpointerdown: (event) => {
              event.preventDefault();
              take(i);
            },
          },
          h("span", { text: names[q] }),
          h("small", { text: `${gainName()} ${signed(gainOf(values, q), 3)}` }),
        ),
      ),
    );
    if (!hits.length) list.append(h("li", { class: "none", text: "No query has this in its name." }));
    if (rest > 0) list.append(h("li", { class: "none", text: `and ${whole(rest)} more; type on` }));
    open(true);
    mark();
  }
  function mark() {
    [...list.children].forEach((item, i) => {
      if (i < hits.length) item.setAttribute("aria-selected", i === active);
    });
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", `query-option-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }
  function open(yes) {
    list.hidden = !yes;
    input.setAttribute("aria-expanded", yes);
  }
  function take(i) {
    open(false);
    input.value = "";
    change({ query: hits[i], one: null, two: null });
  }

  input.addEventListener("input", search);
  input.addEventListener("focus", search);
  input.addEventListener("blur", () => open(false));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) {
        search();
        return;
      }
      if (hits.length) active = (active + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length;
      mark();
    } else if (event.key === "Enter" && active >= 0 && !list.hidden) {
      event.preventDefault();
      take(active);
    } else if (event.key === "Escape") open(false);
  });
  return h("div", { class: "finder" }, input, list);
}
