"""Writes docs/targets.md: which loss learns from what, and what judges it, tried one by one.

python docs/targets.py
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import luce
from luce.clicks import Examination, examination, pairs, read
from luce.clicks.simulation import as_columns, production, simulate_sessions
from luce.errors import LuceError
from luce.experiments.folds import grouped_folds
from luce.experiments.search import tune

ROOT = Path(__file__).parents[1]
SIZE, QUERIES = 6, 5
HEAD = """# What learns from what

Every loss with every kind of target, tried on a small data set each time the tests run: **yes**, or the number of the
sentence below with which it is refused. *train* fits a linear scorer (from lists, pairs and clicks without any grades),
*validate* judges its iterates, *evaluate* its scores, *likelihood* is the probability of what was observed, and *file*
saves the model, loads it and scores a query alone, as a service does. Judges are two people whose pairs of one query
are kept apart.

Searches learn from what is stated as they do from grades, and choose by the likelihood of what they held out: data hold
it (`luce.data.named_rows.with_statements`), or files do (`--comparisons`, `--orders`, `--clicks`). From clicks that are
preferences and ties of a log, freed of position; `luce train --model auto --clicks` lets held-out queries choose.
"""


def documents(queries: int) -> luce.Groups:
    """A few small queries with three grades."""
    X = np.random.default_rng(0).normal(size=(SIZE * queries, 3)).astype(np.float32)
    grades = np.digitize(X[:, 0] + 0.3 * X[:, 1], [0.0, 0.8]).astype(float)
    names = [f"d{row}" for row in range(len(X))]
    return luce.from_arrays(X, grades, group=[SIZE] * queries, document_ids=names)


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
    return {
        "grades": {},
        **{name: {"comparisons": comparisons} for name, comparisons in said.items()},
        "clicks": {"clicks": _seen(data).target(data)},
    }


def _seen(data: luce.Groups) -> Examination:
    """Where users looked in a simulated log."""
    rng = np.random.default_rng(1)
    shown = production(data, [data.X[:, 0].astype(float)], swap=0.2)
    columns = as_columns(simulate_sessions(data, shown, rng, sessions=2_000), data)
    return examination(read(columns, pairs=True), data)


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


def searches(kind: str, given: dict[str, Any], data: luce.Groups) -> dict[str, str]:
    """What searches come to on a kind of target."""
    stated = pairs(_seen(data), data) if kind == "clicks" else given.get("comparisons")
    whole = data if stated is None else replace(data, y=np.zeros(data.n_rows), stated=stated)
    metric = "ndcg@10" if stated is None else "log_likelihood"
    name, member = {"grades": ("pmop-fd", "luce-linear"), "lists": ("plackett-luce", "luce-linear")}.get(
        kind, ("pairties-d", "ties-linear")
    )
    folds = grouped_folds(whole, 3, 0)
    beside = {} if stated is None else {"comparisons": stated}
    return {
        "compare": "; ".join(luce.compare(folds, [name], [metric], tune_on=metric).failed.values()),
        "tune": tried(lambda: tune(folds, name, trials=2, metric=metric)),
        "auto": tried(lambda: luce.model("auto", members=[member], random_state=0).fit(whole, **beside)),
    }


def page() -> str:
    """The page."""
    data, more = documents(QUERIES), documents(4 * QUERIES)
    kinds, uses = targets(data), ("train", "validate", "evaluate", "likelihood", "file")
    sentences: dict[str, int] = {}
    parts = [HEAD]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, given in kinds.items():
            parts += [f"\n## From {kind}\n", f"| loss | {' | '.join(uses)} |", "|---" * (len(uses) + 1) + "|"]
            for name in luce.losses.names():
                parts.append(_line(name, cells(name, kind, given, data), uses, sentences))
        uses = ("compare", "tune", "auto")
        parts += ["\n## Searches\n", f"| from | {' | '.join(uses)} |", "|---" * (len(uses) + 1) + "|"]
        for kind, given in targets(more).items():
            parts.append(_line(kind, searches(kind, given, more), uses, sentences))
    parts.append("\n## Why not\n")
    parts += [f"{number}. {sentence}" for sentence, number in sentences.items()]
    return "\n".join(parts) + "\n"


def _line(name: str, found: dict[str, str], uses: tuple[str, ...], sentences: dict[str, int]) -> str:
    """A row of a table; a sentence that is not known yet gets the next number."""
    said = []
    for use in uses:
        sentence = _general(found[use], name) if found.get(use) else None
        number = None if sentence is None else sentences.setdefault(sentence, len(sentences) + 1)
        said.append("" if use not in found else "yes" if number is None else f"[{number}]")
    return f"| `{name}` | {' | '.join(said)} |"


def _general(sentence: str, name: str) -> str:
    return sentence.replace(f"'{name}'", "'...'").replace(f"{name} on linear", "...")


if __name__ == "__main__":
    (ROOT / "docs" / "targets.md").write_text(page())
