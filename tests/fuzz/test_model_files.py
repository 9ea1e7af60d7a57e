"""Changed files of every scorer, trainer and loss, checksums mended, predict finite numbers or are refused."""

from __future__ import annotations

import random
import warnings

import pytest

import luce
from luce.errors import LuceError
from tests.fuzz import model_files

ATTACKS = 60


@pytest.mark.parametrize("name", model_files.MODELS)
def test_changed_models_predict_finite_numbers_or_are_refused(name, tmp_path):
    rng, path, data = random.Random(name), tmp_path / "m.luce", model_files.rows_for(name)
    model_files.write(model_files.clean(name), path)
    model_files.use(path, data)
    refused = 0
    for _ in range(ATTACKS):
        model_files.write(model_files.attack(name, rng), path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", luce.errors.LuceWarning)
            try:
                model_files.use(path, data)  # asserts one finite score a row
            except LuceError:
                refused += 1
    assert refused > 0, "no attack was noticed"


def test_every_part_is_attacked():
    """A part that is registered later joins by a line in `MODELS`."""
    files = [model_files.clean(name)[0] for name in model_files.MODELS]
    assert {record["scorer"]["name"] for record in files} >= set(luce.scorers._FITTED)
    made = [luce.model_file.unpacked(model_files.clean(name)).parts_ for name in model_files.MODELS]
    assert {parts.trainer.name for parts in made} >= set(luce.training.names()) - {"projected_lbfgs"}
    assert {record["name"] for record, _ in model_files._losses()} == set(luce.losses.names())
