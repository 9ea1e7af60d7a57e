"""The page of a leaderboard in a browser: sorted, searched, on a phone, in the dark."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from luce.aggregate import Ballots, consensus, leaderboard, score_board, simulate_battles
from luce.errors import SettingError
from luce.report.board_pages import write_board_page, write_board_site

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
        names = browser.texts("#board tbody th.name")
        assert len(names) == 12
        browser.click("#board thead th:nth-child(2) button")
        assert browser.texts("#board tbody th.name") == sorted(names)
        search = (
            "const s = document.getElementById('search'); s.value = 'player03'; s.dispatchEvent(new Event('input'))"
        )
        browser.run(search)
        assert browser.texts("#board tbody th.name") == ["player03"]
        browser.click("#board tbody th.name button")
        against = browser.texts(".pairs tbody tr")
        assert len(against) == 11
        assert all("%" in row for row in against)
        assert any("player03 is ahead" in row for row in against)
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


AXE = os.environ.get("LUCE_AXE", "")
"""The path of axe.min.js, of the package axe-core."""


def boards():
    """One of every kind."""
    rng = np.random.default_rng(0)
    rows = simulate_battles(900, np.linspace(1, -1, 6), random_state=0).table.to_pydict()
    rows |= {"kind": rng.choice(["x", "y"], 900).tolist(), "day": np.sort(rng.integers(0, 300, 900)).tolist()}
    scores = {"model": list("abcdef")} | {f"t{k}": (rng.normal(size=6) + np.arange(6)).tolist() for k in range(9)}
    votes = Ballots.from_orders([rng.permutation(list("abcd")).tolist() for _ in range(9)])
    return {
        "kinds": (leaderboard(rows, by="kind"), {}),
        "past": (leaderboard(rows, time="day"), {}),
        "hodge": (leaderboard(rows, "hodge"), {}),
        "apart": (leaderboard({"winner": list("abcdefga"), "loser": list("bcaefdab")}), {}),
        "scores": (score_board(scores, resamples=100), {}),
        "ballots": (consensus(votes, "kemeny"), {"ballots": votes}),
    }


@pytest.mark.parametrize("kind", boards())
def test_every_kind_has_a_page_and_a_site_without_faults(kind, tmp_path) -> None:
    board, more = boards()[kind]
    write_board_page(board, tmp_path / "b.html", "A board", date="2026-05-01", **more)
    files = write_board_site(board, tmp_path / "site", "A board", **more)
    with chromium() as browser:
        for page in (tmp_path / "b.html", tmp_path / "site" / "index.html"):
            browser.open(page)
            assert browser.console() == []
        link = browser.run(
            "document.querySelector('tbody .name button').click(); return document.querySelector('.pairs a').href"
        )
        assert link.endswith(".html")
        assert any(path.as_uri() == link for path in files)
        browser.driver.get(link)
        assert browser.console() == []
        assert len(browser.texts("main table")) >= 2


@pytest.mark.skipif(not AXE, reason="LUCE_AXE does not name axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", boards())
def test_axe_finds_nothing(kind, dark, tmp_path) -> None:
    board, more = boards()[kind]
    write_board_site(board, tmp_path, **more)
    with chromium() as browser:
        browser.open(tmp_path / "index.html", dark=dark)
        browser.run("document.querySelector('tbody .name button').click()")
        for page in (None, next((tmp_path / "items").glob("*.html"))):
            if page is not None:
                browser.driver.get(page.as_uri())
            browser.command("Runtime.evaluate", expression=Path(AXE).read_text())
            wanted = "axe.run().then(found => JSON.stringify(found.violations.map(v => [v.id, v.nodes[0].html])))"
            found = browser.command("Runtime.evaluate", expression=wanted, awaitPromise=True, returnByValue=True)
            assert found["result"]["value"] == "[]"


def test_downloads_hold_the_rows_that_are_shown(page) -> None:
    with chromium() as browser:
        browser.open(page)
        browser.run(
            "const s = document.getElementById('search'); s.value = 'player0'; s.dispatchEvent(new Event('input'))"
        )
        lines = browser.run("return table_csv()").splitlines()
        assert lines[0].startswith("name,strength,se,lower,upper,rank")
        assert len(lines) == 10
        found = json.loads(browser.run("return table_json()"))
        assert [row["name"] for row in found["table"]] == [line.split(",")[0] for line in lines[1:]]
        assert browser.run("return text(figure())").count("<circle") == 9
        size = "picture(figure()).then(b => { window.png = [b.size, b.type]; }); return true"
        browser.run(size)
        browser.wait("return window.png")
        assert browser.run("return window.png")[1] == "image/png"


def test_tiers_are_headings_and_a_filter(tmp_path) -> None:
    write_board_page(
        leaderboard(simulate_battles(4000, np.linspace(2, -2, 6), random_state=0).table), tmp_path / "b.html"
    )
    with chromium() as browser:
        browser.open(tmp_path / "b.html")
        tiers = browser.texts("#board tr.tier th")
        assert tiers == [f"Tier {k}" for k in range(1, len(tiers) + 1)]
        assert len(tiers) > 1
        browser.run("const s = document.getElementById('tier'); s.value = '1'; s.dispatchEvent(new Event('input'))")
        assert len(browser.texts("#board tbody th.name")) < 6


def test_a_record_is_that_of_the_battles(tmp_path) -> None:
    rows = {"a": ["x", "y", "x", "x", "y"], "b": ["y", "x", "y", "z", "z"], "outcome": ["a", "a", "tie", "b", "a"]}
    write_board_site(leaderboard(rows), tmp_path)
    against = {row["name"]: row for row in json.loads((tmp_path / "items/x.json").read_text())["against"]}
    assert against["y"]["won–lost–drawn"] == "1–1–1"
    assert against["z"]["won–lost–drawn"] == "0–1–0"


def test_names_of_files_differ_and_stay(tmp_path) -> None:
    names = ["GPT 4", "gpt-4", "../x", "é", "<b>"]
    rows = {"winner": names, "loser": [*names[1:], names[0]]}
    files = write_board_site(leaderboard(rows), tmp_path)
    pages = [path for path in files if path.parent.name == "items"]
    assert len(set(pages)) == 10
    assert all(path.resolve().parent == (tmp_path / "items").resolve() for path in pages)
    assert pages == [path for path in write_board_site(leaderboard(rows), tmp_path) if path.parent.name == "items"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"links": {"x": "javascript:1"}}, "must start with https://"),
        ({"links": {"nobody": "https://a.b"}}, "not on this board"),
        ({"links": ["x"]}, "must map items"),
        ({"colour": "red"}, "setting of a page"),
    ],
)
def test_what_a_page_cannot_say(more, said, tmp_path) -> None:
    board = leaderboard({"winner": ["x", "y"], "loser": ["y", "x"]})
    with pytest.raises((SettingError, ValueError), match=said):
        write_board_page(board, tmp_path / "b.html", **more)


def test_a_long_board_sets_the_first_items_against_each_other(tmp_path) -> None:
    names = [f"p{k}" for k in range(320)]
    rows = {"winner": names, "loser": [*names[1:], names[0]]}
    write_board_site(leaderboard(rows), tmp_path)
    with chromium() as browser:
        browser.open(tmp_path / "index.html")
        assert browser.console() == []
        assert len(browser.texts("#board tbody th.name")) == 320
        assert browser.run("return document.querySelectorAll('#board tbody .name button').length") == 300
    counts = [len(json.loads(path.read_text())["against"]) for path in (tmp_path / "items").glob("*.json")]
    assert sorted(set(counts)) == [0, 299]
