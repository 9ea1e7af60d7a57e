"""Draws the pictures of the pages on models: `python docs/pictures.py [name ...]` rewrites docs/pictures.

Pages include them as they are, so that they follow the colours of light and dark. Curves, bars, margins and paths are
computed by luce; only the layout is made up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from drawing import BLUE, ORANGE, Chart, arrow, box, disc, line, path, text

import luce
from luce.losses.probabilities import topk_probability
from luce.ranker.parts import inner

FOLDER = Path(__file__).parent / "pictures"


class Picture(NamedTuple):
    """What is drawn; `shows` is for readers who do not see it."""

    elements: list[str]
    height: int
    shows: str
    caption: str


def pmop() -> Picture:
    """Stages of an ordered partition: a whole tier is taken from what remains."""
    tiers, drawn = [["a"], ["b", "c"], ["d", "e", "f"]], []
    for stage in range(3):
        left = 12 + 214 * stage
        drawn.append(
            text(left, 18, f"stage {stage + 1}: {'choose' if stage < 2 else 'the rest is'} {tier(tiers[stage])}")
        )
        remaining = [name for later in tiers[stage:] for name in later]
        for place, name in enumerate(remaining):
            chosen = name in tiers[stage]
            drawn += disc(
                left + 17 + 33 * place + 8 * (not chosen), 62, name, ORANGE if chosen else "currentColor", chosen
            )
        drawn.append(box(left - 4, 40, 33 * len(tiers[stage]) + 8, 44, ORANGE))
    return Picture(
        drawn,
        100,
        "Six documents are cut into tiers in three stages.",
        "Grades 2, 1 and 0 of six documents: at every stage a whole tier is chosen from the documents that remain.",
    )


def tier(names: list[str]) -> str:
    """The members of a tier as a set."""
    return "{" + ", ".join(names) + "}"


def pairwise() -> Picture:
    """Chances of a win, a tie and a loss over the difference of two scores."""
    d, drawn = np.linspace(-5, 5, 81), []
    for left, name, settings in ((40, "davidson", {"nu": 1.0}), (360, "rao_kupper", {"theta": 2.0})):
        loss = luce.losses.get(name, **settings)
        chart = Chart(left, 34, 260, 150, (-5, 5), (0, 1))
        drawn += chart.axes([-4, -2, 0, 2, 4], [0, 0.5, 1], "difference of scores")
        drawn.append(text(left + 130, 18, f"{name}({', '.join(f'{k}={v:g}' for k, v in settings.items())})", "middle"))
        drawn += [
            chart.curve(d, loss.pair_probability(d), BLUE),
            chart.curve(d, loss.tie_probability(d), ORANGE),
            chart.curve(d, loss.pair_probability(-d), "currentColor", dashed=True),
        ]
    drawn += [text(290, 86, "better", "end", 12, BLUE), text(52, 86, "worse", "start", 12)]
    drawn.append(text(170, 108, "tied", "middle", 12, ORANGE))
    return Picture(
        drawn,
        226,
        "Chances that a document is better, tied or worse, over the difference of scores.",
        "The chance that one document is better than another (blue), tied with it (orange), or worse (dashed).",
    )


def listwise() -> Picture:
    """Luce's stages: shares of the documents that are left."""
    scores, names, drawn = np.array([1.5, 0.8, 0.2, -0.6]), "abcd", []
    for stage in range(3):
        left = 20 + 214 * stage
        shares = np.exp(scores[stage:]) / np.exp(scores[stage:]).sum()
        drawn.append(text(left, 18, f"place {stage + 1}: {names[stage]}, chance {shares[0]:.2f}"))
        for place, share in enumerate(shares):
            colour = ORANGE if place == 0 else "currentColor"
            x = left + 42 * (stage + place)
            drawn += [box(x, 130 - 100 * share, 28, 100 * share, colour, colour)]
            drawn.append(text(x + 14, 147, names[stage + place], "middle"))
    return Picture(
        drawn,
        156,
        "Three stages of a Plackett-Luce model: the shares of the documents left.",
        "One total order, a above b above c above d: each place is a choice among what is left, with shares "
        "proportional to exp(score).",
    )


def topk() -> Picture:
    """Chances to be among the first k."""
    scores = -0.5 * np.arange(8)
    chart = Chart(40, 30, 430, 150, (0.5, 8.5), (0, 1))
    drawn = chart.axes(range(1, 9), [0, 0.5, 1], "document, by falling score", "P(among the first k)")
    for k, colour, dashed in ((1, BLUE, False), (3, ORANGE, False), (5, "currentColor", True)):
        chances = topk_probability(luce.losses.get("topk_listmle"), scores, k)
        drawn.append(chart.curve(range(1, 9), chances, colour, dashed))
        y = 50 + 13 * k
        drawn += [path([(500, y), (526, y)], colour, 2, dashed), text(534, y + 4, f"k = {k}", "start", 12)]
    return Picture(
        drawn,
        222,
        "Chances of eight documents to be among the first one, three and five.",
        "Eight documents with scores 0, -0.5, -1, ...: the chance to be among the first k under Luce's model.",
    )


def hom() -> Picture:
    """Who is compared with whom when the top is parted from the rest."""
    drawn: list[str] = []
    rows = (62, 98, 134)
    for left, name in ((10, "hom-gg: group to group"), (228, "hom-oo: one to one"), (446, "hom-og: one to group")):
        drawn.append(text(left + 88, 18, name, "middle"))
        for number in range(2):
            drawn += disc(left + 30, rows[number] + 18, f"t{number + 1}", ORANGE, True)
        for number in range(3):
            drawn += disc(left + 150, rows[number], f"f{number + 1}")
        if "gg" in name:
            drawn += [box(left + 8, 56, 44, 84, ORANGE), *arrow((left + 52, 98), (left + 126, 98))]
        for number in range(2):
            start = (left + 46, rows[number] + 18)
            if "oo" in name:
                drawn += [item for row in rows for item in arrow(start, (left + 135, row))]
            if "og" in name:
                drawn += arrow(start, (left + 126, 88 + 20 * number))
        if "oo" not in name:
            drawn.append(box(left + 128, 40, 44, 116))
    return Picture(
        drawn,
        172,
        "Comparisons between the top list and the rest in three models.",
        "The list T (filled) against the rest F; an arrow is a comparison that is multiplied in. The order inside T "
        "follows Luce's stages, without F.",
    )


def structrank() -> Picture:
    """Contours of the bivariate sigmoid and of the product of its marginals."""
    chart = Chart(60, 20, 250, 220, (-3, 5), (-3, 5))
    drawn = chart.axes([-2, 0, 2, 4], [-2, 0, 2, 4], "first preference, r = f(i) - f(j)")
    drawn.append(text(66, 14, "second preference", "start", 12))
    share = 1 / (1 + np.exp(-np.linspace(-7, 7, 60)))
    for level in (0.2, 0.5, 0.8):
        joint = [(1 / level - 1) * part for part in (share, 1 - share)]
        product = [(1 / level) ** part - 1 for part in (share, 1 - share)]
        for rest, colour, dashed in ((joint, ORANGE, False), (product, BLUE, True)):
            x, y = -np.log(rest)
            inside = (x <= 5) & (y <= 5)
            drawn.append(chart.curve(x[inside], y[inside], colour, dashed))
        drawn.append(text(chart.at(5.1, 0)[0], chart.at(0, -np.log(1 / level - 1))[1] + 4, f"{level}", "start", 12))
    drawn += [line((370, 80), (400, 80), ORANGE, 2), text(410, 84, "one function of both,")]
    drawn += [text(410, 101, "1 / (1 + exp(-r) + exp(-r'))")]
    drawn += [path([(370, 140), (400, 140)], BLUE, 2, True), text(410, 144, "two logistic functions,")]
    drawn.append(text(410, 161, "each preference by itself"))
    return Picture(
        drawn,
        284,
        "Contours of the joint probability of two preferences.",
        "Chance of two preferences at once, contours at .2, .5 and .8: preferences that hang together are jointly "
        "more probable than if each stood alone.",
    )


def rerank() -> Picture:
    """Near-duplicates under three rankings."""
    drawn: list[str] = []
    lists = (
        ("base ranker", "A A A A B B C"),
        ("listwise: one score per document", "B B A A A A C"),
        ("greedy: one place after the other", "A B C A B A A"),
    )
    for row, (name, order) in enumerate(lists):
        y = 26 + 48 * row
        drawn.append(text(0, y + 5, name))
        for place, story in enumerate(order.split()):
            colour = {"A": ORANGE, "B": BLUE, "C": "currentColor"}[story]
            drawn += disc(290 + 48 * place, y, story, colour, True)
    return Picture(
        drawn,
        148,
        "Seven documents that tell three stories, in three orders.",
        "Seven documents that tell three stories, best first (a sketch). Copies have equal scores under any "
        "exchangeable function, so it moves them together; placing them one by one can bring in another story first.",
    )


def consistent() -> Picture:
    """Learning curves of boosting."""
    from luce.data.simulate import simulate

    data = simulate(queries=300, features=60, seed=1)
    train, valid = data.take(range(200)), data.take(range(200, 300))
    model = luce.Ranker("ndcg_cross_entropy", "single_feature", max_iter=60, early_stopping=None)
    history = model.fit(train, valid=valid).history_
    best, values = history["best_iteration"], np.array(history["validation"][1:])
    drawn: list[str] = []
    for left, name, curve, colour in (
        (56, "training loss", np.array(history["objective"]), BLUE),
        (376, "validation NDCG@10", values, ORANGE),
    ):
        low, high = np.floor(50 * curve.min()) / 50, np.ceil(50 * curve.max()) / 50
        chart = Chart(left, 30, 250, 150, (0, 60), (low, high))
        drawn += chart.axes([0, 20, 40, 60], [low, high], "round", name)
        drawn.append(chart.curve(np.arange(len(curve)) + (curve is values), curve, colour))
    x, y = chart.at(best, values[best - 1])
    drawn += [*arrow((x, y + 48), (x, y + 6)), text(x, y + 63, f"kept: {best} rounds", "middle", 12)]
    return Picture(
        drawn,
        222,
        "Training loss and validation NDCG over the rounds of boosting.",
        "Boosting of single features on simulated data: the loss falls in every round, and the rounds up to the best "
        "validation value are kept.",
    )


def _one_feature() -> tuple[luce.Groups, luce.Groups]:
    """Grades that rise and fall with one feature, and a grid of it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (3000, 1))
    quality = np.sin(x[:, 0]) + 0.15 * x[:, 0] + 0.4 * rng.normal(size=3000)
    grades = np.digitize(quality, np.quantile(quality, [0.5, 0.75, 0.9]))
    grid = luce.from_arrays(np.linspace(0.02, 9.98, 250)[:, None], qid=np.zeros(250))
    return luce.from_arrays(x, grades, qid=np.arange(3000) // 30), grid


def _shapes(curves: list[tuple[str, np.ndarray, str, bool]]) -> list[str]:
    chart = Chart(30, 26, 420, 160, (0, 10), (-2.2, 2.6))
    drawn = chart.axes([0, 2, 4, 6, 8, 10], [], "feature", "score, standardised")
    for row, (name, scores, colour, dashed) in enumerate(curves):
        scaled = (scores - scores.mean()) / scores.std()
        drawn.append(chart.curve(np.linspace(0.02, 9.98, 250), scaled, colour, dashed))
        drawn.append(path([(470, 60 + 26 * row), (496, 60 + 26 * row)], colour, 2, dashed))
        drawn.append(text(504, 64 + 26 * row, name, "start", 12))
    return drawn


def trees() -> Picture:
    """The score as a function of one feature as trees are added."""
    data, grid = _one_feature()
    curves = []
    for count, colour, dashed in ((1, "currentColor", True), (8, BLUE, False), (100, ORANGE, False)):
        model = luce.Ranker("pmop", "trees", max_iter=count).fit(data)
        curves.append((f"{count} tree{'s' if count > 1 else ''}", model.predict(grid), colour, dashed))
    return Picture(
        _shapes(curves),
        226,
        "Score over one feature after 1, 8 and 100 trees.",
        "Simulated grades that rise and fall with one feature: what the scores become as trees are added.",
    )


def base_rankers() -> Picture:
    """The shapes that base rankers can learn."""
    data, grid = _one_feature()
    curves = []
    for name, colour, dashed in (
        ("linear_regression", "currentColor", True),
        ("rankboost", BLUE, False),
        ("random_forest", ORANGE, False),
    ):
        settings = {"random_forest": {"min_samples_leaf": 20}}.get(name)
        model = luce.model(name, random_state=0, max_iter=60, **inner("scorer", settings)).fit(data)
        curves.append((name, model.predict(grid), colour, dashed))
    return Picture(
        _shapes(curves),
        226,
        "Score over one feature by three base rankers.",
        "The same simulated data for three of them: a straight line, a sum of steps, and the mean of many trees.",
    )


def aggregation() -> Picture:
    """The majority graph of the ballots on the page."""
    from luce.aggregate import Ballots, consensus

    votes = Ballots.from_orders(
        [["tea", "coffee", "cocoa"], ["coffee", "cocoa", "tea"], ["cocoa", "tea", "coffee"]], weights=[5, 4, 3]
    )
    answer = consensus(votes, rule="kemeny")
    places = {"tea": (60, 60), "coffee": (250, 60), "cocoa": (155, 170)}
    wins = {("tea", "coffee"): 8, ("coffee", "cocoa"): 9, ("cocoa", "tea"): 7}
    drawn: list[str] = []
    for (a, b), count in wins.items():
        (x0, y0), (x1, y1) = places[a], places[b]
        length = np.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        drawn += arrow((x0 + 34 * ux, y0 + 34 * uy), (x1 - 36 * ux, y1 - 36 * uy))
        drawn.append(
            text((x0 + x1) / 2 + 16 * uy, (y0 + y1) / 2 - 16 * ux + 4, f"{count} : {12 - count}", "middle", 12)
        )
    for name, (x, y) in places.items():
        drawn.append(box(x - 32, y - 17, 64, 34, BLUE, BLUE))
        drawn.append(text(x, y + 5, name, "middle"))
    drawn.append(text(360, 60, "Kemeny: " + " &gt; ".join(name for [name] in answer.tiers)))
    drawn.append(text(360, 82, f"distance to the ballots: {answer.objective:g}"))
    drawn.append(text(360, 104, "proven optimal" if answer.optimal else "not proven optimal"))
    return Picture(
        drawn,
        204,
        "A majority graph with a cycle, and the ranking that Kemeny's rule finds.",
        "Majorities of twelve ballots that run in a circle: Kemeny's rule gives up the weakest of them.",
    )


def leaderboard() -> Picture:
    """Strengths with intervals of simulated battles."""
    battles = luce.aggregate.simulate_battles(400, 6, model="davidson", random_state=0)
    board = luce.aggregate.leaderboard(battles.table, model="davidson")
    table = board.table.to_pydict()
    chart = Chart(110, 14, 440, 190, (-1.25, 1.25), (0, 6))
    drawn = chart.axes([-1, -0.5, 0, 0.5, 1], [], "strength")
    for row, (name, strength, lower, upper) in enumerate(
        zip(table["name"], table["strength"], table["lower"], table["upper"], strict=True)
    ):
        y = 5.5 - row
        drawn.append(line(chart.at(lower, y), chart.at(upper, y), BLUE, 3))
        x, height = chart.at(strength, y)
        drawn.append(f'<circle cx="{x:.1f}" cy="{height:.1f}" r="5" fill="{ORANGE}"/>')
        ranks = table["rank_lower"][row], table["rank_upper"][row]
        drawn.append(text(98, height + 4, f"{name}", "end", 12))
        drawn.append(text(562, height + 4, f"rank {ranks[0]} to {ranks[1]}", "start", 12))
    return Picture(
        drawn,
        246,
        "Strengths of six players with intervals.",
        "Six simulated players after 400 battles: strengths with 95% intervals, and the ranks left open.",
    )


def tracking() -> Picture:
    """A simulated spiral, its sources, and the path that was found."""
    from luce.track import follow, simulate

    world = simulate("spiral", steps=60, clutter_rate=2.0, random_state=0)
    track = follow(world.signals, world.sources, start=world.start, dynamics=0.06, particles=1000, **world.settings)
    chart = Chart(40, 14, 260, 260, (0, 1), (0, 1))
    drawn = chart.axes([0, 0.5, 1], [0.5, 1])
    for x, y in world.sources.positions:
        left, top = chart.at(x, y)
        drawn.append(f'<path d="M{left:.1f} {top - 6:.1f}l6 11h-12z" fill="{BLUE}"/>')
    drawn.append(chart.curve(*world.truth.T, "currentColor", dashed=True))
    drawn.append(chart.curve(*track.positions.T, ORANGE))
    drawn += [f'<path d="M360 84l6 11h-12z" fill="{BLUE}"/>', text(380, 95, "sources, at known places")]
    drawn += [path([(348, 120), (372, 120)], "currentColor", 2, True), text(380, 124, "true path")]
    drawn += [path([(348, 150), (372, 150)], ORANGE), text(380, 154, "path found from arrival times")]
    return Picture(
        drawn,
        306,
        "A spiral path, ten sources, and the path that luce found.",
        "Of each step only the four earliest arrival times are kept, not who sent them, and some are clutter.",
    )


PICTURES: dict[str, Callable[[], Picture]] = {
    "pmop": pmop,
    "pairwise": pairwise,
    "listwise": listwise,
    "topk": topk,
    "hom": hom,
    "structrank": structrank,
    "rerank": rerank,
    "ndcg": consistent,
    "trees": trees,
    "base_rankers": base_rankers,
    "aggregation": aggregation,
    "leaderboard": leaderboard,
    "tracking": tracking,
}


def figure(picture: Picture) -> str:
    """The picture as it stands in a page."""
    elements, height, shows, caption = picture
    opening = f'<figure>\n<svg viewBox="0 0 640 {height}" role="img" aria-label="{shows}">\n'
    return opening + "\n".join(elements) + f"\n</svg>\n<figcaption>{caption}</figcaption>\n</figure>"


def main() -> None:
    """Redraw the pictures named, or all."""
    for name in sys.argv[1:] or PICTURES:
        (FOLDER / f"{name}.html").write_text(figure(PICTURES[name]()) + "\n")


if __name__ == "__main__":
    main()
