"""Learning curves: objective and validation metric by round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

MOST_POINTS = 200


def learning_curves(table: pa.Table, models: list[str], folds: list[str]) -> list[dict[str, Any]]:
    """A dict a curve, thinned to about 200 points; the first, the last, the lowest and the highest are among them."""
    keys = ["model", "fold", "part", "measure"]
    if table.num_rows == 0:
        return []
    columns = {name: table[name].cast(pa.string()).to_pylist() for name in keys}
    rounds, values = (table[name].to_numpy().astype(np.float64) for name in ("round", "value"))
    grouped: dict[tuple[str, ...], list[int]] = {}
    for i, key in enumerate(zip(*columns.values(), strict=True)):
        grouped.setdefault(key, []).append(i)
    curves = []
    for (model, fold, part, measure), members in grouped.items():
        if model not in models or fold not in folds:
            continue
        rows = np.array(members)
        rows = rows[np.argsort(rounds[rows], kind="stable")]
        rows = rows[np.isfinite(values[rows])]
        if not len(rows):
            continue
        even = np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(np.int64)
        kept = rows[np.union1d(even, [np.argmin(values[rows]), np.argmax(values[rows])])]
        curves.append(
            {
                "model": models.index(model),
                "fold": folds.index(fold),
                "part": part,
                "measure": measure,
                "round": [int(r) for r in rounds[kept]],
                "value": [float(f"{v:.6g}") for v in values[kept]],
            }
        )
    return curves
