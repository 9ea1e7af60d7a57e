"""Where the equations of the cited works are: found in the docstrings of luce, listed on a page, checked by a test.

A citation is a key of the bibliography and a number, as in [PMOP] (6). It belongs to the innermost function or class
whose text holds it, else to the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

KEYS = re.findall(r"^\| \[(\w+)\] \|", (ROOT / "docs/bibliography.md").read_text(), re.MULTILINE)
CITATION = re.compile(r"\[([A-Z]\w*)\] \((\d+(?:\.\d+)?)\)")
LAST = {"PMOP": [19], "Ties": [20], "HOM": [8], "StructRank": [10], "Pareek": [26, 28, 19, 73]}
"""The last number of a work, of its chapters 2, 3, ... where numbers have two parts."""

EQUATIONS: dict[str, dict[str, str]] = {
    "PMOP": {
        "1": "ordered partition of the items of a query",
        "4": "chain of stages",
        "5": "choice of a tier from what is left",
        "6": "potential of a tier, fully decomposed",
        "7": "its normaliser",
        "8": "log-probability of a stage",
        "9": "the same without constants",
        "10": "log-likelihood in linear time",
        "11": "its gradient",
        "12": "log-likelihood, general potential",
        "13": "its gradient",
        "15": "decomposed potential of scores",
        "16": "general potential of scores",
        "17": "stages from the worst tier on",
        "18": "Rao and Kupper's model",
        "19": "Davidson's model",
    },
    "Ties": {
        "1": "preference by a symmetric cdf",
        "2": "preference with a band of ties",
        "3": "tie",
        "4": "Bradley-Terry",
        "5": "Bradley-Terry with ties: preference",
        "6": "Bradley-Terry with ties: tie",
        "7": "Thurstone-Mosteller with ties",
        "8": "empirical risk over pairs",
        "9": "loss of a preference",
        "10": "loss of a tie",
        "11": "losses of Bradley-Terry",
        "12": "Thurstone-Mosteller: loss of a preference",
        "13": "Thurstone-Mosteller: loss of a tie",
        "15": "sum of base learners",
        "16": "step of gradient boosting",
        "18": "precision at n",
        "19": "average precision",
        "20": "NDCG at n",
    },
    "HOM": {
        "1": "top-k ListMLE",
        "2": "top-k coset-permutation model",
        "3": "riffled independence",
        "4": "hierarchical ordering model",
        "5": "group to group",
        "6": "one to one",
        "7": "one to group",
        "8": "order of the top, Luce",
    },
    "StructRank": {
        "1": "cumulative distribution network",
        "3": "preference as an inequality",
        "4": "joint cdf of an order graph",
        "5": "structured loss",
        "7": "Nadaraya-Watson ranking function",
        "8": "fully connected network",
        "9": "bivariate sigmoid",
        "10": "constraints of learning",
    },
    "Pareek": {
        "2.1": "listwise ranking function as a sum of products",
        "2.3": "NDCG-consistent losses",
        "2.5": "exchangeable ranking function",
        "2.8": "sum of terms, each with its own base",
        "2.20": "listwise reranker",
        "2.21": "the same by kernel sums",
        "2.22": "continuous field, pseudo relevance feedback",
        "2.23": "continuous field, topic distillation",
        "2.25": "worth of a list, latent structured ranking",
        "2.26": "its best list",
        "3.1": "NDCG loss",
        "3.2": "ideal DCG as a norm",
        "3.3": "Bregman divergence",
        "3.4": "NDCG-consistent losses by any order-preserving map",
        "3.5": "convex NDCG-consistent losses",
        "3.6": "empirical risk",
        "3.7": "loss by the conjugate",
        "3.9": "the same with a map of the scores",
        "3.10": "its gradient",
        "3.16": "functional gradient of the risk",
        "3.18": "choice of the weak learner",
        "3.19": "length of the step",
        "3.20": "sum of weak learners",
        "3.21": "weights of the next round",
        "3.24": "edge of a weak learner",
        "3.25": "best surrogate",
        "3.26": "fit for given weights",
        "3.28": "loss up to constants",
        "4.1": "independence of irrelevant alternatives",
        "4.2": "rank aggregation as a minimum",
        "4.4": "least expected loss",
        "4.5": "positional scoring",
        "4.6": "bounds of a difference of scores",
        "4.9": "distribution that meets the lower bound",
        "4.16": "margin of a positional rule",
        "4.17": "largest difference of positions",
        "4.18": "least difference of positions",
        "4.19": "least difference from the first position",
        "5.1": "random walk of the target",
        "5.2": "arrival time of a signal",
        "5.6": "j-th smallest arrival",
        "5.21": "sum over matchings",
        "5.26": "the same with misses and clutter",
        "5.27": "clutter rate and probability",
        "5.29": "message to a source",
        "5.35": "message to a signal",
        "5.66": "factor of a source",
        "5.67": "factor of a signal",
        "5.69": "j-th smallest arrival with clutter",
        "5.72": "baseline without ranks",
        "5.73": "weight with labels by hand",
    },
}
"""The numbered equations that luce implements; every one must be cited in the code."""


class Place(NamedTuple):
    """A citation: which equation, in which file and what part of it."""

    key: str
    number: str
    file: str
    name: str


def places() -> list[Place]:
    """All citations of the code, in the order of the files."""
    return [place for file in sorted((ROOT / "src/luce").rglob("*.py")) for place in _in_file(file)]


def _in_file(file: Path) -> Iterator[Place]:
    text = file.read_text()
    found = [(text.count("\n", 0, match.start()) + 1, *match.groups()) for match in CITATION.finditer(text)]
    if not found:
        return
    spans = sorted(_spans(ast.parse(text), ""), key=lambda span: span[1] - span[0])
    for line, key, number in found:
        name = next((name for first, last, name in spans if first <= line <= last), "")
        yield Place(key, number, file.relative_to(ROOT / "src").as_posix(), name)


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child.lineno, child.end_lineno or child.lineno, prefix + child.name
            yield from _spans(child, prefix + child.name + ".")
        else:
            yield from _spans(child, prefix)


def tables() -> str:
    """A table a work: equation, what it is, and where it is cited."""
    cited: dict[tuple[str, str], dict[str, None]] = {}
    for place in places():
        where = f"`{place.file}`" + (f" `{place.name}`" if place.name else "")
        cited.setdefault((place.key, place.number), {})[where] = None
    parts = []
    for key in KEYS:
        numbers = sorted({n for k, n in cited if k == key} | set(EQUATIONS[key]), key=_order)
        rows = [
            f"| ({n}) | {EQUATIONS[key].get(n, '')} | {', '.join(cited.get((key, n), {'nowhere': None}))} |"
            for n in numbers
        ]
        parts.append("\n".join([f"## [{key}]", "", "| equation | | where |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _order(number: str) -> list[int]:
    return [int(part) for part in number.split(".")]


def exists(key: str, number: str) -> bool:
    """Whether the work has an equation of that number."""
    last, parts = LAST[key], _order(number)
    if len(last) == 1:
        return len(parts) == 1 and 1 <= parts[0] <= last[0]
    return len(parts) == 2 and 2 <= parts[0] < 2 + len(last) and 1 <= parts[1] <= last[parts[0] - 2]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of a page."""
    return markdown.replace("<!-- equations -->", tables()) if "<!-- equations -->" in markdown else markdown


if __name__ == "__main__":
    print(tables())
