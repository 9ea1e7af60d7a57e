"""Rank aggregation: ballots, rules, axioms as numbers, Mallows models, learning from labels, and leaderboards.

Names are loaded on first use, so that `import luce.aggregate` costs nothing; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
