"""How much is tried: one seed a case by day; three, and all estimators, where LUCE_ALL_SEEDS is set, as by night."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("LUCE_ALL_SEEDS", "") not in ("", "0")
SEEDS = range(3 if THOROUGH else 1)
