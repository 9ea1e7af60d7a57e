"""`consensus`: one ranking out of many, by any rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from luce.aggregate.ballots import Ballots, check_unranked
from luce.aggregate.positional import POSITIONAL, PositionRule, is_expression, named
from luce.aggregate.result import Consensus
from luce.data.names import alike
from luce.registry import Registry, canonical, unknown_name

RULES = Registry(
    "rule",
    {
        "kemeny": "luce.aggregate.rules:kemeny",
        "footrule": "luce.aggregate.rules:footrule",
        "mode": "luce.aggregate.rules:mode",
        "copeland": "luce.aggregate.rules:copeland",
        "schulze": "luce.aggregate.rules:schulze",
        "ranked_pairs": "luce.aggregate.rules:ranked_pairs",
        "instant_runoff": "luce.aggregate.rules:instant_runoff",
        "minimax": "luce.aggregate.more_rules:minimax",
        "approval": "luce.aggregate.more_rules:approval",
        "hodge": "luce.aggregate.more_rules:hodge",
        "stv": "luce.aggregate.more_rules:stv",
    },
)
"""Rules beside the positional ones."""
ALIASES = {
    **{"irv": "instant_runoff", "alternative_vote": "instant_runoff", "av": "instant_runoff"},
    **{"single_transferable_vote": "stv", "simpson": "minimax", "simpson_kramer": "minimax"},
    **{"tideman": "ranked_pairs", "beatpath": "schulze", "kemeny_young": "kemeny", "veto": "antiplurality"},
    **{"hodgerank": "hodge"},
}
"""Other names that people try."""


def rule_names() -> list[str]:
    """All names that `consensus` knows; a vector, a function or an expression in i and n is a rule too."""
    return sorted([*RULES.names(), *POSITIONAL])


def consensus(ballots: Ballots, rule: PositionRule = "borda", *, unranked: str = "last", **options: Any) -> Consensus:
    """The consensus ranking of the ballots by a rule, [Pareek] (4.2).

    Parameters
    ----------
    ballots
        What the voters said.
    rule
        A name (`luce.aggregate.rule_names()`), a vector of n scores for the positions, a function of (positions, n),
        or an expression in the position i and n such as `"1/i"`.
    unranked
        What to do with items that a ballot leaves open: `last` puts them in one tied tier below the others (each gets
        the mean score of the open positions), `ignore` counts only what the ballot says, `error` refuses.
    options
        Of the rule: `time_limit` and `exact_limit` for `kemeny`, `strength` for `schulze` and `ranked_pairs`, `seats`
        for `stv`.

    >>> votes = Ballots.from_orders(["abc", "bca", "cab", "abc"])
    >>> str(consensus(votes, "kemeny")), consensus(votes, "kemeny").objective
    ('a > b > c', 4.0)
    >>> str(consensus(votes, "plurality"))
    'a > b = c'
    """
    check_unranked(unranked)
    found = _by_rule(ballots, rule, unranked, options)
    return replace(found, notes=(*found.notes, *alike(ballots.items)))


def _by_rule(ballots: Ballots, rule: PositionRule, unranked: str, options: dict[str, Any]) -> Consensus:
    from luce.aggregate import rules

    if isinstance(rule, str):
        rule = ALIASES.get(canonical(rule), rule)
    if not isinstance(rule, str) or named(rule):
        return rules.positional(ballots, rule, unranked, **options)
    if rule in RULES:
        return RULES.get(rule)(ballots, unranked, **options)  # type: ignore[no-any-return]
    if is_expression(rule):
        return rules.positional(ballots, rule, unranked, **options)
    raise unknown_name("rule", rule, rule_names())
