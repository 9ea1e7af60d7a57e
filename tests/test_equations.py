"""Citations: one form, known works and numbers, and a place in the code for every equation that luce implements."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load(name: str = "equations") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


equations, ledger = load(), load("ledger")
CODE = sorted((ROOT / "src/luce").rglob("*.py"))
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "papers"]

OTHER_FORMS = re.compile(r"\bEqs?\.|\bEqn\b|\b[Ee]quations? \(?\d")
UNNAMED = re.compile(r"\bthe paper\b|\b(?:ties|PMOP) paper\b")
PARTS = "Algorithm|chapter|Definition|Figure|Proposition|section|Table|Theorem"
PART = rf"(?: \((?:\d+\.)?\d+\)| (?:{PARTS}) \d+(?:\.\d+)*)"
KEY = re.compile(r"\[(" + "|".join(equations.KEYS) + r")\]")
LINK = re.compile(r"\[([^\]]*)\]\([\w./-]+\.md[^)]*\)")
LIKE_A_CITATION = re.compile(r"\[([A-Z]\w*)\] ?\(([^)]*)\)")


def faults(text: str) -> list[str]:
    """What is wrong with the citations of a text, each in a few words."""
    text = LINK.sub(r"\1", text)
    found = [f"another form: {match[0]}" for match in OTHER_FORMS.finditer(text)]
    for match in LIKE_A_CITATION.finditer(text):
        key, number = match.groups()
        if key not in equations.KEYS:
            if re.match(r"[\d.]+$", number):
                found.append(f"unknown work: {match[0]}")
        elif not equations.CITATION.fullmatch(match[0]):
            found.append(f"another form: {match[0]}")
        elif not equations.exists(key, number):
            found.append(f"no such equation: {match[0]}")
    for match in KEY.finditer(text):
        after = text[match.end() : match.end() + 40]
        if re.match(r"\s*(?:\(|(?:eqn?|equation|formula)\b)", after) and not re.match(PART, after):
            found.append(f"another form: {match[0]}{after[:12]!r}")
    return found


def test_citations_have_one_form():
    files = [*CODE, *PAGES]
    assert len(files) > 200
    found = {str(file.relative_to(ROOT)): faults(file.read_text()) for file in files}
    assert {file: wrong for file, wrong in found.items() if wrong} == {}


def test_code_names_the_work_it_speaks_of():
    found = {str(file.relative_to(ROOT)): UNNAMED.findall(file.read_text()) for file in CODE}
    assert {file: words for file, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("the tie term (Eq. 6)", "another form: Eq."),
        ("as Equation 6 has it", "another form: Equation 6"),
        ("[PMOP](6)", "another form: [PMOP](6)"),
        ("[PMOP] (6 and 7)", "another form: [PMOP] (6 and 7)"),
        ("[PMOP] (Eq 6)", "another form: [PMOP] (Eq 6)"),
        ("[PMOP]\n(6)", "another form: [PMOP]'\\n(6)'"),
        ("[PMOP] eq 6", "another form: [PMOP]' eq 6'"),
        ("[Plackett] (6)", "unknown work: [Plackett] (6)"),
        ("[PMOP] (20)", "no such equation: [PMOP] (20)"),
        ("[PMOP] (3.5)", "no such equation: [PMOP] (3.5)"),
        ("[Pareek] (3.29)", "no such equation: [Pareek] (3.29)"),
        ("[Pareek] (6.1)", "no such equation: [Pareek] (6.1)"),
    ],
)
def test_a_wrong_citation_is_found(text, fault):
    assert fault in faults(text)


@pytest.mark.parametrize("text", ["[PMOP] (19)", "[Pareek] (3.28),", "as in [PMOP] section 3.4", "[StructRank] starts"])
def test_a_right_citation_is_not(text):
    assert faults(text) == []


def test_every_equation_has_a_place():
    cited = {(place.key, place.number) for place in equations.places()}
    listed = {(key, number) for key, numbers in equations.EQUATIONS.items() for number in numbers}
    assert sorted(listed - cited) == []
    assert all(equations.exists(*equation) for equation in listed)
    assert set(equations.EQUATIONS) == set(equations.KEYS) == set(equations.LAST)


def test_a_citation_belongs_to_the_function_that_holds_it():
    found = {(place.file, place.name) for place in equations.places() if (place.key, place.number) == ("PMOP", "19")}
    assert ("luce/numerics/links.py", "_davidson") in found


def test_the_page_lists_every_citation():
    page = equations.on_page_markdown((ROOT / "docs/equations.md").read_text())
    assert "nowhere" not in page
    for place in equations.places():
        row = next(line for line in _section(page, place.key).splitlines() if line.startswith(f"| ({place.number}) |"))
        assert f"`{place.file}`" in row
        assert f"`{place.name}`" in row or not place.name


def _section(page: str, key: str) -> str:
    return page.partition(f"## [{key}]\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("key", equations.KEYS)
def test_the_ledger_has_one_line_for_everything_that_is_numbered(key):
    lines = list(ledger.lines(key))
    items = [line.item for line in lines]
    assert len(set(items) - {"Algorithm 1"}) == len([item for item in items if item != "Algorithm 1"])
    numbered = {item[1:-1] for item in items if item.startswith("(")}
    assert all(equations.exists(key, number) for number in numbered)
    assert len(numbered) == sum(equations.LAST[key])
    assert not set(ledger.PASSED.get(key, {})) & set(equations.EQUATIONS[key])
    for line in lines:
        assert line.state in (ledger.WORKS, ledger.FAILS, ledger.NO_DATA, ledger.OUT)
        assert line.words
        assert not line.test or (ROOT / "tests" / line.test).exists(), line


def test_the_ledger_is_the_page():
    assert (ROOT / "docs/papers/ledger.md").read_text() == ledger.page()
