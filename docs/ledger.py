"""Everything that the five works number, each with one line: what became of it in luce. Makes docs/papers/ledger.md.

    python docs/ledger.py

Equations that luce implements are those of `equations.py`, with their places there; the others, and all definitions,
propositions, theorems, algorithms, tables and figures, are below.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_spec = importlib.util.spec_from_file_location("equations", ROOT / "docs/equations.py")
assert _spec is not None
assert _spec.loader is not None
equations = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(equations)

WORKS, FAILS, NO_DATA, OUT = "works", "does not hold", "no data", "out of scope"
"""What a line may say: luce has it, by this name and test; it is wrong, why; data are missing; luce has no use for "
"it."""


class Line(NamedTuple):
    """An item of a work, what became of it, a few words, and the test that keeps it."""

    item: str
    state: str
    words: str
    test: str = ""


TESTS = {
    "PMOP": "losses/test_pmop.py",
    "Ties": "losses/test_pairwise.py",
    "HOM": "losses/test_topk.py",
    "StructRank": "losses/test_cdn.py",
    "Pareek 2": "scorers/test_listwise.py",
    "Pareek 3": "losses/test_ndcg.py",
    "Pareek 4": "aggregate/test_axioms.py",
    "Pareek 5": "track/test_likelihood.py",
}
"""Where the equations of a work, or of a chapter, are tested."""

STEP = "a step of a derivation, not computed by itself"
PASSED: dict[str, dict[str, tuple[str, str]]] = {
    "PMOP": {
        "2": (WORKS, "number of ordered partitions (Fubini); the test of sums over all of them counts it"),
        "3": (WORKS, "probability of an ordered partition; `log_prob` of the losses"),
        "14": (WORKS, "log-likelihood of a data set; the objective of training"),
    },
    "Ties": {
        "14": (WORKS, "minimum of the risk; what boosting approaches"),
        "17": (WORKS, "gradient at the documents, in three readings: `curvature` pairs, risk, documents"),
    },
    "StructRank": {
        "2": (WORKS, "density as a mixed derivative; `order_density` on small networks"),
        "6": (OUT, "a restatement of (4) with the loss of (5)"),
    },
    "Pareek": {
        "2.2": (FAILS, "Bregman divergence with the gradient at the wrong point; (3.3) is right and used"),
        "2.4": (WORKS, "Bayes-optimal ranking function; the tests of consistency find it by enumeration"),
        "2.6": (OUT, STEP),
        "2.7": (OUT, STEP),
        "2.9": (WORKS, "symmetric tensor; `decompose` refuses another one"),
        "2.10": (FAILS, "sum of powers without signs; with signs it is what `decompose` gives"),
        "2.11": (FAILS, "the same for functions; with signs"),
        "2.12": (FAILS, "the same for partially symmetric functions; with signs, one `decompose` for each first value"),
        "2.13": (WORKS, "partially symmetric tensor"),
        "2.14": (FAILS, "pairwise decomposition: powers of m - 1 and signs are missing"),
        "2.15": (OUT, "spectral theorem for compact operators, quoted"),
        "2.16": (FAILS, "loses the factors lambda of its terms"),
        "2.17": (OUT, "infinite exchangeability, quoted"),
        "2.18": (OUT, "de Finetti's theorem, quoted"),
        "2.19": (FAILS, "needs a function that extends to infinitely many documents"),
        "2.24": (FAILS, "the product is elementwise and the sign is plus; (2.20) is used"),
        "3.8": (FAILS, "has the conjugate at the target where its gradient belongs; a constant in the scores"),
        "3.11": (OUT, STEP),
        "3.12": (OUT, STEP),
        "3.13": (OUT, STEP),
        "3.14": (OUT, STEP),
        "3.15": (FAILS, "sign: the step adds the gradient"),
        "3.17": (WORKS, "choice of the weak learner by its angle; (3.18) is its form for the code"),
        "3.22": (OUT, "definition of boostability by the optimum, which cannot be computed from data"),
        "3.23": (OUT, "the same for a surrogate"),
        "3.27": (WORKS, "the surrogate by the conjugate; (3.28) is its form for the code"),
        "4.3": (WORKS, "bounds L and U; linear programs of `luce.aggregate.axiom_programs`"),
        "4.7": (OUT, STEP),
        "4.8": (WORKS, "distribution that meets the upper bound"),
        **dict.fromkeys(("4.10", "4.11", "4.12", "4.13", "4.14", "4.15"), (OUT, STEP)),
        "5.3": (WORKS, "arrival or clutter; in the densities of the engines"),
        "5.4": (OUT, "properties of the delta function"),
        "5.5": (WORKS, "j-th smallest arrival; (5.6) is its form for the code"),
        "5.7": (WORKS, "message of the j-th minimum in three parts; `min_factor`"),
        "5.8": (FAILS, "T_r for T_j"),
        **dict.fromkeys((f"5.{k}" for k in range(9, 15)), (OUT, STEP)),
        "5.15": (WORKS, "first part of that message; `min_factor`"),
        "5.16": (WORKS, "the same, the other product"),
        **dict.fromkeys(
            (f"5.{k}" for k in range(17, 21)), (FAILS, "leaves out the sum over which source is the minimum")
        ),
        "5.22": (WORKS, "product of the factors; `min_factor`, a check only: it is no joint density beyond one signal"),
        "5.23": (WORKS, "consistency of the labels; matchings of the exact engine"),
        "5.24": (WORKS, "factor of a source without misses"),
        "5.25": (WORKS, "the same with arrival times summed out"),
        "5.28": (WORKS, "message from a source; `bethe`"),
        "5.30": (WORKS, "belief of a source; `bethe`"),
        **dict.fromkeys((f"5.{k}" for k in range(31, 33)), (OUT, "message over positions; particles take its place")),
        "5.33": (WORKS, "message from a signal; `bethe`"),
        "5.34": (WORKS, "the same"),
        "5.36": (WORKS, "belief of a signal; `bethe`"),
        "5.37": (OUT, "message over positions; particles take its place"),
        "5.38": (WORKS, "belief of a signal; `bethe`"),
        **dict.fromkeys(
            (f"5.{k}" for k in range(39, 49)),
            (OUT, "messages of the number of clutter signals, which luce sums out exactly"),
        ),
        **dict.fromkeys(
            (f"5.{k}" for k in range(49, 64)), (OUT, "messages over positions; particles take their place")
        ),
        "5.64": (WORKS, "clutter factor; the text below it calls P_C P_N"),
        "5.65": (WORKS, "source factor before times are summed out; (5.66) is its form for the code"),
        "5.68": (FAILS, "T_r for T_k"),
        "5.70": (WORKS, "messages with clutter; `min_factor`"),
        "5.71": (FAILS, "its left side is that of (5.70); it is the message to J_l"),
    },
}
"""Equations that no docstring cites, with what became of them."""

PAGE = {"PMOP": "pmop", "Ties": "ties", "HOM": "hom", "StructRank": "structrank"}
_LETOR3 = "a set of LETOR 3.0 that is not at hand"
ITEMS: dict[str, list[Line]] = {
    "PMOP": [
        Line("Figure 1", WORKS, "complete and subset orders; `log_prob` of both", "losses/test_pmop.py"),
        Line(
            "Algorithm 1",
            WORKS,
            "Gibbs and Metropolis-Hastings; `paper_rule` has the printed ratio",
            "losses/test_pmop_sampled.py",
        ),
        Line(
            "Table 1",
            NO_DATA,
            "the Yahoo! data are licensed; the same systems on five other sets on [its page](pmop.md)",
        ),
        Line("Table 2", WORKS, "costs, measured on [its page](pmop.md); pairwise losses are linear in luce"),
        Line(
            "Appendix C",
            FAILS,
            "three misprints, see the errata; gradients are checked by differences",
            "losses/test_pairwise.py",
        ),
    ],
    "Ties": [
        Line("Figure 1", WORKS, "four documents; `examples/ties_of_four.py`", "test_examples.py"),
        Line("Algorithm 1", WORKS, "`trees` with `curvature` pairs, risk or documents", "training/test_boosting.py"),
        Line("Table 1", WORKS, "OHSUMED of LETOR 2.0; verdicts on [its page](ties.md)"),
        Line("Table 2", NO_DATA, "TREC2003"),
        Line("Table 3", NO_DATA, "TREC2004"),
        Line("Table 4", WORKS, "by position, on [its page](ties.md)"),
        Line("Table 5", WORKS, "top five of two queries, on [its page](ties.md)"),
        Line("Figure 2", WORKS, "ties from some grades, on [its page](ties.md)"),
        Line("Figure 3", WORKS, "learning curves, on [its page](ties.md)"),
    ],
    "HOM": [
        Line("Definition 1", WORKS, "riffled independence; `luce.losses.hierarchy`", "losses/test_hierarchy.py"),
        Line("Figure 1", WORKS, "two processes, drawn on [its page](hom.md)"),
        Line("Table 1", NO_DATA, "MQ2007-list and MQ2008-list; orders of the same queries on [its page](hom.md)"),
    ],
    "StructRank": [
        Line(
            "Figure 1",
            WORKS,
            "a network, its cdf and its density; `order_density`",
            "losses/test_cdn_order_probabilities.py",
        ),
        Line("Figure 2", WORKS, "preferences as an order graph; topologies of `cdn`", "losses/test_cdn.py"),
        Line("Figure 3", WORKS, "order graph into network; topologies full, line, star, random", "losses/test_cdn.py"),
        Line("Figure 4", WORKS, "OHSUMED of LETOR 2.0, as curves on [its page](structrank.md)"),
    ],
    "Pareek": [
        Line("Definition 1", WORKS, "ranking function: a scorer", "scorers/test_scorers.py"),
        Line("Definition 2", FAILS, "S_k should be S_m; with it, exchangeable scorers", "scorers/test_listwise.py"),
        Line(
            "Theorem 1",
            FAILS,
            "S_k should be S_{m-1}, and the other documents are a multiset; then true",
            "scorers/test_listwise.py",
        ),
        Line("Definition 3", WORKS, "tensor: an array", "scorers/test_symmetric_sums.py"),
        Line("Definition 4", WORKS, "symmetric tensor", "scorers/test_symmetric_sums.py"),
        Line(
            "Proposition 1",
            FAILS,
            "over the reals even orders need signs; `decompose` has them",
            "scorers/test_symmetric_sums.py",
        ),
        Line("Proposition 2", FAILS, "the same for functions", "scorers/test_symmetric_sums.py"),
        Line("Theorem 2", FAILS, "the same for partially symmetric functions", "scorers/test_symmetric_sums.py"),
        Line("Definition 5", WORKS, "partially symmetric tensor", "scorers/test_symmetric_sums.py"),
        Line("Proposition 3", FAILS, "the power is m - 1, and signs are missing", "scorers/test_symmetric_sums.py"),
        Line(
            "Theorem 3",
            WORKS,
            "bivariate functions, in L2; one theorem with Theorem 5",
            "scorers/test_symmetric_sums.py",
        ),
        Line("Theorem 4", FAILS, "proved for m = 3 only and loses its factors; with signs true in L2 for all m"),
        Line("Theorem 5", WORKS, "the same as Theorem 3", "scorers/test_symmetric_sums.py"),
        Line("Definition 6", OUT, "infinite exchangeability, quoted"),
        Line("Theorem 6", OUT, "de Finetti's theorem, quoted; must say one measure for all n"),
        Line(
            "Theorem 7",
            FAILS,
            "only for functions that extend to infinitely many documents",
            "scorers/test_symmetric_sums.py",
        ),
        Line("Table 2.1", WORKS, "OHSUMED with one of two kernels, on [its page](listwise.md)"),
        *(Line(f"Table 2.{k}", NO_DATA, _LETOR3) for k in range(2, 8)),
        Line("Table 2.8", WORKS, "OHSUMED with one of two kernels, on [its page](listwise.md)"),
        Line("Table 2.9", NO_DATA, "iterations on the sets of LETOR 3.0"),
        Line("Definition 7", OUT, "boostability by the optimum, which data cannot show"),
        Line("Definition 8", OUT, "the same for a surrogate"),
        Line("Algorithm 1", WORKS, "`listwise_boosting`", "training/test_listwise_boosting.py"),
        Line("Proposition 4", WORKS, "`risk_bound` from recorded edges", "training/test_listwise_boosting.py"),
        *(Line(f"Figure 3.{k}", WORKS, "three sets, on [its page](boosting.md)") for k in range(1, 13)),
        Line("Definition 9", WORKS, "distributional aggregation; `luce.aggregate`", "aggregate/test_rules.py"),
        Line("Theorem 8", WORKS, "counts and shares give one answer", "aggregate/test_ballots.py"),
        Line("Definition 10", WORKS, "margin `iia`", "aggregate/test_axioms.py"),
        Line("Definition 11", WORKS, "margin `majority`", "aggregate/test_axioms.py"),
        Line("Definition 12", WORKS, "margin `winner`, plain Condorcet", "aggregate/test_axioms.py"),
        Line("Definition 13", WORKS, "margin `condorcet`, strong Condorcet", "aggregate/test_axioms.py"),
        Line("Proposition 5", WORKS, "and at 1/6 as well, by the 3-cycle", "aggregate/test_axioms.py"),
        Line("Proposition 6", WORKS, "one margin for both", "aggregate/test_axioms.py"),
        Line("Proposition 7", WORKS, "by an indicator, which is not continuous", "aggregate/test_rules.py"),
        Line("Proposition 8", WORKS, "Pareto by U at 1", "aggregate/test_axioms.py"),
        Line(
            "Proposition 9", FAILS, "L and U must have the same sign, not both be positive", "aggregate/test_axioms.py"
        ),
        Line(
            "Proposition 10",
            FAILS,
            '"only if" is false for plain Condorcet; its display is reversed',
            "aggregate/test_axioms.py",
        ),
        Line("Proposition 11", WORKS, "majority by U^1", "aggregate/test_axioms.py"),
        Line("Theorem 9", WORKS, "ties are reported, as none can be avoided", "aggregate/test_rules.py"),
        Line("Table 4.1", WORKS, "on [its page](axioms.md)", "aggregate/test_axioms.py"),
        Line("Table 4.2", FAILS, "the log rule; on [its page](axioms.md)", "aggregate/test_axioms.py"),
        Line("Definition 14", WORKS, "positional scores", "aggregate/test_rules.py"),
        Line("Proposition 12", WORKS, "sorting by expected scores", "aggregate/test_rules.py"),
        Line("Proposition 13", WORKS, "for n >= 3", "aggregate/test_axioms.py"),
        Line("Proposition 14", WORKS, "for n >= 3; linear programs agree", "aggregate/test_axioms.py"),
        Line("Proposition 15", WORKS, "Pareto by a falling h", "aggregate/test_axioms.py"),
        Line("Proposition 16", WORKS, "its proof has two slips, see the errata", "aggregate/test_monotonicity.py"),
        Line("Proposition 17", WORKS, "consistency", "aggregate/test_axioms.py"),
        Line("Proposition 18", WORKS, "majority", "aggregate/test_axioms.py"),
        Line("Proposition 19", WORKS, "margin of majority", "aggregate/test_axioms.py"),
        Line("Proposition 20", WORKS, "of strong Condorcet, for n >= 3", "aggregate/test_axioms.py"),
        Line("Proposition 21", WORKS, "margin of strong Condorcet, for n >= 3", "aggregate/test_axioms.py"),
        Line("Theorem 10", WORKS, "relaxed axioms together", "aggregate/test_axioms.py"),
        Line("Lemma 1", WORKS, "on [its page](axioms.md)", "aggregate/test_axioms.py"),
        Line("Theorem 11", WORKS, "Borda is best, among all rules", "aggregate/test_axioms.py"),
        Line("Figure 4.1", WORKS, "on [its page](axioms.md)", "aggregate/test_mallows.py"),
        Line("Algorithm 2", WORKS, "`luce.track.follow`", "track/test_follow.py"),
        Line(
            "Figure 5.1",
            NO_DATA,
            "arrival times of the floats are not public; simulated ones on [its page](tracking.md)",
        ),
        *(
            Line(f"Figure 5.{k}", WORKS, "graphical model; the factors of the engines", "track/test_likelihood.py")
            for k in (2, 3, 4, 5)
        ),
        *(
            Line(f"Figure 5.{k}", WORKS, "simulated, on [its page](tracking.md)", "track/test_paper.py")
            for k in (6, 7, 8)
        ),
        *(
            Line(f"Figure 5.{k}", NO_DATA, "real arrivals; simulated journeys on [its page](tracking.md)")
            for k in (9, 10, 11, 12)
        ),
    ],
}
"""All that is numbered beside equations, in the order of the works."""

ERRATA: dict[str, list[str]] = {
    "PMOP": [
        "(10) and (11) leave out the logarithm of C_k |X_k|: right for learning, wrong for comparing likelihoods.",
        "Algorithm 1: the Metropolis-Hastings ratio is that of a symmetric proposal, which it is not; it samples "
        "Phi(S) over the "
        "number of sets of its size.",
        "Appendix C, Rao and Kupper: P_j for P*_j, twice: in the derivative by w and in that by alpha.",
        "Appendix C, Davidson: -(P_i + P_ij / 2) for -(P_j + P_ij / 2) in the second term.",
        "Section 3 calls the normaliser of the general potential intractable; it is a sum of elementary symmetric "
        "polynomials "
        "(`pmop_exact`).",
    ],
    "Ties": [
        "(20) writes log; NDCG has the logarithm to base 2 (the base cancels).",
        "Algorithm 1 and (17) leave open how often a document occurs and with which gradient: three readings.",
    ],
    "HOM": [
        "(2) has a plus in the exponent; with theta above 0 a larger distance must lower the probability.",
        '(6) and (7) are "proportional" to probabilities and are maximised without their normaliser.',
    ],
    "StructRank": [
        "r_e is the difference for the direction of the edge, preferred less other; (3) is unreadable in places.",
        "The start in [0, 1]^27 has an L1 norm of about 14 and is often outside the set of (10); steps that shrink "
        "until they are "
        "allowed end at 1e-16 there.",
        "Pair probabilities read off a network, by the cdf of one edge, are not those of its orders (see "
        "[the losses](../losses/cdn.md)).",
    ],
    "Pareek": [
        "(2.2): the gradient of psi belongs at q, not at p.",
        "Section 2.2: G(t) = log(1 + t) is the discount; the gain is 2^r - 1.",
        "Definition 2, Theorem 1: S_k for S_m and S_{m-1}; the other documents are a multiset.",
        "Propositions 1 and 2, Theorem 2, (2.8): over the reals even orders need signs (f = -1 of two arguments is "
        "missed by 100%).",
        "Proposition 3: the power is m - 1.",
        "Theorems 3 and 5 are one theorem; convergence is in L2.",
        "Theorem 4: proved for m = 3 only, and loses lambda; with signs true in L2 for all m.",
        "Theorem 6: one measure for all n. Theorem 7: f must extend to infinitely many documents; f(0, 1) = f(1, 0) "
        "= 1/2, else 0, is "
        "missed by .408 of a norm of .5.",
        "(2.24): the product is elementwise, and the exponent has a plus for the form of (2.20).",
        "(3.8), (3.9): the conjugate at the gradient of psi at the target, not at the target.",
        "(3.15), (3.19): the step descends; as printed it adds the gradient.",
        "Proposition 5 fails at 1/6 too. Proposition 9: L and U of the same sign. Proposition 10: display reversed; "
        '"only if" false for '
        "plain Condorcet.",
        "Proposition 16's proof: the score of a raised item rises or stays (printed: falls), and those that it "
        "passes fall or stay.",
        "Propositions 13, 14, 20 and 21 need n >= 3; Proposition 20 and the tables mean the strong criterion.",
        "Table 4.2, log rule: log(n - 1) / (2 log(n^2 / (n - 1))) for IIA and log(n / 2) / (2 log(2n)) for majority.",
        "Section 4.6: omega = h(n) - h(n - 1) has the wrong sign; a smaller phi, not a higher one, is more "
        "concentrated; concave and "
        "convex are swapped once.",
        "Section 4.3: consistency in the sense of the chapter is Young's; Kemeny's rule has that of Young and "
        "Levenglick.",
        '(5.8), (5.68): T_r for T_j and T_k. Section 5.2: "not junk, i.e. c_i = 1" must be c_i = 0.',
        "(5.17) to (5.20): the sum over which source is the minimum is missing. Section 5.2.2: the coefficient of "
        "x^k in the product of "
        "(x + c_i) is the symmetric polynomial of degree n - k.",
        "Below (5.64): P_N for P_C. (5.71): its left side is the message to J_l.",
        "(5.72) read literally counts 1 - P_D twice. An arrival is the emission offset plus the travel time.",
    ],
}
"""Misprints and mistakes, by work."""


def lines(key: str) -> Iterator[Line]:
    """All equations of a work, then all else that it numbers."""
    chapters = equations.LAST[key]
    numbers = (
        [str(n) for n in range(1, chapters[0] + 1)]
        if len(chapters) == 1
        else [f"{chapter + 2}.{n}" for chapter, last in enumerate(chapters) for n in range(1, last + 1)]
    )
    for number in numbers:
        work = key if len(chapters) == 1 else f"{key} {number.partition('.')[0]}"
        if number in equations.EQUATIONS[key]:
            yield Line(f"({number})", WORKS, equations.EQUATIONS[key][number], TESTS[work])
        else:
            state, words = PASSED[key][number]
            yield Line(f"({number})", state, words, TESTS[work] if state == WORKS else "")
    yield from ITEMS[key]


def page() -> str:
    """The whole page."""
    parts = [
        "# Ledger of the five works\n\nMade by `docs/ledger.py`; do not edit by hand. Every equation, definition, "
        "proposition, theorem, "
        f"algorithm, table and figure has one line: it *{WORKS}* (in which function is in [Where the equations "
        f"are](../equations.md); the "
        f"test is under `tests/`), it *{FAILS}* as printed and why, there is *{NO_DATA}* for it, or it is *{OUT}* "
        f"and why. What "
        "experiments say of a claim is on the pages of the works, by one rule for all.\n",
        counts(),
    ]
    for key in equations.KEYS:
        told = [f"| {a.item} | {a.state} | {a.words} | {f'`{a.test}`' if a.test else ''} |" for a in lines(key)]
        parts += [f"\n## [{key}]\n\n| item | | | test |\n|---|---|---|---|", *told]
        parts += ["\n**Errata.**\n", *(f"- {text}" for text in ERRATA[key])]
    return "\n".join(parts) + "\n"


def counts() -> str:
    """How many lines of each kind a work has."""
    kinds = (WORKS, FAILS, NO_DATA, OUT)
    head = f"| work | lines | {' | '.join(kinds)} |\n" + "|---" * (len(kinds) + 2) + "|"
    rows = []
    for key in equations.KEYS:
        states = [line.state for line in lines(key)]
        rows.append(f"| [{key}] | {len(states)} | {' | '.join(str(states.count(kind)) for kind in kinds)} |")
    return "\n".join([head, *rows])


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    from luce.storage import atomic_write

    text = page()
    assert not re.search(r"\n\n\n", text)
    with atomic_write(ROOT / "docs/papers/ledger.md", "w") as stream:
        stream.write(text)
