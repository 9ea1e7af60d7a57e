// Saving what a panel shows: its tables as CSV, its figures as SVG with the colours of the screen.

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor"];

function csvOf(table) {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (row) => [...row.cells].map((cell) => quoted(cell.textContent.trim())).join(",");
  return `${[...table.rows].map(line).join("\n")}\n`;
}

function svgOf(figure) {
  const copy = figure.cloneNode(true),
    seen = figure.querySelectorAll("*"),
    box = figure.getBoundingClientRect();
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(seen[i]);
    for (const name of DRAWN) node.style.setProperty(name, style.getPropertyValue(name));
  });
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  return new XMLSerializer().serializeToString(copy);
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Buttons below a panel that is made, for what it has. */
function offerSaving(panel) {
  const found = (what) => [...panel.body.querySelectorAll(what)].filter((node) => !node.closest("button, table svg"));
  const button = (what, ending, type, text, label) =>
    found(what).length
      ? h("button", {
          class: "plain",
          type: "button",
          text: label,
          onclick: () =>
            found(what).forEach((node, i) => save(`${panel.id}${i ? `-${i + 1}` : ""}.${ending}`, type, text(node))),
        })
      : null;
  const buttons = [
    button("table", "csv", "text/csv", csvOf, "Tables as CSV"),
    button("svg", "svg", "image/svg+xml", svgOf, "Figures as SVG"),
  ].filter(Boolean);
  if (buttons.length) panel.section.append(h("p", { class: "note save" }, ...buttons));
}
