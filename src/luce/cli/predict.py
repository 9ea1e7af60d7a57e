"""`luce predict`, `luce explain` and `luce convert`: scores of documents and their reasons; other formats."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli import data_options
from luce.cli.common import QuietFlag, Report, SeedOption, check_outputs
from luce.cli.options import Group, flag
from luce.errors import SettingError
from luce.result import check_ending

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker
    from luce.types import FloatArray


class _Answer(Group):
    """What is written."""

    out: Path | None = flag(None, "Where to write (default: standard output).", "--out", "-o")
    probabilities: Path | None = flag(None, "Also write a CSV with the chances of every pair of documents of a query.")
    top_k: int | None = flag(
        None, "With --format csv: a column with the chance to be among the first k, and its error where it is drawn."
    )
    format: str = flag("scores", "scores, trec or csv.")


def predict(
    *,
    data: Path = typer.Argument(..., help="Documents to score; labels are not needed in tables."),
    model: Path = typer.Option(..., help="A model file."),
    given: _Answer,
    seed: SeedOption = 0,
    reading: data_options.Reading,
    quiet: QuietFlag = False,
) -> None:
    """Score documents, one line each in the order of the file (trec: best first)."""
    report = Report(quiet=quiet)
    from luce.model_file import load
    from luce.registry import canonical

    data_options.check_predictions(given.out, given.format)
    if given.top_k is not None and canonical(given.format) != "csv":
        raise SettingError("--top-k adds a column to the table; give --format csv with it.")
    check_outputs(given.probabilities)
    ranker = load(model)
    options = reading.given()
    groups = data_options.read_matching(data, ranker.feature_names_, options, ranker.schema_)
    data_options.say_columns(report, groups)
    scores = ranker.predict(groups)
    ranker.random_state = seed
    if given.probabilities is not None:
        from luce.data.text_files import write_csv

        header = ("qid", "document_a", "document_b", "a_better", "tied", "b_better")
        write_csv(given.probabilities, header, _pairs(ranker, groups, scores))
        report.say(f"Wrote {given.probabilities}: {int((groups.sizes * (groups.sizes - 1) // 2).sum()):,} pairs.")
    extra = {} if given.top_k is None else _top_columns(ranker, groups, given.top_k, report)
    data_options.write_scores(report, given.out, groups, scores, given.format, extra=extra)


def _top_columns(ranker: Ranker, groups: Groups, k: int, report: Report) -> dict[str, FloatArray]:
    """The chance of each document to be among the first k; its standard error beside it where it is an estimate."""
    chances = ranker.topk_chances(groups, k)
    if not chances.draws:
        return {f"p_top_{k}": chances.probability}
    largest = f"standard errors are at most {chances.error.max():.2g}"
    report.say(f"p_top_{k} is estimated by {chances.draws:,} draws a query; {largest}.")
    return {f"p_top_{k}": chances.probability, f"p_top_{k}_error": chances.error}


def _pairs(ranker: Ranker, groups: Groups, scores: FloatArray) -> Iterator[tuple[Any, ...]]:
    """One row a pair of documents, the one with the higher score first."""
    import numpy as np

    from luce.data.groups import document_names

    names = document_names(groups)
    for q, pairs in enumerate(ranker.pairs(groups)):
        start, stop = groups.offsets[q], groups.offsets[q + 1]
        order = np.argsort(-scores[start:stop], kind="stable")
        for i, j in combinations(order, 2):
            chances = (pairs.before[i, j], pairs.tie[i, j], pairs.before[j, i])
            ids = (groups.query_ids[q], names[start + i], names[start + j])
            yield (*ids, *(f"{chance:.6g}" for chance in chances))


def explain(
    *,
    data: Path = typer.Argument(..., help="Documents to explain; labels are not needed in tables."),
    model: Path = typer.Option(..., help="A model file."),
    query: str | None = typer.Option(None, help="Id of the query (default: the first)."),
    document: str | None = typer.Option(None, help="Id of the document (default: the best of the query)."),
    against: str | None = typer.Option(None, help="Id of another document of the query: why one is above the other."),
    top: int = typer.Option(15, min=1, help="Features to show."),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        help="Write what features add to the documents of --query, or of all: .csv, .parquet or .json.",
    ),
    reading: data_options.Reading,
    report: Report,
) -> None:
    """Say what each feature adds to the score of a document, in sums that are exact."""
    import numpy as np

    from luce.data.groups import document_names
    from luce.model_file import load

    check_ending(out, (".csv", ".parquet", ".json"))
    ranker = load(model)
    groups = data_options.read_matching(data, ranker.feature_names_, reading.given(), ranker.schema_)
    ids, names = [str(each) for each in groups.query_ids], [str(each) for each in document_names(groups)]
    if query is not None and query not in ids:
        raise SettingError(f"There is no query {query!r}; the first are {', '.join(ids[:5])}.")
    q = 0 if query is None else ids.index(query)
    if out is not None:
        whole = groups if query is None else groups.take([q])
        ranker.explain(whole).write(out)
        report.say(f"Wrote {out}: {whole.n_rows:,} documents.")
    groups, names = groups.take([q]), names[groups.offsets[q] : groups.offsets[q + 1]]
    strange = next((name for name in (document, against) if name is not None and name not in names), None)
    if strange is not None:
        raise SettingError(f"Query {ids[q]} has no document {strange!r}; the first are {', '.join(names[:5])}.")
    rows = [None if name is None else names.index(name) for name in (document, against)]
    found = ranker.explain(groups, against=rows[1])
    row = int(np.argmax(found.scores)) if rows[0] is None else rows[0]
    sheet = found.of(row, top)
    about = f"Query {ids[q]}, document {names[row]}: score {found.scores[row]:.6g}, "
    about += "of which the reference has " if against is None else f"that of {against} is "
    sheet = sheet._replace(title=f"{about}{found.base_values[row]:.6g}")
    machine = {"query": ids[q], "document": names[row], "against": against, "score": float(found.scores[row])}
    added = dict(zip(found.feature_names, found.values[row].tolist(), strict=True))
    report.result(sheet, machine | {"reference": float(found.base_values[row]), "adds": added, "notes": found.notes})
    for note in found.notes:
        report.say(note)


def convert(
    *,
    source: Path = typer.Argument(..., metavar="IN", help="LETOR text, CSV, Parquet, Arrow, .lucedata or a JSON log."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="File; its end says the format: .lucedata, .parquet, .txt, .txt.gz."
    ),
    reading: data_options.JudgedReading,
    report: Report,
) -> None:
    """Convert judged documents; a .lucedata file opens at once by memory map, and is written in bounded memory."""
    from luce.data.groups import Groups
    from luce.data.mapped import stream_data
    from luce.data.readers.detect import open_source, read
    from luce.data.writers import check_data_output, write

    options = reading.given()
    suffix = check_data_output(out)
    report.say(f"Reading {source}")
    streams = suffix == ".lucedata" and "text" not in options  # words are counted in the whole table
    data: Any = open_source(source, **options) if streams else read(source, **options)
    if isinstance(data, Groups):
        write(data, out)
    else:
        data = stream_data(data, out)
    data_options.say_columns(report, data)
    report.result(*data_options.size_of(out, data))


def read_log(
    *,
    source: Path = typer.Argument(..., metavar="RESPONSES", help="Responses of an engine with logged features, JSON."),
    engine: str = typer.Option(..., "--from", help="elasticsearch, opensearch or solr."),
    judgements: Path = typer.Option(..., help="Grades: `4 qid:1 # doc`, CSV or TREC qrels."),
    log_name: str | None = typer.Option(None, help="The log to take where hits carry several (log_specs.name)."),
    absent: str = typer.Option("zero", help="A feature that the log leaves out is zero (it did not match) or nan."),
    out: Path = typer.Option(..., "--out", "-o", help="Table to write: .parquet, .lucedata, .txt or .txt.gz."),
    report: Report,
) -> None:
    """Turn features that a search engine logged into a table to train on."""
    from luce.data.readers.feature_log import parse_log, read_log
    from luce.data.writers import check_data_output, write
    from luce.registry import canonical, unknown_name

    if canonical(engine) not in _ENGINES:
        raise unknown_name("engine", engine, list(_ENGINES))
    check_data_output(out)
    if not parse_log(source, log_name):
        raise SettingError(f"{source} holds no response; give those of {engine}, one or a list of them, as JSON.")
    data = read_log(source, judgements=judgements, absent=absent, log_name=log_name)
    write(data, out)
    report.result(*data_options.size_of(out, data))


_ENGINES = ("elasticsearch", "opensearch", "solr")


def text_check(
    *,
    logged: Path = typer.Argument(..., help="A table of logged features, with the texts that they were logged for."),
    model: Path = typer.Option(..., help="A model of texts."),
    worst: float = typer.Option(1e-4, min=0, help="Largest relative difference that is no difference."),
    report: Report,
) -> None:
    """Compare logged features of texts with those that the model computes, feature by feature; exit 1 where they part.

    Columns have the names of the features, such as title.word_bm25; those that the table lacks are not compared.
    """
    from luce.data.text.transformer import text_check
    from luce.model_file import load

    ranker = load(model)
    text = None if ranker.schema_ is None else ranker.schema_.text
    if text is None:
        raise SettingError(f"{model} computes no features of texts; give a model that was trained with --text.")
    found = text_check(text, logged, worst)
    report.show(found)
    if found.parted:
        raise typer.Exit(1)
