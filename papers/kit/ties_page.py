"""The tables and figures of docs/papers/ties.md, made of the numbers of papers/results/ties.json."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit import ROOT
from kit.verdicts import Claim, above, judged, paired, with_verdicts
from luce.metrics.significance import randomisation_test

__all__ = ["page"]

SETS = ("OHSUMED-2.0", "OHSUMED", "MQ2008")
STUDIED, MERGED, AGAIN = "OHSUMED-2.0", "OHSUMED-2L", " x5"
REPEATED = ("OHSUMED-2.0 x5", "OHSUMED-2L x5", "OHSUMED x5")
KINDS = {
    "pairs": "the gradient of each pair",
    "risk": "the gradient of the risk",
    "documents": "the gradient of the risk, each document once",
    "newton": "Newton steps",
}
FAMILIES = {"bt": "BT", "tm": "TM"}
OTHERS = {
    "lambdamart": "LambdaMART",
    "mart": "MART",
    "ranksvm": "RankSVM (linear)",
    "rankboost": "RankBoost",
    "adarank-map": "AdaRank-MAP",
    "frank": "FRank",
}
GRADES = ("relevant", "possibly relevant", "relevant or possibly relevant", "irrelevant")
SHOWN = ("map", "ndcg@1", "ndcg@3", "ndcg@5", "p@1", "p@3", "p@5")
TESTED = ("map", "ndcg@5")
PAPER = {  # Table 1 of the paper, LETOR 2.0 OHSUMED
    "BT": (0.4537, 0.5288, 0.4911, 0.4759, 0.6650, 0.6211, 0.5806),
    "BT-noties": (0.4488, 0.4753, 0.4664, 0.4623, 0.6288, 0.5911, 0.5626),
    "TM": (0.4543, 0.5269, 0.4794, 0.4714, 0.6654, 0.6146, 0.6010),
    "TM-noties": (0.4476, 0.5072, 0.4764, 0.4652, 0.6252, 0.6047, 0.5803),
    "RankSVM": (0.4469, 0.4952, 0.4649, 0.4579, 0.6338, 0.5924, 0.5766),
    "RankBoost": (0.4403, 0.4977, 0.4726, 0.4502, 0.6048, 0.5861, 0.5446),
    "AdaRank": (0.4419, 0.5420, 0.4803, 0.4554, 0.6615, 0.5831, 0.5373),
    "FRank": (0.4463, 0.5449, 0.4995, 0.4688, 0.6710, 0.6175, 0.5597),
}
PAPER_GAINS = {
    "paper, OHSUMED": (11.26, 6.71, 5.30, 5.58, 2.94, 5.77, 4.94, 1.57, 1.94, 2.62),
    "paper, OHSUMED-2L": (4.58, 3.61, 4.67, 4.33, 2.45, 2.75, 1.68, 0.66, 0.36, 0.33),
}
COLOURS = {"training": "#3b6ea5", "validation": "#c77b30", "test": "#4c8c4a"}
Numbers = dict[str, Any]


def page(template: str, numbers: Numbers) -> str:
    """The template with its tables and figures; what was not computed is left empty."""
    few = {key.removeprefix("two/"): one for key, one in numbers.items() if key.startswith("two/")}
    many = {key: one for key, one in numbers.items() if not key.startswith("two/")}
    beside, beside_counted = beside_table(few)
    made = {
        "PAPER": table(["paper, Table 1", *map(str.upper, SHOWN)], [[k, *map(decimal, v)] for k, v in PAPER.items()]),
        "BESIDE": beside,
        "BESIDE_COUNTED": beside_counted,
        "CURVES": curves_figures({**few, **many}),
        "LISTS": lists_tables({**few, **many}),
        "CLICKS": clicks_table(many),
        "SOURCE": source(few),
        "TOY": toy_figure(),
        "GRADES": grades_table(few),
    }
    for mark, title, made_of in (
        ("AGAIN", "The same over five cuts", grades_table(few, AGAIN)),
        ("TWELVE", "Run B, as far as it was made", grades_table(many)),
    ):
        made[f"GRADES_{mark}"] = f"{title}:\n\n{made_of}\n" if made_of else ""
    for run, known in (("A", few), ("B", many)):
        tests, counted = tests_table(known)
        made |= {
            f"{run}_TABLES": set_tables(SETS, known),
            f"{run}_LEVELS": set_tables((MERGED, *REPEATED), known),
            f"{run}_TESTS": tests,
            f"{run}_COUNTED": counted,
            f"{run}_GAINS": gains_tables(known),
        }
    for key, text in made.items():
        template = template.replace(f"@{key}@", text)
    return with_verdicts(template, claims(few), numbers)


def claims(few: Numbers) -> list[Claim]:
    """What the paper says of ties, in three readings of its algorithm, over five cuts."""
    found = []
    for kind in ("pairs", "risk", "documents"):
        for name in (STUDIED, MERGED):
            rows = {
                which: few[key] for which in ("ties", "noties") if (key := f"{name}{AGAIN}/{kind}/bt-{which}") in few
            }
            for metric in TESTED:
                found.append(above(f"ties help BT (`{kind}`)", name, metric, rows, "ties", "noties"))
        for family, label in (("tm", "TM"),):
            said = f"ties help {label} (`{kind}`)"
            found.append(Claim(said, STUDIED, "ndcg@5", remark=f"not run over five cuts: {family}-ties"))
        found += figure_two(few, kind) + shape(few, kind)
    return found + [claim for name in (STUDIED, MERGED) for claim in weighting(few, name)]


REWEIGHTED = "each document once, without ties, above `risk` without ties"
TIES_AS_SUCH = "`risk` with ties above each document once without ties"


def weighting(few: Numbers, name: str) -> list[Claim]:
    """Whether ties do more than the other weights that documents have with them."""
    wanted = {"risk": "risk/bt-noties", "once": "documents/bt-noties", "ties": "risk/bt-ties"}
    rows = {label: few[key] for label, end in wanted.items() if (key := f"{name}{AGAIN}/{end}") in few}
    return [
        above(REWEIGHTED, name, "ndcg@5", rows, "once", "risk"),
        above(TIES_AS_SUCH, name, "ndcg@5", rows, "ties", "once"),
    ]


def source(few: Numbers) -> str:
    """With and without ties in every reading over five cuts, and what the verdicts on them say."""
    rows = []
    for name in (STUDIED, MERGED):
        for kind in KINDS:
            pair = [few.get(f"{name}{AGAIN}/{kind}/bt-{which}") for which in ("noties", "ties")]
            if any(pair):
                cells = [decimal(one["means"][m]) if one else "" for m in ("ndcg@5", "map") for one in pair]
                rows.append([name, kind, *cells])
    head = ["set", "tree", "NDCG@5 without ties", "with", "MAP without ties", "with"]
    told = {(v.claim.text, v.claim.on): v for v in judged(claims(few))}
    lines = []
    for name in (STUDIED, MERGED):
        first, second = told[REWEIGHTED, name], told[TIES_AS_SUCH, name]
        if first.claim.difference is not None and second.claim.difference is not None:
            adds = (
                "add to that"
                if second.word == "holds"
                else "as such add nothing to that which could be told from chance"
            )
            lines.append(
                f"On {name} the weights alone are worth {first.claim.difference:+.4f} in NDCG@5 (p, corrected, "
                f"{first.p:.3f}), and ties {adds} ({second.claim.difference:+.4f}, p, corrected, {second.p:.3f})."
            )
    return (
        "### Where the gain comes from\n\nWithout ties an irrelevant document occurs in a pair once for every relevant "
        "one, and a relevant one once for every irrelevant one; with ties every document of a query occurs equally "
        "often. So `risk` with ties differs from `risk` without in two things, ties and weights. `documents` without "
        f"ties changes the weights alone. BT, run A, over five cuts:\n\n{table(head, rows)}\n\n{' '.join(lines)}"
    )


def figure_two(few: Numbers, kind: str) -> list[Claim]:
    """That ties of relevant documents are worth more than those of irrelevant ones, and the latter harm."""
    rows = {name: few[key] for name in GRADES if (key := f"grades{AGAIN}/{kind}/{name}") in few}
    if (plain := few.get(f"{STUDIED}{AGAIN}/{kind}/bt-noties")) is not None:
        rows["none"] = plain
    said = f"Figure 2: ties of relevant documents above those of irrelevant ones (`{kind}`)"
    harm = f"Figure 2: no ties above ties of irrelevant documents (`{kind}`)"
    return [
        above(said, STUDIED, "ndcg@5", rows, "relevant", "irrelevant"),
        above(harm, STUDIED, "ndcg@5", rows, "none", "irrelevant"),
    ]


def shape(few: Numbers, kind: str) -> list[Claim]:
    """That the gain is largest at the top, and larger with three levels of grades than with two."""
    keys = {
        (name, which): f"{name}{AGAIN}/{kind}/bt-{which}" for name in (STUDIED, MERGED) for which in ("ties", "noties")
    }
    if any(key not in few for key in keys.values()):
        return []
    gain = {
        (name, metric): np.subtract(*(few[keys[name, which]]["queries"][metric] for which in ("ties", "noties")))
        for name in (STUDIED, MERGED)
        for metric in ("ndcg@1", "ndcg@5")
    }
    top, levels = f"ties gain most at the top (`{kind}`)", f"ties gain more on three levels than on two (`{kind}`)"
    return [
        *(
            paired(top, name, "NDCG@1 less NDCG@5", gain[name, "ndcg@1"], gain[name, "ndcg@5"])
            for name in (STUDIED, MERGED)
        ),
        paired(levels, "both", "ndcg@5", gain[STUDIED, "ndcg@5"], gain[MERGED, "ndcg@5"]),
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def decimal(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def models() -> dict[str, str]:
    """The keys of a set's rows, and what they are called."""
    named = {}
    for kind in KINDS:
        for family, label in FAMILIES.items():
            named[f"{kind}/{family}-ties"] = f"{label}, {kind}"
            named[f"{kind}/{family}-noties"] = f"{label}-noties, {kind}"
    return named | OTHERS


def set_tables(names: Sequence[str], numbers: Numbers) -> str:
    return "\n".join(filter(None, (set_table(name, numbers) for name in names)))


def set_table(name: str, numbers: Numbers) -> str:
    found = {label: numbers[f"{name}/{key}"] for key, label in models().items() if f"{name}/{key}" in numbers}
    if not found:
        return ""
    rows = [[label, *(decimal(one["means"][m]) for m in SHOWN), str(len(one["grid"]))] for label, one in found.items()]
    return f"**{_called(name)}**\n\n{table(['model', *map(str.upper, SHOWN), 'settings'], rows)}\n"


def p_value(first: Numbers, second: Numbers, metric: str) -> float:
    a, b = (np.array(one["queries"][metric]) for one in (first, second))
    return randomisation_test(a, b, rng=0).p_value


def difference(first: Numbers | None, second: Numbers | None, metric: str, seen: list[float]) -> str:
    if first is None or second is None:
        return ""
    gap, p = first["means"][metric] - second["means"][metric], p_value(first, second, metric)
    seen.append(p)
    said = f"{p:.3f}" if p >= 0.0005 else "< 0.001"
    return f"{gap:+.4f} ({said})"


def tests_table(numbers: Numbers) -> tuple[str, str]:
    """What ties change, by set, model and tree; and how many comparisons that is."""
    rows, seen = [], []
    for name in (*SETS, MERGED, *REPEATED):
        for family, label in FAMILIES.items():
            cells = []
            for kind in KINDS:
                pair = [numbers.get(f"{name}/{kind}/{family}-{which}") for which in ("ties", "noties")]
                cells += [difference(pair[0], pair[1], metric, seen) for metric in TESTED]
            if any(cells):
                rows.append([_called(name), label, *cells])
    head = [f"{kind}, {metric.upper()}" for kind in KINDS for metric in TESTED]
    return table(["set", "model", *head], rows), _counted(seen)


def _counted(seen: Sequence[float]) -> str:
    below, strict = sum(p < 0.05 for p in seen), sum(p < 0.05 / max(len(seen), 1) for p in seen)
    return (
        f"{len(seen)} comparisons, {below} with p below .05 (chance alone gives {0.05 * len(seen):.1f}), "
        f"{strict} with p below .05 / {len(seen)}"
    )


def _called(name: str) -> str:
    return name.replace(" x5", ", five cuts")


def beside_table(numbers: Numbers) -> tuple[str, str]:
    """BT with the tree of the paper beside its other trees and the base rankers, on the folds of LETOR; how many."""
    rows: list[list[str]] = []
    seen: list[float] = []
    others = {key: label for key, label in models().items() if key in OTHERS or key.endswith("bt-ties")}
    for key, label in others.items():
        pairs = [(numbers.get(f"{name}/pairs/bt-ties"), numbers.get(f"{name}/{key}")) for name in SETS]
        cells = [difference(*pair, metric, seen) for pair in pairs for metric in TESTED]
        if key != "pairs/bt-ties" and any(cells):
            rows.append([label, *cells])
    head = [f"{name}, {metric.upper()}" for name in SETS for metric in TESTED]
    return table(["BT, pairs, less", *head], rows), _counted(seen)


def gains_tables(numbers: Numbers) -> str:
    texts = []
    for kind, what in KINDS.items():
        columns = {}
        for name in (*SETS, MERGED, *REPEATED):
            pair = [numbers.get(f"{name}/{kind}/bt-{which}") for which in ("ties", "noties")]
            if pair[0] is not None and pair[1] is not None:
                columns[_called(name)] = gains(pair[0], pair[1])
        if columns:
            columns |= {name: [f"{gain:+.2f}%" for gain in printed] for name, printed in PAPER_GAINS.items()}
            lines = [[str(k + 1), *(column[k] for column in columns.values())] for k in range(10)]
            texts.append(f"Tree on {what} (`{kind}`):\n\n{table(['n', *columns], lines)}\n")
    return "\n".join(texts)


def gains(with_ties: Numbers, without: Numbers) -> list[str]:
    pairs = [(with_ties["means"][f"ndcg@{k}"], without["means"][f"ndcg@{k}"]) for k in range(1, 11)]
    return [f"{100 * (a / b - 1):+.2f}%" for a, b in pairs]


def grades_table(numbers: Numbers, cut: str = "") -> str:
    """BT with ties from some grades, between BT as it is and BT without ties, for every kind of tree that has some."""
    shown, rows = ("ndcg@1", "ndcg@5", "ndcg@10", "map"), []
    for kind in KINDS:
        some = {name: numbers.get(f"grades{cut}/{kind}/{name}") for name in GRADES}
        ends = [numbers.get(f"{STUDIED}{cut}/{kind}/bt-{which}") for which in ("ties", "noties")]
        if not any(some.values()):
            continue
        for name, one in {"any grade": ends[0], **some, "no ties": ends[1]}.items():
            if one is not None:
                p = "" if ends[1] is None or one is ends[1] else f"{p_value(one, ends[1], 'ndcg@5'):.3f}"
                rows.append([kind, name, *(decimal(one["means"][metric]) for metric in shown), p])
    head = ["tree", "ties from documents that are", *map(str.upper, shown), "p, NDCG@5 against no ties"]
    return table(head, rows) if rows else ""


def clicks_table(numbers: Numbers) -> str:
    shown, rows = ("ndcg@1", "ndcg@5", "ndcg@10", "map"), []
    for name in SETS:
        for kind in KINDS:
            both = [numbers.get(f"clicks/{name}/{kind}/bt-{which}") for which in ("noties", "ties")]
            graded = [numbers.get(f"{name}/{kind}/bt-{which}") for which in ("noties", "ties")]
            what = ("clicks: wins", "clicks: wins and ties", "grades: wins", "grades: wins and ties")
            for label, one, base in zip(what, [*both, *graded], [None, both[0], None, graded[0]], strict=True):
                if one is not None and both[0] is not None:
                    p = "" if base is None else ", ".join(f"{p_value(one, base, metric):.2f}" for metric in TESTED)
                    means = [decimal(one["means"][metric]) for metric in shown]
                    counts = np.mean(one["pairs"], axis=0) if "pairs" in one else None
                    pairs = "" if counts is None else f"{counts[0]:,.0f}" + f" + {counts[1]:,.0f}" * ("and" in label)
                    rows.append([name, kind, label, pairs, *means, p])
    head = ["set", "tree", "learned from", "pairs", *map(str.upper, shown), "p of ties: MAP, NDCG@5"]
    return table(head, rows) if rows else ""


def toy_figure() -> str:
    """Figure 1, by the example that draws it."""
    example = runpy.run_path(str(ROOT / "examples" / "ties_of_four.py"))
    drawn: str = example["picture"](example["learned"]([]), example["learned"](example["TIES"]))
    return drawn


def lists_tables(numbers: Numbers) -> str:
    texts = []
    for kind in KINDS:
        for query, lists in numbers.get(f"lists/{kind}", {}).items():
            pairs = zip(lists["bt-noties"], lists["bt-ties"], strict=True)
            rows = [[str(k + 1), *map(str, a), *map(str, b)] for k, (a, b) in enumerate(pairs)]
            head = ["rank", "BT-noties: grade", "document", "BT: grade", "document"]
            texts.append(f"**Query {query}, {KINDS[kind]}**\n\n{table(head, rows)}\n")
    return "\n".join(texts)


def curves_figures(numbers: Numbers) -> str:
    drawn = []
    for kind in KINDS:
        found = numbers.get(f"curves/{kind}", {"curves": {}})
        for model, curves in found["curves"].items():
            drawn.append(svg(models()[f"{kind}/{model}"], found["rounds"], curves))
    return "\n\n".join(drawn)


def svg(title: str, rounds: Sequence[int], curves: dict[str, list[float]]) -> str:
    """Lines of NDCG@5 by round as one inline drawing."""
    width, height, left, bottom = 460.0, 240.0, 50.0, 30.0
    low = np.floor(20 * min(map(min, curves.values()))) / 20
    high = np.ceil(20 * max(map(max, curves.values()))) / 20

    def x(t: float) -> float:
        return left + (width - left - 90) * t / max(rounds[-1], 1)

    def y(value: float) -> float:
        return 20 + (height - 20 - bottom) * (high - value) / max(high - low, 1e-9)

    parts = [
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-size="11" font-family="sans-serif" '
        f'style="max-width:{width:.0f}px" fill="currentColor"><title>{title}: NDCG@5 by round</title>',
        f'<text x="{left}" y="12">{title}: NDCG@5 by round</text>',
    ]
    for value in np.linspace(low, high, 5):
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3f}</text>')
        parts.append(
            f'<path d="M{left} {y(value):.1f}H{x(rounds[-1]):.1f}" stroke="currentColor" stroke-opacity=".15"/>'
        )
    for t in np.linspace(0, rounds[-1], 5):
        parts.append(f'<text x="{x(t):.1f}" y="{height - 8:.0f}" text-anchor="middle">{t:.0f}</text>')
    below = -np.inf
    for part, values in sorted(curves.items(), key=lambda curve: -curve[1][-1]):
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in zip(rounds, values, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[part]}" stroke-width="1.5"/>')
        below = max(y(values[-1]) + 4, below + 12)  # names do not overlap
        end = f'x="{x(rounds[-1]) + 5:.1f}" y="{below:.1f}" fill="{COLOURS[part]}"'
        parts.append(f"<text {end}>{part}</text>")
    return "".join([*parts, "</svg>"])
