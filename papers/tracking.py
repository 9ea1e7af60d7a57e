"""Makes docs/papers/tracking.md, its figures and its numbers: chapter 5 of the dissertation, again.

    python papers/tracking.py [--quick] [--page] [--only simulation|sigma|floats|two|boat|engines|sensitivity|...]

The parts are in `kit/tracking_*.py`. Numbers go to papers/results/tracking.json with their settings and seeds; the page
and the figures are made from them and from one run each. `--quick` is the same with few seeds and steps, into a
temporary folder. The parts about floats and the boat need the real data (LUCE_DATA, else ../shared/data beside the
project) and keep their last numbers without.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

from kit import ROOT, add, data_folder, kept
from kit import tracking_boat as boat
from kit import tracking_checks as checks
from kit import tracking_floats as floats
from kit import tracking_simulation as simulation
from kit.tracking_tools import say
from kit.verdicts import DRAWS, Claim, paired, with_verdicts

from luce.storage import atomic_write


class Part(NamedTuple):
    """How a part is measured, how its table is made, and the folder of real data that it needs."""

    measure: Callable[[bool, Path], dict[str, Any]]
    table: Callable[[list[dict[str, Any]]], str]
    needs: str | None = None


PARTS = {
    "simulation": Part(simulation.simulation, simulation.simulation_table),
    "sigma": Part(simulation.sigma, simulation.sigma_table),
    "engines": Part(simulation.engines, simulation.engine_table),
    "floats": Part(floats.floats, floats.float_table, "dimes"),
    "two": Part(floats.two, floats.two_table, "dimes"),
    "boat": Part(boat.boat, boat.boat_table, "acoustic"),
    "sensitivity": Part(checks.sensitivity, checks.sensitivity_table, "dimes"),
    "runs": Part(checks.runs, checks.runs_table, "dimes"),
    "trust": Part(checks.trust, checks.trust_table),
    "fresh": Part(checks.fresh, checks.fresh_table),
    "speed": Part(checks.speed, checks.speed_table, "dimes"),
    "emission": Part(checks.emission, checks.emission_table, "dimes"),
}


def page(results: dict[str, Any]) -> str:
    text = (ROOT / "papers" / "tracking.md.in").read_text()
    for name, part in PARTS.items():
        if name in results:
            text = text.replace(f"{{{name}}}", part.table(results[name]["rows"]))
    return with_verdicts(text, claims(results), results)


def claims(results: dict[str, Any]) -> list[Claim]:
    """That the order of the signals helps (Figure 5.8), by the logarithm of the squared error, seed by seed; floats and
    the boat are one journey each."""
    found = []
    rows = results.get("simulation", {"rows": []})["rows"]
    for path in ("straight", "spiral"):
        for rate in sorted({row["rate"] for row in rows}):
            logs = {
                engine: [
                    log10(row["mse"])
                    for row in rows
                    if (row["path"], row["rate"], row["engine"]) == (path, rate, engine)
                ]
                for engine in ("exact", "unranked")
            }
            on = f"{path}, clutter rate {rate}"
            said = "the ranked model above the unranked one (Figure 5.8)"
            minus = ([-value for value in logs[engine]] for engine in ("exact", "unranked"))
            found.append(paired(said, on, "minus log10 of the MSE", *minus, rests_on=DRAWS))
    for name in sorted({row["float"] for row in results.get("floats", {"rows": []})["rows"]}):
        by = {row["engine"]: -row["median_km"] for row in results["floats"]["rows"] if row["float"] == name}
        for said, upper, lower in (
            ("on floats, the ranked model above the unranked one", "exact", "unranked"),
            ("on floats, without labels above with labels", "exact", "labelled"),
        ):
            if upper in by and lower in by:
                gap = by[upper] - by[lower]
                found.append(Claim(said, f"float {name}", "median error, km", gap, remark="one journey"))
    by = {(row["engine"], row["r"]): -row["median_m"] for row in results.get("boat", {"rows": []})["rows"]}
    for r in sorted({r for _, r in by if r}):
        if ("exact", r) in by and ("unranked", r) in by:
            gap = by["exact", r] - by["unranked", r]
            said = "on real sound, the ranked model above the unranked one"
            found.append(Claim(said, f"boat, r = {r}", "median error, m", gap, remark="one journey"))
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few seeds and steps, into a temporary folder")
    parser.add_argument(
        "--only", choices=sorted(PARTS), action="append", help="only this part; the others keep their numbers"
    )
    parser.add_argument("--page", action="store_true", help="only the page again, from the stored numbers")
    parser.add_argument("--out", type=Path, help="folder in place of the project's (with --quick)")
    chosen = parser.parse_args(arguments)
    root = chosen.out or (Path(tempfile.mkdtemp()) if chosen.quick else ROOT)
    numbers, figures = root / "papers" / "results" / "tracking.json", root / "docs" / "papers" / "tracking"
    for folder in (numbers.parent, figures):
        folder.mkdir(parents=True, exist_ok=True)
    for name in () if chosen.page else chosen.only or PARTS:
        needs = PARTS[name].needs
        if needs is not None and not (data_folder() / needs).exists():
            say(f"{name}: the real data are not here; its last numbers stay")
            continue
        add(numbers, {name: PARTS[name].measure(chosen.quick, figures)})
    results = kept(numbers)
    if "simulation" in results:
        simulation.clutter_figure(results["simulation"]["rows"], figures / "clutter.png")
    with atomic_write(figures.parent / "tracking.md", "w") as stream:
        stream.write(page(results))
    print(f"Wrote the page under {root}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
