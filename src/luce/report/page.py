"""The page itself: one HTML file from a template, a style sheet, a script and the data.

Its content security policy names the hashes of its own style and script and allows nothing else: whatever stands in the
data, the page can neither run it nor ask any network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

STYLES = ("colours.css", "page.css", "panels.css", "media.css")

SCRIPTS = (
    "core.js",
    "charts.js",
    "leaderboard.js",
    "cutoffs.js",
    "differences.js",
    "shapley.js",
    "rankings.js",
    "why.js",
    "members.js",
    "importance.js",
    "calibration.js",
    "learning.js",
    "card.js",
    "main.js",
)


def render(title: str, facts: Mapping[str, Any], bundles: Mapping[str, str]) -> str:
    """The whole page as text."""
    style = "\n".join(map(_asset, STYLES))
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, SCRIPTS)) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = [f'<script type="application/json" id="facts">{embedded_json(facts)}</script>']
    data += [f'<script type="text/plain" id="bundle-{name}">{text}</script>' for name, text in bundles.items()]
    return Template(_asset("page.html")).substitute(
        title=escape(title), policy=policy, style=style, script=script, data="\n".join(data)
    )


def embedded_json(value: Any) -> str:
    """JSON that can stand inside a script element: no text of the data can end the element or open a comment.

    >>> embedded_json({"query": "</script><!--"})
    '{"query":"\\\\u003c/script>\\\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return files("luce.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
