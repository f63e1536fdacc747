"""Requests that schemathesis makes up from the OpenAPI schema, right ones and wrong ones: none may be answered with a
5xx, and every answer has a status, a type and a body that the schema knows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from serving import serving

from longtail.data import Corpus
from longtail.serve.examples import TrainingRows

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)


def refused(context: Any, response: Any, case: Any) -> bool | None:
    """What is wrong is refused; so is what is too large to look at, before anyone sees that it is wrong."""
    return None if response.status_code == 413 else negative_data_rejection(context, response, case)


HELD = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    refused,
]


@pytest.fixture(scope="module")
def described(trained: Path, tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("schema")
    for name in ("towers.longtail", "means.longtail"):
        shutil.copytree(trained / name, place / name)
    rows = TrainingRows.of(tiny)
    with serving(place / "towers.longtail", place / "means.longtail", rows=rows) as running:
        yield schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        assert running.post("/predict", {"text": "still here"}).status == 200
        asked = [event for event in running.events if event["event"] == "request"]
        assert asked and max(event["status"] for event in asked) < 500
        assert not [event for event in running.events if event["event"] == "failed"]


RIGHT = ["POST /predict", "POST /labels", "GET /labels", "POST /examples", "GET /models", "GET /health", "GET /ready",
         "GET /metrics"]  # fmt: skip
WRONG = RIGHT[:4]  # the others take nothing that could be wrong


@pytest.mark.parametrize(
    ("asked", "mode"), [*((asked, "POSITIVE") for asked in RIGHT), *((asked, "NEGATIVE") for asked in WRONG)]
)
def test_every_answer_is_as_the_schema_says(described: Any, asked: str, mode: str) -> None:
    method, path = asked.split()
    operation = described[path][method]

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
    def check(case: Any) -> None:
        case.call_and_validate(checks=HELD)

    check()
