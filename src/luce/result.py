"""A result shows itself: its class gives sheets, remarks and a record; every form for people and machines is made here.

A sheet is a title and columns. From the sheets of a result come the tables of terminals, notebooks, Markdown and LaTeX,
frames, CSV and Parquet; from its record come JSON and `--json`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from luce.errors import SettingError

ENDINGS = (".csv", ".json", ".parquet", ".md", ".tex", ".html")
"""What `Result.write` can write, by the ending of the file's name."""
_MOST = 25
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Sheet(NamedTuple):
    """A table: a title, its columns by their headings, and how many decimals say something."""

    title: str
    columns: Mapping[str, Sequence[Any]]
    decimals: int = 4
    intervals: bool = False
    """Whether columns of lower and upper ends belong together; names that users gave may be called so as well."""

    @property
    def rows(self) -> list[list[Any]]:
        """The cells, row by row, as numbers and texts of Python; None where there is nothing to tell."""
        return [[plain(cell) for cell in row] for row in zip(*self.columns.values(), strict=True)]

    def cut(self, top: int | None) -> Sheet:
        """The first rows alone."""
        return self._replace(columns={name: list(values)[:top] for name, values in self.columns.items()})


def sheet_of(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], decimals: int = 4) -> Sheet:
    """A sheet of rows; a heading that repeats gets its number.

    >>> sheet_of("Means", ["metric", "mean"], [["map", 0.5]]).columns
    {'metric': ['map'], 'mean': [0.5]}
    """
    columns: dict[str, list[Any]] = {}
    for i, name in enumerate(header):
        again = list(header[:i]).count(name)
        columns[f"{name} {again + 1}" if again else name] = [row[i] for row in rows]
    return Sheet(title, columns, decimals)


class Result:
    """What a computation gives; a class says `sheets` and `as_dict`, and has every form."""

    notes: Sequence[str] = ()
    """What a reader must know to read the result rightly."""

    @property
    def lines(self) -> list[str]:
        """What is said below the tables, a sentence each."""
        return []

    def sheets(self) -> list[Sheet]:
        """The tables of the result, the main one first."""
        raise TypeError(f"{type(self).__name__} has no tables.")

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants, without NaN: what cannot be told is None."""
        return {"tables": [records(sheet.columns) for sheet in self.sheets()], "notes": list(self.notes)}

    def columns(self) -> dict[str, list[Any]]:
        """The main table, a list a column."""
        return {name: list(values) for name, values in self.sheets()[0].columns.items()}

    def to_frame(self, kind: str | None = None) -> Any:
        """The main table as a frame: "pandas", "polars", or None for a pyarrow table."""
        return as_frame(self.columns(), kind)

    def to_markdown(self) -> str:
        """All tables in Markdown."""
        return "\n\n".join(markdown_table(sheet) for sheet in self.sheets()) + "\n"

    def to_latex(self) -> str:
        """All tables in LaTeX, as `tabular` with the rules of booktabs."""
        return "\n".join(latex_table(sheet) for sheet in self.sheets())

    def to_csv(self, *, safe: bool = False) -> str:
        """The main table as CSV; `safe` puts ' before texts that a spreadsheet would take for a formula."""
        columns = self.columns()
        rows = zip(*([plain(cell) for cell in values] for values in columns.values()), strict=True)
        return csv_text([list(columns), *rows], safe=safe)

    def write(self, path: str | Path, *, safe: bool = False) -> None:
        """Write the result: .csv or .parquet (the main table), .json (everything), .md, .tex or .html."""
        from luce.storage import atomic_write

        check_ending(path, ENDINGS)
        kind = Path(path).suffix.lower()
        with atomic_write(path) as stream:
            if kind == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(as_frame(self.columns(), None), stream)
                return
            forms = {".csv": lambda: self.to_csv(safe=safe), ".md": self.to_markdown, ".tex": self.to_latex}
            forms |= {".json": lambda: json_text(self.as_dict(), indent=1) + "\n", ".html": self._repr_html_}
            stream.write(forms[kind]().encode())

    def _repr_html_(self) -> str:
        tables = [html_table(sheet) for sheet in self.sheets()]
        return "".join(tables) + "".join(f"<p>{escape(note)}</p>" for note in (*self.lines, *self.notes))


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of Python, None for NaN and infinity."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def json_text(record: Any, indent: int | None = None) -> str:
    """A record as JSON, without NaN.

    >>> json_text({"mean": float("nan"), "n": 3})
    '{"mean": null, "n": 3}'
    """
    return json.dumps(plain(record), allow_nan=False, default=str, indent=indent)


def records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """A row a mapping.

    >>> records({"name": ["a"], "rank": [1]})
    [{'name': 'a', 'rank': 1}]
    """
    rows = zip(*columns.values(), strict=True)
    return [{name: plain(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]


def csv_text(rows: Sequence[Sequence[Any]], *, safe: bool = False) -> str:
    """Rows as CSV, the header first.

    >>> csv_text([["name"], ["=1+1"]], safe=True)
    "name\\n'=1+1\\n"
    """
    text = io.StringIO()
    cells = ([f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA) else c for c in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells if safe else rows)
    return text.getvalue()


def check_ending(path: str | Path | None, kinds: Sequence[str]) -> None:
    """Refuse, before the work that fills it, a path whose ending says no such format or that cannot be written."""
    from luce.storage import check_output  # and NumPy

    if path is None:
        return
    if Path(path).suffix.lower() not in kinds:
        raise SettingError(f"Cannot write {path}: its ending must be one of {', '.join(kinds)}.")
    check_output(path)


def setting_text(settings: dict[str, Any], none: str = "the model as it is") -> str:
    """Settings as a person would say them, and what is said of none.

    >>> setting_text({"l2": 0.1, "scorer__num_leaves": 10})
    'l2=0.1, num_leaves=10'
    >>> setting_text({})
    'the model as it is'
    """
    named = (f"{place.rpartition('__')[2]}={value}" for place, value in settings.items())
    return ", ".join(named) or none


def seen(text: str) -> str:
    """A text without what a terminal would obey: control characters are shown by their codes.

    >>> seen("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda found: repr(found[0])[1:-1], text)


def seen_lines(text: str) -> str:
    """The same of several lines."""
    return "\n".join(map(seen, text.split("\n")))


def _text(value: Any, decimals: int, none: str = "") -> str:
    if value is None:
        return none
    if isinstance(value, float):
        return f"{value:.{decimals}f}"
    return str(value)


def _numeric(cells: Sequence[Any]) -> bool:
    return all(isinstance(cell, int | float) or cell is None for cell in cells) and any(c is not None for c in cells)


def _spans(sheet: Sheet) -> dict[str, list[Any]]:
    """The columns as texts and numbers, with the two ends of an interval in one: `rank_lower`, `rank_upper` as ranks.

    >>> _spans(Sheet("", {"lower": [-1.5], "upper": [None], "rank_lower": [1], "rank_upper": [3]}, 1, intervals=True))
    {'interval': ['from -1.5'], 'ranks': ['1 to 3']}
    """
    columns = {name: [plain(cell) for cell in cells] for name, cells in sheet.columns.items()}
    for lower in [name for name in columns if sheet.intervals and name.endswith("lower")]:
        stem = lower.removesuffix("lower")
        if (upper := f"{stem}upper") in columns:
            kind, *more = stem.rstrip("_").split("_")
            said = {lower: ", ".join([f"{kind}s" if kind else "interval", *more])}
            ends = zip(columns[lower], columns.pop(upper), strict=True)
            columns[lower] = [_span(*(_text(end, sheet.decimals) for end in both)) for both in ends]
            columns = {said.get(name, name): cells for name, cells in columns.items()}
    return columns


def _span(low: str, high: str) -> str | None:
    """An interval in words; None where it is open at both ends."""
    if low and high:
        return low if low == high else f"{low} to {high}"
    return f"from {low}" if low else f"up to {high}" if high else None


def for_terminal(sheet: Sheet) -> Any:
    """A plain table for the terminal; numbers to the right."""
    from rich import box
    from rich.console import Group
    from rich.markup import escape as as_it_is
    from rich.table import Table
    from rich.text import Text

    columns, shown = _spans(sheet), Table(box=box.SIMPLE_HEAD)
    for name, cells in columns.items():
        # Names, which stand first, are not broken unless they are long.
        least = min(max((len(str(cell)) for cell in cells), default=0), 40) if not shown.columns else None
        right = "right" if _numeric(cells) or name not in sheet.columns else "left"
        shown.add_column(as_it_is(seen(name)), justify=right, overflow="fold", min_width=least)  # type: ignore[arg-type]
    for row in zip(*columns.values(), strict=True):
        shown.add_row(*(as_it_is(seen(_text(cell, sheet.decimals, "-"))) for cell in row))
    # A title of the table's own would be broken at the width of the table.
    return Group(*([Text(seen(sheet.title), style="italic")] if sheet.title else []), shown)


def facts(title: str, rows: Sequence[tuple[str, Any]]) -> Sheet:
    """A sheet of names and values, without headings."""
    return Sheet(title, {"": [name for name, _ in rows], " ": [value for _, value in rows]})


def html_table(sheet: Sheet, most: int = _MOST) -> str:
    """A small table for a notebook: at `most` so many rows.

    >>> html_table(sheet_of("Means", ["metric", "mean"], [["map", 0.5]]))
    '<table><caption>Means</caption><tr><th>metric</th><th>mean</th></tr><tr><td>map</td><td>0.5000</td></tr></table>'
    """
    rows = sheet.rows
    head = "".join(f"<th>{escape(name)}</th>" for name in sheet.columns)
    shown = (
        [f"{c:,}" if isinstance(c, int) and not isinstance(c, bool) else _text(c, 4) for c in row]
        for row in rows[:most]
    )
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in shown)
    left = f"<p>... and {len(rows) - most:,} more</p>" if len(rows) > most else ""
    first = f"<tr>{head}</tr>" if any(name.strip() for name in sheet.columns) else ""
    return f"<table><caption>{escape(sheet.title)}</caption>{first}{body}</table>{left}"


def markdown_table(sheet: Sheet) -> str:
    """A table of Markdown."""
    rows = sheet.rows
    lines = [f"**{sheet.title}**", ""] if sheet.title else []
    lines.append("| " + " | ".join(sheet.columns) + " |")
    sides = ("---:" if _numeric([row[i] for row in rows]) else "---" for i in range(len(sheet.columns)))
    lines.append("| " + " | ".join(sides) + " |")
    for row in rows:
        cells = (_text(cell, sheet.decimals).replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {sign: "\\" + sign for sign in "&%$#_{}"}


def latex_table(sheet: Sheet) -> str:
    """A table of LaTeX, with the rules of booktabs."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join("".join(_TEX.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    rows = sheet.rows
    sides = "".join("r" if _numeric([row[i] for row in rows]) else "l" for i in range(len(sheet.columns)))
    body = [line([_text(cell, sheet.decimals) for cell in row]) for row in rows]
    head = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", line(list(sheet.columns)), r"\midrule"]
    return "\n".join([f"% {sheet.title}", *head, *body, r"\bottomrule", r"\end{tabular}", ""])


def as_frame(columns: Mapping[str, Sequence[Any]], kind: str | None) -> Any:
    """Columns as a frame of pandas or polars, and as a pyarrow table where neither is named.

    >>> as_frame({"feature": ["price"], "importance": [0.5]}, None).to_pylist()
    [{'feature': 'price', 'importance': 0.5}]
    """
    import pyarrow as pa

    table = pa.table({name: list(values) for name, values in columns.items()})
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table
