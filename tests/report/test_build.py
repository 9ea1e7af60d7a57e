"""What goes into a report: numbers as the run has them, within limits, and nothing that could break out."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import shutil
import zlib
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest

import luce
from luce.errors import DataError, OutputError
from luce.experiments.run_folder import read_run
from luce.metrics.calibration import reliability
from luce.report import build_report, explain, panels, write_report
from luce.report import pool as blobs_module
from luce.report.build import SCRIPTS, STYLES
from luce.report.panels import FAMILIES, cutoff_curves, learning_curves
from luce.report.pool import Blobs, ReportedRun, judged_features, pack
from tests.report.conftest import HOSTILE


class Reader(html.parser.HTMLParser):
    """Collects the scripts and the policy of a page as a browser's parser sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tags: list[str] = []
        self.policy = ""
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag == "script"
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.policy = dict(attrs)["content"] or ""

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)


def unpack(facts, texts, reference):
    raw = zlib.decompress(base64.b64decode(texts[reference["bundle"]]))
    if reference["layout"] == "texts":
        return json.loads(raw)
    arrays, first = {}, 0
    for key, code, shape in reference["layout"]:
        dtype = np.dtype(f"<{code}")
        count = int(np.prod(shape))
        planes = np.frombuffer(raw, np.uint8, count * dtype.itemsize, first).reshape(dtype.itemsize, count)
        arrays[key] = np.ascontiguousarray(planes.T).view(dtype).reshape(shape)
        first += count * dtype.itemsize
    assert first == len(raw)
    return arrays


@pytest.fixture(scope="module")
def page(example):
    return Reader(example.built.html)


@pytest.fixture(scope="module")
def facts(page):
    return json.loads(next(text for attributes, text in page.scripts if attributes.get("id") == "facts"))


@pytest.fixture(scope="module")
def texts(page):
    found = {a["id"].removeprefix("bundle-"): text for a, text in page.scripts if a.get("type") == "text/plain"}
    assert found
    return found


@pytest.fixture(scope="module")
def source(example):
    return ReportedRun(read_run(example.folder))


def test_only_the_report_s_own_script_can_run(page):
    """Hostile names end no element: there is one executable script, and the policy names its hash and no address."""
    executable = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(executable) == 1
    digest = base64.b64encode(hashlib.sha256(executable[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe" not in page.policy
    assert not {"img", "iframe", "object"} & set(page.tags)
    assert page.tags.count("link") == 1


def test_scripts_make_text_nodes_only_and_know_no_address():
    folder = files("luce.report").joinpath("assets")
    assets = {asset.name: asset.read_text() for asset in folder.iterdir()}
    assert set(assets) == {"board.html", "board.css", "board.js", "page.html", *SCRIPTS, *STYLES}
    for name, text in assets.items():
        assert not re.search(r"(inner|outer)HTML|insertAdjacent|document\.write|eval\(|Function\(|import\(", text), name
        addresses = re.findall(r"https?://[^\s\"']+", text)
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"fetch\(|XMLHttpRequest|@import|url\(", text), name


def test_report_is_the_same_for_the_same_run(example):
    assert build_report(example.folder).html == example.built.html


def test_bundles_hold_what_was_packed():
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.integers(0, 2**16, (3, 5)).astype(np.uint16),
        "b": rng.normal(size=7),
        "c": np.array([np.nan, -np.inf, 1e-40], dtype=np.float32),
        "none": np.empty((0, 4), dtype=np.int32),
    }
    blobs = Blobs()
    found = unpack({}, blobs.texts, blobs.add("x", arrays))
    for key, array in arrays.items():
        np.testing.assert_array_equal(found[key], array)
    assert unpack({}, blobs.texts, blobs.add_texts("names", [HOSTILE, "ü\u2028"])) == [HOSTILE, "ü\u2028"]
    with pytest.raises(ValueError, match="already"):
        blobs.add("x", arrays)
    with pytest.raises(KeyError):
        pack({"text": np.array(["a"])})


def test_values_and_rankings_are_those_of_the_run(example, facts, texts):
    run = read_run(example.folder)
    names = unpack(facts, texts, facts["queries"]["names"])
    values = unpack(facts, texts, facts["queries"]["data"])
    ranked = unpack(facts, texts, facts["rankings"]["data"])
    documents = unpack(facts, texts, facts["rankings"]["documents"])
    rows, scores = run.rows.to_pandas(), run.scores.to_pandas()
    grades = np.array(facts["rankings"]["grades"])
    assert sorted(names) == sorted(scores["query"].unique())
    for q in range(0, len(names), 7):
        here = rows[rows["query"] == names[q]]
        first, last = ranked["starts"][q], ranked["starts"][q + 1]
        for m, model in enumerate(run.models):
            expected = here[here.model == model].set_index("metric").value[run.metrics]
            np.testing.assert_allclose(values["values"][m, :, q], expected, rtol=1e-6)
            table = scores[(scores.model == model) & (scores["query"] == names[q])]
            table = table.sort_values("score", ascending=False, kind="stable").reset_index(drop=True)
            order = first + np.argsort(ranked["rank"][m, first:last])
            shown = min(len(table), facts["rankings"]["depth"])
            assert [documents[i] for i in order[:shown]] == table.document[:shown].tolist()
            assert grades[ranked["grade"][order[:shown]]].tolist() == table.grade[:shown].tolist()
            fold = values["fold"][q]
            quantised = ranked["low"][m, fold] + ranked["step"][m, fold] * ranked["score"][m, order[:shown]]
            np.testing.assert_allclose(quantised, table.score[:shown], atol=ranked["step"][m, fold] * 0.51)


def test_cutoffs_are_the_metrics_themselves(source):
    pool = source.pool
    curves = cutoff_curves(pool, {"preset": "letor4"})
    for family in FAMILIES:
        for k in (1, 5, 20):
            name, means, values = f"{family}@{k}", [], []
            rmax = {"rmax": float(pool.grades.max())} if family == "err" else {}
            for f in range(len(pool.folds)):
                rows = pool.fold_rows(f)
                sizes = np.diff(pool.offsets)[pool.fold == f]
                data = luce.from_arrays(np.zeros((sizes.sum(), 1)), pool.grades[rows], group=sizes)
                found = luce.evaluate(pool.scores[2, rows], data, [name], preset="letor4", **rmax)
                means.append(found.means[name])
                values.append(found.values[name])
            assert curves["families"][family]["mean"][2][k - 1] == pytest.approx(np.mean(means), abs=1e-5)
            each = np.concatenate(values)
            half = 1.96 * np.std(each, ddof=1) / np.sqrt(len(each))
            assert curves["families"][family]["half"][2][k - 1] == pytest.approx(half, abs=1e-5)


def test_folds_count_alike_whatever_their_size_and_skipped_queries_do_not():
    pool = SimpleNamespace(folds=["a", "b"], fold=np.array([0, 0, 0, 0, 1, 1]))
    mean, half = panels._summary(np.array([[1.0, 2.0, 3.0, np.nan, 10.0, np.nan]]), pool)
    assert mean.tolist() == [(2.0 + 10.0) / 2]
    assert half == pytest.approx(1.96 * np.std([1, 2, 3, 10], ddof=1) / 2)


def test_calibration_is_the_reliability_of_the_model_s_chances(source, monkeypatch):
    monkeypatch.setattr(panels, "MOST_QUERIES", 10_000)
    pool, model = source.pool, source.pool.models.index("trees")
    found = panels.calibration(pool, model, source.rankers[model], seed=0)
    ties, tied, weight = [], [], []
    likely, better = [], []
    for q in range(pool.n_queries):
        rows = slice(pool.offsets[q], pool.offsets[q + 1])
        scores, grades = pool.scores[model, rows], pool.grades[rows]
        i, j = np.triu_indices(len(scores), 1)
        loss = source.rankers[model][int(pool.fold[q])].loss_
        ties.append(loss.tie_probability(scores[i] - scores[j]))
        tied.append(grades[i] == grades[j])
        # Where they differ: the chance of the higher score, and whether it has the higher grade.
        high, low = np.where(scores[i] >= scores[j], (i, j), (j, i))
        likely.append(loss.pair_probability(scores[high] - scores[low]))
        likely[-1] = likely[-1] / (likely[-1] + loss.pair_probability(scores[low] - scores[high]))
        better.append(np.sign(grades[high] - grades[low]))
        weight.append(np.full(len(i), 1 / max(len(i), 1)))
    expected = reliability(*map(np.concatenate, (ties, tied)), weight=np.concatenate(weight))
    assert found["tie"]["error"] == pytest.approx(expected.error, abs=1e-5)
    np.testing.assert_allclose(found["tie"]["predicted"], expected.predicted[expected.counts > 0], atol=1e-4)
    assert found["draws"] == 0
    chance, tie, mass = np.concatenate(ties), np.concatenate(tied), np.concatenate(weight)
    for histogram, of in zip(found["histogram"], (tie, ~tie), strict=True):
        expected, _ = np.histogram(chance[of], 20, (0, 1), weights=mass[of])
        np.testing.assert_allclose(histogram, expected / mass[of].sum(), atol=1e-5)
    # Which of two documents is first is drawn; a curve of both ways is that of one way and its mirror image.
    p, sign = np.concatenate(likely)[~tie], np.concatenate(better)[~tie]
    both = reliability(np.append(p, 1 - p), np.append(sign > 0, sign < 0), weight=np.tile(mass[~tie], 2))
    share, observed = np.array(found["better"]["share"]), np.array(found["better"]["observed"])
    assert len(observed) == panels.BINS == (both.counts > 0).sum()
    mirrored = (share * observed + (share * (1 - observed))[::-1]) / (share + share[::-1])
    outer = np.delete(np.arange(10), (4, 5))  # equal scores give 1/2, the edge of the bins in the middle
    np.testing.assert_allclose(mirrored[outer], both.observed[outer], atol=5e-4)
    np.testing.assert_allclose(mirrored, both.observed, atol=5e-3)


@pytest.mark.parametrize("name", ["linear pmop", "trees", HOSTILE])
def test_the_higher_score_has_the_greater_chance(source, name):
    """A model of partitions, one of pairs and one of orders; each pair both ways round."""
    ranker = source.rankers[source.pool.models.index(name)][0]
    first, second, rng = np.array([0, 1]), np.array([1, 0]), np.random.default_rng(0)
    chances = panels.pair_probabilities(ranker.trained_loss, np.array([2.0, 0.0]), rng, panels.DRAWS, ranker.sizes_)
    tie, before, after = chances.tie[first, second], chances.before[first, second], chances.before[second, first]
    assert before[0] > 0.5 > before[1]
    np.testing.assert_allclose(before, after[::-1], rtol=1e-12)
    np.testing.assert_allclose(tie + before + after, 1.0)


def test_shares_are_those_of_the_bins_of_the_curve():
    """Chances by draws are fractions such as 3/10, which lie on an edge or a rounding beside it."""
    chances = np.repeat(np.arange(0, 401) / 400, 2)
    found = panels._curve(chances, np.arange(len(chances)) % 2, np.ones(len(chances)))
    curve = reliability(chances, np.arange(len(chances)) % 2)
    np.testing.assert_allclose(found["share"], curve.counts / len(chances), atol=1e-4)
    few = panels._curve(np.array([0.3, 0.6, 0.7]), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]))
    assert few["share"] == [0.25, 0.5, 0.25]


def test_which_models_have_probabilities(facts):
    found = dict(zip(facts["models"], (facts["calibration"][str(m)] for m in range(len(facts["models"]))), strict=True))
    assert "criterion of its own" in found["steps"]["why_not"]
    assert "places in a ranking" in found["cosets"]["why_not"]
    assert found["linear pmop"]["draws"] > 0
    assert "tie" in found["linear pmop"]
    assert "tie" not in found[HOSTILE]
    assert "better" in found[HOSTILE]


def test_importance_is_the_mean_over_folds(source, facts):
    model = source.pool.models.index("linear pmop")
    found = facts["importance"][str(model)]
    weights = np.array([source.rankers[model][f].scorer_.importance() for f in range(3)])
    order = np.argsort(-np.abs(weights).sum(axis=0))
    features = np.array(source.rankers[model][0].feature_names_)
    assert found["names"][:3] == features[order[:3]].tolist()
    np.testing.assert_allclose(found["values"][0], weights[:, order[0]], rtol=1e-4)


def test_learning_curves_keep_ends_and_extremes(source):
    table = source.run.curves
    values = np.sin(np.arange(1000) / 37)
    table = table.slice(0, 0).from_pydict(
        {name: [text] * 1000 for name, text in (("model", "m"), ("fold", "f"), ("part", "valid"), ("measure", "x"))}
        | {"round": np.arange(1000), "value": values}
    )
    (curve,) = learning_curves(table, ["m"], ["f"])
    assert len(curve["round"]) <= 202
    assert {0, 999, int(np.argmax(values)), int(np.argmin(values))} <= set(curve["round"])
    assert learning_curves(table, ["other"], ["f"]) == []


def test_little_room_keeps_the_queries_where_models_differ(source):
    pool = source.pool
    every = panels.shown_documents(pool, (50, 5), np.inf)
    assert (every.depth, len(every.queries)) == (50, pool.n_queries)
    few = panels.shown_documents(pool, (50, 5), 100)
    assert few.depth == 5
    assert len(few.rows) <= 100
    spread = panels.spread(pool)
    assert 0 < len(few.queries) < pool.n_queries
    assert spread[few.queries].min() >= np.quantile(spread, 0.5)
    best = pool.ranks.min(axis=0)
    assert (best[few.rows] <= 5).all()


def test_little_room_for_models_and_features(example, source, monkeypatch):
    monkeypatch.setattr(explain, "MOST_MODEL_BYTES", 2_000)
    monkeypatch.setattr(blobs_module, "MOST_BYTES", 6_000)
    blobs = Blobs()
    parts, left_out = explain.pack_models(source.rankers, blobs)
    assert "too large" in left_out[source.pool.models.index("trees")]
    assert f"{source.pool.models.index('linear pmop')}/0" in parts
    X, names = judged_features(source, None)
    found = explain.pack_features(source.pool, X, names, blobs)
    assert found["depth"] == 3
    assert found["queries"] < source.pool.n_queries
    assert blobs.room >= -0.05 * 6_000


def test_embedded_features_are_exact(example, source, facts, texts):
    features = unpack(facts, texts, facts["why"]["features"]["data"])
    data = luce.read(example.data)
    names = unpack(facts, texts, facts["queries"]["names"])
    q = 5
    query = np.flatnonzero(data.query_ids.astype(str) == names[q])[0]
    first, last = features["starts"][q], features["starts"][q + 1]
    rows = data.offsets[query] + features["place"][first:last]
    np.testing.assert_array_equal(features["x"][:, first:last].T, data.X[rows])


def test_thresholds_keep_their_side():
    """A float32 is at most a float64 threshold exactly where it is at most the float32 that stands for it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=4000).astype(np.float32)
    near = np.nextafter(x, np.float32(np.inf)).astype(np.float64)
    for threshold in (x.astype(np.float64), (x + near) / 2, near, x - 1e-12):
        rounded = explain.at_most(threshold)
        np.testing.assert_array_equal(x <= threshold, x <= rounded)


def test_without_data_or_models(example, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(example.folder, folder)
    record = json.loads((folder / "results.json").read_text())
    record["settings"]["data"] = str(tmp_path / "gone.parquet")
    (folder / "results.json").write_text(json.dumps(record))
    built = build_report(folder)
    assert any("cannot be read again" in remark and "gone.parquet" in remark for remark in built.remarks)
    assert '"why":null' in built.html
    assert build_report(folder, data=example.data).remarks == []
    with pytest.raises(DataError, match="nowhere"):
        build_report(folder, data=tmp_path / "nowhere")
    shutil.rmtree(folder / "models")
    built = build_report(folder)
    assert any("18 chosen models" in remark for remark in built.remarks)


def test_other_data_than_those_of_the_run(example, gappy, tmp_path):
    with pytest.raises(DataError, match="give the data of the run"):
        build_report(gappy.folder, data=example.data)


def test_letor_folders(tmp_path):
    """Folds with files of their own: only the test parts are read again."""
    from luce.data.simulate import simulate
    from luce.experiments import Candidate, compare, find_folds
    from luce.experiments.run_folder import write_run

    data = simulate(queries=40, features=6, seed=1)
    for part, queries in (("train", range(20)), ("vali", range(20, 30)), ("test", range(30, 40))):
        luce.write_letor(data.take(list(queries)), tmp_path / f"{part}.txt")
    notes = {"data": str(tmp_path), "reading": {}}
    write_run(compare(find_folds(tmp_path), [Candidate("ranknet", {"l2": [0.1]})], notes=notes), tmp_path / "run")
    (tmp_path / "train.txt").write_text("damaged")
    built = build_report(tmp_path / "run", title="A <title>")
    assert built.remarks == []
    assert "<title>A &lt;title&gt;</title>" in built.html


def test_mistakes(example, tmp_path):
    with pytest.raises(DataError, match="luce compare"):
        build_report(tmp_path)
    with pytest.raises(OutputError, match="does not exist"):
        write_report(example.folder, tmp_path / "no" / "report.html")
