"""Leaderboards to publish: one page, or a folder of pages with their data beside them, without a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from luce.aggregate import Ballots, Board, CategoryBoards, Consensus, History, ScoreBoard
from luce.aggregate.board.options import sort_options
from luce.aggregate.board.result import Ranked, decimals
from luce.aggregate.positional import support
from luce.errors import SettingError
from luce.report.build import asset, content_policy, embedded_json, static_page
from luce.result import json_text, plain
from luce.spec import Spec, option
from luce.storage import atomic_write, check_output

_MOST = 300
"""Items that are set against each other, and lines of history: a page stays below 5 MB."""
_POINTS = 120
AnyBoard = Board | CategoryBoards | History | ScoreBoard | Consensus


def _links(name: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise SettingError(f"links is {value!r}; it must map items to addresses.")
    for item, address in value.items():
        if not str(address).startswith(("https://", "http://")):
            raise SettingError(f"The link of {item!r} is {address!r}; it must start with https:// or http://.")
    return value


class Publication(Spec):
    """What a page says beside the board.

    Parameters
    ----------
    title
        Title of the page.
    date
        Date of the board.
    source
        Where the results come from.
    links
        Addresses of items.
    """

    title: str = "Leaderboard"
    date: str | None = None
    source: str | None = None
    links: Mapping[str, str] | None = option(default=None, convert=_links)


def write_board_page(
    board: AnyBoard,
    path: str | Path,
    title: str = "Leaderboard",
    *,
    ballots: Ballots | None = None,
    unranked: str = "last",
    **more: Any,
) -> None:
    """Write the page of a board of any kind; `more` are the fields of `Publication`.

    A consensus of ballots has its head-to-head where the `ballots` are given, with items that a ballot leaves open
    `unranked` as for the rule.
    """
    check_output(path)
    _write(path, _page(_content(board, _about(title, more), ballots, unranked)))


def write_board_site(
    board: AnyBoard,
    folder: str | Path,
    title: str = "Leaderboard",
    *,
    ballots: Ballots | None = None,
    unranked: str = "last",
    **more: Any,
) -> list[Path]:
    """Write a static site: index.html, board.json, board.csv, and items/ with a page and a JSON file an item.

    Files of items that are no longer on the board stay where they are. The files that were written.
    """
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise SettingError(f"{out} is a file; a site needs a folder, new or old.")
    content = _content(board, _about(title, more), ballots, unranked)
    (out / "items").mkdir(parents=True, exist_ok=True)
    slugs = _slugs([row["name"] for row in content["rows"]])
    for row, slug in zip(content["rows"], slugs, strict=True):
        row["page"] = f"items/{slug}.html"
    texts = {
        "index.html": _page(content),
        "board.json": json_text(board.as_dict(), indent=1),
        "board.csv": board.to_csv(),
    }
    for row, slug in zip(content["rows"], slugs, strict=True):
        facts = _item(content, row)
        texts[f"items/{slug}.html"] = _item_page(content, facts)
        texts[f"items/{slug}.json"] = json_text(facts, indent=1)
    for name, text in texts.items():
        _write(out / name, text)
    return [out / name for name in texts]


def _about(title: str, more: Mapping[str, Any]) -> Publication:
    (about,) = sort_options("page", {"title": title, **more}, Publication)
    return about


def _write(path: str | Path, text: str) -> None:
    with atomic_write(path, "w") as stream:
        stream.write(text)


def _page(content: dict[str, Any]) -> str:
    style, script = asset("board.css"), asset("board.js")
    return Template(asset("board.html")).substitute(
        policy=content_policy(style, script),
        title=escape(content["title"]),
        style=style,
        script=script,
        data=embedded_json(content),
    )


def _slugs(names: list[str]) -> list[str]:
    """Names as they may stand in an address; what two names would share, or is nothing, gets a digest.

    >>> _slugs(["GPT 4", "gpt-4", "llama"])
    ['gpt-4-d89aa228', 'gpt-4-4d0717d1', 'llama']
    """
    plain_ = [re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:60] for name in names]
    digests = [blake2b(name.encode(), digest_size=4).hexdigest() for name in names]
    return [s if s and plain_.count(s) == 1 else f"{s}-{d}".strip("-") for s, d in zip(plain_, digests, strict=True)]


def _content(board: AnyBoard, about: Publication, ballots: Ballots | None, unranked: str) -> dict[str, Any]:
    """What the script of a page shows."""
    content = _consensus(board, ballots, unranked) if isinstance(board, Consensus) else _ranked(board)
    rows, source = content["rows"], f"Source: {about.source}." if about.source else ""
    names = {row["name"]: row for row in rows}
    for item, address in (about.links or {}).items():
        if item not in names:
            raise SettingError(f"A link is given for {item!r}, which is not on this board; it has {len(rows)} items.")
        names[item]["link"] = str(address)
    lead = ". ".join(text for text in (about.date, content["lead"]) if text)
    return plain(
        content
        | {
            "title": about.title,
            "date": about.date,
            "source": about.source,
            "lead": f"{lead} {source}".strip(),
            "tiers": max(row["tier"] for row in rows),
            "kept": [key for key in rows[0] if key not in ("better", "record", "link", "page", "place")],
        }
    )


def _ranked(board: Board | CategoryBoards | History | ScoreBoard) -> dict[str, Any]:
    """Boards of battles, of scores, by category and in time."""
    shown: Ranked = board.overall if isinstance(board, CategoryBoards) else board
    record = shown.as_dict()
    tier = {name: k for k, names in enumerate(record["tiers"], 1) for name in names}
    lower, upper = shown.lower, shown.upper
    rows = []
    for place, row in enumerate(record["table"]):
        ends = {"lower": lower[place], "upper": upper[place]}
        better = {"better": np.flatnonzero(shown.surely_better[place, :_MOST])} if place < _MOST else {}
        rows.append(row | ends | {"place": place, "tier": tier[row["name"]], **better})
    _add_records(rows, shown)
    counted = next(key for key in ("games", "tasks") if key in rows[0])
    columns: list[dict[str, Any]] = [{"key": "rank", "label": "rank"}, {"key": "name", "label": "name"}]
    columns += [
        {"key": "strength", "label": "strength"},
        {"key": "bar", "label": "interval", "by": "lower", "roomy": True},
    ]
    columns += [
        {"key": "rank_lower", "to": "rank_upper", "label": "ranks"},
        {"key": "rank_each_lower", "to": "rank_each_upper", "label": "ranks, each by itself", "roomy": True},
        *({"key": key, "label": label, "roomy": True} for key, label in (("se", "error"), (counted, counted))),
    ]
    best, said = len(shown.may_be_best), list(board.notes)
    if len(rows) > _MOST:
        said.append(f"Items are set against each other, and shown over time, down to place {_MOST}.")
    return {
        "rows": rows,
        "columns": columns,
        "counted": counted,
        "recorded": "won–lost–drawn",
        "lead": f"{len(rows)} items; {best} may be best. Tiers do not overlap: whatever is above is surely better.",
        "digits": decimals([row["se"] for row in rows]),
        "methods": _methods(shown, record),
        "notes": said,
        **_more(board),
    }


def _add_records(rows: list[dict[str, Any]], board: Ranked) -> None:
    """What every item won, lost and drew against every other, where the board has its battles."""
    kept = board.kept if isinstance(board, Board) and len(rows) <= _MOST else None
    if kept is None:
        return
    n, place = len(rows), np.array([board.posterior.index(name) for name in kept.names])
    counts = np.zeros((n, n, 3))
    many = np.ones(len(kept.a)) if kept.count is None else kept.count
    for a, b, turned in ((kept.a, kept.b, [0, 1, 2]), (kept.b, kept.a, [1, 0, 2])):
        np.add.at(counts, (place[a], place[b], np.array(turned)[kept.outcome]), many)
    for row, line in zip(rows, counts.astype(np.int64).tolist(), strict=True):
        row["record"] = [f"{w}–{lost}–{d}" if w + lost + d else None for w, lost, d in line]


def _methods(board: Ranked, record: dict[str, Any]) -> str:
    """Two sentences: where strengths come from, and what the ranks mean."""
    if isinstance(board, History):
        how = f"{record['battles']:,.0f} battles by {record['model']} as random walks, at {record['now']}"
    elif isinstance(board, ScoreBoard):
        how = f"ranks on {len(board.tasks)} tasks by {record['model']}"
    else:
        how = f"{record['battles']:,.0f} battles by {record['model']}, errors by {record['errors']}"
    return (
        f"Strengths come from {how}, as differences from their weighted mean, with intervals at {record['level']:.0%}. "
        "The rank of an item lies between 1 + the number of items that are surely better and n - the number that are "
        "surely worse, for all items at once."
    )


def _more(board: AnyBoard) -> dict[str, Any]:
    """Probabilities, records, categories and history, for the boards that have them."""
    if isinstance(board, CategoryBoards):
        values = board.matrix().round(3)
        return _more(board.overall) | {"kinds": {"names": list(board.boards), "values": values}}
    if isinstance(board, Board):
        chances = {} if board.model.family == "hodge" else {"wins": board.win_matrix(), "draws": board.draw_matrix()}
        return {name: np.round(1000.0 * matrix[:_MOST, :_MOST]) for name, matrix in chances.items()}
    if isinstance(board, History) and board.mode is not None:
        lines = []
        for name in board.names[:_MOST]:
            line = board.history(name)
            pick = np.unique(np.linspace(0, len(line.time) - 1, min(_POINTS, len(line.time))).astype(int))
            lines.append({"name": name, "time": line.time[pick].round(3), "strength": line.strength[pick].round(3)})
        return {"history": lines, "dates": board.dates}
    return {}


def _consensus(board: Consensus, ballots: Ballots | None, unranked: str) -> dict[str, Any]:
    """The answer of a rule: its tiers, the places of equally good answers, and how ballots put pairs."""
    order, ranks, spans = board.order, board.ranks, board.spans
    tier = {name: k for k, names in enumerate(board.tiers, 1) for name in names}
    items = tuple(order) if board.optima is None else board.optima.items
    at = [items.index(name) for name in order]
    above = board.is_above(items)[np.ix_(at, at)]
    rows: list[dict[str, Any]] = []
    for k, name in enumerate(order):
        row = {"rank": ranks[name], "name": name, "score": board.scores[name], "tier": tier[name]}
        span = {"rank_lower": spans[name][0], "rank_upper": spans[name][1]}
        better = {"better": np.flatnonzero(above[:_MOST, k])} if k < _MOST else {}
        rows.append(row | span | {"place": k, **better})
    votes = ""
    if ballots is not None:
        place = [ballots.items.index(name) for name in order]
        shares = support(ballots, unranked)[np.ix_(place, place)]
        for row, line in zip(rows[:_MOST], shares, strict=False):
            row["record"] = [f"{100.0 * share:.1f}%" for share in line[:_MOST]]
        votes = f" of {ballots.total:,.0f} ballots"
    labels = {"rank": "rank", "name": "name", "score": "score"}
    columns: list[dict[str, Any]] = [{"key": key, "label": label} for key, label in labels.items()]
    return {
        "rows": rows,
        "columns": [*columns, {"key": "rank_lower", "to": "rank_upper", "label": "places"}],
        "recorded": "share of ballots",
        "lead": f"{len(rows)} items; first: {', '.join(board.winners)}.",
        "digits": 4,
        "methods": f"The consensus{votes} by the rule {board.title}. Items of one tier are tied, and places are those "
        "that an item has in all equally good answers.",
        "notes": list(board.notes),
    }


def _item(content: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """What the page of an item tells: its row, its categories, and how it stands against every other item."""
    i, wins = row["place"], content.get("wins") or []
    against = []
    for other in content["rows"][: _MOST if i < _MOST else 0]:
        j = other["place"]
        if j == i:
            continue
        known = i < len(wins) and j < len(wins) and wins[i][j] is not None
        chances = {"win": wins[i][j] / 1000, "draw": content["draws"][i][j] / 1000} if known else {}
        votes = {content["recorded"]: row["record"][j]} if j < len(row.get("record", ())) else {}
        decided = "behind" if j in row["better"] else "ahead" if i in other["better"] else "open"
        against.append({"name": other["name"], "page": other["page"], **chances, **votes, "stands": decided})
    kinds = content.get("kinds")
    by = {} if kinds is None else {"categories": dict(zip(kinds["names"], kinds["values"][i], strict=True))}
    past = [line for line in content.get("history", ()) if line["name"] == row["name"]]
    told = {key: row[key] for key in (*content["kept"], "link") if key in row}
    return told | by | ({"history": past[0]} if past else {}) | {"against": against}


def _item_page(content: dict[str, Any], facts: dict[str, Any]) -> str:
    """A page without a script."""
    name = escape(facts["name"])

    def cell(value: Any) -> str:
        text = "–" if value is None else f"{value:.{content['digits']}f}" if isinstance(value, float) else str(value)
        return f'<td class="number">{escape(text)}</td>'

    def table(title: str, rows: list[str], header: list[str]) -> str:
        heads = "".join(f'<th scope="col"{" class=number" if k else ""}>{escape(h)}</th>' for k, h in enumerate(header))
        return (
            f'<h2>{title}</h2><div class="wide" role="region" aria-label="{title}" tabindex="0"><table>'
            f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )

    def line(label: str, *cells: str) -> str:
        return f'<tr><th scope="row" class="name">{label}</th>{"".join(cells)}</tr>'

    parts = [
        table(
            "On the board",
            [line(key.replace("_", " "), cell(facts[key])) for key in content["kept"] if key != "name"],
            ["column", "value"],
        )
    ]
    if "categories" in facts:
        rows = [line(escape(kind), cell(value)) for kind, value in facts["categories"].items()]
        parts.append(table("By category", rows, ["category", "strength"]))
    if "history" in facts:
        when = 1970 if content["dates"] else 0
        pairs = list(zip(facts["history"]["time"], facts["history"]["strength"], strict=True))
        rows = [line(f"{when + time:.2f}", cell(strength)) for time, strength in pairs]
        parts.append(table("Over time", rows, ["time", "strength"]))
    keys = [
        key
        for key in ("win", "draw", str(content.get("recorded")), "stands")
        if any(key in one for one in facts["against"])
    ]
    rows = []
    for one in facts["against"]:
        shown = (f"{one[k]:.1%}" if isinstance(one.get(k), float) else one.get(k) for k in keys)
        rows.append(line(f'<a href="../{one["page"]}">{escape(one["name"])}</a>', *map(cell, shown)))
    parts += [table("Against the others", rows, ["against", *keys])] if rows else []
    link = (
        f'<p><a href="{escape(facts["link"])}" rel="noopener">{escape(facts["link"])}</a></p>'
        if "link" in facts
        else ""
    )
    about = ", ".join(escape(text) for text in (content["title"], content["date"]) if text)
    head = f'<header><h1>{name}</h1><p><a href="../index.html">{about}</a></p>{link}</header>'
    return static_page(f"{name}, {about}", asset("board.css"), f"{head}<main>{''.join(parts)}</main>")
