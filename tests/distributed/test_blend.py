"""A blend on a cluster of two processes: that of one machine, what it goes on from, and what it refuses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce import distributed
from luce.cli.app import app
from luce.data.groups import Groups
from luce.errors import LuceWarning, SettingError
from tests.distributed.test_dask import assert_same_model

blend = import_module("luce.distributed.fit")  # whose name in the package is that of its function

MEMBERS = ["luce-linear", "regression"]


def auto(**settings: Any) -> luce.Ranker:
    return luce.model("auto", members=MEMBERS, folds=3, random_state=1, **settings)


def test_blend_is_that_of_one_machine(client: Any, whole: Groups, folder: Path, tmp_path: Path):
    dataset = distributed.open_dataset(client, [folder])
    here = auto(checkpoint=tmp_path / "kept").fit(whole)
    assert_same_model(distributed.fit(auto(), dataset), here)
    # What one machine left behind is not fitted again.
    sent = []
    plain = blend._Walks.__init__

    def counted(self: Any, client: Any, crossfit: Any, jobs: Any) -> None:
        sent.extend(jobs)
        plain(self, client, crossfit, jobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blend._Walks, "__init__", counted)
        resumed = distributed.fit(auto(checkpoint=tmp_path / "kept"), dataset)
    assert sent == []
    assert_same_model(resumed, here)


def test_command_and_a_member_that_fails(client: Any, whole: Groups, tmp_path: Path):
    """Half grades are none for lambdarank; the worker's reason comes back in one sentence."""
    halves = Groups(whole.X, whole.y + 0.5, whole.offsets, whole.query_ids, feature_names=whole.feature_names)
    luce.write_parquet(halves, tmp_path / "halves.parquet")
    dataset = distributed.open_dataset(client, [tmp_path / "halves.parquet"])
    ranker = luce.model("auto", members=["luce-linear", "lambdarank"], folds=2, random_state=0)
    with pytest.warns(LuceWarning, match=r"lambdarank.*left out: The objective of lambdarank takes whole grades"):
        fitted = distributed.fit(ranker, dataset)
    assert fitted.history_["blend"]["plan"] == ["luce-linear"]
    model = tmp_path / "model.luce"
    address = client.scheduler.address
    options = ["--model", "auto", "--trainer-setting", "members=luce-linear", "--dask", address, "--out", str(model)]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "halves.parquet"), *options])
    assert done.exit_code == 0, done.output
    assert np.isfinite(luce.load(model).predict(halves)).all()


def test_refused(client: Any, folder: Path):
    dataset = distributed.open_dataset(client, [folder])
    with pytest.raises(SettingError, match=r"budget is 5 s.*'fast' or 'best'"):
        distributed.fit(auto(budget=5), dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blend, "_COPIES", 1 << 50)
        with pytest.raises(SettingError, match="fitted by one worker, which needs about"):
            distributed.fit(auto(), dataset)
