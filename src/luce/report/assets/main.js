// The page: bar, contents, panels that are made when they come near the screen, themes.

function fillBar() {
  for (const letter of ["a", "b"]) {
    const box = document.getElementById(`model-${letter}`);
    box.append(...facts.models.map((name, i) => h("option", { value: i, text: name })));
    box.addEventListener("change", () => choose(letter, Number(box.value)));
  }
  const metric = document.getElementById("metric");
  metric.append(...facts.metrics.map((name, i) => h("option", { value: i, text: name })));
  metric.addEventListener("change", () => change({ metric: Number(metric.value) }));
  document.getElementById("swap").addEventListener("click", () => change({ a: state.b, b: state.a }));
  const show = () => {
    for (const key of ["a", "b"]) document.getElementById(`model-${key}`).value = state[key];
  };
  panels.push({ keys: ["a", "b"], draw: show, made: Promise.resolve(), section: null });
  show();
}

function themes() {
  const button = document.getElementById("theme"),
    names = { auto: "as the system", light: "light", dark: "dark" };
  const stored = () => {
    try {
      return localStorage.getItem("luce-theme");
    } catch {
      return null;
    }
  };
  const keep = (name) => {
    try {
      localStorage.setItem("luce-theme", name);
    } catch {
      /* a page without storage forgets */
    }
  };
  const use = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.setAttribute("aria-label", `Colours: ${names[name]}`);
    button.title = `Colours: ${names[name]}`;
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[name];
    button.dataset.theme = name;
  };
  button.addEventListener("click", () => {
    const order = ["auto", "light", "dark"];
    const next = order[(order.indexOf(button.dataset.theme) + 1) % 3];
    use(next);
    keep(next);
  });
  use(names[stored()] ? stored() : "auto");
}

function lede() {
  const best = facts.leaderboard[0],
    tied = (facts.card.overall || {}).tied_pairs;
  const where = `${plural(facts.models.length, "model")} on ${plural(facts.queries.count, "test query", "test queries")} with ${plural(facts.queries.documents, "document")}${facts.folds.length > 1 ? ` in ${facts.folds.length} folds` : ""}`;
  document
    .getElementById("lede")
    .replaceChildren(
      where,
      missing(tied) ? "" : `; ${percent(tied, 0)} of the pairs of documents within queries are tied`,
      ". ",
      ...(best
        ? [
            "Best by ",
            facts.metrics[0],
            ": ",
            h("strong", { text: best.model }),
            ` with ${metric4(best[facts.metrics[0]])}.`,
          ]
        : []),
    );
  document.getElementById("imprint").textContent =
    `Made by luce ${facts.luce || ""}. This file holds everything it shows; it asks no network for anything.`;
}

function layOut() {
  const main = document.getElementById("content"),
    contents = document.getElementById("contents"),
    links = new Map();
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) make(panels.find((p) => p.section === entry.target));
    },
    { rootMargin: "500px 0px" },
  );
  const here = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) links.get(entry.target).toggleAttribute("data-here", entry.isIntersecting);
      const first = [...links.values()].find((link) => link.hasAttribute("data-here"));
      for (const link of links.values()) link.setAttribute("aria-current", link === first);
    },
    { rootMargin: "-130px 0px -55% 0px" },
  );
  for (const panel of panels) {
    panel.body = h("div", { class: "body" });
    panel.section = h(
      "section",
      { id: panel.id, "aria-labelledby": `${panel.id}-title`, "data-waiting": "" },
      h("h2", { id: `${panel.id}-title`, text: panel.title }),
      panel.note ? note(panel.note) : null,
      panel.body,
    );
    main.append(panel.section);
    links.set(panel.section, h("a", { href: `#${panel.id}`, text: panel.short }));
    contents.append(links.get(panel.section));
    near.observe(panel.section);
    here.observe(panel.section);
  }
}

function redrawOnResize() {
  let width = innerWidth,
    waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => panels.forEach((panel) => panel.draw && panel.draw()), 120);
  });
}

lede();
layOut();
fillBar();
themes();
redrawOnResize();
make(panels[0]).then(async () => {
  document.documentElement.dataset.ready = "";
  performance.mark("luce-ready");
  // The rest in idle time, so that searching in the page and printing find every panel.
  const idle = window.requestIdleCallback || ((then) => setTimeout(then, 50));
  for (const panel of panels.filter((p) => p.section)) {
    await new Promise((then) => idle(then));
    await make(panel);
    offerSaving(panel);
  }
});
