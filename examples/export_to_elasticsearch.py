"""From the features a search engine logged to a model that it ranks by: read, train, export, check, upload."""

import json

import numpy as np

import luce
from luce.data.simulate import simulate

FEATURES = ["title_bm25", "body_bm25", "clicks", "recency", "length", "popularity"]

# What the engine logged, one response a query, and what people judged. Here both are simulated.
rows = simulate(queries=200, features=len(FEATURES), seed=0)
with open("log.jsonl", "w") as log, open("judgements.csv", "w") as judgements:
    judgements.write("query,document,grade\n")
    for query, start in enumerate(rows.offsets[:-1]):
        hits = []
        for row in range(start, rows.offsets[query + 1]):
            entries = [{"name": name, "value": float(x)} for name, x in zip(FEATURES, rows.X[row], strict=True)]
            hits.append({"_id": str(row), "fields": {"_ltrlog": [{"main": entries}]}})
            judgements.write(f"{query},{row},{rows.y[row]:g}\n")
        log.write(json.dumps({"qid": query, "response": {"hits": {"hits": hits}}}) + "\n")

data = luce.read("log.jsonl", judgements="judgements.csv")
train, test = data.take(np.arange(150)), data.take(np.arange(150, 200))
model = luce.Ranker(loss="pmop", scorer="trees", max_iter=50, random_state=0).fit(train)
print(f"NDCG@10 on test queries: {model.score(test):.4f}")

# Elasticsearch rejects negative scores; the check evaluates the file by the plugin's own rules, in float32.
made = luce.export.export_model(model, "elasticsearch", name="ranker", store="my_features", offset="auto", check=test)
made.save("model.json")
found = made.comparison
print(f"largest difference from the model: {found.largest:.1e}; queries in another order: {found.reordered}")
for remark in made.remarks:
    print(remark.replace("FILE", "model.json"))
