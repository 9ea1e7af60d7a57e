"""Examination: derivatives against differences, scores of mean zero, errors by coverage, refusals by reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import luce
from luce.clicks import examination, given_examination, pairs, read
from luce.clicks.choice import Choices, clustered, combined, places_of
from luce.clicks.examination import _together
from luce.clicks.simulation import Users, as_columns, attraction, production, simulate_counts, simulate_sessions
from luce.errors import DataError, SettingError

SHOWN = 5
TRUTH = np.log(1.0 / np.arange(1, SHOWN + 1))


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    rng = np.random.default_rng(0)
    n = 120
    y = rng.integers(0, 3, n * 8)
    X = np.column_stack([y + rng.normal(0, 0.5, len(y)), rng.normal(size=len(y))])
    return luce.from_arrays(X, y, qid=np.repeat(np.arange(n), 8), document_ids=np.arange(len(y)))


def made(data: luce.Groups, swap: float = 0.3, rankers: int = 2):
    rng = np.random.default_rng(9)
    scores = [data.X[:, 0] + rng.normal(0, 2, data.n_rows) for _ in range(rankers)]
    return production(data, scores, shown=SHOWN, swap=swap)


def draw(data: luce.Groups, seed: int, sessions: int = 6000, users: Users | None = None, **options):
    return simulate_counts(data, made(data, **options), np.random.default_rng(seed), sessions=sessions, users=users)


@pytest.mark.parametrize("joint", [False, True])
def test_derivatives(data, joint):
    counts = draw(data, 0).by_position()
    X = data.X[counts.rows_in(data)].astype(float) if joint else None
    choices = Choices(counts, places_of(counts), X)
    vector = np.random.default_rng(0).normal(0, 0.5 if joint else 1.0, SHOWN + 2 * joint)
    found, atol = choices.derivatives(vector), 1e-3 if joint else 1e-4
    for k, e in enumerate(np.eye(len(vector)) * 1e-5):
        up, down = (choices.derivatives(vector + s * e) for s in (1, -1))
        assert (up.value - down.value) / 2e-5 == pytest.approx(found.score[k], rel=1e-5, abs=atol)
        np.testing.assert_allclose((up.score - down.score) / 2e-5, -found.hessian[k], rtol=1e-5, atol=atol)


def test_the_score_has_mean_zero_at_the_truth(data):
    """Also for documents of any attraction: their mean clicks in place of drawn ones give a score of 0."""
    counts = draw(data, 1).by_position()
    gamma = attraction(data.y)[counts.rows_in(data)][counts.document]
    mean = replace(counts, clicked=counts.shown * gamma / counts.position)
    np.testing.assert_allclose(Choices(mean, places_of(mean)).derivatives(TRUTH).score, 0, atol=1e-9)
    np.testing.assert_allclose(np.log(examination(mean).theta), TRUTH, atol=1e-6)


@pytest.mark.parametrize("method", ["conditional", "joint"])
def test_errors_cover(data, method):
    """The z scores of log theta over many logs have standard deviation 1, within the error of 40 draws."""
    z = []
    for seed in range(40):
        found = examination(draw(data, seed), data, method=method)
        assert found.errors == "queries"
        z.append(((np.log(found.theta) - TRUTH) / np.where(found.standard_error > 0, found.standard_error, 1))[1:])
    z = np.array(z)
    assert np.abs(z).mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.15)
    if method == "conditional":  # joint choice leans on the features, which may mislead it
        assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(40)


def test_influence_is_the_derivative_in_the_clicks(data):
    counts = draw(data, 3).by_position()
    for method in ("conditional", "joint"):
        found = examination(counts, data, method=method)
        several = np.bincount(counts.document, minlength=counts.n_documents) > 1
        for cell in np.flatnonzero(several[counts.document] & (counts.clicked > 2))[:3]:
            changes = []
            for step in (1e-3, -1e-3):
                clicked = counts.clicked.copy()
                clicked[cell] += step
                changes.append(np.log(examination(replace(counts, clicked=clicked), data, method=method).theta))
            np.testing.assert_allclose((changes[0] - changes[1]) / 2e-3, found.influence[cell], rtol=2e-3, atol=1e-6)


def test_auto_takes_both_as_far_as_each_is_to_be_believed(data):
    errors = {name: [] for name in ("auto", "conditional", "joint")}
    for seed in range(8):
        counts = draw(data, seed, sessions=1000)
        for method, found in errors.items():
            seen = examination(counts, data, method=method)
            found.append(np.log(seen.theta * seen.position)[1:])
            assert seen.method == ("combined" if method == "auto" else method)
    size = {name: np.sqrt(np.mean(np.square(found))) for name, found in errors.items()}
    assert size["auto"] < size["conditional"]
    assert examination(draw(data, 0, sessions=1000)).method == "conditional"  # without features


def test_the_influence_of_both_is_that_of_their_mean(data):
    counts = draw(data, 0, sessions=5000).by_position()
    parts = [examination(counts, data, method=method) for method in ("conditional", "joint")]
    both = _together(*parts)
    z = [np.log(part.theta) for part in parts]
    gain = combined(both.position, *z, clustered(np.hstack([part.influence for part in parts]), counts))[0]
    cell = int(np.argmax(np.minimum(counts.shown - counts.clicked, counts.clicked)))
    moved = []
    for step in (0.01, -0.01):
        clicked = counts.clicked.copy()
        clicked[cell] += step
        c, j = (
            np.log(examination(replace(counts, clicked=clicked), data, method=method).theta)
            for method in ("conditional", "joint")
        )
        moved.append(c + gain @ (j - c))
    np.testing.assert_allclose((moved[0] - moved[1]) / 0.02, both.influence[cell], rtol=1e-3, atol=1e-7)


def test_without_interventions_only_joint_choice_works(data):
    counts = draw(data, 0, swap=0.0, rankers=1)
    with pytest.raises(DataError, match=r"No document that was clicked was shown at two positions.*joint choice"):
        examination(counts)
    found = examination(counts, data)
    assert found.method == "joint"
    assert "Joint choice was taken" in found.notes[0]
    assert "in no error and no interval" in found.notes[1]
    assert np.abs(np.log(found.theta) - TRUTH).max() < 5 * found.standard_error.max()


def log_of(rows: list[tuple[int, str, int, int]]) -> dict[str, list[object]]:
    names = ("session", "document", "position", "clicked")
    return {"query": ["q"] * len(rows)} | dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def test_refusals_say_why():
    one = log_of([(1, "a", 1, 1), (2, "b", 1, 0)])
    with pytest.raises(DataError, match="shows position 1 only"):
        examination(read(one))
    with pytest.raises(DataError, match="no click"):
        examination(read(log_of([(1, "a", 1, 0), (1, "b", 2, 0)])))
    with pytest.raises(DataError, match="Every row of the log is clicked"):
        examination(read(log_of([(1, "a", 1, 1), (1, "b", 2, 1)])))
    # Shown at both positions, never clicked at the second: theta_2 would be 0.
    never = log_of([(1, "a", 1, 1), (1, "b", 2, 0), (2, "b", 1, 1), (2, "a", 2, 0)])
    with pytest.raises(DataError, match=r"position 2 is not linked.*no document .* was clicked there"):
        examination(read(never))
    first = [(1, "a", 1, 1), (1, "b", 2, 1), (1, "c", 3, 1), (1, "d", 4, 0)]
    apart = log_of([*first, (2, "b", 1, 1), (2, "a", 2, 1), (2, "d", 3, 1), (2, "c", 4, 1)])
    with pytest.raises(DataError, match=r"positions 3, 4 are not linked.*both there and elsewhere"):
        examination(read(apart))
    endless = log_of([(1, f"d{k}", k, k % 2) for k in range(1, 1003)])
    with pytest.raises(DataError, match=r"shows 1,002 positions; .* last_position="):
        examination(read(endless))
    counts = read(never)
    for options, message in (
        ({"method": "em"}, "auto, conditional, joint"),
        ({"users": "robots"}, "position, last_click"),
        ({"method": "joint"}, "give the documents"),
    ):
        with pytest.raises(SettingError, match=message):
            examination(counts, **options)


def test_known_examination():
    counts = read(log_of([(1, "a", 1, 1), (1, "b", 2, 0)]))
    found = given_examination(counts, {1: 0.8, 2: 0.2})
    assert found.theta.tolist() == [1.0, 0.25]
    assert found.exposure.tolist() == [1.0, 0.25]
    with pytest.raises(DataError, match="given as a list; give propensities"):
        given_examination(counts, [0.8, 0.2])
    for bad in ({1: 0.8, 2: 0.0}, {1: 1.2, 2: 0.3}, {1: 0.8, 2: "half"}, {1: 0.8, 2: float("nan")}):
        with pytest.raises(DataError, match="above 0 and at most 1"):
            given_examination(counts, bad)
    with pytest.raises(DataError, match="No propensity is given for position 2"):
        given_examination(counts, {1: 0.8})


def test_last_click_of_users_who_stop(data):
    """Users who click and stop look at what is below their last click the less."""
    found = examination(draw(data, 0, sessions=200_000, users=Users("cascade", after_click=0.3)), users="last_click")
    theta = {(int(k), int(a)): t for k, a, t in zip(found.position, found.after, found.theta, strict=True)}
    assert theta[1, 0] == 1
    assert theta[2, 1] < 0.6 * theta[2, 0]
    plain = examination(draw(data, 0, sessions=200_000), users="last_click")
    # Users who do not care what they clicked: theta depends on the position only.
    z = (np.log(plain.theta) + np.log(plain.position)) / np.where(plain.standard_error > 0, plain.standard_error, 1)
    assert np.abs(z).max() < 4


def test_pairs_are_unbiased_before_clipping(data):
    rng = np.random.default_rng(0)
    log = simulate_sessions(data, made(data, 0.5), rng, sessions=30_000)
    counts = read(as_columns(log, data), pairs=True)
    known = given_examination(counts, {k: 1 / k for k in range(1, SHOWN + 1)})
    found = pairs(known, data)
    gamma = attraction(data.y)
    rows = counts.rows_in(data)
    p = counts.pairs
    # Sessions that showed both, from those in which one was clicked: compare sums over all pairs with their means.
    together = {}
    for s in np.split(log.row, np.flatnonzero(np.diff(log.session)) + 1):
        for i in s:
            for j in s:
                if i < j:
                    together[i, j] = together.get((i, j), 0) + 1
    pair = np.array(list(together))
    number = np.array(list(together.values()))
    tied = (number * gamma[pair[:, 0]] * gamma[pair[:, 1]]).sum()
    drawn = (p.both * p.first_at * p.second_at).sum()
    assert drawn == pytest.approx(tied, rel=0.03)
    wins = (number * (gamma[pair[:, 0]] + gamma[pair[:, 1]] - 2 * gamma[pair[:, 0]] * gamma[pair[:, 1]])).sum()
    assert (p.with_shown * p.clicked_at).sum() - 2 * drawn == pytest.approx(wins, rel=0.03)
    assert (rows >= 0).all()
    better = gamma[found.wins[:, 0]] > gamma[found.wins[:, 1]]
    worse = gamma[found.wins[:, 0]] < gamma[found.wins[:, 1]]
    assert found.win_weight[better].sum() > 3 * found.win_weight[worse].sum()


def test_pairs_need_what_they_need(data):
    counts = draw(data, 0)
    with pytest.raises(DataError, match="lack pairs"):
        pairs(examination(counts), data)
    sessions = simulate_sessions(data, made(data), np.random.default_rng(0), sessions=3000)
    log = read(as_columns(sessions, data), pairs=True)
    with pytest.raises(SettingError, match="examined independently"):
        pairs(examination(log, users="last_click"), data)
    with pytest.raises(SettingError, match="least_theta is 0"):
        pairs(examination(log), data, least_theta=0)


def test_a_picture(data, tmp_path):
    pytest.importorskip("matplotlib")
    found = examination(draw(data, 0))
    found.plot(tmp_path / "theta.svg")
    assert (tmp_path / "theta.svg").read_text().startswith("<?xml")
    with pytest.raises(SettingError, match=r"\.png, \.svg, \.pdf"):
        found.plot(tmp_path / "theta.txt")
