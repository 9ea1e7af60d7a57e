// Shapley values of the change from document b to document a: one number a feature, which sum to f(a) - f(b) exactly.
// A model is a sum of parts, and Shapley values of a sum are the sums of its parts' values.

const CATEGORICAL = 1,
  DEFAULT_LEFT = 2,
  MISSING_ZERO = 4,
  MISSING_NAN = 8;

async function shapley(parts, a, b) {
  const total = new Float64Array(a.length);
  for (const part of parts) SHAPLEY[part.kind](await bundle(part.data), a, b, total);
  return total;
}

const SHAPLEY = {
  linear({ weights }, a, b, total) {
    for (let i = 0; i < weights.length; i++) if (weights[i] !== 0) total[i] += weights[i] * (a[i] - b[i]);
  },

  // w z_i z_j: each factor gets half its own change times the sum of the other's two values.
  products({ mean, inverse_sd, weights, left, right, pair_weights }, a, b, total) {
    const za = Float64Array.from(a, (x, i) => (x - mean[i]) * inverse_sd[i]),
      zb = Float64Array.from(b, (x, i) => (x - mean[i]) * inverse_sd[i]);
    for (let i = 0; i < weights.length; i++) total[i] += weights[i] * (za[i] - zb[i]);
    for (let k = 0; k < left.length; k++) {
      const i = left[k],
        j = right[k],
        w = pair_weights[k];
      if (i === j) {
        total[i] += w * (za[i] * za[i] - zb[i] * zb[i]);
        continue;
      }
      total[i] += (w * (za[i] - zb[i]) * (za[j] + zb[j])) / 2;
      total[j] += (w * (za[j] - zb[j]) * (za[i] + zb[i])) / 2;
    }
  },

  trees(forest, a, b, total) {
    const from = new Map(); // where a feature on the present path comes from: "a" or "b"
    for (let tree = 0; tree + 1 < forest.nodes.length; tree++) {
      const root = forest.nodes[tree] < forest.nodes[tree + 1] ? 0 : -1;
      walk(forest, tree, root, a, b, from, 0, 0, total);
    }
  },
};

/** Every leaf that some mixture of a and b reaches; p features must come from a, q from b. */
function walk(forest, tree, node, a, b, from, p, q, total) {
  if (node < 0) {
    if (p + q === 0) return;
    const value = forest.value[forest.leaves[tree] - node - 1];
    const gain = p ? value / (p * choose2(p + q, p)) : 0,
      loss = q ? value / (q * choose2(p + q, q)) : 0;
    for (const [feature, source] of from) total[feature] += source === "a" ? gain : -loss;
    return;
  }
  const i = forest.nodes[tree] + node,
    feature = forest.feature[i];
  const child = (x) => (goesLeft(forest, i, x) ? forest.left[i] : forest.right[i]);
  const toA = child(a[feature]),
    toB = child(b[feature]),
    source = from.get(feature);
  if (toA === toB || source) {
    walk(forest, tree, source === "b" ? toB : toA, a, b, from, p, q, total);
    return;
  }
  from.set(feature, "a");
  walk(forest, tree, toA, a, b, from, p + 1, q, total);
  from.set(feature, "b");
  walk(forest, tree, toB, a, b, from, p, q + 1, total);
  from.delete(feature);
}

/** Binomial coefficient: (p-1)! q! / (p+q)! is 1 / (p C(p+q, p)). */
function choose2(n, k) {
  let result = 1;
  for (let i = 1; i <= k; i++) result = (result * (n - k + i)) / i;
  return result;
}

function goesLeft({ kind, threshold, sets, bits }, i, x) {
  if (kind[i] & CATEGORICAL) return inSet(bits, sets[threshold[i]], sets[threshold[i] + 1], Math.trunc(x));
  if (Number.isNaN(x)) {
    if (kind[i] & MISSING_NAN) return (kind[i] & DEFAULT_LEFT) > 0;
    x = 0;
  }
  if (kind[i] & MISSING_ZERO && Math.abs(x) <= 1.0000000180025095e-35) return (kind[i] & DEFAULT_LEFT) > 0;
  return x <= threshold[i];
}

function inSet(bits, first, last, category) {
  if (!(category >= 0 && category < 32 * (last - first))) return false;
  return ((bits[first + Math.floor(category / 32)] >>> (category % 32)) & 1) > 0;
}
