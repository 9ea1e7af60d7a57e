"""One rule for what holds: signs and p-values of paired differences, corrected over all claims of a page.

A claim says that one thing is above another on one set by one measure. It *holds* where the difference has the claimed
sign and p below .05, Holm-corrected over the claims of its page; it *does not hold* where the sign is the other one and
p as small; else it is *not decided*. Nothing is decided by one cut of a set into folds, by a row that was not trained,
or where both sides are equal. Rows are those that validation chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from luce.metrics.significance import holm, randomisation_test

from . import stale_note

__all__ = [
    "CUTS",
    "DRAWS",
    "Claim",
    "Verdict",
    "above",
    "emphasised",
    "headline",
    "judged",
    "paired",
    "verdicts_table",
    "with_verdicts",
]

LEVEL = 0.05
POWER = 1.959964 + 0.841621
"""Standard errors that a difference must be away from 0 to be found with a chance of 80% at a level of 5%."""
CUTS, DRAWS = "five cuts", "draws"
"""What a decision may rest on: a set cut five times anew into five folds, or independent simulated data."""
MANY = 6
"""Claims of a kind that a headline names."""
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"


@dataclass(frozen=True)
class Claim:
    """What is said, on which data and by which measure; what was found, if it was run."""

    text: str
    on: str
    measure: str
    difference: float | None = None
    """The mean of what should be above less that of what should be below."""
    p: float | None = None
    error: float | None = None
    """The standard error of that difference."""
    rests_on: str = CUTS
    """CUTS, DRAWS, or what is too little, such as "one cut"."""
    remark: str = ""
    """Why it cannot be decided whatever the numbers: a row that was not trained, for one."""


class Verdict(NamedTuple):
    """A claim with its corrected p-value, the word for it, and why nothing was decided."""

    claim: Claim
    p: float | None
    word: str
    why: str


def paired(
    text: str,
    on: str,
    measure: str,
    upper: Sequence[float],
    lower: Sequence[float],
    *,
    rests_on: str = CUTS,
    remark: str = "",
) -> Claim:
    """A claim about two rows by their values of the same queries (means over the cuts) or draws."""
    a, b = np.asarray(upper, dtype=np.float64), np.asarray(lower, dtype=np.float64)
    gap = a - b
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return Claim(text, on, measure, float(gap.mean()), randomisation_test(a, b, rng=0).p_value, error, rests_on, remark)


def above(
    text: str,
    on: str,
    measure: str,
    rows: Mapping[str, Any],
    upper: str,
    lower: str,
    *,
    rests_on: str = CUTS,
    remark: str = "",
) -> Claim:
    """That one row of a table is above another: by the values of queries where they are kept, else not run."""
    if any(name not in rows or measure not in rows[name].get("queries", {}) for name in (upper, lower)):
        return Claim(text, on, measure, rests_on=rests_on, remark=remark or "not run")
    first, second = (rows[name]["queries"][measure] for name in (upper, lower))
    return paired(text, on, measure, first, second, rests_on=rests_on, remark=remark)


def judged(claims: Sequence[Claim]) -> list[Verdict]:
    """The verdict on every claim of a page."""
    tested = {str(place): claim.p for place, claim in enumerate(claims) if claim.p is not None}
    corrected = holm(tested) if tested else {}
    return [_one(claim, corrected.get(str(place))) for place, claim in enumerate(claims)]


def _one(claim: Claim, p: float | None) -> Verdict:
    if claim.remark or p is None or claim.difference is None:
        return Verdict(claim, p, OPEN, claim.remark or "not run")
    if claim.difference == 0:
        return Verdict(claim, p, OPEN, "tie")
    if claim.rests_on not in (CUTS, DRAWS):
        return Verdict(claim, p, OPEN, claim.rests_on)
    if p >= LEVEL:
        return Verdict(claim, p, OPEN, "")
    return Verdict(claim, p, HOLDS if claim.difference > 0 else FAILS, "")


def with_verdicts(text: str, claims: Sequence[Claim], numbers: dict[str, Any]) -> str:
    """A page with its headline, its table of verdicts, and a sentence on what is out of date."""
    found = judged(claims)
    made = {"HEADLINE": headline(found), "VERDICTS": verdicts_table(found), "STALE": stale_note(numbers)}
    for mark, part in made.items():
        if f"@{mark}@" not in text:
            raise ValueError(f"The page has no place for @{mark}@.")
        text = text.replace(f"@{mark}@", part)
    return text


def verdicts_table(verdicts: Sequence[Verdict]) -> str:
    """Every claim with its numbers, and how many there are."""
    lines = ["| what is said | on | by | difference | p | p, corrected | detectable | verdict |", "|---" * 8 + "|"]
    for claim, p, word, why in verdicts:
        said = f"**{word}**" if word != OPEN else word + (f" ({why})" if why else "")
        gap = "" if claim.difference is None else f"{claim.difference:+.4f}"
        detectable = "" if claim.error is None else _short(POWER * claim.error)
        cells = [claim.text, claim.on, _measure(claim.measure), gap, _p(claim.p), _p(p), detectable, said]
        lines.append(f"| {' | '.join(cells)} |")
    counts = {word: sum(verdict.word == word for verdict in verdicts) for word in (HOLDS, FAILS, OPEN)}
    run = sum(verdict.p is not None for verdict in verdicts)
    told = f"Of {len(verdicts)} claims {counts[HOLDS]} hold, {counts[FAILS]} do not, and {counts[OPEN]} are not decided"
    return (
        "A claim holds where the difference (claimed above, less claimed below) is positive and p, corrected by Holm's "
        f"method over the {run} tests of this page, is below .05; it does not hold where it is negative, p as small. "
        "Differences are paired over test queries, each by its mean over five cuts of the set into five folds, or over "
        'independent draws; one cut decides nothing. "Detectable" is the difference that the same test would find '
        f"with a chance of 80%. {told}.\n\n" + "\n".join(lines)
    )


def headline(verdicts: Sequence[Verdict]) -> str:
    """The verdicts in a few sentences: what holds, what does not, what is open, each with where."""
    parts = []
    for word, lead in ((HOLDS, "Holds"), (FAILS, "Does not hold"), (OPEN, "Not decided")):
        found: dict[str, list[str]] = {}
        for verdict in verdicts:
            if verdict.word == word:
                where = f"{verdict.claim.on}, {_measure(verdict.claim.measure)}"
                found.setdefault(verdict.claim.text, []).append(where)
        if word == OPEN:
            told = [text for text in found if all(v.word == OPEN for v in verdicts if v.claim.text == text)]
        else:
            total = {text: sum(v.claim.text == text for v in verdicts) for text in found}
            told = [
                text + (f" ({'; '.join(where)})" if len(where) < total[text] or len(where) < 3 else "")
                for text, where in found.items()
            ]
        if told:
            more = f", and {len(told) - MANY} more (see the verdicts)" if len(told) > MANY else ""
            parts.append(f"*{lead}*: {'; '.join(told[:MANY])}{more}.")
        elif word != OPEN:
            parts.append(f"*{lead}*: nothing.")
    return " ".join(parts)


def emphasised(
    p_values: Mapping[tuple[str, str], float], means: Mapping[str, Mapping[str, float]], against: str
) -> set[tuple[str, str]]:
    """The cells of a table that may be bold: the best of a column where it differs from the row that all are tested
    against, or, where that row is the best, from all others; p-values are corrected over the table."""
    corrected = holm({f"{row}\n{metric}": p for (row, metric), p in p_values.items()}) if p_values else {}
    bold = set()
    for metric in {metric for row in means.values() for metric in row}:
        best = max(means, key=lambda row, metric=metric: means[row][metric])
        rivals = [row for row in means if row != against] if best == against else [best]
        if rivals and all(corrected.get(f"{row}\n{metric}", 1.0) < LEVEL for row in rivals):
            bold.add((best, metric))
    return bold


def _measure(name: str) -> str:
    return (
        name.replace("kappa_", "κ-").upper().replace("Κ-", "κ-")
        if name.islower() and len(name) < 16 and " " not in name
        else name
    )


def _p(value: float | None) -> str:
    return "" if value is None else "< .001" if value < 0.0005 else _short(value, 3)


def _short(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}f}".removeprefix("0") if value < 1 else f"{value:.{digits}f}"
