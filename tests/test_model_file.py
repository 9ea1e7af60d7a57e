"""Model files: what comes back, and that no bytes whatever do harm."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError, OutputError
from luce.storage import read_container, write_container


@pytest.fixture(scope="module")
def data():
    return simulate(queries=40, features=6, seed=0)


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.luce"
    luce.Ranker(loss="listmle", loss__ties="random", l2=0.3, query_norm="zscore").fit(data).save(path)
    return path


def test_round_trip(data, tmp_path):
    for model in (
        luce.Ranker(loss="pmop").fit(data, valid=data),
        luce.Ranker(loss="listmle", loss__ties="random", loss__seed=4, query_norm="minmax").fit(data),
        luce.Ranker(loss="ranknet").partial_fit(data),
    ):
        model.save(tmp_path / "m.luce")
        loaded = luce.load(tmp_path / "m.luce")
        np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
        assert repr(loaded.loss_) == repr(model.loss_)
        assert loaded.feature_names_ == model.feature_names_
        assert loaded.l2 == model.l2
        assert getattr(loaded, "history_", {}) == getattr(model, "history_", {})
        loaded.save(tmp_path / "again.luce")
        assert (tmp_path / "again.luce").read_bytes() == (tmp_path / "m.luce").read_bytes()


def test_named_features_are_checked_after_loading(data, tmp_path):
    import pandas as pd

    frame = pd.DataFrame(data.X, columns=list("abcdef"))
    luce.Ranker().fit(frame, data.y, qid=data.qid).save(tmp_path / "m.luce")
    loaded = luce.load(tmp_path / "m.luce")
    np.testing.assert_array_equal(loaded.predict(frame[list("bacdef")]), loaded.predict(frame))
    with pytest.raises(DataError, match="no column 'a'"):
        loaded.predict(frame[list("bcdef")])


def test_is_a_safetensors_file(saved):
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = safetensors.load_file(saved)
    assert arrays["weights"].shape == (6,)


def test_newer_major_version_is_refused(saved, tmp_path):
    raw = saved.read_bytes()
    newer = raw.replace(b'\\"format\\": [1, 0]', b'\\"format\\": [2, 0]')
    assert newer != raw
    (tmp_path / "new.luce").write_bytes(newer)
    with pytest.raises(ModelFormatError, match=r"version 2\.0.*update luce"):
        luce.load(tmp_path / "new.luce")


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, 500, -1, -8, -40])
def test_truncated_file(saved, tmp_path, keep):
    raw = saved.read_bytes()
    (tmp_path / "cut.luce").write_bytes(raw[:keep])
    with pytest.raises(ModelFormatError):
        luce.load(tmp_path / "cut.luce")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_file(saved, tmp_path_factory, data):
    raw = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if bytes(raw) == saved.read_bytes():
        return
    path = tmp_path_factory.mktemp("damaged") / "m.luce"
    path.write_bytes(raw)
    try:
        luce.load(path)
    except ModelFormatError:
        return
    # Only the spelling of the header is left: spaces, the order of keys, names of arrays that nobody reads.
    assert {**read_container(path, "ranker").settings} == {**read_container(saved, "ranker").settings}
    (length,) = struct.unpack("<Q", raw[:8])
    assert raw[8 + length :] == saved.read_bytes()[8 + length :]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("random") / "m.luce"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError):
        luce.load(path)


def rewrite(saved, path, change):
    """The model with its settings or arrays changed, and a right checksum."""
    _, settings_, arrays = read_container(saved, "ranker")
    change(settings_, arrays)
    write_container(path, "ranker", settings_, arrays)


HOSTILE = {
    "settings gone": lambda s, a: s.clear(),
    "unknown loss": lambda s, a: s["loss"].update(name="os.system"),
    "loss not text": lambda s, a: s["loss"].update(name=["pmop"]),
    "loss setting": lambda s, a: s["loss"]["settings"].update(ties="x"),
    "loss setting of no number": lambda s, a: s["loss"].update(name="ndcg_mix", settings={"alpha": ["x"]}),
    "unknown scorer": lambda s, a: s["scorer"].update(name="pickle"),
    "unknown option": lambda s, a: s["ranker"].update(evil=1),
    "option of a wrong type": lambda s, a: s["ranker"].update(l2="a lot"),
    "option without sense": lambda s, a: s["ranker"].update(l2=-1),
    "wrong metric": lambda s, a: s["ranker"].update(metric=7),
    "names repeated": lambda s, a: s.update(feature_names=["a"] * 6),
    "names too few": lambda s, a: s.update(feature_names=["a"]),
    "names not texts": lambda s, a: s.update(feature_names=[1, 2, 3, 4, 5, 6]),
    "weights gone": lambda s, a: a.pop("weights"),
    "weights short": lambda s, a: a.update(weights=a["weights"][:3].copy()),
    "weights not finite": lambda s, a: a["weights"].__setitem__(0, np.nan),
    "weights of a wrong type": lambda s, a: a.update(weights=a["weights"].astype(np.int64)),
    "intercept infinite": lambda s, a: s["scorer"]["settings"].update(intercept=1e999),
    "history is a list": lambda s, a: s.update(history=[]),
    "label not a number": lambda s, a: s.update(max_grade="x"),
    "loss parameters": lambda s, a: a.update({"loss.parameters": np.ones(3)}),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_settings(saved, tmp_path, change):
    rewrite(saved, tmp_path / "m.luce", change)
    with pytest.raises(ModelFormatError):
        luce.load(tmp_path / "m.luce")


def test_hostile_header(tmp_path):
    nested = json.dumps("[" * 100_000).encode()
    for header in (b"[" * 100_000, b'{"__metadata__":{"luce":' + nested + b"}}", b"{}", b"7", b'{"a":{"dtype":"F64"}}'):
        (tmp_path / "m.luce").write_bytes(struct.pack("<Q", len(header)) + header)
        with pytest.raises(ModelFormatError):
            luce.load(tmp_path / "m.luce")


@pytest.mark.parametrize("shape", [[0, 2**47, 2**47], [2**47, 0, 2**47], [0] + [2**40] * 7, [0, 2**48]])
@pytest.mark.parametrize("memory_map", [False, True])
def test_shapes_that_no_array_can_have(saved, tmp_path, shape, memory_map):
    """They hold nothing, so that they fit their place; NumPy refuses them by an error of its own."""
    _, settings_, arrays = read_container(saved, "ranker")
    path = tmp_path / "m.luce"
    write_container(path, "ranker", settings_, {**arrays, "last": np.empty((0, 1))})
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = raw[8 : 8 + length].replace(b'"shape":[0,1]', b'"shape":' + json.dumps(shape).encode())
    assert header != raw[8 : 8 + length]
    path.write_bytes(struct.pack("<Q", len(header)) + header + raw[8 + length :])
    with pytest.raises(ModelFormatError, match="impossible shape"):
        read_container(path, "ranker", memory_map=memory_map)


def test_other_kinds_and_missing_files(tmp_path):
    write_container(tmp_path / "c.luce", "checkpoint", {}, {})
    with pytest.raises(ModelFormatError, match="checkpoint"):
        luce.load(tmp_path / "c.luce")
    with pytest.raises(DataError, match="does not exist"):
        luce.load(tmp_path / "nothing.luce")


def test_output_errors_leave_nothing_behind(data, tmp_path):
    model = luce.Ranker().fit(data)
    with pytest.raises(OutputError, match="does not exist"):
        model.save(tmp_path / "no" / "m.luce")
    with pytest.raises(OutputError, match="folder"):
        model.save(tmp_path)
    with pytest.raises(OutputError, match="disk is full"):
        model.save("/dev/full")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"qid,label,price\n1,0,3.5\n", "a table of text .CSV.; luce.read"),
        (b"2 qid:1 1:0.5 2:3\n", "judged documents .LETOR."),
        (b"tree\nversion=v4\nnum_class=1\n", "a text model of LightGBM"),
        (b"PAR1" + bytes(20), "a Parquet table"),
        (b"\x80\x04\x95" + bytes(20), "a Python pickle"),
    ],
)
def test_a_usual_file_that_is_no_model_is_said_to_be_what_it_is(tmp_path, content, said):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFormatError, match=f"is no file that luce saved but {said}"):
        luce.load(tmp_path / "m")
