"""What there is to name: models, losses, scorers and metrics, with their defaults."""

from __future__ import annotations

from typing import Any

from luce.cli.common import Report, table
from luce.cli.watching import setting_text
from luce.errors import SettingError

__all__ = ["KINDS", "show_catalogue"]

KINDS = ("models", "losses", "scorers", "metrics")


def show_catalogue(kind: str, report: Report) -> None:
    """Print all names of a kind."""
    if kind not in KINDS:
        raise SettingError(f"There is no list of {kind!r}; give one of {', '.join(KINDS)}.")
    header, rows, machine = {"models": _models, "losses": _losses, "scorers": _scorers, "metrics": _metrics}[kind]()
    report.result(table(None, header, rows), {kind: machine})


Listed = tuple[list[str], list[list[Any]], dict[str, Any]]


def _models() -> Listed:
    from luce.ranker import Ranker
    from luce.scorers import has_own_criterion
    from luce.systems import model, ranker_names, search_space

    plain = Ranker().get_params()
    rows, machine = [], {}
    for name in ranker_names():
        system, grid = model(name), search_space(name)
        loss = None if has_own_criterion(system.scorer) else str(system.loss)
        own = {k: v for k, v in system.get_params().items() if v != plain[k] and k not in ("loss", "scorer")}
        rows.append([name, loss or "its own", system.scorer, _settings(own)])
        machine[name] = {"loss": loss, "scorer": system.scorer, "settings": own, "grid": grid}
    return ["model", "loss", "scorer", "settings"], rows, machine


def _losses() -> Listed:
    from luce import losses

    rows, machine = [], {}
    for name in losses.names():
        loss = losses.get(name)
        rows.append([name, _settings(loss.settings)])
        machine[name] = loss.settings
    return ["loss", "defaults"], rows, machine


def _scorers() -> Listed:
    from luce import scorers

    rows, machine = [], {}
    for name in scorers.names():
        defaults = scorers.defaults(name)
        rows.append([name, _settings(defaults)])
        machine[name] = defaults
    return ["scorer", "defaults"], rows, machine


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
