"""Top-k lists: an editor names the three best documents of each query; learn from that, say who is in the top."""

import numpy as np

import luce

rng = np.random.default_rng(0)
features = rng.normal(size=(600, 4)).astype(np.float32)
queries = np.repeat(np.arange(60), 10)
utility = features @ np.array([1.5, -0.7, 0.0, 0.4]) + rng.gumbel(size=600)  # Luce's model, exactly

best = [(10 * q + np.argsort(-utility[10 * q : 10 * q + 10])[:3]).tolist() for q in range(60)]
data = luce.from_arrays(features, qid=queries)
lists = luce.Comparisons.from_orders(best[:50], top=True)  # what a list does not name is below it

for name in ("topk-listmle", "hom-oo", "hom-og"):
    model = luce.model(name, loss__k=None, l2=1e-3, random_state=0).fit(data, comparisons=lists)
    scores = model.predict(data)
    hits = [
        len(set((10 * q + np.argsort(-scores[10 * q : 10 * q + 10])[:3]).tolist()) & set(best[q]))
        for q in range(50, 60)
    ]
    weights = model.scorer_.importance().round(2).tolist()
    print(f"{name:<13} weights {weights}; of the editor's three, {np.mean(hits):.1f} are found in new queries")

model = luce.model("topk-listmle", loss__k=None, l2=1e-3).fit(data, comparisons=lists)
chances = model.topk_probability(data.take([55]), 3)
print("chance of each document of a new query to be among its best three:", chances.round(2).tolist())
