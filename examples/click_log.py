"""From a click log to a ranker, and what it would gain, without a single grade."""

import numpy as np

import luce
from luce.clicks.simulation import as_columns, production, simulate_sessions, weak_rankers
from luce.data.simulate import simulate

rng = np.random.default_rng(0)
drawn = simulate(queries=80, features=6, seed=0)
docs = luce.from_arrays(drawn.X, drawn.y, qid=drawn.qid, document_ids=np.arange(drawn.n_rows))

# A search engine that shows ten documents, two rankers in turn, neighbours swapped now and then; its users click.
shown = production(docs, weak_rankers(docs, rng, share=0.01), swap=0.2)
log = as_columns(simulate_sessions(docs, shown, rng, sessions=20_000), docs)

counts = luce.clicks.read(log)
seen = luce.clicks.examination(counts, docs)
print(counts)
print(f"examination by {seen.method} choice:", seen.theta.round(2).tolist())

blank = luce.from_arrays(docs.X, qid=docs.qid, document_ids=docs.document_ids)
model = luce.Ranker(loss="click_choice").fit(blank, clicks=seen.target(blank))
print(f"NDCG@10 on the grades that it never saw: {luce.evaluate(model, docs, ['ndcg@10']).means['ndcg@10']:.3f}")

found = luce.clicks.evaluate(seen, blank, model.predict(blank), metrics=["dcg@5"], most_unseen=1.0)
gain = found.differences["dcg@5", "dr"]
print(f"gain in DCG@5 over what was shown: {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})")
