"""What there is to name: models, losses, scorers, trainers and metrics, with their defaults."""

from __future__ import annotations

from typing import Any

from luce.cli.common import Report, table
from luce.cli.watching import setting_text
from luce.errors import SettingError

KINDS = ("models", "losses", "scorers", "trainers", "metrics")


def show_catalogue(kind: str, report: Report) -> None:
    """Print all names of a kind."""
    if kind not in KINDS:
        raise SettingError(f"There is no list of {kind!r}; give one of {', '.join(KINDS)}.")
    lists = {"models": _models, "losses": _losses, "scorers": _scorers, "trainers": _trainers, "metrics": _metrics}
    header, rows, machine = lists[kind]()
    report.result(table(None, header, rows), {kind: machine})


Listed = tuple[list[str], list[list[Any]], dict[str, Any]]


def _models() -> Listed:
    from luce.systems import fixed_settings, model, ranker_names, settings_grid

    rows, machine = [], {}
    for name in ranker_names():
        parts = model(name).parts()
        own = {k: v for k, v in fixed_settings(name).items() if k not in ("loss", "scorer", "trainer")}
        found = {part: getattr(getattr(parts, part), "name", None) for part in ("loss", "scorer", "trainer")}
        rows.append([name, found["loss"] or "its own", found["scorer"] or "its own", found["trainer"], _settings(own)])
        machine[name] = {**found, "settings": own, "grid": settings_grid(name)}
    return ["model", "loss", "scorer", "trainer", "settings"], rows, machine


def _losses() -> Listed:
    from luce import losses

    return _parts("loss", losses)


def _scorers() -> Listed:
    from luce import scorers

    return _parts("scorer", scorers)


def _trainers() -> Listed:
    from luce import training

    return _parts("trainer", training)


def _parts(kind: str, module: Any) -> Listed:
    """Every part of a kind with the settings that it has by default."""
    from luce.registry import settings_of

    machine = {name: settings_of(module.get(name)) for name in module.names()}
    return [kind, "defaults"], [[name, _settings(own)] for name, own in machine.items()], machine


def _metrics() -> Listed:
    from luce.metrics import get, names

    found = {name: get(name).formula for name in names()}
    rows = [
        [name + ("@k" if f.takes_cutoff else ""), "higher is better" if f.greater_is_better else "lower is better"]
        for name, f in found.items()
    ]
    machine = {
        name: {"takes_cutoff": f.takes_cutoff, "greater_is_better": f.greater_is_better} for name, f in found.items()
    }
    return ["metric", ""], rows, machine


def _settings(settings: dict[str, Any]) -> str:
    return setting_text(settings) if settings else ""
