"""`luce rerank`: rerank the scores of any base ranker by what the other documents of a query are like."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, SeedOption, settings_from
from luce.cli.data_options import Reading, say_columns
from luce.errors import DataError, SettingError

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.data.schema import Schema
    from luce.ranker import Ranker
    from luce.types import FloatArray

__all__ = ["rerank"]


def rerank(
    *,
    base: Annotated[
        Path,
        typer.Argument(
            help="Base scores: a TREC run, scores or CSV as luce predict writes them, a model, or model:NAME to train."
        ),
    ],
    data: Annotated[Path, typer.Argument(help="The documents that the base scores, with their features.")],
    save: Annotated[Path | None, typer.Option(help="Train a reranker and write it to this file.")] = None,
    model: Annotated[Path | None, typer.Option(help="Apply this reranker.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --model: where to write (default: standard output).")
    ] = None,
    format: Annotated[str, typer.Option(help="With --model: trec, scores or csv.")] = "trec",
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements to learn from, instead of the data's.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Judged documents that choose the penalty.")] = None,
    valid_base: Annotated[Path | None, typer.Option(help="Base scores of the validation documents.")] = None,
    base_folds: Annotated[
        int | None,
        typer.Option(help="Fit the base on so many folds: each query is scored by a copy that did not see it."),
    ] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE, edges: query, document_a, document_b or query, source, target, and weight."),
    ] = None,
    subtopics: Annotated[
        Path | None, typer.Option(help="query, document, subtopic (CSV, Parquet), or TREC diversity judgements.")
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Place documents one by one, for diversity; learns from subtopics.")
    ] = False,
    mmr: Annotated[bool, typer.Option("--mmr", help="Maximal marginal relevance, its weight chosen.")] = False,
    loss: Annotated[str | None, typer.Option(help="Name of the loss (default: listnet).")] = None,
    l2: Annotated[float | None, typer.Option(help="Penalty, where no validation data choose it.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric on the validation data.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the reranker, as kernels=cosine; may be repeated.")
    ] = None,
    loss_setting: Annotated[list[str] | None, typer.Option(help="A parameter of the loss, as name=value.")] = None,
    seed: SeedOption = 0,
    reading: Reading,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train a reranker on top of base scores (--save), or apply one (--model)."""
    report = Report(as_json=json, quiet=quiet)
    if (save is None) == (model is None):
        raise SettingError("Give --save FILE to train a reranker, or --model FILE to apply one: exactly one of them.")
    sources = _Sources(report, reading.given(), relation or [], subtopics, qrels)
    if model is not None:
        training: dict[str, Any] = {
            "--qrels": qrels,
            "--valid": valid,
            "--valid-base": valid_base,
            "--loss": loss,
            "--base-folds": base_folds,
        }
        training |= {
            "--l2": l2,
            "--metric": metric,
            "--greedy": greedy or None,
            "--mmr": mmr or None,
            "--setting": setting,
        }
        for option, value in training.items():
            if value is not None:
                raise SettingError(f"{option} is for training; with --model leave it out.")
        _apply(report, model, base, data, sources, out, format)
        return
    if out is not None:
        raise SettingError("--out is for the ranking of --model; a trained reranker goes to --save.")
    from luce.ranker.parts import inner

    chosen = {"l2": l2, "metric": metric, "base_folds": base_folds, **inner("loss", settings_from(loss_setting))}
    ranker = _ranker(loss, greedy, mmr, settings_from(setting), {**chosen, "random_state": seed})
    assert save is not None
    _train(report, ranker, base, data, valid, valid_base, sources, save)


class _Sources:
    """How the documents of a file become data with labels, relations and subtopics."""

    def __init__(
        self, report: Report, options: dict[str, Any], relations: list[str], subtopics: Path | None, qrels: Path | None
    ) -> None:
        self.report, self.options, self.subtopics, self.qrels = report, options, subtopics, qrels
        self.relations: dict[str, Path] = {}
        for pair in relations:
            name, equals, file = pair.partition("=")
            if not equals or not name or not file:
                raise SettingError(f"The relation {pair!r} must have the form NAME=FILE, as in similarity=edges.csv.")
            self.relations[name] = Path(file)

    def read(
        self, path: Path, like: tuple[str, ...] | None = None, schema: Schema | None = None, like_model: bool = True
    ) -> Groups:
        """The documents of a file; `like` and `schema` say which features they must have."""
        from luce.cli.same_features import read_matching
        from luce.data.readers.detect import beside, read
        from luce.data.subtopics import with_subtopics

        options = self.options if like_model else beside(self.options)
        data = read(path, **self.options) if like is None else read_matching(path, like, options, schema)
        if like is None:
            say_columns(self.report, data)
        if self.qrels is not None:
            data = _judged(data, self.qrels)
        if self.relations:
            data = self._related(path, data)
        if self.subtopics is not None:
            data = with_subtopics(data, self.subtopics, missing="skip_queries")
        return data

    def _related(self, path: Path, data: Groups) -> Groups:
        """With the relations; edges of queries that are in another file are counted, and some must be in this one."""
        from luce.data.relations import relate

        related, left_out = relate(data, self.relations, "skip_queries")
        for name, count in left_out.items():
            if count and not related.relations[name].nnz:
                raise DataError(
                    f"{self.relations[name]}: none of its {count:,} edges is in a query of {path}; check the ids, or "
                    f"leave the relation {name!r} out."
                )
            if count:
                self.report.say(
                    f"Relation {name!r}: {count:,} edges of queries that {path} does not have are left out."
                )
        return related


def _judged(data: Groups, path: Path) -> Groups:
    """Labels from judgements; a document without one has grade 0."""
    from dataclasses import replace

    import numpy as np

    from luce.data.trec import document_names, read_qrels

    qrels = read_qrels(path)
    keys = zip(qrels.qid.tolist(), qrels.docno.tolist(), strict=True)
    grades = dict(zip(keys, qrels.grades.tolist(), strict=True))
    rows = zip(data.qid.astype(str).tolist(), document_names(data).tolist(), strict=True)
    y = np.array([grades.get(key, np.nan) for key in rows])
    if np.isnan(y).all():
        raise DataError(f"{path} judges none of the documents of the data; check the query and document ids.")
    return replace(data, y=np.nan_to_num(y))


def _ranker(loss: str | None, greedy: bool, mmr: bool, settings: dict[str, Any], chosen: dict[str, Any]) -> Ranker:
    from luce.ranker import Ranker
    from luce.ranker.parts import inner

    if greedy or mmr:
        if greedy and mmr:
            raise SettingError("--greedy and --mmr were given; give one of them.")
        settings = {"method": "mmr" if mmr else "luce", **settings}
        if chosen["metric"] is not None:
            settings["metric"] = chosen["metric"]
        if loss is not None:
            raise SettingError(
                f"--loss {loss}: the greedy reranker learns from subtopics, not by a loss; leave it out."
            )
    part = "trainer" if greedy or mmr else "scorer"
    kept = {name: value for name, value in chosen.items() if value is not None}
    kept |= inner(part, settings)
    ranker = Ranker(trainer="greedy", **kept) if part == "trainer" else Ranker(loss or "listnet", "listwise", **kept)
    ranker.parts()
    return ranker


def _to_train(base: Path) -> Ranker | None:
    """The system that `model:NAME` names, to be trained as the base."""
    kind, colon, name = str(base).partition(":")
    if not colon or kind != "model":
        return None
    from luce.ranker import Ranker
    from luce.systems import model

    found = model(name)
    if not isinstance(found, Ranker):
        raise SettingError(f"The base {base} aggregates rankings; a base must score documents by features.")
    return found


def _is_model(path: Path) -> bool:
    from luce.storage import container_kind

    return path.is_file() and container_kind(path) is not None


def _check_files(*paths: Path | None) -> None:
    """Base scores are read after the documents, which may take long: whether they are there is checked before."""
    for path in paths:
        if path is not None and not path.is_file():
            raise DataError(f"{path}: no such file; base scores are a TREC run, a file of scores, or a model.")


def _scores(path: Path | None, data: Groups) -> FloatArray:
    from luce.data.predictions import read_base

    if path is None:
        raise SettingError("--valid needs --valid-base: base scores of the validation documents.")
    return read_base(path, data)


def _train(
    report: Report,
    ranker: Ranker,
    base: Path,
    data: Path,
    valid: Path | None,
    valid_base: Path | None,
    sources: _Sources,
    save: Path,
) -> None:
    from luce.storage import check_output

    check_output(save)
    new = _to_train(base)
    _check_files(None if new else base, valid_base)
    if valid is None and valid_base is not None:
        raise SettingError("--valid-base goes with --valid; give both.")
    groups = sources.read(data, *_features_of(base))
    report.say(f"{groups.n_queries:,} queries, {groups.n_rows:,} documents, {groups.n_features:,} features.")
    if ranker.loss is not None and not _has_preferences(groups):
        raise DataError(f"{data}: all labels of every query are equal; grades that differ, or --qrels, are needed.")
    checked = None if valid is None else sources.read(valid, groups.feature_names, groups.schema, like_model=False)
    scores: dict[str, Any] = {}
    if new is not None or _is_model(base):
        ranker.base = str(base) if new is None else new
        if valid_base is not None:
            raise SettingError("The base is a model, which scores the validation documents; leave --valid-base out.")
    else:
        if ranker.base_folds is not None:
            raise SettingError(
                f"--base-folds: {base} holds scores, which no fold can fit again; give a model, or model:NAME, or "
                "scores of documents by models that did not see their queries."
            )
        scores["base_scores"] = _scores(base, groups)
        if checked is not None:
            scores["valid_base_scores"] = _scores(valid_base, checked)
    with report.progress(f"Reranking by {ranker.parts().title}"):
        ranker.fit(groups, valid=checked, **scores)
    ranker.save(save)
    _tell(report, ranker, groups, scores.get("base_scores"), save)


def _features_of(base: Path) -> tuple[tuple[str, ...], Schema] | tuple[()]:
    """Features and columns of a base that is a model of a table; nothing for any other one."""
    from luce.model_file import load

    ranker = load(base) if _is_model(base) else None
    return () if ranker is None or ranker.schema_ is None else (ranker.feature_names_, ranker.schema_)


def _has_preferences(data: Groups) -> bool:
    import numpy as np

    starts = data.offsets[:-1]
    return bool(np.any(np.maximum.reduceat(data.y, starts) > np.minimum.reduceat(data.y, starts)))


def _tell(report: Report, ranker: Ranker, groups: Groups, base_scores: FloatArray | None, save: Path) -> None:
    from luce.metrics import evaluate, get

    metric = get(_metric(ranker)).name
    before = ranker.base_.scores(groups) if base_scores is None and ranker.base_ is not None else base_scores
    after = ranker.predict(groups, base_scores=base_scores)
    means = [evaluate(scores, groups, [metric], order="data").means[metric] for scores in (before, after)]
    fitted: Any = ranker.scorer_
    table = fitted.kernel_table()
    machine = {"model": str(save), "weights": table, "l2": fitted.l2, "metric": metric}
    machine |= {"before": means[0], "after": means[1], "validation": ranker.history_["validation"]}
    weights = "; ".join(", ".join(f"{name} {value:.4g}" for name, value in row.items()) for row in table)
    text = f"Wrote {save}: {weights}. {metric} on these data {means[0]:.4f} before, {means[1]:.4f} after."
    report.result(text, machine)


def _metric(ranker: Ranker) -> str:
    parts = ranker.parts_
    return str(parts.trainer.metric) if parts.trainer.name == "greedy" else parts.metric.name


def _apply(
    report: Report, model: Path, base: Path, data: Path, sources: _Sources, out: Path | None, format: str
) -> None:
    from luce.data.predictions import FORMATS, write_predictions
    from luce.model_file import load
    from luce.registry import canonical, unknown_name
    from luce.storage import check_output

    if canonical(format) not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if out is not None:
        check_output(out)
    _check_files(base)
    ranker = load(model)
    if not hasattr(ranker.scorer_, "kernel_table"):
        raise SettingError(f"{model} holds no reranker; use luce predict for it.")
    groups = sources.read(data, ranker.feature_names_, ranker.schema_)
    if ranker.on_scores_:
        scores = ranker.predict(groups, base_scores=_base_scores(base, groups))
    elif _is_model(base):
        scores = ranker.predict(groups)
    else:
        raise SettingError(f"{model} holds its base model; use luce predict --model {model} {data}.")
    write_predictions(sys.stdout if out is None else out, groups, scores, format, tag="luce-rerank")
    if out is not None:
        report.say(f"Wrote {out}: {groups.n_rows:,} scores.")


def _base_scores(base: Path, groups: Groups) -> FloatArray:
    if _is_model(base):
        from luce.base import make_base

        at = make_base(str(base))
        assert at is not None
        return at.scores(groups)
    return _scores(base, groups)
