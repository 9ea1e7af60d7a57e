"""NDCG@10 on products of a shop with texts: luce by its two commands, BM25, and LightGBM on the same features.

LUCE_DATA=... python benchmarks/text_quality.py [split ...]; too long for `make bench`, the figures are in docs/text.md.
The table has the text of queries, titles, and grades from 1 to 3, of which 1 is taken off so that 0 is without gain.
Of the queries with five documents or more, a random fifth is judged in each of three splits; all others are trained on.
A query whose documents all have grade 0 counts as 0, and documents of equal score share their places. LightGBM takes
whole grades: thirds of a grade, with the same gains; it stops on a fifth of the queries that it is trained on.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as csv

import luce

RESULTS = Path(__file__).resolve().parent / "results" / "text_quality.json"
FEWEST, PARTS = 5, 5
COLUMNS = ["--query-text", "search_term", "--text", "product_title", "--label", "relevance", "--doc", "product_uid"]
LINEAR = ["--loss", "listnet"]
MODELS = {
    "linear, engine": [*LINEAR],
    "linear, full": [*LINEAR, "--text-features", "full"],
    "auto, engine": ["--model", "auto"],
    "auto, full": ["--model", "auto", "--text-features", "full"],
}


def table() -> pa.Table:
    """The rows as they are but for their number, and grades from 0."""
    raw = gzip.decompress((Path(os.environ["LUCE_DATA"]) / "text" / "home-depot.csv.gz").read_bytes())
    rows = csv.read_csv(io.BytesIO(raw.decode("latin-1").encode())).drop_columns(["id"])
    place = rows.column_names.index("relevance")
    return rows.set_column(place, "relevance", pa.array(rows["relevance"].to_numpy() - 1))


def divided(rows: pa.Table, split: int) -> tuple[pa.Table, pa.Table]:
    """What is trained on, and a fifth of the queries with enough documents."""
    query = rows["search_term"].combine_chunks().dictionary_encode().indices.to_numpy()
    enough = np.random.default_rng(split).permutation(np.flatnonzero(np.bincount(query) >= FEWEST))
    judged = pa.array(np.isin(query, enough[: -(-len(enough) // PARTS)]))
    return rows.filter(compute.invert(judged)), rows.filter(judged)


def peer(train: pa.Table, test: pa.Table, features: str) -> np.ndarray:
    """Scores by LightGBM's lambdarank with its own settings, on the features that luce computes."""
    text = luce.Text("search_term", ["product_title"], doc="product_uid", features=features).fit(train)
    query = train["search_term"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(query, kind="stable")
    X, grades = text.transform(train)[order], np.rint(3 * train["relevance"].to_numpy()).astype(int)[order]
    late = np.random.default_rng(0).permutation(query.max() + 1)[query[order]] % PARTS == 0

    def part(rows: np.ndarray) -> lightgbm.Dataset:
        sizes = np.unique(query[order][rows], return_counts=True)[1]
        return lightgbm.Dataset(X[rows], grades[rows], group=sizes)

    settings = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "num_threads": 1, "verbosity": -1}
    settings |= {"learning_rate": 0.05, "label_gain": [2 ** (g / 3) - 1 for g in range(7)]}
    stop = lightgbm.early_stopping(50, verbose=False)
    booster = lightgbm.train(settings, part(~late), 1000, valid_sets=[part(late)], callbacks=[stop])
    return booster.predict(text.transform(test))


def command(folder: Path, *words: str) -> str:
    run = subprocess.run([sys.executable, "-m", "luce", *words], cwd=folder, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return run.stdout


def measured(rows: pa.Table, split: int, folder: Path) -> dict[str, dict]:
    """For each model its NDCG@10, and how far it is above each other one, by `luce evaluate`."""
    train, test = divided(rows, split)
    csv.write_csv(train, folder / "train.csv")
    csv.write_csv(test, folder / "test.csv")
    files = {}
    for name, how in MODELS.items():
        files[name] = name.replace(", ", "-") + ".luce"
        command(folder, "train", "train.csv", *COLUMNS, *how, "--out", files[name], "-q")
    others = {f"LightGBM, {features}": peer(train, test, features) for features in ("engine", "full")}
    text = luce.load(folder / files["linear, engine"]).schema_.text
    others["BM25"] = text.transform(test)[:, text.names.index("product_title.word_bm25")]
    others["random order"] = np.random.default_rng(split).random(len(test))
    for name, scores in others.items():
        files[name] = name.replace(", ", "-") + ".txt"
        np.savetxt(folder / files[name], scores)
    found = {}
    for name in MODELS:
        against = {file: other for other, file in files.items() if other != name}
        compared = [word for file in against for word in ("--compare", file)]
        asked = ["evaluate", "test.csv", "--model", files[name], "--metrics", "ndcg@10", "--json", *compared]
        told = json.loads(command(folder, *asked))
        above = {
            against[one["against"]]: {key: round(one[key], 5) for key in ("difference", "low", "high", "p")}
            for one in told["comparisons"]
        }
        found[name] = {"queries": told["queries"], "ndcg@10": round(told["means"]["ndcg@10"], 5), "above": above}
    return found


def main() -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = table()
    for split in map(int, sys.argv[1:] or range(3)):
        with tempfile.TemporaryDirectory() as folder:
            known[str(split)] = measured(rows, split, Path(folder))
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        print(split, {name: one["ndcg@10"] for name, one in known[str(split)].items()}, flush=True)


if __name__ == "__main__":
    main()
