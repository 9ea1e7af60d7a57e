"""Formulas as MathML at build time, so that the pages need neither scripts nor a network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
_PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of a page."""
    content = _INLINE.sub(lambda m: _mathml(m[1], "inline"), content)
    return _DISPLAY.sub(lambda m: _mathml(m[1], "block"), content)


def _mathml(formula: str, display: str) -> str:
    # A prime stands high by itself; as an exponent inside an index it would be too small to see.
    markup = _PRIMED.sub(rf"<mrow>\1{_PRIME}</mrow>", convert(html.unescape(formula), display=display))
    return markup.replace("<mi>&#x02032;</mi>", _PRIME)
