// Facts, arrays, elements and state: what every panel stands on. Text of the data only ever becomes text nodes.

const facts = JSON.parse(document.getElementById("facts").textContent);
const SVG = "http://www.w3.org/2000/svg";

function attach(node, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined) continue;
    if (key.startsWith("aria-")) node.setAttribute(key, String(value));
    else if (value === false) continue;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(2)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

/** An HTML element: attributes, `on...` listeners, `text`; then children. */
function h(tag, properties, ...children) {
  return attach(document.createElement(tag), properties, children);
}

/** An SVG element. */
function s(tag, properties, ...children) {
  return attach(document.createElementNS(SVG, tag), properties, children);
}

// ---- arrays -------------------------------------------------------------------------------------------------------

const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i2: Int16Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};
const bundles = new Map();

/** The arrays (or texts) of a bundle, decoded once, when they are first asked for. */
function bundle(reference) {
  if (!bundles.has(reference.bundle)) bundles.set(reference.bundle, decode(reference));
  return bundles.get(reference.bundle);
}

async function decode({ bundle: name, layout }) {
  const element = document.getElementById(`bundle-${name}`);
  const packed = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (layout === "texts") return JSON.parse(new TextDecoder().decode(bytes));
  const arrays = {};
  let first = 0;
  for (const [key, type, shape] of layout) {
    const count = shape.reduce((a, b) => a * b, 1),
      width = TYPES[type].BYTES_PER_ELEMENT;
    arrays[key] = new TYPES[type](unshuffled(bytes.subarray(first, first + count * width), count, width).buffer);
    arrays[key].shape = shape;
    first += count * width;
  }
  return arrays;
}

function unshuffled(bytes, count, width) {
  const result = new Uint8Array(count * width);
  for (let plane = 0; plane < width; plane++) {
    const start = plane * count;
    for (let i = 0, at = plane; i < count; i++, at += width) result[at] = bytes[start + i];
  }
  return result;
}

// ---- numbers ------------------------------------------------------------------------------------------------------

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** A metric, four decimals. */
const metric4 = (value) => (missing(value) ? "–" : value.toFixed(4));

/** A number of any size with about four digits, with a true minus sign. */
function short(value, digits = 4) {
  if (missing(value)) return "–";
  const size = Math.abs(value);
  const text =
    size === 0 ? "0" : size >= 1e5 || size < 1e-3 ? size.toExponential(1) : String(Number(size.toPrecision(digits)));
  return (value < 0 ? "−" : "") + text;
}

const signed = (value, digits = 4) =>
  missing(value) ? "–" : (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const signedShort = (value, digits) => (value > 0 ? "+" : "") + short(value, digits);
const whole = (value) => (missing(value) ? "–" : Math.round(value).toLocaleString("en"));
const percent = (value, digits = 1) => (missing(value) ? "–" : (100 * value).toFixed(digits) + "%");
const plural = (n, one, many) => `${whole(n)} ${n === 1 ? one : many || one + "s"}`;

/** A small generator with a fixed seed: the same page shows the same numbers every time. */
function generator(seed) {
  let x = seed >>> 0 || 1;
  return () => {
    x ^= x << 13;
    x >>>= 0;
    x ^= x >>> 17;
    x ^= x << 5;
    x >>>= 0;
    return x / 4294967296;
  };
}

// ---- state and panels -----------------------------------------------------------------------------------------------

const state = { a: 0, b: Math.min(1, facts.models.length - 1), metric: 0, query: null, one: null, two: null };
const panels = [];

/** Change what is compared; every panel that is drawn and depends on it is drawn again. */
function change(news) {
  const changed = Object.keys(news).filter((key) => state[key] !== news[key]);
  if (!changed.length) return;
  Object.assign(state, news);
  for (const panel of panels) if (panel.draw && panel.keys.some((key) => changed.includes(key))) panel.draw();
}

/** A panel: `make(body)` builds it when it comes near the screen and returns a function that draws its charts. */
function panel(id, short, title, note, keys, make) {
  panels.push({ id, short, title, note, keys, make, draw: null, made: null });
}

function make(panel) {
  if (!panel.made) {
    panel.made = (async () => {
      const draw = await panel.make(panel.body);
      panel.draw = async () => draw && draw();
      await panel.draw();
      delete panel.section.dataset.waiting;
      panel.section.dataset.ready = "";
    })();
  }
  return panel.made;
}

/** Make a panel now and go there. */
async function go(id) {
  const panel = panels.find((p) => p.id === id);
  await make(panel);
  panel.section.scrollIntoView({ block: "start" });
}

function select(label, options, value, onchange) {
  const box = h(
    "select",
    { onchange: () => onchange(box.value) },
    options.map(([key, text]) => h("option", { value: key, text })),
  );
  box.value = value;
  return h("label", {}, label, box);
}

/** The metric that is looked at query by query. */
const metricName = () => facts.metrics[state.metric];
const lowerIsBetter = () => facts.lower_is_better.includes(metricName());

/** What is good for A, by the direction of the metric. */
const gainName = () => (lowerIsBetter() ? "B − A" : "A − B");

const tag = (letter) => h("span", { class: `tag tag-${letter}`, "aria-hidden": "true", text: letter.toUpperCase() });
const modelTitle = (letter) => h("h3", {}, tag(letter), " ", facts.models[state[letter]]);
const note = (...content) => h("p", { class: "note" }, ...content);
