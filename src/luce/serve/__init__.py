"""An HTTP service that ranks: `luce serve model.luce`, or `create_app` for a server of your own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
