"""The page on the architecture shows every layer, and every module has one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    path.stem for path in (ROOT / "src/luce").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
}


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import layers

    yield layers
    del sys.modules["layers"], sys.modules["drawing"]


def test_every_module_has_a_layer(made):
    listed = [module for layer in made.layers() for module in layer]
    assert len(listed) == len(set(listed))
    assert set(listed) == MODULES - {"__init__", "__main__"}


def test_the_page_shows_every_layer(made):
    page = made.on_page_markdown((ROOT / "docs/architecture.md").read_text())
    for module in MODULES - {"__init__", "__main__"}:
        assert f">{module}</text>" in page
        assert f"| `{module}` | {made.purpose(module)} |" in page
        assert len(made.purpose(module)) > 10
