"""Scores and grades in files: TREC runs and judgements, RankLib's judgement lists, one score a line, tables with ranks.

A run ranks by score, as trec_eval does; the rank column is written and not read.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.data.groups import Groups, document_names
from luce.data.table import Rows, Table
from luce.data.table_file import TableFile, WordFile
from luce.data.text_files import finite_number, is_table, number, numbered_lines, reader, table_kind, write_text
from luce.errors import DataError, LuceWarning, ParseError
from luce.numerics.segments import query_index
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TrecRun:
    """Scored documents, one row each: query id, document id, score."""

    qid: NDArray[np.str_]
    docno: NDArray[np.str_]
    scores: FloatArray
    tag: str = "luce"

    def __post_init__(self) -> None:
        _check_columns("run", self.qid, self.docno, self.scores)

    def __len__(self) -> int:
        return len(self.qid)

    @classmethod
    def from_scores(cls, data: Groups, scores: FloatArray, tag: str = "luce") -> TrecRun:
        """Scores aligned with the rows of `data` as a run."""
        if np.shape(scores) != (data.n_rows,):
            raise DataError(f"The data have {data.n_rows} documents, and the scores have shape {np.shape(scores)}.")
        return cls(data.qid.astype(str), document_names(data), np.asarray(scores, dtype=np.float64), tag)


@dataclass(frozen=True, eq=False)
class Qrels:
    """Judged documents, one row each: query id, document id, grade."""

    qid: NDArray[np.str_]
    docno: NDArray[np.str_]
    grades: FloatArray

    def __post_init__(self) -> None:
        _check_columns("judgements", self.qid, self.docno, self.grades)

    def __len__(self) -> int:
        return len(self.qid)

    @classmethod
    def from_groups(cls, data: Groups) -> Qrels:
        """The labels of `data` as judgements."""
        return cls(data.qid.astype(str), document_names(data), data.y)

    def grades_of(self, data: Groups) -> FloatArray:
        """The grade of every row of `data`, NaN where it has none."""
        keys = zip(self.qid.tolist(), self.docno.tolist(), strict=True)
        grades = dict(zip(keys, self.grades.tolist(), strict=True))
        return np.array([grades.get(key, np.nan) for key in _keys(data)])


def _keys(data: Groups) -> list[tuple[str, str]]:
    """Query and document of every row."""
    return list(zip(data.qid.astype(str).tolist(), document_names(data).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run joined with judgements, for `luce.evaluate(judged.scores, judged)`.

    Documents that are judged but not in the run have the score minus infinity: they take no position, and still count
    for recall, MAP and the ideal DCG. `unjudged_queries` are queries of the run that the judgements do not know.
    """

    y: FloatArray
    scores: FloatArray
    offsets: IntArray
    query_ids: NDArray[np.str_]
    document_ids: NDArray[np.str_]
    unjudged_queries: tuple[str, ...] = ()
    subtopics: sparse.csr_array | None = None


def _check_columns(what: str, qid: NDArray[Any], docno: NDArray[Any], values: FloatArray) -> None:
    if not (qid.ndim == 1 and qid.shape == docno.shape == values.shape):
        raise DataError(f"The columns of {what} must have one length; got {qid.shape}, {docno.shape}, {values.shape}.")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"Row {row} of the {what} has the value {values[row]}; finite numbers are needed.")


def triples(rows: Rows, names: Sequence[str], twice: str = "occurs twice") -> tuple[list[str], list[str], FloatArray]:
    """The columns of the query ids, document ids and values; a document may occur once a query."""
    queries, documents = rows[names[0]].text(), rows[names[1]].text()
    seen: set[tuple[str, str]] = set()
    for row, key in enumerate(zip(queries, documents, strict=True)):
        if key in seen:
            raise rows.error(row, f"document {key[1]!r} of query {key[0]!r} {twice}; once is allowed.")
        seen.add(key)
    return queries, documents, rows[names[2]].called(f"the {names[2]}").number()


_RUN = ("qid", "Q0", "docno", "rank", "score", "tag")


@reader
def read_run(path: str | Path) -> TrecRun:
    """Read a TREC run file, plain or packed."""
    rows = WordFile(path, _RUN).read()
    qid, docno, values = triples(rows, ("qid", "docno", "score"))
    return TrecRun(np.array(qid), np.array(docno), values, rows["tag"].text()[-1])


@reader
def read_qrels(path: str | Path) -> Qrels:
    """Read TREC qrels, `qid iteration docno grade`, or any other form of `read_judgements`, plain or packed."""
    qid, docno, grades = _judged_rows(path, {})
    return Qrels(np.array(qid), np.array(docno), grades)


def _words(what: str, names: Iterable[str]) -> list[str]:
    checked = list(names)
    for name in checked:
        if len(name.split()) != 1:
            raise DataError(
                f"The {what} {name!r} is empty or has a blank in it, which a TREC file cannot hold; rename it."
            )
    return checked


def run_lines(run: TrecRun) -> Iterable[str]:
    """The lines of a run file: queries in order of first appearance, documents best score first."""
    _, first, query = np.unique(run.qid, return_index=True, return_inverse=True)
    order = np.lexsort((-run.scores, first[query]))
    qid, docno = _words("query id", run.qid[order].tolist()), _words("document id", run.docno[order].tolist())
    (tag,) = _words("tag", [run.tag])
    _by_query(run.qid, run.docno, run.scores)  # refuses a document twice, as a reader would
    rank, previous = 0, None
    for query_id, document, score in zip(qid, docno, run.scores[order].tolist(), strict=True):
        rank = rank + 1 if query_id == previous else 1
        previous = query_id
        yield f"{query_id} Q0 {document} {rank} {score!r} {tag}\n"


def write_run(path: str | Path, run: TrecRun) -> None:
    """Write a TREC run file atomically, gzipped where the name ends in `.gz`."""
    with write_text(path) as stream:
        stream.writelines(run_lines(run))


def write_qrels(path: str | Path, qrels: Qrels) -> None:
    """Write a TREC qrels file atomically, gzipped where the name ends in `.gz`."""
    qid, docno = _words("query id", qrels.qid.tolist()), _words("document id", qrels.docno.tolist())
    with write_text(path) as stream:
        for query, document, grade in zip(qid, docno, qrels.grades.tolist(), strict=True):
            text = str(int(grade)) if grade.is_integer() else repr(grade)
            stream.write(f"{query} 0 {document} {text}\n")


def _by_query(qid: NDArray[np.str_], docno: NDArray[np.str_], values: FloatArray) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for query, document, value in zip(qid.tolist(), docno.tolist(), values.tolist(), strict=True):
        if document in (found := table.setdefault(query, {})):
            raise DataError(
                f"Document {document!r} stands twice in query {query!r}; a run and judgements name a document of a "
                "query once: leave one of the rows out."
            )
        found[document] = value
    return table


def join_run(
    run: TrecRun,
    qrels: Qrels,
    *,
    unjudged: Literal["zero", "skip"] = "zero",
    missing: Literal["include", "skip"] = "include",
) -> JudgedRun:
    """Join a run with judgements, in the order of the judged queries.

    Parameters
    ----------
    unjudged
        Documents of the run without a judgement have grade 0 (`zero`) or are taken out of the ranking (`skip`).
    missing
        Judged queries that the run leaves out count as queries for which nothing was retrieved (`include`, trec_eval's
        option -c), or not at all (`skip`, trec_eval's default).

    Examples
    --------
    >>> run = TrecRun(np.array(["1", "1"]), np.array(["a", "b"]), np.array([2.0, 1.0]))
    >>> judged = join_run(run, Qrels(np.array(["1", "1"]), np.array(["b", "c"]), np.array([1.0, 1.0])))
    >>> judged.document_ids.tolist(), judged.y.tolist(), judged.scores.tolist()
    (['a', 'b', 'c'], [0.0, 1.0, 1.0], [2.0, 1.0, -inf])
    """
    scored = _by_query(run.qid, run.docno, run.scores)
    judged = _by_query(qrels.qid, qrels.docno, qrels.grades)
    ids, offsets = [], [0]
    documents: list[str] = []
    labels: list[float] = []
    scores: list[float] = []
    for query, grades in judged.items():
        found = scored.get(query, {})
        if not found and missing == "skip":
            continue
        kept = [d for d in found if unjudged == "zero" or d in grades]
        absent = [d for d in grades if d not in found]
        ids.append(query)
        documents += kept + absent
        labels += [grades.get(d, 0.0) for d in kept] + [grades[d] for d in absent]
        scores += [found[d] for d in kept] + [-np.inf] * len(absent)
        offsets.append(len(documents))
    if not ids:
        raise DataError("The run and the judgements have no query in common; check that their query ids agree.")
    unknown = tuple(query for query in scored if query not in judged)
    if len(unknown) == len(scored):
        raise DataError(
            f"None of the {len(scored)} queries of the run is judged (the first is {unknown[0]!r}); check their ids."
        )
    if not any(document in judged.get(query, {}) for query, found in scored.items() for document in found):
        document = next(iter(scored[next(query for query in scored if query in judged)]))
        raise DataError(
            f"None of the documents of the run is judged (the first is {document!r}); check that their ids agree."
        )
    return JudgedRun(np.array(labels), np.array(scores), np.array(offsets), np.array(ids), np.array(documents), unknown)


_COLUMNS = {
    "query": ("qid", "query_id", "query", "keywords"),
    "document": ("document_id", "docid", "doc_id", "document", "doc", "docno", "id"),
    "grade": ("grade", "label", "rating", "relevance"),
}
_QUERY_TEXT = re.compile(r"#\s*qid:(\S+?):\s*(.*)")


@dataclass
class Judgements:
    """Grades by query and document, and the words of a query where the list has them."""

    grades: dict[str, dict[str, float]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.grades.values()))


@reader
def read_judgements(path: str | Path) -> Judgements:
    """Read a judgement list, plain or packed.

    - RankLib's form, `4 qid:1 # 7555 Rambo`: grade, query, and the document as the first word after `#`. Lines
      `# qid:1: rambo` say the words of a query; other lines of comment are left out.
    - A table (CSV, TSV, JSON lines, Parquet), columns in any order: query (or qid, keywords), document (or doc,
      docid), grade (or label).
    - TREC qrels: `qid iteration docno grade`.
    """
    texts: dict[str, str] = {}
    found = _judged_rows(path, texts)
    return Judgements(_by_query(*map(np.array, found)), texts)


def _judged_rows(path: str | Path, texts: dict[str, str]) -> tuple[list[str], list[str], FloatArray]:
    """Queries, documents and grades of a judgement list; `texts` takes the words of queries where it has them."""
    if is_table(path):
        file: Table = TableFile(path)
        names = [_column(file, what, usual) for what, usual in _COLUMNS.items()]
    elif "qid:" in (first := next(numbered_lines(path))[1]) or first.lstrip().startswith("#"):
        names = list(_COLUMNS)
        file = WordFile(path, names, partial(_judgement, texts))
    else:
        names = ["qid", "docno", "grade"]
        file = WordFile(path, ("qid", "iteration", "docno", "grade"))
    found = triples(file.choose([names]), names, "is judged twice")
    if not len(found[2]):
        raise ParseError(path, "no judgement in it; at least one is needed.")
    return found


def _column(file: Table, what: str, usual: Sequence[str]) -> str:
    """The column whose name, in whatever case, is a usual one."""
    there = {name.lower(): name for name in file.names}
    return file.name(role=what, usual=[there[name] for name in usual if name in there] or usual)


def _judgement(texts: dict[str, str], line: str) -> Sequence[str] | None:
    """Query, document and grade of a line of RankLib; a comment may say the words of a query."""
    facts, _, comment = line.strip().partition("#")
    parts, document = facts.split(), comment.split()
    if not parts:
        words = _QUERY_TEXT.match(line.strip())
        if words:
            texts[words[1]] = words[2].strip()
        return None
    if len(parts) < 2 or not parts[1].startswith("qid:") or not document:
        raise DataError("expected `<grade> qid:<query> # <document>`.")
    return parts[1].removeprefix("qid:"), document[0], parts[0]


FORMATS = ("scores", "trec", "csv")


@reader
def read_scores(path: str | Path, data: Groups) -> FloatArray:
    """Scores from a file with one a line, in the row order of the file that `data` came from; aligned with `data.X`."""
    scores = np.array([finite_number(path, line, "score", text.strip()) for line, text in numbered_lines(path)])
    if len(scores) != data.n_rows:
        said = f"there are {len(scores)} scores, and the data have {data.n_rows} documents; one each is needed."
        raise ParseError(path, said)
    return scores if data.row_order is None else scores[data.row_order]


@reader
def read_base(path: str | Path, data: Groups) -> FloatArray:
    """Scores of a base ranker for every document of `data`, aligned with `data.X`.

    The file is a TREC run, a table with the columns qid, docid and score (both as `luce predict` writes them), or one
    score a line in the row order of the file that `data` came from. Documents that the data do not have are passed
    over; one that the file does not score is an error.
    """
    first = next(numbered_lines(path))[1].strip() if table_kind(path) == "csv" else ""
    if number(first) == number(first):
        return read_scores(path, data)
    is_run = len(first.split()) == 6
    file = WordFile(path, _RUN) if is_run else Table.open(path)
    names = ("qid", "docno" if is_run else "docid", "score")
    queries, documents, values = triples(file.choose([names]), names)
    scores = dict(zip(zip(queries, documents, strict=True), values.tolist(), strict=True))
    keys = _keys(data)
    for query, document in keys:
        if (query, document) not in scores:
            called = (
                " The data name no documents, so that they are called d1, d2, ... by their rows; say which column has "
                "their names (--doc)."
                if data.document_ids is None
                else ""
            )
            said = (
                f"no score for document {document!r} of query {query!r}; every document of the data needs one.{called}"
            )
            raise ParseError(path, said)
    if beyond := len(scores) - len(set(keys)):
        message = f"{path}: the scores of {beyond:,} documents that the data do not have are not used."
        warnings.warn(message, LuceWarning, stacklevel=3)
    return np.array([scores[key] for key in keys])


def write_predictions(
    target: str | Path | IO[str],
    data: Groups,
    scores: FloatArray,
    format: str = "scores",
    *,
    tag: str = "luce",
    extra: Mapping[str, FloatArray] | None = None,
) -> None:
    """Write one score for every row of `data` to a file (atomically; gzipped for `.gz`) or an open text stream.

    Parameters
    ----------
    format
        `scores`: one a line, in the row order of the input. `csv`: qid, docid, score, rank, in the same order; rank 1
        is the best score of its query, and ties keep the input's order. `trec`: a run file, best first.
    tag
        Name of the run, for `trec`.
    extra
        Further columns of a `csv`, by name: one value a row of `data`.
    """
    name = canonical(format)
    if name not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (data.n_rows,):
        raise DataError(f"The data have {data.n_rows} documents, and the scores have shape {scores.shape}.")
    with write_text(target) if isinstance(target, str | Path) else nullcontext(target) as stream:
        if name == "csv":
            more = extra or {}
            columns = (data.qid, document_names(data), scores, ranks(scores, data.offsets), *more.values())
            rows = csv.writer(stream, lineterminator="\n")
            rows.writerow(("qid", "docid", "score", "rank", *more))
            rows.writerows(zip(*(data.to_input_order(each).tolist() for each in columns), strict=True))
        elif name == "trec":
            stream.writelines(run_lines(TrecRun.from_scores(data, scores, tag)))
        else:
            stream.writelines(f"{score!r}\n" for score in data.to_input_order(scores).tolist())


def ranks(scores: FloatArray, offsets: IntArray) -> IntArray:
    """Position of every row in its query by falling score, from 1; ties in row order.

    >>> ranks(np.array([0.1, 0.9, 0.5]), np.array([0, 2, 3])).tolist()
    [2, 1, 1]
    """
    query = query_index(offsets)
    position = np.empty(len(scores), dtype=np.int64)
    position[np.lexsort((-scores, query))] = np.arange(len(scores)) - offsets[query] + 1
    return position
