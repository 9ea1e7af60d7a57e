"""`Track`: what following a target has found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from luce.result import Result, Sheet
from luce.track.files import time_column, write_rows
from luce.track.geometry import Geometry
from luce.track.signals import CLUTTER, UNKNOWN, Signals, Sources, label_codes
from luce.track.trust import Mode, Trust
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Track(Result):
    """Positions of a target, how sure they are, and where its signals came from.

    Attributes
    ----------
    times
        One a step, as in the signals.
    positions, covariances
        Posterior mean and covariance of displacements, smoothed where smoothing was asked for, else filtered.
    filtered_positions, filtered_covariances
        The same given only the signals up to each step.
    label_posteriors
        One matrix a step: a row a signal, a column a source and the last for clutter.
    lost
        Steps at which the track counted as lost; `skipped` are those whose signals were impossible at every particle
        and were left out.
    effective_sample_size
        Of the filter's weights.
    log_likelihood
        Estimate of log p(all signals); `evidence` is its part a step.
    trajectories
        Draws from the posterior of whole paths, (steps, draws, dimensions); None without smoothing.
    modes
        The places where the target may be at each step, the most probable first: mostly one. `positions` and
        `covariances` are those of all of them together.
    trust
        Whether the posterior is to be believed; None where that was not checked.
    remarks
        What a user should know.
    """

    times: FloatArray
    positions: FloatArray
    covariances: FloatArray
    filtered_positions: FloatArray
    filtered_covariances: FloatArray
    label_posteriors: list[FloatArray]
    lost: NDArray[np.bool_]
    skipped: NDArray[np.bool_]
    effective_sample_size: FloatArray
    evidence: FloatArray
    trajectories: FloatArray | None
    signals: Signals
    sources: Sources
    modes: list[list[Mode]]
    trust: Trust | None = None
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Track({len(self.times)} steps, {len(self.remarks)} remarks)"

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The remarks."""
        return self.remarks

    @property
    def geometry(self) -> Geometry:
        """Where positions live."""
        return self.sources.geometry

    @property
    def log_likelihood(self) -> float:
        """Estimate of the log-density of all signals."""
        return float(self.evidence.sum())

    @property
    def labels(self) -> IntArray:
        """The most probable source of every signal, in the order of `signals.arrivals`; -1 for clutter."""
        shares = np.concatenate([np.zeros((0, len(self.sources) + 1)), *self.label_posteriors])
        codes = np.argmax(shares, axis=1).astype(np.int64) if len(shares) else np.zeros(0, dtype=np.int64)
        return np.where(codes == len(self.sources), CLUTTER, codes)

    @property
    def label_names(self) -> list[str]:
        """The same by name."""
        names = [*self.sources.names, "clutter"]
        return [names[code] for code in self.labels]

    def agreement(self) -> float | None:
        """Share of the labels by hand that the inferred ones repeat; None where there are no labels by hand."""
        if self.signals.labels is None:
            return None
        by_hand = label_codes(self.signals.labels, self.sources)
        known = by_hand != UNKNOWN
        return float(np.mean(self.labels[known] == by_hand[known])) if np.any(known) else None

    def errors(self, truth: FloatArray) -> FloatArray:
        """Distances from a true path, one a step."""
        truth = self.geometry.check(truth, "True positions")
        pairs = zip(self.positions, truth, strict=True)
        return np.array([self.geometry.distances(p[None], q[None])[0, 0] for p, q in pairs])

    def covers(self, truth: FloatArray, level: float = 0.9) -> NDArray[np.bool_]:
        """Whether the ellipse of that level, of one of the modes, holds the true position; one answer a step."""
        truth = self.geometry.check(truth, "True positions")
        limit = chdtri(truth.shape[1], 1 - level)
        result = np.zeros(len(truth), dtype=bool)
        for k, (place, modes) in enumerate(zip(truth, self.modes, strict=True)):
            for mode in modes:
                gap = self.geometry.displacement(mode.position[None], place[None])[0]
                result[k] |= bool(gap @ np.linalg.pinv(mode.covariance) @ gap <= limit)
        return result

    def columns(self) -> dict[str, Any]:
        """One entry a column of the tidy table: a row a step."""
        axes = self.geometry.axes
        table: dict[str, Any] = {"time": self.times}
        table |= {axis: self.positions[:, a] for a, axis in enumerate(axes)}
        table |= {f"sd_{axis}": np.sqrt(self.covariances[:, a, a]) for a, axis in enumerate(axes)}
        if len(axes) == 2:
            table["covariance"] = self.covariances[:, 0, 1]
        table["signals"] = self.signals.counts
        table["genuine"] = np.array([float(len(s) - s[:, -1].sum()) for s in self.label_posteriors])
        table |= {"effective_sample_size": self.effective_sample_size, "lost": self.lost}
        # How many modes, the share of the first, and where the first two are; empty where there is one.
        table["modes"] = np.array([len(modes) for modes in self.modes], dtype=np.int64)
        table["mode_weight"] = np.array([modes[0].weight for modes in self.modes])
        for i, name in enumerate(("first", "second")):
            for a, axis in enumerate(axes):
                values = [modes[i].position[a] if len(modes) > 1 else np.nan for modes in self.modes]
                table[f"{name}_{axis}"] = np.array(values)
        return table

    def sheets(self) -> list[Sheet]:
        """A row a step; dates as texts."""
        found = self.columns()
        found["time"] = time_column(self.times, self.signals.dated)
        return [Sheet(f"Track of {len(self.times)} steps", found)]

    def as_dict(self) -> dict[str, Any]:
        """What the whole track comes to."""
        found: dict[str, Any] = {
            "steps": len(self.times),
            "signals": len(self.signals.arrivals),
            "genuine": max(0.0, float(self.columns()["genuine"].sum())),
            "last": self.positions[-1].tolist(),
            "median_sd": float(np.median(np.sqrt(np.trace(self.covariances, axis1=1, axis2=2)))),
            "log_likelihood": self.log_likelihood,
            "lost": int(self.lost.sum()),
            "skipped": int(self.skipped.sum()),
            "several_modes": sum(len(modes) > 1 for modes in self.modes),
            "trusted": None if self.trust is None else not self.trust.doubts and not self.lost.any(),
            "remarks": list(self.remarks),
        }
        agreement = self.agreement()
        return found if agreement is None else found | {"agreement": agreement}

    @property
    def lines(self) -> list[str]:
        """The same in words."""
        facts = self.as_dict()
        said = [
            f"{facts['steps']} steps, {facts['signals']} signals, {facts['genuine']:.0f} of them from sources",
            f"last position {', '.join(f'{value:.6g}' for value in facts['last'])}",
            f"median standard deviation {facts['median_sd']:.4g} {self.geometry.unit or 'units'}, "
            f"log-likelihood {facts['log_likelihood']:.6g}",
        ]
        if "agreement" in facts:
            said.append(f"agreement with the labels by hand {facts['agreement']:.1%}")
        return said

    def against(self, times: FloatArray, places: FloatArray) -> dict[str, float]:
        """Distances from a true path at the times that both have, and how often the 90% ellipses hold it."""
        _, mine, theirs = np.intersect1d(self.times, times, return_indices=True)
        truth = self.positions.copy()
        truth[mine] = places[theirs]
        errors, held = self.errors(truth)[mine], self.covers(truth)[mine]
        rms = float(np.sqrt(np.mean(np.square(errors))))
        return {"median_error": float(np.median(errors)), "rms_error": rms, "coverage": float(held.mean())}

    def save(self, path: str | Path, name: str = "1") -> None:
        """Write the track: CSV or Parquet (a row a step), or a CF trajectory (`.nc`)."""
        if Path(path).suffix.lower() == ".nc":
            from luce.track.netcdf import write_netcdf

            write_netcdf(path, {name: self})
        else:
            write_rows(path, self.sheets()[0].columns)
