"""The paths of the service, and what it says when a request is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from longtail import __version__
from longtail.serve import schema
from longtail.serve.counters import CONTENT_TYPE
from longtail.serve.guard import Guard
from longtail.serve.refusal import Refused
from longtail.serve.service import Service

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.Wrong, "description": "Not JSON."},
    401: {"model": schema.Wrong, "description": "The token is missing or wrong."},
    403: {"model": schema.Wrong, "description": "Asked by a page of another origin."},
    404: {"model": schema.Wrong, "description": "No such model."},
    408: {"model": schema.Wrong, "description": "The request came too slowly."},
    413: {"model": schema.Wrong, "description": "The body is too large."},
    415: {"model": schema.Wrong, "description": "The body is not sent as JSON: Content-Type is another."},
    421: {"model": schema.Wrong, "description": "The service does not answer to this host name."},
    422: {"model": schema.Wrong, "description": "A value is wrong."},
    429: {"model": schema.Wrong, "description": "The queue is full; Retry-After says when to come again."},
    503: {"model": schema.Wrong, "description": "Starting, stopping, or not done in time; see Retry-After."},
}


def create_app(service: Service) -> Guard:
    """What the server runs: the paths behind the guard."""
    return Guard(_paths(service), service)


def _paths(service: Service) -> FastAPI:
    app = FastAPI(
        title="longtail",
        version=__version__,
        summary="The right few labels of a text, among many.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=service.life,
        responses=REFUSALS,
    )

    @app.post("/predict", response_model=schema.Answers, summary="The labels of one text or many")
    async def predict(asked: schema.Ask, request: Request) -> Response:
        return _json(await service.predict(asked, request.scope["state"]))

    taken: dict[int | str, dict[str, Any]] = {
        409: {"model": schema.Wrong, "description": "A label id stands for another text."}
    }

    @app.post("/labels", response_model=schema.Added, summary="Add labels by their texts", responses=taken)
    async def add(given: schema.NewLabels, request: Request) -> Response:
        return _json(await service.add(given, request.scope["state"]))

    @app.get("/labels", response_model=schema.Labels, summary="Labels that hold every word of a query")
    async def find(
        query: Annotated[str, Query(max_length=schema.LONGEST_LABEL)] = "",
        model: schema.ModelName | None = None,
        limit: Annotated[int, Query(ge=1, le=schema.MOST_FOUND)] = 20,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Response:
        return _json(await service.find(model, query, limit, offset))

    @app.post("/examples", response_model=schema.Examples, summary="The nearest training texts of each label")
    async def nearest(asked: schema.AskExamples, request: Request) -> Response:
        return _json(await service.nearest(asked, request.scope["state"]))

    @app.get("/models", response_model=schema.Models, summary="What is served")
    async def models() -> Response:
        return _json(service.facts())

    @app.get("/health", response_model=schema.State, summary="Whether the process is alive")
    async def health() -> Response:
        return _json({"status": "alive"})

    @app.get("/ready", response_model=schema.State, summary="Whether it answers")
    async def ready() -> Response:
        state = service.state
        if state != "ready":
            raise Refused(503, f"the service is {state}", state, {"Retry-After": "1"})
        return _json({"status": state})

    @app.get("/metrics", response_class=Response, summary="Figures for Prometheus", responses={200: _PLAIN})
    async def metrics() -> Response:
        return Response(service.figures(), media_type=CONTENT_TYPE)

    for path, name, kind in (
        ("/", "page.html", "text/html; charset=utf-8"),
        ("/assets/page.css", "page.css", "text/css; charset=utf-8"),
        ("/assets/page.js", "page.js", "text/javascript; charset=utf-8"),
    ):
        app.get(path, include_in_schema=False)(_asset(name, kind))

    app.add_exception_handler(RequestValidationError, _wrong_values)
    app.add_exception_handler(HTTPException, _wrong_path)
    app.add_exception_handler(Refused, _refused(service))
    app.add_exception_handler(Exception, _failed(service))
    return app


_PLAIN = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Text format of Prometheus."}


def _asset(name: str, kind: str) -> Callable[[], Any]:
    content = (resources.files("longtail.serve") / "assets" / name).read_bytes()
    headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}

    async def asset() -> Response:
        return Response(content, media_type=kind, headers=headers)

    return asset


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Without the pass over every value that a declared answer would get: it is ours, and tests hold it to the schema.
    ASCII, so that a label or a place with broken Unicode can be said too."""
    return Response(json.dumps(value, allow_nan=False), status, headers, "application/json")


async def _wrong_values(request: Request, error: Exception) -> Response:
    """Places and reasons; the values themselves are not sent back."""
    assert isinstance(error, RequestValidationError)
    said, kind = error.errors(), request.headers.get("content-type", "")
    if request.method == "POST" and "json" not in kind.lower():  # it was read as if it were no JSON
        return _json(
            {"error": "send the body as JSON, with the header Content-Type: application/json", "where": []}, 415
        )
    places = [".".join(str(part) for part in one["loc"])[:200] for one in said[:20]]
    reason = "; ".join(f"{place}: {one['msg']}" for place, one in zip(places[:3], said, strict=False))
    status = 400 if said and said[0]["type"] == "json_invalid" else 422
    return _json({"error": reason[:500], "where": places}, status)


async def _wrong_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": str(error.detail), "where": []}, error.status_code, error.headers)


def _refused(service: Service) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        service.counters.refused.add(reason=error.reason)
        return _json({"error": error.error, "where": []}, error.status, error.headers)

    return answer


def _failed(service: Service) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        service.log.failed(error, id=request.scope["state"]["id"])
        return _json({"error": "a mistake in the service; its log says where", "where": []}, 500)

    return answer
