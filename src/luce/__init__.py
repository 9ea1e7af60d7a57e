"""Probabilistic ranking for the data people really have.

data -> scorer -> loss -> trainer, four independent choices; then metric, report, export. Names are loaded on first use,
so that `import luce` costs nothing; `__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
