"""Writes docs/targets.md: which loss learns from what, and what judges it, tried one by one.

python docs/targets.py
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import luce
from luce.clicks import examination
from luce.clicks.simulation import production, simulate_counts
from luce.errors import LuceError

ROOT = Path(__file__).parents[1]
SIZE, QUERIES = 6, 5
HEAD = """# What learns from what

Every loss with every kind of target, tried on a small data set each time the tests run: **yes**, or the number of the
sentence below with which it is refused. *train* fits a linear scorer (from lists, pairs and clicks without any grades),
*validate* judges its iterates, *evaluate* its scores, *likelihood* is the probability of what was observed, and *file*
saves the model, loads it and scores a query alone, as a service does. Judges are two people whose pairs of one query
are kept apart.

Searches (`tune`, `compare`, `auto`) learn from lists and pairs as they do from grades, and choose by the likelihood of
those that they held out: `--comparisons`, `--orders`, or data that hold what is stated of their documents
(`luce.data.named_rows.with_statements`). `luce compare --clicks` and `luce tune --clicks` learn from preferences and
ties of a log, freed of position, in place of grades; `luce train --model auto --clicks` lets held-out queries choose.
"""


def documents() -> luce.Groups:
    """A few small queries with three grades."""
    X = np.random.default_rng(0).normal(size=(SIZE * QUERIES, 3)).astype(np.float32)
    grades = np.digitize(X[:, 0] + 0.3 * X[:, 1], [0.0, 0.8]).astype(float)
    names = [f"d{row}" for row in range(len(X))]
    return luce.from_arrays(X, grades, group=[SIZE] * QUERIES, document_ids=names)


def targets(data: luce.Groups) -> dict[str, dict[str, Any]]:
    """What `fit` takes of every kind, beside documents without grades."""
    best = [a + np.argsort(-data.X[a : a + SIZE, 0], kind="stable") for a in data.offsets[:-1]]
    pairs = [(order[i], order[j]) for order in best for i, j in ((0, 1), (2, 4), (1, 5))]
    ties = [(order[3], order[4]) for order in best]
    said = {
        "lists": luce.Comparisons.from_orders([order[:3].tolist() for order in best], top=True),
        "pairs": luce.Comparisons.from_pairs(pairs, ties),
        "judges": luce.Comparisons.from_pairs(
            pairs, ties, win_judge=np.arange(len(pairs)) % 2, tie_judge=np.zeros(len(ties), dtype=int)
        ),
    }
    rng = np.random.default_rng(1)
    counts = simulate_counts(data, production(data, [data.X[:, 0].astype(float)], swap=0.2), rng, sessions=2_000)
    seen = examination(counts, data)
    return {
        "grades": {},
        **{name: {"comparisons": comparisons} for name, comparisons in said.items()},
        "clicks": {"clicks": seen.target(data)},
    }


def tried(work: Callable[[], Any]) -> str:
    """Empty where it works, else the sentence."""
    try:
        work()
    except LuceError as error:
        return str(error)
    return ""


def cells(name: str, kind: str, given: dict[str, Any], data: luce.Groups) -> dict[str, str]:
    """What every use of a loss on a kind of target comes to."""
    bare = data if kind == "grades" else luce.from_arrays(data.X, group=[SIZE] * QUERIES)
    model = luce.Ranker(name, max_iter=3, random_state=0)
    found = {"train": tried(lambda: model.fit(bare, **given))}
    if found["train"]:
        return found
    judged = {"comparisons": given["comparisons"]} if "comparisons" in given else {}
    if kind == "clicks":
        found["validate"] = found["evaluate"] = found["likelihood"] = (
            "Clicks judge a model by `luce.clicks.evaluate` (`luce evaluate --clicks`), which needs the log itself."
        )
    else:
        again, held = luce.Ranker(name, max_iter=3, random_state=0), {}
        held = {"valid_comparisons": judged["comparisons"]} if judged else {"valid": data}
        found["validate"] = tried(lambda: again.fit(bare, **given, **held))
        found["evaluate"] = tried(lambda: luce.evaluate(model, data, **judged))
        found["likelihood"] = tried(lambda: luce.evaluate(model, data, ["log_likelihood"], **judged))
    with tempfile.TemporaryDirectory() as folder:
        found["file"] = tried(lambda: _alone(model, data, Path(folder) / "m.luce"))
    return found


def _alone(model: luce.Ranker, data: luce.Groups, path: Path) -> None:
    model.save(path)
    one = luce.load(path).predict(data.take([1]))
    np.testing.assert_allclose(one, model.predict(data)[SIZE : 2 * SIZE], rtol=1e-9)


def page() -> str:
    """The page."""
    data = documents()
    kinds, uses = targets(data), ("train", "validate", "evaluate", "likelihood", "file")
    sentences: dict[str, int] = {}
    parts = [HEAD]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, given in kinds.items():
            parts += [f"\n## From {kind}\n", f"| loss | {' | '.join(uses)} |", "|---" * (len(uses) + 1) + "|"]
            for name in luce.losses.names():
                found = cells(name, kind, given, data)
                said = [
                    "" if use not in found
                    else "yes" if not found[use]
                    else f"[{sentences.setdefault(_general(found[use], name), len(sentences) + 1)}]"
                    for use in uses
                ]  # fmt: skip
                parts.append(f"| `{name}` | {' | '.join(said)} |")
    parts.append("\n## Why not\n")
    parts += [f"{number}. {sentence}" for sentence, number in sentences.items()]
    return "\n".join(parts) + "\n"


def _general(sentence: str, name: str) -> str:
    return sentence.replace(f"'{name}'", "'...'").replace(f"{name} on linear", "...")


if __name__ == "__main__":
    (ROOT / "docs" / "targets.md").write_text(page())
