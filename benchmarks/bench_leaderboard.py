"""Leaderboards: a million battles of 100 players, bootstrap, covariates, categories, races, score boards, the page."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from harness import Line, best_cpu, best_of, duel

from luce.aggregate import leaderboard, score_board, simulate_battles
from luce.aggregate.board.battles import find_columns, read_battles
from luce.aggregate.board.fitting_problem import paired_problem
from luce.aggregate.board.likelihood import get_model
from luce.aggregate.board.options import Columns, Inference, Treatment
from luce.aggregate.board.solve import estimate
from luce.aggregate.scores.methods import plackett_luce
from luce.aggregate.scores.table import ScoreColumns, races_of, read_scores
from luce.data.table import Table
from luce.numerics.threads import one_blas_thread
from luce.report.board_pages import write_board_page

BATTLES, PLAYERS = 1_000_000, 100


def run() -> list[Line]:
    battles = simulate_battles(BATTLES, PLAYERS, tie=1.0, random_state=0)
    frame = battles.table.to_pandas()
    lines = [*_from_names(frame), _solver(frame), *_bootstrap(frame), *_covariates(frame), *_plackett_luce()]
    return [*lines, *_categories(frame), *_scores(), _page()]


def _versus(
    what: str, ours: Callable[[], object], peer: str, theirs: Callable[[], object] | None, factor: float = 1.0
) -> list[Line]:
    """Both warm, and as often."""
    if theirs is None:
        print(f"  ({peer} is not installed; left out)")
        return []
    own, other = duel(ours, theirs)
    goal = "faster" if factor == 1 else f"at least {factor:g} times faster"
    return [Line(what, own, "s", peer, other, goal, other / own >= factor)]


def _from_names(frame: pd.DataFrame) -> list[Line]:
    def ours() -> object:
        return leaderboard(frame, model="davidson")

    what = "a million battles, names to strengths with intervals"
    lines = _versus(what, ours, "FastChat's recipe, without intervals", lambda: logistic_recipe(frame))
    return lines + _versus(what, ours, "evalica, without intervals", _evalica(frame))


def logistic_recipe(frame: pd.DataFrame) -> pd.Series:
    """FastChat's recipe: pivot tables of wins, a draw as half a win each, and weighted logistic regression.

    Every pair is two rows of the design, one won and one lost, with the wins either way as weights.
    """
    from sklearn.linear_model import LogisticRegression

    players = pd.Index(sorted(set(frame["a"].unique()) | set(frame["b"].unique())))
    wins = np.zeros((len(players), len(players)))
    for outcome, share in (("a", (1.0, 0.0)), ("b", (0.0, 1.0)), ("tie", (0.5, 0.5))):
        rows = frame[frame["outcome"] == outcome]
        table = pd.pivot_table(rows, index="a", columns="b", aggfunc="size", fill_value=0)
        counts = table.reindex(index=players, columns=players, fill_value=0).to_numpy()
        wins += share[0] * counts + share[1] * counts.T
    first, second = np.nonzero(wins + wins.T)
    keep = first < second
    first, second = first[keep], second[keep]
    design = np.zeros((len(first), len(players)))
    rows_of = np.arange(len(first))
    design[rows_of, first], design[rows_of, second] = np.log(10), -np.log(10)
    weight = np.concatenate([wins[first, second], wins[second, first]])
    won = np.repeat([1.0, 0.0], len(first))
    model = LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-6)
    model.fit(np.vstack([design, design]), won, sample_weight=weight)
    return pd.Series(400.0 * model.coef_[0] + 1000.0, index=players)


def _evalica(frame: pd.DataFrame) -> Callable[[], object] | None:
    if find_spec("evalica") is None:
        return None
    import evalica

    winners = {"a": evalica.Winner.X, "b": evalica.Winner.Y, "tie": evalica.Winner.Draw}

    def whole() -> object:
        return evalica.bradley_terry(frame["a"], frame["b"], frame["outcome"].map(winners))

    return whole


def _solver(frame: pd.DataFrame) -> Line:
    source = Table.open(frame)
    battles = read_battles(source, find_columns(source, Columns()), Treatment())
    problem = paired_problem(battles, get_model("davidson"))
    with one_blas_thread():
        ours = best_of(lambda: estimate(problem, Inference()), repeats=10)
    return Line("solver and sandwich errors alone, counts given", ours, goal="at most 0.02 s", met=ours <= 0.02)


def _bootstrap(frame: pd.DataFrame) -> list[Line]:
    """A refit, of which ours are a hundred less the board itself, and the peer's one on resampled rows."""
    ours, theirs = duel(
        lambda: leaderboard(frame, model="davidson", bootstrap=100),
        lambda: logistic_recipe(frame.sample(frac=1.0, replace=True, random_state=1)),
    )
    ours = (ours - best_of(lambda: leaderboard(frame, model="davidson"))) / 100
    goal = "at least 20 times faster"
    return [Line("one of 100 bootstrap refits", ours, "s", "FastChat's recipe", theirs, goal, theirs >= 20 * ours)]


def _covariates(frame: pd.DataFrame) -> list[Line]:
    rng = np.random.default_rng(1)
    names = [f"style{i}" for i in range(4)]
    wide = frame.assign(**{name: rng.normal(size=len(frame)) for name in names})
    theirs = None if find_spec("arena_rank") is None else _arena_rank(wide, names)
    return _versus(
        "a million battles with 4 covariates",
        lambda: leaderboard(wide, model="davidson", covariates=names),
        "arena-rank",
        theirs,
        5,
    )


def _arena_rank(frame: pd.DataFrame, names: list[str]) -> Callable[[], object]:
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset

    renamed = frame.rename(columns={"a": "model_a", "b": "model_b", "outcome": "winner"})
    renamed["winner"] = renamed["winner"].map({"a": "model_a", "b": "model_b", "tie": "tie"})

    def fit() -> None:
        data = ContextualPairDataset.from_pandas(renamed, feature_cols=names, reweighted=False)
        model = ContextualBradleyTerry(n_competitors=len(data.competitors), n_features=len(names))
        model.compute_ratings_and_cis(data)

    return fit


def _categories(frame: pd.DataFrame) -> list[Line]:
    """Thirty categories with pooling, beside the plain board of the same battles and beside a peer's thirty fits."""
    kinds = np.array([f"kind{i:02d}" for i in range(30)])[np.random.default_rng(3).integers(0, 30, len(frame))]
    wide = frame.assign(kind=kinds)
    plain = best_cpu(lambda: leaderboard(wide, model="davidson"))
    ours = best_cpu(lambda: leaderboard(wide, model="davidson", by="kind"))
    what = "30 categories of a million battles, pooled, with rank sets"
    lines = [
        Line(
            what, ours, "s", "one plain board", plain, "at most 1.1 s of processor time, five times 0.22 s", ours <= 1.1
        )
    ]
    parts = [_evalica(part) for _, part in wide.groupby("kind")]
    theirs = None if find_spec("evalica") is None else lambda: [fit() for fit in parts if fit is not None]
    peer = "evalica, one fit a category without errors"
    return [*lines, *_versus(what, lambda: leaderboard(wide, model="davidson", by="kind"), peer, theirs)]


def _scores() -> list[Line]:
    """Models x tasks with ties and gaps: strengths, shuffled labels, rank sets; beside refits of 1,000 resamples."""
    rng = np.random.default_rng(4)
    models, tasks = 337, 56
    scores = np.round(2.0 * rng.normal(size=(models, 1)) + 2.0 * rng.gumbel(size=(models, tasks)), 2)
    scores[rng.random(scores.shape) < 0.1] = np.nan
    wide = pd.DataFrame(scores, columns=[f"t{k}" for k in range(tasks)])
    wide.insert(0, "model", [f"m{i}" for i in range(models)])
    ours = best_cpu(lambda: score_board(wide), repeats=2)
    weights = {f"t{k}": w for k, w in enumerate(rng.dirichlet(np.ones(tasks)) * tasks)}
    table = read_scores(Table.open(wide), ScoreColumns(task_weights=weights))
    races = races_of(table, 0.95)
    refit = best_cpu(lambda: plackett_luce(table, races), repeats=1)
    what = "score board of 337 x 56, 499 shuffles of the labels"
    return [Line(what, ours, "s", "1,000 refits", 1000 * refit, "at most 5 s", ours <= 5.0)]


def _page() -> Line:
    """A page of 300 models."""
    board = leaderboard(simulate_battles(200_000, 300, tie=1.0, random_state=5).table)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "board.html"
        ours = best_cpu(lambda: write_board_page(board, path))
        size = path.stat().st_size / 1e6
    return Line(
        f"page of 300 models ({size:.1f} MB)", ours, goal="at most 3 s and 5 MB", met=ours <= 3.0 and size <= 5.0
    )


def _plackett_luce() -> list[Line]:
    rng = np.random.default_rng(2)
    truth = rng.normal(size=10)
    orders = np.argsort(-(truth + rng.gumbel(size=(5000, 10))), axis=1)
    frame = pd.DataFrame(
        {
            "race": np.repeat(np.arange(5000), 10),
            "competitor": np.array([f"c{i}" for i in range(10)])[orders.ravel()],
            "place": np.tile(np.arange(1, 11), 5000),
        }
    )
    lists, theirs = [tuple(map(int, order)) for order in orders], None
    if find_spec("choix") is not None:
        import choix

        def theirs() -> object:
            return choix.ilsr_rankings(10, lists)

    return _versus("Plackett-Luce, 5,000 x 10", lambda: leaderboard(frame, model="plackett_luce"), "choix", theirs, 10)
