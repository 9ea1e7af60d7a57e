"""The notebooks of the documentation run from a clean folder, and carry the small outputs of a run."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("httpx", reason="a notebook asks a service")
pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

DOCS = Path(__file__).resolve().parents[1] / "docs"
BOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def runner():
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    fresh, kept = runner().run(path, tmp_path), nbformat.read(path, as_version=4)
    for cell, stored in zip(fresh.cells, kept.cells, strict=True):
        if cell.cell_type == "code":
            assert stored.execution_count == cell.execution_count
            kinds = [[output.output_type for output in each.outputs] for each in (cell, stored)]
            assert kinds[0] == kinds[1], "the outputs are those of another run: python docs/notebooks.py"


def test_there_are_three_small_ones():
    assert len(BOOKS) == 3
    assert all(path.stat().st_size < 200_000 for path in BOOKS)
    assert all(path.name in (DOCS / "notebooks.md").read_text() for path in BOOKS)


def test_notebooks_are_shown_with_what_their_cells_gave(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    rendered = importlib.import_module("rendered")
    shown = rendered.rendered(DOCS / "notebooks/arena_leaderboard.ipynb")
    assert "## An arena leaderboard" in shown
    assert "board.plot()\n```\n\n<img alt=" in shown
    assert "<div><" in shown
    assert "\n# " not in shown
