"""Formulas as MathML at build time, so that the pages need neither scripts nor a network."""

from __future__ import annotations

import html
import logging
import re
from typing import Any

from latex2mathml.converter import convert

_log = logging.getLogger("mkdocs.hooks.mathml")
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
_OPERATOR = re.compile(r"\\operatorname\{([^{}]*)\}")
_PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of a page."""
    content = _INLINE.sub(lambda m: _mathml(m[1], "inline"), content)
    return _DISPLAY.sub(lambda m: _mathml(m[1], "block"), content)


def _mathml(formula: str, display: str) -> str:
    # latex2mathml has no \arg, and sets the letters of an operator apart and in italics.
    source = html.unescape(formula).replace(r"\arg\max", r"\operatorname{arg max}")
    source = _OPERATOR.sub(r"\\text{\1}", source)
    # A prime stands high by itself; as an exponent inside an index it would be too small to see.
    markup = _PRIMED.sub(rf"<mrow>\1{_PRIME}</mrow>", convert(source, display=display))
    if "\\" in re.sub(r"<[^>]*>", "", markup):
        _log.warning("A formula has a command that latex2mathml does not know: %s", source)
    return markup.replace("<mi>&#x02032;</mi>", _PRIME)
