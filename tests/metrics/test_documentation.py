"""The examples of the page on metrics run, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = EXAMPLES[number]
    exec(compile(code, f"example {number}", "exec"), {})
    assert capsys.readouterr().out == printed


def test_examples_were_found() -> None:
    assert len(EXAMPLES) == 4
    assert sum(bool(printed) for _, printed in EXAMPLES) == 1


def test_every_metric_convention_and_preset_is_documented() -> None:
    from luce.metrics import PRESETS, Conventions, names

    for name in [*names(), *Conventions.__dataclass_fields__, *PRESETS]:
        assert re.search(rf"`{name}[@`]", PAGE), name
