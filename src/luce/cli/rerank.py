"""`luce rerank`: rerank the scores of any base ranker by what the other documents of a query are like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli import data_options
from luce.cli.common import Report, SeedOption, check_outputs, check_unused, refuse_two, settings_from
from luce.cli.options import Group, flag
from luce.errors import DataError, SettingError

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.data.schema import Schema
    from luce.ranker import Ranker
    from luce.types import FloatArray


class _Learning(Group):
    """What a reranker learns from, and how: options of training alone."""

    qrels: Path | None = flag(None, "Judgements to learn from, instead of the data's: TREC qrels or a table.")
    valid: Path | None = flag(None, "Judged documents that choose the penalty.")
    valid_base: Path | None = flag(None, "Base scores of the validation documents.")
    base_folds: int | None = flag(
        None, "Fit the base on so many folds: each query is scored by a copy that did not see it."
    )
    greedy: bool = flag(False, "Place documents one by one, for diversity; learns from subtopics.")
    mmr: bool = flag(False, "Maximal marginal relevance, its weight chosen.")
    loss: str | None = flag(None, "Name of the loss (default: listnet).")
    l2: float | None = flag(None, "Penalty, where no validation data choose it.")
    metric: str | None = flag(None, "Metric on the validation data.")
    setting: list[str] | None = flag(None, "A parameter of the reranker, as kernels=cosine; may be repeated.")
    loss_setting: list[str] | None = flag(None, "A parameter of the loss, as name=value.")

    def ranker(self, seed: int) -> Ranker:
        """The reranker to be trained."""
        from luce.ranker import Ranker
        from luce.ranker.parts import inner

        settings, greedy = settings_from(self.setting), self.greedy or self.mmr
        refuse_two("greedy", self.greedy, {"mmr": self.mmr})
        if greedy and self.loss is not None:
            raise SettingError(
                f"--loss {self.loss}: the greedy reranker learns from subtopics, not by a loss; leave it out."
            )
        given = {name: getattr(self, name) for name in ("l2", "metric", "base_folds")}
        kept: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if greedy:
            own = {"method": "mmr" if self.mmr else "luce", **settings}
            own |= {} if self.metric is None else {"metric": self.metric}
            kept |= {"trainer": "greedy", **inner("trainer", own)}
        else:
            kept |= {"loss": self.loss or "listnet", "scorer": "listwise", **inner("scorer", settings)}
        ranker = Ranker(random_state=seed, **kept, **inner("loss", settings_from(self.loss_setting)))
        ranker.parts()
        return ranker


class _Beside(Group):
    """What is known of the documents beside their features."""

    relation: list[str] | None = flag(
        None, "NAME=FILE, edges: query, document_a, document_b or query, source, target, and weight."
    )
    subtopics: Path | None = flag(None, "query, document, subtopic (CSV, Parquet), or TREC diversity judgements.")


class _Files(Group):
    """Options: the reranker, which is trained or applied, and what it writes."""

    save: Path | None = flag(None, "Train a reranker and write it to this file.")
    model: Path | None = flag(None, "Apply this reranker.")
    out: Path | None = flag(None, "With --model: where to write (default: standard output).", "--out", "-o")
    format: str = flag("trec", "With --model: trec, scores or csv.")
    seed: SeedOption = 0


def rerank(
    *,
    context: typer.Context,
    base: Path = typer.Argument(
        ...,
        help="Base scores: a TREC run, scores or CSV as luce predict writes them, a model (LightGBM and XGBoost too), "
        "or model:NAME to train.",
    ),
    data: Path = typer.Argument(..., help="The documents that the base scores, with their features."),
    files: _Files,
    beside: _Beside,
    learning: _Learning,
    reading: data_options.Reading,
    report: Report,
) -> None:
    """Train a reranker on top of base scores (--save), or apply one (--model)."""
    save, model = files.save, files.model
    if (save is None) == (model is None):
        raise SettingError("Give --save FILE to train a reranker, or --model FILE to apply one: exactly one of them.")
    sources = _Sources(report, reading.given(), beside, learning.qrels)
    if model is not None:
        check_unused(
            context, [*_Learning.__dataclass_fields__, "seed"], "is for training, and --model applies a reranker"
        )
        data_options.check_predictions(files.out, files.format)
        groups, scores = _applied(model, base, data, sources)
        data_options.write_scores(report, files.out, groups, scores, files.format, tag="luce-rerank")
        return
    check_unused(context, ["out", "format"], "is for the ranking of --model, and a trained reranker goes to --save")
    check_outputs(save)
    ranker = learning.ranker(files.seed)
    groups, base_scores = _train(ranker, base, data, learning, sources)
    assert save is not None
    ranker.save(save)
    _tell(report, ranker, groups, base_scores, save)


class _Sources:
    """How the documents of a file become data with labels, relations and subtopics."""

    def __init__(self, report: Report, options: dict[str, Any], beside: _Beside, qrels: Path | None) -> None:
        self.report, self.options, self.subtopics, self.qrels = report, options, beside.subtopics, qrels
        self.relations: dict[str, Path] = {}
        for pair in beside.relation or []:
            name, equals, file = pair.partition("=")
            if not equals or not name or not file:
                raise SettingError(f"The relation {pair!r} must have the form NAME=FILE, as in similarity=edges.csv.")
            self.relations[name] = Path(file)

    def read(
        self, path: Path, like: tuple[str, ...] | None = None, schema: Schema | None = None, like_model: bool = True
    ) -> Groups:
        """The documents of a file; `like` and `schema` say which features they must have."""
        import numpy as np

        from luce.data.named_rows import with_subtopics
        from luce.data.readers.detect import beside, read
        from luce.data.trec import read_qrels

        options = self.options if like_model else beside(self.options)
        data = read(path, **self.options) if like is None else data_options.read_matching(path, like, options, schema)
        if like is None:
            data_options.say_columns(self.report, data)
        if self.qrels is not None:  # a document without a judgement has grade 0
            y = read_qrels(self.qrels).grades_of(data)
            if np.isnan(y).all():
                what = f"{self.qrels} judges none of the documents of the data"
                raise DataError(f"{what}; check the query and document ids.")
            data = replace(data, y=np.nan_to_num(y))
        if self.relations:
            data = self._related(path, data)
        if self.subtopics is not None:
            data = with_subtopics(data, self.subtopics, missing="skip_queries")
        return data

    def _related(self, path: Path, data: Groups) -> Groups:
        """With the relations; edges of queries that are in another file are counted, and some must be in this one."""
        from luce.data.named_rows import relate

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


def _scores(path: Path | None, data: Groups) -> FloatArray:
    from luce.data.trec import read_base

    if path is None:
        raise SettingError("--valid needs --valid-base: base scores of the validation documents.")
    return read_base(path, data)


def _check_files(*paths: Path | None) -> None:
    """Base scores are read after the documents, which may take long: whether they are there is checked before."""
    for path in paths:
        if path is not None and not path.is_file():
            why = "is a folder" if path.is_dir() else "does not exist"
            raise DataError(f"{path} {why}; base scores are a TREC run, a file of scores, or a model.")


def _train(
    ranker: Ranker, base: Path, data: Path, learning: _Learning, sources: _Sources
) -> tuple[Groups, FloatArray | None]:
    """Fit the reranker; gives the documents, and their base scores where the base is no model."""
    from luce.numerics.segments import differing

    report = sources.report
    new, valid, valid_base = _to_train(base), learning.valid, learning.valid_base
    _check_files(None if new else base, valid_base)
    if valid is None and valid_base is not None:
        raise SettingError("--valid-base goes with --valid; give both.")
    groups = sources.read(data, *_features_of(base))
    report.say(f"{groups.n_queries:,} queries, {groups.n_rows:,} documents, {groups.n_features:,} features.")
    if ranker.loss is not None and not differing(groups.y, groups.offsets).any():
        raise DataError(f"{data}: all labels of every query are equal; grades that differ, or --qrels, are needed.")
    checked = None if valid is None else sources.read(valid, groups.feature_names, groups.schema, like_model=False)
    scores: dict[str, Any] = {}
    if new is not None or data_options.is_base(base):
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
    return groups, scores.get("base_scores")


def _features_of(base: Path) -> tuple[tuple[str, ...], Schema] | tuple[()]:
    """Features and columns of a base that is a model of a table; nothing for any other one."""
    from luce.base import RankerBase, make_base

    at = make_base(str(base)) if data_options.is_base(base) else None
    if not isinstance(at, RankerBase) or at.ranker.schema_ is None:
        return ()
    return at.ranker.feature_names_, at.ranker.schema_


def _tell(report: Report, ranker: Ranker, groups: Groups, base_scores: FloatArray | None, save: Path) -> None:
    from luce.metrics import evaluate, get

    parts = ranker.parts_
    metric = get(str(parts.trainer.metric) if parts.trainer.name == "greedy" else parts.metric.name).name
    before = ranker.base_.scores(groups) if base_scores is None and ranker.base_ is not None else base_scores
    after = ranker.predict(groups, base_scores=base_scores)
    means = [evaluate(scores, groups, [metric], order="data").means[metric] for scores in (before, after)]
    fitted: Any = ranker.scorer_
    table = fitted.kernel_table()
    machine = {"model": str(save), "weights": table, "l2": fitted.l2, "metric": metric}
    machine |= {"before": means[0], "after": means[1], "validation": ranker.history_["validation"]}
    asked = getattr(ranker.parts().scorer, "terms", 1)
    if len(table) < asked:
        report.say(f"{len(table)} of {asked} terms were kept: a further one gained nothing.")
    weights = "; ".join(", ".join(f"{name} {value:.4g}" for name, value in row.items()) for row in table)
    text = f"Wrote {save}: {weights}. {metric} on these data {means[0]:.4f} before, {means[1]:.4f} after."
    report.result(text, machine)


def _applied(model: Path, base: Path, data: Path, sources: _Sources) -> tuple[Groups, FloatArray]:
    """The documents, and their scores by a reranker on top of the base."""
    from luce.base import make_base
    from luce.model_file import load

    _check_files(base)
    ranker = load(model)
    if not hasattr(ranker.scorer_, "kernel_table"):
        raise SettingError(f"{model} holds no reranker; use luce predict for it.")
    groups = sources.read(data, ranker.feature_names_, ranker.schema_)
    at = make_base(str(base)) if data_options.is_base(base) else None
    if ranker.on_scores_:
        below = _scores(base, groups) if at is None else at.scores(groups)
        return groups, ranker.predict(groups, base_scores=below)
    if at is None:
        raise SettingError(f"{model} holds its base model; use luce predict --model {model} {data}.")
    return groups, ranker.predict(groups)
