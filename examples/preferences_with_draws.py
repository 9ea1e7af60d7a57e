"""Preferences and draws between documents, from clicks or judges, instead of grades."""

import numpy as np

import luce

rng = np.random.default_rng(0)
features = rng.normal(size=(300, 5)).astype(np.float32)
queries = np.repeat(np.arange(30), 10)
utility = features @ np.array([1.0, -0.5, 0.0, 0.0, 0.3])

wins, ties = [], []
for q in range(30):
    for i, j in rng.choice(10, size=(25, 2)) + 10 * q:
        if i == j or (j, i) in wins or (i, j) in wins or (i, j) in ties or (j, i) in ties:
            continue
        if abs(utility[i] - utility[j]) < 0.3:
            ties.append((i, j))
        else:
            wins.append((i, j) if utility[i] > utility[j] else (j, i))

pairs = luce.Comparisons.from_pairs(wins=wins, ties=ties)
data = luce.from_arrays(features, qid=queries)
model = luce.Ranker(loss="rao_kupper", l2=0.01).fit(data, comparisons=pairs)

print(f"{len(wins)} preferences and {len(ties)} draws")
print("weights", model.scorer_.importance().round(2).tolist())
print(f"theta {model.loss_.tie_parameter:.2f}; correlation with the truth", end=" ")
print(f"{np.corrcoef(model.predict(data), utility)[0, 1]:.3f}")
