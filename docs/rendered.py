"""Shows the notebooks of the documentation, with the outputs that they keep, on the page that lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
_LINES = 40
"""Lines of an output that are shown."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page on notebooks, followed by each of them."""
    if page.file.src_path != "notebooks.md":
        return markdown
    return "\n\n".join([markdown, *(rendered(path) for path in sorted(FOLDER.glob("*.ipynb")))])


def rendered(path: Path) -> str:
    """A notebook as Markdown: its headings one level lower, its code, and what the code gave."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append("\n".join(f"#{line}" if line.startswith("#") else line for line in source.splitlines()))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return (
            f'<img alt="Picture that the cell draws" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
        )
    if "text/html" in data:
        return f"<div>{' '.join(''.join(data['text/html']).split())}</div>"
    lines = "".join(output.get("text", data.get("text/plain", ""))).splitlines()
    return "```text\n" + "\n".join(lines[:_LINES]) + "\n```" if lines else ""
