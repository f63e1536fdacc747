"""Requests that schemathesis makes up from the OpenAPI schema, right ones and wrong ones, with all of its checks and no
exceptions: what the schema allows is answered, what it forbids is refused, and every answer is as the schema says.

The long form, against a running service: schemathesis run http://127.0.0.1:8000/openapi.json --checks all"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from serving import serving

from longtail.data import Corpus
from longtail.serve.similar_examples import TrainingExamples

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def described(trained: Path, tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("schema")
    for name in ("towers.longtail", "means.longtail"):
        shutil.copytree(trained / name, place / name)
    examples = TrainingExamples.of(tiny)
    with serving(place / "towers.longtail", place / "means.longtail", examples=examples) as running:
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

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
    def check(case: Any) -> None:
        case.call_and_validate()

    check()


def test_the_schema_tells_what_no_single_field_tells(described: Any) -> None:
    """Both texts, too many texts for k, and a number such as 9.0: service and schema agree, by hand."""
    import jsonschema_rs

    whole = described.raw_schema
    rules = {**whole["components"]["schemas"]["PredictRequest"], "components": whole["components"]}
    schema = jsonschema_rs.validator_for(rules)
    for body in (
        {"text": "a"}, {"texts": ["a"]}, {"text": "a", "texts": None}, {"text": "a", "k": 9.0}, {"text": "a", "k": 9.5},
        {}, {"text": None}, {"text": "a", "texts": ["b"]}, {"k": 5}, {"texts": []}, {"text": "a", "k": 1000},
        {"texts": ["a"] * 50, "k": 1000}, {"texts": ["a"] * 51, "k": 1000}, {"texts": ["a"] * 250, "k": 200},
        {"texts": ["a"] * 251, "k": 200}, {"texts": ["a"] * 250, "k": 201}, {"texts": ["a"] * 1024, "k": 48},
        {"texts": ["a"] * 1024, "k": 49}, {"texts": ["a"] * 1025}, {"text": "a", "k": 1001}, {"text": "a", "k": True},
    ):  # fmt: skip
        status = described["/predict"]["POST"].Case(body=body, media_type="application/json").call()
        assert (status.status_code == 200) == schema.is_valid(body), (str(body)[:80], status.status_code)


def test_a_path_names_all_of_its_methods(trained: Path) -> None:
    with serving(trained / "means.longtail") as running:
        reply = running.ask("DELETE", "/labels")
        assert reply.status == 405 and reply.headers["allow"] == "GET, POST"
        assert running.ask("POST", "/health", {}).headers["allow"] == "GET"


def test_the_schema_names_the_token(trained: Path) -> None:
    with serving(trained / "means.longtail") as running:
        assert b"security" not in running.get("/openapi.json").body
    with serving(trained / "means.longtail", token="correct-horse-battery-staple") as running:
        described = running.get("/openapi.json").json
        assert described["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                needed = running.ask(method.upper(), path, {} if method == "post" else None).status == 401
                assert needed == ("security" in operation), path
