"""The page of a leaderboard in a browser: sorted, searched, on a phone, in the dark."""

from __future__ import annotations

import base64
import hashlib

import numpy as np
import pytest

from luce.aggregate import leaderboard, simulate_battles
from luce.report.pages import write_board_page

from .browser import PHONE, chromium
from .test_build import Reader


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("board") / "board.html"
    write_board_page(leaderboard(simulate_battles(2000, np.linspace(1, -1, 12), random_state=0).table), path)
    return path


def test_the_policy_names_the_script_and_the_style_alone(tmp_path) -> None:
    """Hostile names end no element: there is one executable script, and the policy names its hash and no address."""
    path, names = tmp_path / "board.html", ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>")
    write_board_page(leaderboard({"winner": [*names, names[0]], "loser": [*names[::-1], names[1]]}), path)
    page = Reader(path.read_text(encoding="utf-8"))
    executable = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(executable) == 1
    digest = base64.b64encode(hashlib.sha256(executable[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe" not in page.policy


def test_sort_search_and_compare(page) -> None:
    with chromium() as browser:
        browser.open(page)
        names = browser.texts("#board td.name")
        assert len(names) == 12
        browser.click("#board th:nth-child(2) button")
        assert browser.texts("#board td.name") == sorted(names)
        search = (
            "const s = document.getElementById('search'); s.value = 'player03'; s.dispatchEvent(new Event('input'))"
        )
        browser.run(search)
        assert browser.texts("#board td.name") == ["player03"]
        assert "%" in browser.texts("#chance")[0]
        assert browser.console() == []
        assert all(url.startswith(("file:", "data:")) for url in browser.requests())


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone(page, dark) -> None:
    with chromium() as browser:
        browser.open(page, width=PHONE, dark=dark)
        assert browser.run("return document.documentElement.scrollWidth") <= PHONE
        assert browser.run("const t = document.querySelector('.wide'); return t.scrollWidth <= t.clientWidth")


def test_the_side_that_is_ahead_is_blue(page) -> None:
    """Draws are common here: the better side wins less than half of its battles, and is ahead all the same."""
    with chromium() as browser:
        browser.open(page)
        script = (
            "const c = document.getElementById('matrix'), n = data.wins.length, s = c.width / n;"
            "const at = (i, j) => [...c.getContext('2d').getImageData((j + .5) * s, (i + .5) * s, 1, 1).data];"
            "return [data.wins[0][1] < 500, at(0, 1), at(1, 0)]"
        )
        fewer, better, worse = browser.run(script)
        assert fewer
        assert better[2] > better[0]
        assert worse[2] < worse[0]
