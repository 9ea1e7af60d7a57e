"""`python benchmarks/quality/coverage.py SET [draws]`: whether auto's estimate holds on queries that it never saw.

A random half of the queries is learned from, by two members; what the blend expects of itself is compared with what it
is worth on the other half. Every draw is kept in `results/quality` as soon as it is there, and a run that was ended
goes on.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from run import RESULTS, slug
from sets import SETS

import luce

MEMBERS = ["luce-linear", "regression"]
METRIC = "ndcg@10"


def main(name: str, draws: int) -> None:
    warnings.simplefilter("ignore")
    path = RESULTS / f"coverage.{slug(name)}.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    data = SETS[name]()
    for draw in range(len(rows), draws):
        half = np.random.default_rng([draw, 5]).permutation(data.n_queries) % 2 == 0
        model = luce.model("auto", members=MEMBERS, random_state=draw).fit(data.take(half))
        values = luce.evaluate(model, data.take(~half), [METRIC]).values[METRIC]
        values = values[~np.isnan(values)]
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        expected = model.history_["blend"]["estimate"]
        rows.append({"set": name, **expected, "worth": float(values.mean()), "error": error})
        path.write_text(json.dumps(rows, indent=1) + "\n")
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12)
