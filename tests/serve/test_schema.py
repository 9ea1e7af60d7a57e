"""Requests made up from the service's own description: none may break it, and every answer is as described."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, given, settings

from luce.serve import Limits, create_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

WITH_BODY = ["POST /models/{name}/rank", "POST /rank"]
OPERATIONS = ["GET /health", "GET /models", "GET /models/{name}", "GET /metrics", "POST /reload", *WITH_BODY]
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def described(models) -> dict:
    app = create_app({"only": models["trees"]}, Limits(documents=50))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    return {operation.ok().label: operation.ok() for operation in schema.get_all_operations()}


def test_all_routes_are_described(described):
    assert sorted(described) == sorted(OPERATIONS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("label", "mode"), [*((label, RIGHT) for label in OPERATIONS), *((label, WRONG) for label in WITH_BODY)]
)
def test_every_answer_is_as_described(described, label, mode):
    operation = described[label]

    @settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case) -> None:
        # How many features a document needs is the model's to say, not the schema's.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    ask()
