"""Options of the commands that read judged documents, on this machine or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from luce.cli.common import check_outputs, listed, number_from, refuse_two
from luce.cli.options import Given, Group, Shown, flag
from luce.errors import DataError, SettingError
from luce.settings import LetorOptions, LogReading, TableOptions
from luce.spec import Spec

if TYPE_CHECKING:
    from luce.cli.common import Report
    from luce.data.groups import Groups
    from luce.data.schema import Schema
    from luce.distributed import Dataset
    from luce.types import FloatArray


DaskOption = Annotated[
    str | None,
    typer.Option("--dask", help="Work on the Dask cluster at this address, or 'local' for processes of this machine."),
]


def one_file(files: list[str]) -> Path:
    """The one file that work on one machine takes."""
    if len(files) > 1:
        raise SettingError(f"{len(files)} files were given; give one, or --dask local for all of them.")
    return Path(files[0])


@contextmanager
def on_cluster(
    address: str, files: list[str], options: dict[str, Any], features: tuple[str, ...] | None, report: Report
) -> Iterator[Dataset]:
    """Files as a data set on a cluster, for as long as the block lasts; says what it found."""
    from luce.distributed import connect, open_dataset

    if "text" in options:
        raise SettingError("--text is read on one machine, where all words are counted; leave out --dask.")
    if options.get("query_file") is not None and len(files) > 1:
        raise SettingError("--query-file goes with one file; name them FILE.query beside the files instead.")
    if address != "local":
        report.say(f"Looking for the Dask scheduler at {address} ...")
    with connect(address) as client:
        report.say(f"Reading {', '.join(files[:3])}{', ...' if len(files) > 3 else ''} on the cluster ...")
        dataset = open_dataset(client, files, features, **options)
        outline, repaired = dataset.layout.outline, dataset.layout.repaired
        report.say(
            f"{len(dataset.layout.files):,} files, {dataset.n_queries:,} queries, {outline.n_rows:,} documents, "
            f"{outline.n_features:,} features."
        )
        if repaired:
            report.say(
                f"{len(repaired):,} queries go from one file into the next ({', '.join(map(str, repaired[:3]))}"
                f"{', ...' if len(repaired) > 3 else ''}); each was made whole in one partition."
            )
        yield dataset


def read_matching(
    path: Path, feature_names: Sequence[str], options: dict[str, Any], schema: Schema | None = None
) -> Groups:
    """Read a file with these features; tables by schema or name, whatever else they hold.

    A text file with fewer features is refused: whether its last ones are zero or it is another data set, only the
    user can say (`n_features`).
    """
    from luce.data.readers.detect import data_format, read_like

    data, expected = read_like(path, feature_names, schema, options), len(feature_names)
    if data_format(path) == "letor" and data.n_features != expected:
        hint = f" if the last ones are zero in this file, give --n-features {expected}."
        raise DataError(
            f"{path} has {data.n_features} features, and {expected} are expected: give the same features;"
            + (hint if data.n_features < expected else " it has too many.")
        )
    return data


def check_predictions(out: Path | None, format: str) -> None:
    """Refuse a format or a file that scores cannot be written to, before any work."""
    from luce.data.trec import FORMATS
    from luce.registry import canonical, unknown_name

    if canonical(format) not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    check_outputs(out)


def write_scores(report: Report, out: Path | None, data: Groups, scores: FloatArray, format: str, **how: Any) -> None:
    """Write scores to a file, or to standard output where none is named."""
    from luce.data.trec import write_predictions

    write_predictions(sys.stdout if out is None else out, data, scores, format, **how)
    if out is not None:
        report.say(f"Wrote {out}: {data.n_rows:,} scores.")


def is_model(path: Path) -> bool:
    """Whether a path names a file that luce wrote, such as a model."""
    from luce.storage import container_kind

    return path.is_file() and container_kind(path) is not None


def is_base(path: Path) -> bool:
    """Whether a path names a model that others can stand on: of luce, or of LightGBM or XGBoost."""
    from luce.scorers.boosters import library_of_file

    return is_model(path) or library_of_file(path) is not None


def _text(said: FoldReading, doc: str | None) -> Any:
    """The features of texts that were asked for; options that mean something together alone are refused."""
    told = ("query_text", "text", "corpus", "text_features", "no_query_features")
    words = {name: value for name in told if (value := getattr(said, name)) not in (None, False, [])}
    if not words:
        return None
    for name, what in (("query_text", "the column of the query's text"), ("text", "the columns of documents' texts")):
        if name not in words:
            given = f"--{next(iter(words)).replace('_', '-')}"
            raise SettingError(f"{given} was given; --{name.replace('_', '-')}, {what}, is needed as well.")
    from luce.data.text.transformer import Text

    text = Text(
        words["query_text"], _columns(words["text"]), corpus=words.get("corpus"), doc=doc,
        features=words.get("text_features", "engine"), query_features="no_query_features" not in words,
    )  # fmt: skip
    text.check()
    return text


def _label_map(texts: list[str]) -> dict[str, float]:
    """A label map as it is written in a command.

    >>> _label_map(["good=2, ok=1", "bad=0"])
    {'good': 2.0, 'ok': 1.0, 'bad': 0.0}
    """
    grades: dict[str, float] = {}
    for part in _columns(texts):
        name, _, grade = map(str.strip, part.rpartition("="))
        if not name or name in grades:
            raise SettingError(
                f"--label-map has the part {part!r}; write every label once, with its number, as in good=2,ok=1,bad=0."
            )
        grades[name] = number_from(f"--label-map of {name!r}", grade, ", as in good=2,ok=1,bad=0")
    return grades


def _columns(texts: list[str]) -> list[str]:
    """Names of columns, which may be written as a,b,c."""
    return listed(",".join(texts))


_SHOWN = Shown(
    typed=dict.fromkeys(("features", "drop", "categorical"), (list[str], _columns))
    | {"label_map": (list[str], _label_map)},
    hidden=("n_features", "query_file", "judgements", "log_name", "subtopics", "text", "schema"),
)


class FoldReading(Given):
    """How the files of folds are read."""

    of: ClassVar[tuple[type[Spec], ...]] = (LetorOptions, TableOptions)
    shown = _SHOWN

    query_text: str | None = flag(None, "Column with the text of the query, for --text.")
    text: list[str] | None = flag(None, "Columns with texts of documents to compare with it, as a,b.")
    corpus: Path | None = flag(None, "All documents, to count words in; default: those of the table.")
    text_features: str | None = flag(None, "Features of texts: engine (default) or full.")
    no_query_features: bool = flag(False, "Leave out q_words and q_idf, which a client of an engine passes.")

    def given(self) -> dict[str, Any]:
        """The options that were given, for `luce.read`.

        >>> FoldReading({"allow_nan": True, "drop": ["a", "b"]}).given()
        {'allow_nan': True, 'drop': ['a', 'b']}
        """
        text = _text(self, self.settings.get("doc"))
        return {**self.settings, **({} if text is None else {"text": text})}


class Statements(Group):
    """Files of one kind that state something of documents, beside their grades or in place of them."""

    comparisons: list[Path] | None = flag(
        None, "CSV or Parquet with query, better, worse or query, tied_a, tied_b (and judge, weight); repeatable."
    )
    orders: list[Path] | None = flag(
        None, "Top lists: lines `query: d7 > {d2 d9} > rest`, a TREC run, or a table query, document, rank; repeatable."
    )
    clicks: Path | None = flag(
        None, "A click log (session, query, document, position, clicked), or counts of `luce clicks`."
    )

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that were given."""
        return [name for name in ("comparisons", "orders", "clicks") if getattr(self, name)]

    @property
    def files(self) -> list[Path]:
        """All files that were given."""
        return [*(self.comparisons or []), *(self.orders or []), *([self.clicks] if self.clicks else [])]

    def check_kinds(self) -> None:
        """Refuse files of two kinds."""
        for name in self.kinds[:1]:
            refuse_two(name, True, dict.fromkeys(self.kinds[1:], True))


def check_there(*paths: Path | None) -> None:
    """Refuse files that are not there, before others are read."""
    from luce.data.text_files import absent

    for path in paths:
        if path is not None and not path.exists():
            raise absent(path)


class StatedReading(FoldReading, Statements):
    """How the files of folds are read, and what is stated of their documents in place of grades."""

    def given(self) -> dict[str, Any]:
        """As `FoldReading`, with the paths of the files."""
        self.check_kinds()
        check_there(*self.files)
        said = super().given()
        said |= {name: list(map(str, files)) for name in ("comparisons", "orders") if (files := getattr(self, name))}
        return said | ({} if self.clicks is None else {"clicks": str(self.clicks)})


class Reading(FoldReading):
    """How the file is read."""

    shown = replace(_SHOWN, hidden=("judgements", "log_name", "subtopics", "text", "schema"))


class JudgedReading(Reading):
    """How the file is read; grades may stand in another one."""

    of = (LetorOptions, TableOptions, LogReading)
    shown = replace(_SHOWN, hidden=("log_name", "subtopics", "text", "schema"))


def size_of(file: Path, data: Any) -> tuple[str, dict[str, Any]]:
    """How many queries, documents and features a file has that was written, for people and machines."""
    facts = {"queries": len(data.query_ids), "documents": data.n_rows, "features": data.n_features}
    return f"{file}: {', '.join(f'{count} {name}' for name, count in facts.items())}", {"file": str(file), **facts}


def say_columns(report: Report, data: Any) -> None:
    """Once for a file: which columns of a table are features, which are ids, which were left out and why."""
    if not report.quiet and (schema := getattr(data, "schema", None)) is not None:
        report.say(schema.remark())
