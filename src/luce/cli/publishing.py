"""Options of commands that publish a board: a page, or a site of pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from luce.cli.common import check_unused
from luce.cli.options import flag
from luce.errors import SettingError
from luce.result import check_ending


@dataclass(frozen=True)
class Publishing:
    """A page to publish."""

    page: Path | None = flag(None, "Write a page to publish: .html", "--html", "--page")
    site: Path | None = flag(None, "Write a static site into this folder: index, items, JSON.")
    title: str | None = flag(None, "Title of the page.")
    date: str | None = flag(None, "Date that the page shows.")
    source: str | None = flag(None, "Where the results come from, for the page.")
    link: list[str] | None = flag(None, "item=address; may be repeated.")

    def check(self, context: typer.Context) -> None:
        """Refuse what cannot be written, and words for no page."""
        check_ending(self.page, (".html",))
        if self.page is None and self.site is None:
            check_unused(context, [Publishing], "does nothing without --html or --site")

    def write(self, board: Any, **more: Any) -> None:
        """Write what was asked for."""
        from luce.report.board_pages import write_board_page, write_board_site

        links = {}
        for text in self.link or ():
            name, sign, address = text.partition("=http")
            if not sign:
                raise SettingError(f"--link was given {text!r}; it takes item=https://...")
            links[name] = f"http{address}"
        told = {"title": self.title, "date": self.date, "source": self.source, "links": links or None}
        given = more | {name: value for name, value in told.items() if value is not None}
        if self.page is not None:
            write_board_page(board, self.page, **given)
        if self.site is not None:
            write_board_site(board, self.site, **given)
