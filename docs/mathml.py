"""Formulas as MathML at build time, so that the pages need neither scripts nor a network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of a page."""
    content = _INLINE.sub(lambda m: convert(html.unescape(m[1]), display="inline"), content)
    return _DISPLAY.sub(lambda m: convert(html.unescape(m[1]), display="block"), content)
