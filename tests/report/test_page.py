"""The page in a browser: it runs without a network, sorts, finds, explains, and is not blank."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import luce
from luce.experiments.run_folder import read_run
from tests.report.browser import DESK, PHONE, Keys
from tests.report.conftest import HOSTILE, QUOTES
from tests.report.shapley import shapley_by_enumeration

PANELS = [
    "leaderboard",
    "cutoffs",
    "queries",
    "rankings",
    "why",
    "features",
    "probabilities",
    "learning",
    "data",
    "settings",
]


@pytest.fixture
def page(browser, example):
    """The page, freshly opened on a desk."""
    browser.open(example.page)
    return browser


def number_of(run, name):
    return run.models.index(name)


@pytest.mark.parametrize(("width", "dark"), [(DESK, False), (PHONE, True)])
def test_loads_without_errors_or_requests(browser, example, width, dark):
    browser.open(example.page, width=width, dark=dark)
    assert browser.see_all() == PANELS
    assert browser.console() == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert asked == [example.page.as_uri()]
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


def test_one_model_without_its_data(browser, lonely):
    browser.open(lonely.page)
    assert browser.see_all() == [panel for panel in PANELS if panel != "why"]
    assert browser.console() == []
    assert "cannot be read again" in browser.find("#leaderboard .notice").text
    assert browser.texts("#queries .figures dd")[:3] == ["0", "45", "0"]


def test_a_request_would_be_seen_and_refused(page):
    """The policy of the page holds, and the log that the test above reads would show a request."""
    page.run("const i = new Image(); i.src = 'http://localhost:9/x.png'; document.body.append(i)")
    page.settle()
    assert any("Content Security Policy" in line for line in page.console())
    assert page.run("return fetch('http://localhost:9/').then(() => 'sent', () => 'refused')") == "refused"


@pytest.mark.parametrize(("width", "dark"), [(DESK, False), (DESK, True), (PHONE, False)])
def test_no_panel_is_blank(browser, example, width, dark):
    browser.open(example.page, width=width, dark=dark)
    run = read_run(example.folder)
    browser.choose(number_of(run, "linear pmop"), number_of(run, "trees"))
    panels = browser.see_all()
    browser.run("scrollTo(0, 0)")
    colour = "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
    distance = np.abs(browser.picture().astype(int) - browser.run(colour)).max(axis=2)
    for panel in panels:
        ((left, top, right, bottom),) = browser.boxes(f"#{panel} .body")
        marked = (distance[top:bottom, left:right] > 24).mean()
        assert marked > 0.01, f"{panel} is blank: {marked:.4f} of its pixels differ from the background"
        charts = browser.boxes(f"#{panel} figure svg")
        assert charts or panel in ("leaderboard", "rankings", "why", "settings")
        for i, (left, top, right, bottom) in enumerate(charts):
            assert (distance[top:bottom, left:right] > 60).mean() > 0.002, f"chart {i} of {panel} is blank"


def test_themes(browser, example):
    browser.open(example.page)
    brightness = (
        "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((x, y) => x + y)"
    )
    light = browser.run(brightness)
    browser.prefer(dark=True)
    dark = browser.run(brightness)
    assert light > 600 > 200 > dark
    seen = []
    for _ in range(3):
        browser.click("#theme")
        seen.append((browser.find("#theme").get_attribute("aria-label"), browser.run(brightness)))
    assert seen == [("Colours: light", light), ("Colours: dark", dark), ("Colours: as the system", dark)]
    browser.prefer(dark=False)
    assert browser.run(brightness) == light


def test_text_can_be_read_in_both_themes(browser, example):
    """WCAG AA: at least 4.5 to 1 for text, by the formula of the standard."""
    colours = """
      const [name, kind] = arguments, e = document.createElement('span');
      if (kind === 'class') e.className = name; else e.style.color = `var(--${name})`;
      document.body.append(e);
      const style = getComputedStyle(e), paper = getComputedStyle(document.body).backgroundColor;
      const found = [style.color, kind === 'class' ? style.backgroundColor : paper];
      e.remove();
      return found.map(c => c.match(/[0-9.]+/g).slice(0, 3).map(Number));
    """

    def contrast(name, kind):
        channels = np.array(browser.run(colours, name, kind)) / 255
        linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
        return (high + 0.05) / (low + 0.05)

    marks = [(f"grade grade-{i}", "class") for i in range(5)] + [("tag tag-a", "class"), ("tag tag-b", "class")]
    for dark in (False, True):
        browser.open(example.page, dark=dark)
        for name, kind in [*((name, "colour") for name in ("ink", "soft", "a", "b", "good", "bad")), *marks]:
            assert contrast(name, kind) >= 4.5, (name, dark)


def test_names_of_the_data_are_text(page):
    page.see_all()
    assert page.run("return window.broken === undefined && document.images.length === 0")
    assert HOSTILE in page.texts("#board th[scope=row]")
    assert page.run("return document.scripts[document.scripts.length - 1].type") == ""


def test_failures_are_shown(page):
    assert "1 model failed" in page.find("#failures").text
    assert "broken (Fold1, Fold2, Fold3): l2 is -1.0" in page.find("#failures").text


def test_leaderboard_shows_and_sorts(page, example):
    run = read_run(example.folder)
    assert page.texts("#board tbody th") == run.models
    head = [text.strip() for text in page.texts("#board thead th")]
    column = head.index("map") + 1
    expected = sorted((row["map"] for row in run.results["leaderboard"]), reverse=True)
    heading = f"#board thead th:nth-child({column})"
    page.click(f"{heading} button")
    assert page.texts(f"#board tbody td:nth-child({column})") == [f"{value:.4f}" for value in expected]
    assert page.find(heading).get_attribute("aria-sort") == "descending"
    page.click(f"{heading} button")
    assert page.texts(f"#board tbody td:nth-child({column})") == [f"{value:.4f}" for value in expected[::-1]]
    page.click("#board thead th:first-child button")
    names = page.texts("#board tbody th")
    assert names == page.run("return arguments[0].sort((p, q) => p.localeCompare(q, 'en', {numeric: true}))", names)
    least = min(row["spearman_footrule"] for row in run.results["leaderboard"])
    assert page.texts(f"#board tbody td.best:nth-child({head.index('spearman_footrule') + 1})") == [f"{least:.4f}"]


def test_models_are_chosen_with_the_keyboard(page):
    page.see_all()
    button = page.all("#board tbody tr:nth-child(4) .choose button")[0]
    name = page.texts("#board tbody tr:nth-child(4) th")[0]
    button.send_keys(Keys.ENTER)
    page.settle()
    assert page.run("return document.activeElement === arguments[0]", button), "the focus was lost"
    assert button.get_attribute("aria-pressed") == "true"
    assert page.run("const s = document.getElementById('model-a'); return s.options[s.selectedIndex].text") == name
    assert page.texts("#cutoffs .key .a") == [f"A: {name}"]
    page.click("#swap")
    page.settle()
    assert page.texts("#cutoffs .key .b") == [f"B: {name}"]


def test_skip_link_and_focus_order(page):
    page.find("body").send_keys(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"
    assert page.run("const r = document.activeElement.getBoundingClientRect(); return r.x >= 0 && r.width > 0")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.run("return location.hash") == "#content"
    nameless = """return [...document.querySelectorAll('button, select, input')].filter(e =>
      !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim())).length"""
    page.see_all()
    assert page.run(nameless) == 0


def test_query_picker_and_rankings(page, example):
    run = read_run(example.folder)
    page.choose(0, 1)
    page.see_all()
    box = page.find("#query-search")
    box.send_keys("query 1")
    options = page.texts("#query-list li span")
    assert options[0] == "query 1"
    assert set(options) == {"query 1", *(f"query {i}" for i in range(10, 20))}
    box.send_keys(Keys.DOWN, Keys.DOWN, Keys.ENTER)
    assert page.find("#query-name").text.startswith(f"Query {options[2]}")
    assert not page.find("#query-list").is_displayed()
    table = run.scores.to_pandas()
    for letter, model in enumerate(run.models[:2]):
        rows = table[(table.model == model) & (table["query"] == options[2])]
        expected = rows.sort_values("score", ascending=False, kind="stable").head(10)
        cells = f"#rankings .pair > div:nth-child({letter + 1})"
        assert page.texts(f"{cells} tbody th") == expected.document.tolist()
        assert page.texts(f"{cells} .grade") == [f"{grade:g}" for grade in expected.grade]
    for name in (HOSTILE, QUOTES):
        box.clear()
        box.send_keys(name, Keys.ENTER)
        assert page.find("#query-name").text.startswith(f"Query {name}")
    box.clear()
    box.send_keys("no such query")
    assert page.texts("#query-list li") == ["No query has this in its name."]


def test_differences_are_those_of_the_run(page, example):
    run = read_run(example.folder)
    page.choose(0, 1)
    page.see_all()
    rows = run.rows.to_pandas()
    for metric, sign in (("map", 1), ("spearman_footrule", -1)):
        page.run(
            "const s = document.getElementById('metric'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
            str(run.metrics.index(metric)),
        )
        page.settle()
        a, b = (rows[(rows.model == m) & (rows.metric == metric)].value.to_numpy() for m in run.models[:2])
        counts = luce.metrics.win_tie_loss(sign * a, sign * b)
        assert page.texts("#queries .figures dd")[:3] == [str(count) for count in counts]
        mean = np.nanmean(sign * (a - b))
        assert page.texts("#queries .figures dd")[3].startswith(f"{'−' if mean < 0 else '+'}{abs(mean):.4f}")
        test = luce.metrics.randomisation_test(a, b)
        assert abs(float(page.texts("#queries .figures dd")[4].split()[0]) - test.p_value) < 0.03
    page.click("#queries .pair button")
    page.wait(
        "return document.getElementById('query-name').textContent.includes(arguments[0])",
        page.texts("#queries .pair button")[0],
    )


_EFFECTS = """
  const column = document.querySelector(`#why .tag-${arguments[0]}`).closest('#why .pair > div');
  const rows = [...column.querySelectorAll('tr[data-effect]')];
  return rows.map(row => [row.querySelector('th').textContent, Number(row.dataset.effect)]);
"""


MODELS = [("example", name) for name in ("linear pmop", "trees", "second order", "steps")]
MODELS += [("gappy", name) for name in ("gappy trees", "gappy steps")]


@pytest.mark.parametrize(("which", "model"), MODELS)
def test_contributions_are_shapley_values(browser, request, which, model):
    """Against the definition: all subsets of features taken from the one document, the rest from the other."""
    example = request.getfixturevalue(which)
    run = read_run(example.folder)
    browser.open(example.page)
    browser.choose(number_of(run, model), int(run.models[0] == model))
    browser.see_all()
    data = luce.read(example.data, allow_nan=True)
    row_of = {name: i for i, name in enumerate(data.document_ids.tolist())}
    checked = 0
    for query in (0, 9, 17, 25, 31):
        browser.find("#query-search").send_keys(str(data.query_ids[query]), Keys.ENTER)
        browser.settle()
        fold = browser.find("#query-name small").text.split(",")[0]
        names = [browser.texts(f"#rankings tr:has(.{c}[aria-pressed=true]) th")[0] for c in ("above", "below")]
        one, two = (data.X[row_of[name]] for name in names)
        expected = shapley_by_enumeration(run.model(model, fold), one, two)
        shown = dict(browser.run(_EFFECTS, "a"))
        for name, value in zip(data.feature_names, expected, strict=True):
            assert shown.get(name, 0.0) == pytest.approx(value, abs=2e-6), (name, names)
            checked += value != 0
    assert checked > 3


def test_models_that_cannot_be_explained_say_why(page, example):
    run = read_run(example.folder)
    page.choose(number_of(run, "trees"), number_of(run, "cosets"))
    page.see_all()
    assert "Left out: its scorer, cps" in page.find("#why .pair > div:nth-child(2)").text


def test_documents_are_chosen_for_the_explanation(page):
    page.see_all()
    rows = page.texts("#rankings .pair > div:first-child tbody th")
    page.run(
        "document.querySelectorAll('#rankings .pair > div:first-child tbody tr')[2].querySelector('.above').click()"
    )
    page.run(
        "document.querySelectorAll('#rankings .pair > div:first-child tbody tr')[3].querySelector('.below').click()"
    )
    page.settle()
    assert page.texts("#why .lede strong")[1:] == rows[2:4]


def test_tables_and_figures_are_saved(page):
    """What the buttons of a panel give to the browser is the table as it is shown, and a figure that stands alone."""
    page.see_all()
    page.run(
        "window.saved = []; const real = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { window.saved.push(blob); return real.call(URL, blob); }"
    )
    shown = page.run(
        "return [...document.querySelector('#leaderboard table').rows].map(r => r.cells[0].textContent.trim())"
    )
    page.run("document.querySelector('#leaderboard .save button').click()")
    first = page.run("return window.saved[0].text()").splitlines()
    assert [line.split(",")[0].strip('"')[:4] for line in first] == [name[:4] for name in shown]
    page.run("document.querySelector('#cutoffs .save button:last-child').click()")
    figure = page.run("return window.saved.at(-1).text()")
    root = ElementTree.fromstring(figure)
    assert root.tag.endswith("svg")
    assert "var(" not in "".join(node.get("style", "") for node in root.iter())
    assert page.console() == []
