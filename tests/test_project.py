"""Files that others meet first say the same: version, supported versions of Python, links."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import luce

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version():
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert PROJECT["version"] == luce.__version__ == cited[1]


def test_one_set_of_pythons():
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/test.yml").read_text())
    assert tested is not None
    assert re.findall(r"3\.\d+", tested[1]) == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_the_workflow_runs_commands_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for file in (".github/workflows/test.yml", ".github/workflows/nightly.yml", ".pre-commit-config.yaml", ".ci/run"):
        run = set(re.findall(r"\bmake (\w+)$", (ROOT / file).read_text(), re.MULTILINE))
        assert run
        assert run <= targets


LOCKS = sorted((ROOT / "locks").glob("*.txt"))


def locked(path: Path) -> dict[str, list[str]]:
    """The requirements of a lock file, each with its hashes."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", path.read_text().rstrip()):
        name = re.match(r"([\w.-]+)==\S+", entry)
        assert name is not None, f"{path.name}: {entry}"
        found[name[1].lower().replace("_", "-")] = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)
    return found


def test_lock_files_name_versions_and_hashes_and_no_place():
    assert [path.stem for path in LOCKS] == ["build", "check", "core", "tools"]
    for path in LOCKS:
        assert all(locked(path).values())
        assert not re.search(r"://|--(index|find|extra)|^[./]", path.read_text(), re.MULTILINE)


def test_lock_files_cover_the_project():
    extras = re.search(r"^CHECKED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert extras is not None
    further = [one for extra in extras[1].split() for one in PROJECT["optional-dependencies"][extra]]
    for name, wanted in {"core": PROJECT["dependencies"], "check": [*PROJECT["dependencies"], *further]}.items():
        asked = {re.match(r"[\w.-]+", one)[0].lower().replace("_", "-") for one in wanted}
        assert asked <= set(locked(ROOT / "locks" / f"{name}.txt"))
    assert not any("==" in one.partition(";")[0] for one in [*PROJECT["dependencies"], *further])


def test_actions_are_pinned_to_commits():
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)(.*)", path.read_text())
        assert used
        assert all(re.search(r"@[0-9a-f]{40}$", action) and re.match(r" # v\d", version) for action, version in used)


def test_every_work_of_the_bibliography_can_be_cited():
    keys = re.findall(r"^\| \[(\w+)\] \|", (ROOT / "docs/bibliography.md").read_text(), re.MULTILINE)
    cited = re.findall(r"\[(\w+)\]", "\n".join(re.findall(r"notes: .*", (ROOT / "CITATION.cff").read_text())))
    assert set(cited) == set(keys)


def waits(path: Path) -> list[str]:
    """Calls that may wait for ever: of other processes and of threads, without a limit in seconds."""
    found = []
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or any(word.arg == "timeout" for word in call.keywords):
            continue
        what = ast.unparse(call.func)
        runs = what in {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
        bare = not call.args and not call.keywords and re.search(r"\.(join|wait|communicate)$", what)
        if runs or bare or what.endswith((".urlopen", ".create_connection", ".communicate")):
            found.append(f"{path.relative_to(ROOT)}, line {call.lineno}: {what}")
    return found


def test_every_wait_has_a_deadline():
    paths = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [wait for path in paths for wait in waits(path)] == []


def test_a_wait_without_a_deadline_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "a.py"
    file.write_text("thread.join()\nthread.join(5)\n', '.join(x)\nsubprocess.run(x)\nsubprocess.run(x, timeout=5)\n")
    assert waits(file) == ["a.py, line 1: thread.join", "a.py, line 4: subprocess.run"]
