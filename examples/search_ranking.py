"""Search ranking from graded labels: read, train with ties, evaluate, say how probable the order is."""

import luce
from luce.data.simulate import simulate

# In real life: data = luce.read("train.txt"), a LETOR, Parquet or CSV file.
data = simulate(queries=400, features=20, seed=0)
train, valid, test = data.take(range(240)), data.take(range(240, 320)), data.take(range(320, 400))

pmop = luce.Ranker(loss="pmop", metric="ndcg@10", random_state=0).fit(train, valid=valid)
ranknet = luce.Ranker(loss="ranknet", metric="ndcg@10", random_state=0).fit(train, valid=valid)
for name, model in (("pmop", pmop), ("ranknet", ranknet)):
    means = luce.evaluate(model, test, ["ndcg@10", "map", "err"]).means
    print(f"{name:<8}", "  ".join(f"{metric} {value:.4f}" for metric, value in means.items()))

a = luce.evaluate(pmop, test, ["ndcg@10"]).values["ndcg@10"]
b = luce.evaluate(ranknet, test, ["ndcg@10"]).values["ndcg@10"]
difference = luce.metrics.compare(a, b, rng=0)
print(f"difference {difference.test.difference:+.4f}, p = {difference.test.p_value:.3f}")

query = test.take([0])
best, second = pmop.predict(query).argsort()[::-1][:2]
before, tie = pmop.pair_probability(query)[0][best, second], pmop.tie_probability(query)[0][best, second]
print(f"first against second of one query: better {before:.2f}, tied {tie:.2f}")
