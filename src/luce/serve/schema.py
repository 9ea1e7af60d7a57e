"""The form of a request as OpenAPI shows it; `requests` reads by hand what this describes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Document(_Strict):
    """One document: a list of all its features in the order of the model, or an object of features by name."""

    id: StrictStr | StrictInt | None = Field(
        default=None, description="Name of the document; its position where there is none."
    )
    features: list[Number] | dict[str, Number | StrictStr | bool] = Field(
        description="null is a missing value; a category is given by its name, a date as 2026-11-16."
    )


class WantedProbabilities(_Strict):
    """Probabilities to answer with; the model's loss must be a likelihood that has them."""

    top_k: int | None = Field(default=None, ge=1, description="Chance of being among the first k.")
    pairs: bool = Field(default=False, description="Chances of every pair: better, tied.")


class RankRequest(_Strict):
    """Documents of one query, as `documents`, or as a matrix of `features` with `ids` beside it (quicker to read)."""

    documents: list[Document] | None = None
    features: list[list[Number]] | None = None
    ids: list[StrictStr | StrictInt] | None = None
    top: int | None = Field(default=None, ge=1, description="Answer with the best so many only.")
    probabilities: WantedProbabilities = WantedProbabilities()
