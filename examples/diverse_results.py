"""Search results that do not repeat themselves: rerank a ranking greedily, beside maximal marginal relevance."""

import luce
from luce.data.simulate import simulate_duplicates

train, valid, test = (simulate_duplicates(60, seed=seed) for seed in range(3))
base = luce.Ranker("listnet").fit(train, valid=valid)
rankers = {
    "base": base,
    "mmr": luce.Ranker(trainer="greedy", base=base, trainer__method="mmr").fit(train, valid=valid),
    "learned": luce.Ranker(trainer="greedy", base=base).fit(train, valid=valid),
}
for name, ranker in rankers.items():
    means = luce.evaluate(ranker, test, ["alpha_ndcg@10", "ndcg@10"]).means
    print(f"{name:8s}  alpha-NDCG@10 {means['alpha_ndcg@10']:.3f}  NDCG@10 {means['ndcg@10']:.3f}")
print("weights:", {name: round(value, 2) for name, value in rankers["learned"].scorer_.kernel_table()[0].items()})
