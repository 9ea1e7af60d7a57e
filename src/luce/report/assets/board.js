
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const make = (tag, text, kind) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (kind) e.className = kind; return e; };
const shape = (tag, attributes, text) => { const e = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const k in attributes) e.setAttribute(k, attributes[k]); if (text !== undefined) e.textContent = text; return e; };
const show = (v, d = data.digits) => v === null || v === undefined ? "–" : typeof v === "number" ? (Number.isInteger(v) ? String(v) : v.toFixed(d)) : String(v);
const head = (text, kind) => { const th = make("th", text, kind); th.scope = "col"; return th; };
at("lead").textContent = data.lead; at("methods").textContent = data.methods;
at("notes").hidden = !data.notes.length;
for (const text of data.notes) at("card").append(make("li", text));

const rows = data.rows, ends = rows.flatMap(r => [r.lower, r.upper, r.strength]).filter(v => Number.isFinite(v));
const low = ends.length ? Math.min(...ends) : 0, span = (ends.length ? Math.max(...ends) : 1) - low || 1;
function ticks(from, length, many) {
  const raw = length / many, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(k => k * unit >= raw) * unit, found = [];
  for (let v = Math.ceil(from / step) * step; v <= from + length * 1.0001; v += step) found.push(Math.abs(v) < step / 1e6 ? 0 : v);
  return found.map(v => [v, String(+v.toPrecision(6))]);
}
const WIDE = 220, place = v => 8 + (WIDE - 16) * (v - low) / span;
function scale() {
  const svg = shape("svg", {width: WIDE, height: 18, role: "img", "aria-label": `scale from ${show(low)} to ${show(low + span)}`});
  for (const [v, text] of ticks(low, span, 4)) {
    svg.append(shape("line", {x1: place(v), x2: place(v), y1: 13, y2: 18, class: "axis"}));
    svg.append(shape("text", {x: place(v), y: 10, class: "tick", "text-anchor": place(v) < 14 ? "start" : place(v) > WIDE - 14 ? "end" : "middle"}, text));
  }
  return svg;
}
function interval(r) {
  const svg = shape("svg", {width: WIDE, height: 16, role: "img", "aria-label": r.lower === null && r.upper === null ? "no interval" : `${r.lower === null ? "open" : show(r.lower)} to ${r.upper === null ? "open" : show(r.upper)}`});
  for (const [v] of ticks(low, span, 4)) svg.append(shape("line", {x1: place(v), x2: place(v), y1: 0, y2: 16, class: "axis"}));
  if (r.lower !== null || r.upper !== null) svg.append(shape("line", {x1: r.lower === null ? 0 : place(r.lower), x2: r.upper === null ? WIDE : place(r.upper), y1: 8, y2: 8, class: "bar"}));
  svg.append(shape("circle", {cx: place(r.strength), cy: 8, r: 3.5, class: "dot"}));
  return svg;
}
let sorted = "place", down = false;
const opened = new Set(), better = rows.map(r => new Set(r.better));
function found() {
  const wanted = at("search").value.trim().toLowerCase(), tier = at("tier").value, least = +at("least").value;
  const kept = rows.filter(r => r.name.toLowerCase().includes(wanted) && (tier === "" || r.tier === +tier) && (!data.counted || !(r[data.counted] < least)));
  return kept.sort((a, b) => { const x = a[sorted], y = b[sorted]; const s = x === y ? 0 : x === null ? 1 : y === null ? -1 : typeof x === "string" ? x.localeCompare(y) : x - y; return (down ? -s : s) || a.place - b.place; });
}
function against(r) {
  const i = r.place, box = make("div", undefined, "pairs"), table = make("table"), line = make("tr");
  box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", `${r.name} against the others`);
  const chances = data.wins && i < data.wins.length, votes = r.record !== undefined;
  line.append(head("against"), ...(chances ? [head("wins", "number"), head("draws", "number")] : []), ...(votes ? [head(data.recorded, "number")] : []), head("decided"));
  const of = rows.filter(o => o !== r && o.better).map(o => {
    const tr = make("tr"), name = make("th", o.name); name.scope = "row"; tr.append(name);
    if (chances) for (const table of [data.wins, data.draws]) { const v = o.place < data.wins.length ? table[i][o.place] : null; tr.append(make("td", v === null ? "–" : `${(v / 10).toFixed(1)}%`, "number")); }
    if (votes) tr.append(make("td", r.record[o.place] || "–", "number"));
    tr.append(make("td", better[i].has(o.place) ? `${o.name} is ahead` : better[o.place].has(i) ? `${r.name} is ahead` : "open"));
    return tr;
  });
  table.append(make("thead"), make("tbody")); table.tHead.append(line); table.tBodies[0].append(...of);
  const more = make("p"); if (r.link) { const a = make("a", r.link); a.href = r.link; a.rel = "noopener"; more.append(a, " "); } if (r.page) { const a = make("a", `page of ${r.name}`); a.href = r.page; more.append(a); }
  box.append(...(more.childNodes.length ? [more] : []), table); return box;
}
function draw() {
  const kept = found(), top = make("tr"), width = data.columns.length;
  for (const c of data.columns) {
    const th = head(undefined, (c.roomy ? "roomy " : "") + (c.key === "name" ? "name" : c.key === "bar" ? "" : "number")), button = make("button", c.label); button.type = "button";
    th.setAttribute("aria-sort", sorted === (c.by || c.key) || sorted === "place" && c.key === "rank" ? (down ? "descending" : "ascending") : "none");
    button.addEventListener("click", () => { const key = c.by || c.key; down = sorted === key ? !down : !["name", "rank", "tier", "rank_lower", "rank_each_lower"].includes(key); sorted = key; draw(); at("board").tHead.querySelectorAll("button")[data.columns.indexOf(c)].focus(); });
    th.append(button); if (c.key === "bar") th.append(scale()); top.append(th);
  }
  const tiers = data.tiers > 1, inOrder = (sorted === "place" || sorted === "rank" || sorted === "tier") && !down, bodies = [];
  let body = null, last = null;
  for (const r of kept) {
    if (!body || inOrder && tiers && r.tier !== last) {
      body = make("tbody"); bodies.push(body); last = r.tier;
      if (inOrder && tiers) { const tr = make("tr", undefined, "tier"), th = make("th", `Tier ${r.tier}`); th.colSpan = width; th.scope = "rowgroup"; tr.append(th); body.append(tr); }
    }
    const tr = make("tr", undefined, r.tier % 2 ? "" : "odd");
    for (const c of data.columns) {
      const to = c.to ? `${show(r[c.key], 0)}–${show(r[c.to], 0)}` : undefined;
      const cell = make(c.key === "name" ? "th" : "td", c.key === "bar" || c.key === "name" ? undefined : to || show(r[c.key]), (c.roomy ? "roomy " : "") + (c.key === "name" ? "name" : c.key === "bar" ? "" : "number"));
      if (c.key === "bar") cell.append(interval(r));
      if (c.key === "name") cell.scope = "row";
      if (c.key === "name" && !r.better) cell.textContent = r.name;
      else if (c.key === "name") {
        const button = make("button", r.name); button.type = "button"; button.setAttribute("aria-expanded", opened.has(r.name));
        button.addEventListener("click", () => { opened.has(r.name) ? opened.delete(r.name) : opened.add(r.name); draw(); [...at("board").querySelectorAll("tbody .name button")].find(b => b.textContent === r.name).focus(); });
        cell.append(button);
      }
      tr.append(cell);
    }
    body.append(tr);
    if (opened.has(r.name)) { const more = make("tr"), td = make("td"); td.colSpan = width; td.append(against(r)); more.append(td); body.append(more); }
  }
  at("board").tHead.replaceChildren(top);
  for (const old of [...at("board").tBodies]) old.remove();
  at("board").append(...bodies);
  at("count").textContent = `${kept.length} of ${rows.length}`;
}
if (data.tiers > 1) { at("tiers").hidden = false; for (let k = 1; k <= data.tiers; k++) { const o = make("option", String(k)); o.value = k; at("tier").append(o); } }
if (data.counted) { at("most").hidden = false; at("counted").textContent = data.counted; }
for (const id of ["search", "tier", "least"]) at(id).addEventListener("input", draw);
at("filters").addEventListener("submit", e => e.preventDefault());
draw();

function save(name, blob) { const a = make("a"); a.href = URL.createObjectURL(blob); a.download = name; document.body.append(a); a.click(); a.remove(); setTimeout(() => URL.revokeObjectURL(a.href), 10000); }
const cell = v => v === null || v === undefined ? "" : /[",\n\r]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v);
const listed = () => found().map(r => Object.fromEntries(data.kept.map(k => [k, r[k] ?? null])));
function table_csv() { return [data.kept, ...listed().map(r => data.kept.map(k => r[k]))].map(line => line.map(cell).join(",")).join("\n") + "\n"; }
function table_json() { return JSON.stringify({title: data.title, date: data.date, source: data.source, table: listed(), notes: data.notes}, null, 1); }
function figure() {
  const kept = found(), left = Math.min(260, 20 + 7.2 * Math.max(...kept.map(r => r.name.length), 4)), w = left + 480, h = 46 + 20 * kept.length + 26;
  const X = v => left + 12 + 440 * (v - low) / span, svg = shape("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${w} ${h}`, width: w, height: h, "font-family": "sans-serif", "font-size": 12});
  svg.append(shape("rect", {width: w, height: h, fill: "#ffffff"}), shape("text", {x: 10, y: 20, "font-size": 14, "font-weight": 600, fill: "#1c1d21"}, data.title + (data.date ? `, ${data.date}` : "")));
  for (const [v, text] of ticks(low, span, 6)) { svg.append(shape("line", {x1: X(v), x2: X(v), y1: 34, y2: h - 26, stroke: "#d9dbe0"})); svg.append(shape("text", {x: X(v), y: h - 10, fill: "#1c1d21", "text-anchor": "middle"}, text)); }
  kept.forEach((r, k) => {
    const y = 46 + 20 * k;
    svg.append(shape("text", {x: left, y: y + 4, "text-anchor": "end", fill: "#1c1d21"}, r.name.length > 36 ? r.name.slice(0, 35) + "…" : r.name));
    if (r.lower !== null || r.upper !== null) svg.append(shape("line", {x1: r.lower === null ? left + 4 : X(r.lower), x2: r.upper === null ? w - 8 : X(r.upper), y1: y, y2: y, stroke: "#1f5fa8", "stroke-width": 2}));
    svg.append(shape("circle", {cx: X(r.strength), cy: y, r: 4, fill: "#1f5fa8"}));
  });
  return svg;
}
const text = svg => new XMLSerializer().serializeToString(svg);
function picture(svg) {
  return new Promise((done, failed) => {
    const image = new Image(), box = svg.viewBox.baseVal, canvas = make("canvas"), times = Math.min(2, 16000 / Math.max(box.width, box.height));
    canvas.width = box.width * times; canvas.height = box.height * times;
    image.onload = () => { canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height); canvas.toBlob(done, "image/png"); };
    image.onerror = failed;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text(svg));
  });
}
at("csv").addEventListener("click", () => save("board.csv", new Blob([table_csv()], {type: "text/csv"})));
at("json").addEventListener("click", () => save("board.json", new Blob([table_json()], {type: "application/json"})));
at("svg").addEventListener("click", () => save("board.svg", new Blob([text(figure())], {type: "image/svg+xml"})));
at("png").addEventListener("click", async () => save("board.png", await picture(figure())));

if (data.wins) {
  at("wins").hidden = false;
  const n = data.wins.length, size = Math.max(2, Math.min(14, Math.floor(640 / n))), canvas = at("matrix"), pen = canvas.getContext("2d");
  canvas.width = canvas.height = n * size;
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    const w = data.wins[i][j] === null ? null : data.wins[i][j] + data.draws[i][j] / 2; pen.fillStyle = w === null ? "#8884" : `hsl(${w > 500 ? 212 : 22} 65% ${90 - Math.abs(w - 500) / 9}%)`; pen.fillRect(j * size, i * size, size, size);
  }
  const say = (i, j) => data.wins[i][j] === null ? "no probability" : `${rows[i].name} beats ${rows[j].name}: ${(data.wins[i][j] / 10).toFixed(1)}%, draw ${(data.draws[i][j] / 10).toFixed(1)}%`;
  canvas.addEventListener("pointermove", e => { const box = canvas.getBoundingClientRect(), k = n / box.width; at("cell").textContent = say(Math.min(n - 1, Math.floor((e.clientY - box.top) * k)), Math.min(n - 1, Math.floor((e.clientX - box.left) * k))); });
}
if (data.kinds) {
  at("kinds").hidden = false;
  const line = make("tr"); line.append(head("name"), ...["all", ...data.kinds.names].map(k => head(k, "number")));
  const reach = Math.max(...data.kinds.values.flatMap((line, i) => line.map(v => v === null ? 0 : Math.abs(v - rows[i].strength)))) || 1;
  at("heat").append(make("thead"), make("tbody")); at("heat").tHead.append(line);
  at("heat").tBodies[0].append(...data.kinds.values.map((line, i) => {
    const tr = make("tr"), name = make("th", rows[i].name, "name"); name.scope = "row"; tr.append(name, make("td", show(rows[i].strength), "number"));
    for (const v of line) { const td = make("td", show(v), "number"); if (v !== null) { const gap = (v - rows[i].strength) / reach; td.style.background = `hsl(${gap > 0 ? 212 : 22} 70% 50% / ${(.45 * Math.abs(gap)).toFixed(2)})`; } tr.append(td); }
    return tr;
  }));
}
if (data.history) {
  at("past").hidden = false;
  at("who").append(...data.history.map((h, i) => { const o = make("option", h.name); o.value = i; o.selected = i < 4; return o; }));
  const trace = ink => {
    const picked = [...at("who").selectedOptions].map(o => data.history[+o.value]), w = 900, h = 320, svg = shape("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${w} ${h + 30}`, width: w, height: h + 30, role: "img", "aria-label": `Strength over time of ${picked.map(p => p.name).join(", ") || "nothing"}`, "font-family": "sans-serif", "font-size": 12});
    const xs = picked.flatMap(p => p.time), ys = picked.flatMap(p => p.strength), x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
    if (!xs.length) return svg;
    const X = v => 50 + (w - 210) * (v - x0) / (x1 - x0 || 1), Y = v => h - (h - 10) * (v - y0) / (y1 - y0 || 1);
    for (const [v, text] of ticks(y0, y1 - y0 || 1, 5)) svg.append(shape("line", {x1: 50, x2: w - 160, y1: Y(v), y2: Y(v), stroke: "#8886"}), shape("text", {x: 44, y: Y(v) + 4, fill: ink, "text-anchor": "end"}, text));
    const when = data.dates ? 1970 : 0;
    for (const [t, text] of ticks(x0 + when, x1 - x0 || 1, 6)) svg.append(shape("text", {x: X(t - when), y: h + 22, fill: ink, "text-anchor": "middle"}, text));
    picked.forEach((p, k) => {
      svg.append(shape("polyline", {points: p.time.map((t, i) => `${X(t).toFixed(1)},${Y(p.strength[i]).toFixed(1)}`).join(" "), fill: "none", stroke: `hsl(${(k * 137) % 360}, 60%, 45%)`, "stroke-width": 2}));
      svg.append(shape("text", {x: w - 155, y: Y(p.strength.at(-1)), fill: ink}, p.name));
    });
    return svg;
  };
  const again = () => at("lines").replaceChildren(trace("currentColor"));
  at("who").addEventListener("change", again); again();
  at("past-svg").addEventListener("click", () => save("history.svg", new Blob([text(trace("#1c1d21"))], {type: "image/svg+xml"})));
  at("past-png").addEventListener("click", async () => save("history.png", await picture(trace("#1c1d21"))));
}
document.documentElement.dataset.ready = "";
