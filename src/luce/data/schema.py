"""The schema of a table: which column plays which part, what type it has, and what was left out and why.

`Groups` carry it, a model stores it as JSON, and the next file, frame or row is read with it: categories keep their
codes, dates their unit, and a column that changed its type is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from luce.data.names import check_names, spelling
from luce.errors import DataError, SettingError
from luce.registry import unknown_setting
from luce.settings import TableOptions
from luce.spec import accepted

if TYPE_CHECKING:
    from luce.data.text.transformer import Text

FEATURE, LEFT_OUT, TEXT = "feature", "left out", "text"
ROLES = {"qid": ("qid", "query_id"), "label": ("label",), "doc": ("document_id",), "weight": ("query_weight",)}
"""Names that are taken where none is given."""
_ROLES: dict[str, tuple[str, ...]] = {**ROLES, "subtopics": ("subtopics",)}
COLUMN_LISTS = ("features", "drop", "categorical")
_COMPUTED = "computed"
"""The type of a feature that is made of texts."""
_TYPES = ("number", "boolean", "category", "date", "duration", "text", "other", _COMPUTED)
DATE_UNIT = "days since 1970-01-01 UTC"
_DROPPED, _UNASKED, _FRAME_INDEX = "dropped", "not asked for", "the index of a data frame"
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")
_ID = re.compile(r"(?i:(.*[_ .-])?(id|uuid|uid|guid|key|index|nr|rownum|pk))|.*[a-z]I[dD]")
_QUERY = re.compile(r"q|(q|query|search|srch|session|request|impression|topic)[_ .-]?(id|no|nr|number)?", re.IGNORECASE)


def named_as_id(name: str) -> bool:
    """Whether a column is called as ids are.

    >>> [name for name in ("id", "sku_id", "docId", "price", "paid") if named_as_id(name)]
    ['id', 'sku_id', 'docId']
    """
    return _ID.fullmatch(name) is not None


def likely_queries(names: Iterable[str]) -> list[str]:
    """The columns that are called as query ids are.

    >>> likely_queries(["search", "price", "Session ID", "queries"])
    ['search', 'Session ID']
    """
    return [name for name in names if _QUERY.fullmatch(name)]


class TableWords(TypedDict, total=False):
    """What may be said of the columns of a table, `luce.settings.TableOptions`; the last two are older words."""

    qid: str | None
    label: str | None
    doc: str | None
    weight: str | None
    features: Sequence[str] | None
    drop: Sequence[str]
    categorical: Sequence[str]
    label_map: Mapping[str, float] | None
    subtopics: str | None
    text: Text | None
    schema: Schema | None
    allow_nan: bool
    document_id: str | None
    query_weight: str | None


def words(given: Mapping[str, Any]) -> dict[str, Any]:
    """The words that were given, the older ones under their new names.

    >>> words({"document_id": "sku", "qid": None})
    {'doc': 'sku'}
    """
    unknown = [name for name in given if name not in TableWords.__annotations__]
    if unknown:
        raise unknown_setting("A table", unknown, TableWords.__annotations__)
    said = {name: value for name, value in given.items() if value is not None}
    for old, new in (("document_id", "doc"), ("query_weight", "weight")):
        if old in said:
            if new in said:
                raise SettingError(f"{new} and {old} mean the same; give one of them.")
            said[new] = said.pop(old)
    return accepted(TableOptions, said)


@dataclass(frozen=True)
class Column:
    """A column: its part, its type, and for categories their names in the order of their codes."""

    name: str
    role: str
    type: str
    categories: tuple[str, ...] = ()
    why: str = ""
    """Why it was left out, or what is odd about it."""
    grades: tuple[tuple[str, float], ...] = ()
    """Of a label column of text: its values and their numbers."""

    def __post_init__(self) -> None:
        if self.role not in (FEATURE, LEFT_OUT, TEXT, *_ROLES) or self.type not in _TYPES:
            raise DataError(f"the column {self.name!r} has the role {self.role!r} and the type {self.type!r}")
        object.__setattr__(self, "categories", tuple(self.categories))  # lists where they come from JSON
        object.__setattr__(self, "grades", tuple((name, float(value)) for name, value in self.grades))

    @property
    def unit(self) -> str:
        """What 1 means, where the type says it."""
        return {"date": DATE_UNIT, "duration": "days"}.get(self.type, "")

    @property
    def unknown(self) -> int:
        """The code of a category that is not among the known ones."""
        return len(self.categories)


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in their order; features in the order of the matrix."""

    columns: tuple[Column, ...]
    text: Text | None = None
    """What makes features of texts; they come after the others."""

    def __post_init__(self) -> None:
        check_names([column.name for column in self.columns])

    @property
    def features(self) -> tuple[Column, ...]:
        """The features, a column of the matrix each."""
        return tuple(column for column in self.columns if column.role == FEATURE)

    @property
    def cells(self) -> tuple[Column, ...]:
        """The features that are columns of a table; others are computed from texts."""
        return tuple(column for column in self.features if column.type != _COMPUTED)

    @property
    def left_out(self) -> tuple[Column, ...]:
        """What is not used, and `why`."""
        return tuple(column for column in self.columns if column.role == LEFT_OUT)

    @property
    def categories(self) -> dict[int, tuple[str, ...]]:
        """The names of the codes, by the number of the feature."""
        return {i: column.categories for i, column in enumerate(self.features) if column.type == "category"}

    @property
    def roles(self) -> dict[str, str]:
        """The columns that play a part other than that of a feature, by it: words for another table."""
        return {column.role: column.name for column in self.columns if column.role in _ROLES}

    def named(self, role: str) -> str | None:
        """The column that plays a part."""
        return next((column.name for column in self.columns if column.role == role), None)

    def remark(self) -> str:
        """One sentence a part: which columns are features, which are ids, which were left out and why.

        >>> columns = [Column("q", "qid", "text"), Column("x", "feature", "number")]
        >>> Schema((*columns, Column("t", "left out", "text", why="it is different in every row"))).remark()
        'Features: x. Query: q. Left out: t (it is different in every row). Not used as they are: t; compare texts \
with that of the query by text=, --text, or name those of few values in categorical=, --categorical.'
        """
        titles = {"qid": "Query", "label": "Label", "doc": "Document", "weight": "Weight", "subtopics": "Subtopics"}
        found = [_listed([_with_type(column) for column in self.cells])] if self.cells or self.text is None else []
        if self.text is not None:
            made = len(self.features) - len(self.cells)
            found.append(f"{made} of the texts {', '.join(self.text.fields)} against {self.text.query}")
        parts = ["Features: " + "; ".join(found)]
        parts += [f"{title}: {name}" for role, title in titles.items() if (name := self.named(role)) is not None]
        if self.left_out:
            parts.append("Left out: " + _listed([f"{column.name} ({column.why})" for column in self.left_out], 30))
        parts += [f"Not used as they are: {needed}"] if (needed := self.unused_texts()) else []
        odd = [f"{column.name}: {column.why}" for column in self.features if column.why]
        return ". ".join([*parts, *(["Note " + _listed(odd)] if odd else [])]) + "."

    def unused_texts(self) -> str:
        """The texts that nobody named and that are no features, and what would make them one; "" for none."""
        texts = [c.name for c in self.left_out if c.type == "text" and c.why not in (_DROPPED, _UNASKED, _FRAME_INDEX)]
        what = (
            "; compare texts with that of the query by text=, --text, or name those of few values in categorical=, "
            "--categorical"
        )
        return _listed(texts) + what if texts else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        columns = [{**asdict(column), "categories": list(column.categories)} for column in self.columns]
        return {"columns": columns, **({} if self.text is None else {"text": self.text.to_dict()})}

    @classmethod
    def from_dict(cls, record: Any) -> Schema:
        """What `to_dict` gave; anything else is a `DataError`."""
        try:
            columns = [Column(**each) for each in record["columns"]]
        except (TypeError, KeyError, ValueError) as error:
            raise DataError("the schema of its columns is damaged") from error
        texts = [text for c in columns for text in (c.name, c.role, c.type, c.why, *c.categories)]
        texts += [name for c in columns for name, _ in c.grades]
        if not all(isinstance(text, str) for text in texts):
            raise DataError("the schema of its columns is damaged")
        if "text" not in record:
            return cls(tuple(columns))
        from luce.data.text.transformer import Text

        text = Text.from_dict(record["text"])
        if [c.name for c in columns if c.type == _COMPUTED] != text.names:
            raise DataError("the schema of its columns is damaged")
        return cls(tuple(columns), text)

    def with_columns(self, changed: Iterable[Column]) -> Schema:
        """With some columns replaced, by name."""
        by_name = {column.name: column for column in changed}
        return replace(self, columns=tuple(by_name.get(column.name, column) for column in self.columns))

    def for_table(self, types: Mapping[str, str], said: Mapping[str, Any]) -> Schema:
        """The same features in another table; words that were said say which columns play the other parts."""
        again = [name for name in (*COLUMN_LISTS, "text") if name in said]
        if again:
            raise SettingError(f"The schema says which columns are features; leave {again[0]} (--{again[0]}) out.")
        known_roles = {role: name for role in _ROLES if (name := self.named(role)) is not None}
        taken = _roles(types, said, known_roles, self.text)
        for column in self.cells:
            _check_there(column.name, types, ", which is a feature")
            _check_type(column, types[column.name])
        known = next((column.grades for column in self.columns if column.role == "label"), ())
        rest = [_part(name, role, types, said, known) for role, name in taken.items()]
        rest += _text_columns(self.text, types, taken)
        return Schema((*rest, *(replace(column, why="") for column in self.features)), self.text)


def _text_columns(text: Text | None, types: Mapping[str, str], taken: Mapping[str, str]) -> list[Column]:
    """The columns that texts are read from, but for one that is the query id as well."""
    names = [] if text is None else text.columns
    for name in names:
        _check_there(name, types, " of text")
        other = next((role for role, column in taken.items() if column == name and role != "qid"), None)
        if other is not None:
            raise DataError(f"The column {name!r} cannot be both text and {other}; name another one.")
    return [Column(name, TEXT, "text") for name in names if name not in taken.values()]


def _part(
    name: str, role: str, types: Mapping[str, str], said: Mapping[str, Any], known: tuple[tuple[str, float], ...] = ()
) -> Column:
    """A column that is no feature; that of the labels with the numbers of its values."""
    type_ = types[name] if types[name] in _TYPES else "other"
    grades = tuple(said["label_map"].items()) if "label_map" in said else known if type_ == "text" else ()
    return Column(name, role, type_, grades=grades if role == "label" else ())


def _check_type(column: Column, found: str) -> None:
    known, numbers = column.type, ("number", "boolean")
    if found == known or (found in numbers and known in numbers) or known == "category" or found == "empty":
        return
    if found == "text" and known in ("text", "category"):
        return
    raise DataError(
        f"The column {column.name!r} holds {_kind(found)} here and held {_kind(known)} before; give it the same type."
    )


def _kind(type_: str) -> str:
    names = {"text": "text", "category": "text", "number": "numbers", "boolean": "true and false"}
    return names.get(type_, f"{type_}s")


def _with_type(column: Column) -> str:
    if column.type == "category":
        return f"{column.name} ({len(column.categories)} categories)"
    return f"{column.name} ({column.unit})" if column.unit else column.name


def _check_there(name: str, types: Iterable[str], what: str) -> None:
    """Refuse the name of a column that is not there, whatever it is for."""
    if name not in types:
        near = next((each for each in types if spelling(each) == spelling(name)), None)
        hint = "" if near is None else f" {near!r} is another name."
        raise DataError(f"There is no column {name!r}{what}; the columns are {_given(types)}: name one of them.{hint}")


def _given(types: Iterable[str]) -> str:
    """The columns of a table, but for arrays that were given beside it, which are called by their part."""
    beside = {f"({role})" for role in _ROLES}
    return _listed([name for name in types if name not in beside])


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _roles(
    types: Mapping[str, str], said: Mapping[str, Any], known: Mapping[str, str], text: Text | None = None
) -> dict[str, str]:
    """The column of every part: as said, as known from other data, or by its usual name."""
    taken: dict[str, str] = {}
    for role, usual in _ROLES.items():
        name = said.get(role)
        if name is not None:
            _check_there(name, types, f" for {role}")
        elif known.get(role) in types:
            name = known[role]
        if name is None:
            found = [each for each in usual if each in types and each not in said.get("drop", ())]
            if len(found) > 1:
                raise DataError(
                    f"Both {found[0]!r} and {found[1]!r} could be the query; say which by {role}=, --{role}, and leave "
                    "the other out by drop=, --drop."
                )
            name = found[0] if found else None
        if name is not None:
            if name in taken.values():
                other = next(each for each, column in taken.items() if column == name)
                raise DataError(f"The column {name!r} cannot be both {other} and {role}; name another one.")
            taken[role] = name
    if "label_map" in said and "label" not in taken:
        raise DataError("label_map (--label-map) was given, and there is no label column; name it by label=, --label.")
    if "qid" not in taken and text is not None:
        _check_there(text.query, types, " of text")
        taken["qid"] = text.query
    if "qid" not in taken:
        raise DataError(
            f"There is no column 'qid' for the query; the columns are {_given(types)}: name it by qid=, --qid"
            + (f", such as --qid {near[0]!r}." if (near := likely_queries(types)) else ".")
        )
    return taken


def _with_document(text: Text, types: Mapping[str, str], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was said, with the ids of the documents whose words are counted; refuses what goes with no table."""
    text.check()
    again = next((name for name in text.names if name in types), None)
    if again is not None:
        raise DataError(
            f"The column {again!r} has the name of a feature that is computed of texts; remove it, or train on such "
            "columns without text=, --text."
        )
    if text.doc is None:
        return said
    if text.corpus is None:
        _check_there(text.doc, types, " of document ids")
    if said.get("doc", text.doc) != text.doc:
        raise DataError(f"The texts' document ids are {text.doc!r}, and doc (--doc) is {said['doc']!r}; say one.")
    return {**said, "doc": text.doc} if text.doc in types else said


def choose(types: Mapping[str, str], said: Mapping[str, Any], index: Sequence[str] = ()) -> Schema:
    """The parts of columns of these types; `index` are columns that were the index of a data frame.

    By default every column is a feature that plays no other part and can be one. Which texts are categories, and which
    columns say nothing or too much, only their values tell: `luce.data.readers.columns`.
    """
    check_names(list(types))
    text = said.get("text")
    if text is not None:
        said = _with_document(text, types, said)
    taken = _roles(types, said, {}, text)
    texts = _text_columns(text, types, taken)
    read = [column.name for column in texts]
    drop, categorical = list(said.get("drop", ())), list(said.get("categorical", ()))
    wanted = said.get("features")
    for what, names in (("features", wanted or ()), ("drop", drop), ("categorical", categorical)):
        for name in names:
            _check_there(name, types, f" ({what})")
        used = [name for name in names if name in taken.values()]
        if used:
            role = next(each for each, name in taken.items() if name == used[0])
            raise DataError(f"The column {used[0]!r} is the {role}; it cannot be among {what} too.")
        compared = [name for name in names if name in read and what != "features"]
        if compared:
            raise DataError(f"The column {compared[0]!r} is compared as text (--text); leave it out of {what}.")
    both = set(drop) & {*(wanted or ()), *categorical}
    if both:
        raise DataError(f"The column {sorted(both)[0]!r} is to be dropped and to be used; say one of them.")
    columns = [*(_part(name, role, types, said) for role, name in taken.items()), *texts]
    rest = [name for name in (wanted if wanted is not None else types) if name not in (*taken.values(), *read)]
    left = [] if wanted is None else [name for name in types if name not in (*taken.values(), *read, *wanted)]
    for name in rest:
        type_ = "category" if name in categorical else types[name]
        why = _reason(name, type_, drop, index) if wanted is None and name not in categorical else ""
        if wanted is not None and type_ in ("other", "empty"):
            raise DataError(f"The column {name!r} cannot be a feature: {_reason(name, type_, (), ())}.")
        columns.append(Column(name, LEFT_OUT if why else FEATURE, type_ if type_ in _TYPES else "other", why=why))
    columns += [
        Column(name, LEFT_OUT, types[name] if types[name] in _TYPES else "other", why=_UNASKED) for name in left
    ]
    columns += [Column(name, FEATURE, _COMPUTED) for name in ([] if text is None else text.names)]
    return Schema(tuple(columns), text)


def _reason(name: str, type_: str, drop: Sequence[str], index: Sequence[str]) -> str:
    """Why a column is no feature, before its values are seen."""
    if name in drop:
        return _DROPPED
    if name in index or _INDEX.fullmatch(name):
        return _FRAME_INDEX
    return {"other": "neither numbers nor text", "empty": "empty"}.get(type_, "")
