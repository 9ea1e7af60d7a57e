"""How much is tried: by day one seed a case; where LUCE_ALL_SEEDS is set, as by night, three, and all estimators."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("LUCE_ALL_SEEDS", "") not in ("", "0")
SEEDS = range(3 if THOROUGH else 1)


def many(count: int) -> int:
    """How many random cases of a test that has `count`: a third by day."""
    return count if THOROUGH else -(-count // 3)
