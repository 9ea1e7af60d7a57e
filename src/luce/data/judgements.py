"""Judgement lists: which document has which grade for which query, without any features."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from luce.data.readers.border import reader
from luce.data.readers.compressed import plain_suffix
from luce.data.table_file import TABLE_SUFFIXES, TableFile, table_kind
from luce.data.text_files import finite_number, numbered_lines
from luce.data.trec import read_qrels
from luce.errors import ParseError

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

    def add(self, path: Path, line: int, query: str, document: str, grade: str) -> None:
        """One judgement; a document may be judged once a query."""
        documents = self.grades.setdefault(query, {})
        if not query or not document:
            raise ParseError(path, "the query or the document is empty; every judgement names both.", line)
        if document in documents:
            raise ParseError(path, f"document {document!r} of query {query!r} is judged twice; once is allowed.", line)
        documents[document] = finite_number(path, line, "grade", grade)


@reader
def read_judgements(path: str | Path) -> Judgements:
    """Read a judgement list, plain or packed.

    - RankLib's form, `4 qid:1 # 7555 Rambo`: grade, query, and the document as the first word after `#`. Lines
      `# qid:1: rambo` say the words of a query; other lines of comment are left out.
    - A table (CSV, TSV, JSON lines, Parquet), columns in any order: query (or qid, keywords), document (or doc,
      docid), grade (or label).
    - TREC qrels: `qid iteration docno grade`.
    """
    path = Path(path)
    if plain_suffix(path) in TABLE_SUFFIXES or table_kind(path) != "csv":
        return _from_table(path)
    first = next(numbered_lines(path))[1]
    if "qid:" in first or first.lstrip().startswith("#"):
        return _from_lines(path)
    qrels, judged = read_qrels(path), Judgements()
    for query, document, grade in zip(qrels.qid.tolist(), qrels.docno.tolist(), qrels.grades.tolist(), strict=True):
        judged.grades.setdefault(query, {})[document] = grade
    return judged


def _from_lines(path: Path) -> Judgements:
    judged = Judgements()
    for number, text in numbered_lines(path):
        line = text.strip()
        if line.startswith("#"):
            words = _QUERY_TEXT.match(line)
            if words:
                judged.texts[words[1]] = words[2].strip()
            continue
        facts, _, comment = line.partition("#")
        parts, document = facts.split(), comment.split()
        if len(parts) < 2 or not parts[1].startswith("qid:") or not document:
            raise ParseError(path, "expected `<grade> qid:<query> # <document>`.", number)
        judged.add(path, number, parts[1].removeprefix("qid:"), document[0], parts[0])
    return _not_empty(path, judged)


def _from_table(path: Path) -> Judgements:
    file = TableFile(path)
    found = {name.lower(): name for name in file.names}
    columns = []
    for what, names in _COLUMNS.items():
        column = next((found[name] for name in names if name in found), None)
        if column is None:
            raise ParseError(
                path, f"no column for the {what}, such as {names[0]}; the columns are {', '.join(file.names)}."
            )
        columns.append(column)
    table = file.choose([columns])
    judged = Judgements()
    rows = zip(*(table[column].text() for column in columns[:2]), table[columns[2]].number().tolist(), strict=True)
    for row, (query, document, grade) in enumerate(rows):
        if document in judged.grades.get(query, {}):
            raise table.error(row, f"document {document!r} of query {query!r} is judged twice; once is allowed.")
        judged.grades.setdefault(query, {})[document] = grade
    return _not_empty(path, judged)


def _not_empty(path: Path, judged: Judgements) -> Judgements:
    if not judged.grades:
        raise ParseError(path, "no judgement in it; at least one is needed.")
    return judged
