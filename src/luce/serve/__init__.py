"""An HTTP service that ranks: `luce serve model.luce`, or `create_app` for a server of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luce.serve.app import create_app
    from luce.serve.settings import Limits

__all__ = ["Limits", "create_app"]


def __getattr__(name: str) -> Any:
    if name == "create_app":
        from luce.serve.app import create_app

        return create_app
    if name == "Limits":
        from luce.serve.settings import Limits

        return Limits
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
