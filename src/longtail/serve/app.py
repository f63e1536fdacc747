"""The paths of the service, and its answers to wrong requests."""

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
from longtail.errors import did_you_mean
from longtail.serve import schema
from longtail.serve.counters import CONTENT_TYPE
from longtail.serve.guard import FREE, Guard
from longtail.serve.refusal import Refused
from longtail.serve.service import Service

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.ErrorAnswer, "description": "The body is not JSON."},
    401: {"model": schema.ErrorAnswer, "description": "The token is missing or wrong."},
    403: {"model": schema.ErrorAnswer, "description": "The request comes from a page of another origin."},
    404: {"model": schema.ErrorAnswer, "description": "There is no such model."},
    408: {"model": schema.ErrorAnswer, "description": "The request came too slowly."},
    413: {"model": schema.ErrorAnswer, "description": "The body is too large."},
    415: {
        "model": schema.ErrorAnswer,
        "description": "The body is compressed, or its Content-Type is not application/json.",
    },
    421: {"model": schema.ErrorAnswer, "description": "The service does not answer to this host name."},
    422: {"model": schema.ErrorAnswer, "description": "A value is wrong."},
    429: {"model": schema.ErrorAnswer, "description": "The queue is full; try again after Retry-After seconds."},
    500: {"model": schema.ErrorAnswer, "description": "The model failed on this request; the log says where."},
    503: {
        "model": schema.ErrorAnswer,
        "description": "Starting, stopping, or not done in time; try again after Retry-After seconds.",
    },
}


def create_app(service: Service) -> Guard:
    """Builds the application that the server runs.

    Args:
        service: the models and the state of the service.

    Returns:
        The paths, behind the guard.
    """
    return Guard(_paths(service), service)


def _paths(service: Service) -> FastAPI:
    app = FastAPI(
        title="longtail",
        version=__version__,
        summary="Predicts the labels of texts.",
        docs_url=None,  # FastAPI's pages load scripts from other sites
        redoc_url=None,
        lifespan=service.life,
        responses=REFUSALS,
    )

    unheard: dict[int | str, dict[str, Any]] = {
        409: {"model": schema.ErrorAnswer, "description": "The model learned no languages, and language is given."}
    }

    @app.post(
        "/predict",
        response_model=schema.Answers,
        summary="Predict the labels of one text or many",
        responses=unheard,
    )
    async def predict(asked: schema.PredictRequest, request: Request) -> Response:
        return _json(await service.predict(asked, request.scope["state"]))

    taken: dict[int | str, dict[str, Any]] = {
        409: {"model": schema.ErrorAnswer, "description": "A label with this id has another text."}
    }

    @app.post("/labels", response_model=schema.LabelsAdded, summary="Add labels by their texts", responses=taken)
    async def add(given: schema.NewLabels, request: Request) -> Response:
        return _json(await service.add(given, request.scope["state"]))

    @app.get("/labels", response_model=schema.LabelPage, summary="Find labels that have every word of a query")
    async def find(
        query: Annotated[str, Query(max_length=schema.MAX_LABEL_LENGTH)] = "",
        model: schema.ModelName | None = None,
        limit: Annotated[int, Query(ge=1, le=schema.MAX_FOUND)] = 20,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Response:
        return _json(await service.find(model, query, limit, offset))

    @app.post("/examples", response_model=schema.Examples, summary="Find the most similar training texts of each label")
    async def nearest(asked: schema.ExamplesRequest, request: Request) -> Response:
        return _json(await service.nearest(asked, request.scope["state"]))

    @app.get("/models", response_model=schema.Models, summary="List the models")
    async def models() -> Response:
        return _json(service.facts())

    @app.get("/health", response_model=schema.Status, summary="Whether the process is alive")
    async def health() -> Response:
        if service.failure is not None:  # it drains, and ends with an error
            raise Refused(503, str(service.failure), "broken")
        return _json({"status": "alive"})

    @app.get("/ready", response_model=schema.Status, summary="Whether it answers predictions")
    async def ready() -> Response:
        trouble = service.trouble
        if trouble is not None:
            raise Refused(503, trouble, "broken" if service.state == "ready" else service.state, {"Retry-After": "1"})
        return _json({"status": service.state})

    @app.get("/metrics", response_class=Response, summary="Metrics for Prometheus", responses={200: _PLAIN})
    async def metrics() -> Response:
        return Response(service.metrics(), media_type=CONTENT_TYPE)

    for path, name, kind in (
        ("/", "page.html", "text/html; charset=utf-8"),
        ("/assets/page.css", "page.css", "text/css; charset=utf-8"),
        ("/assets/page.js", "page.js", "text/javascript; charset=utf-8"),
    ):
        app.get(path, include_in_schema=False)(_asset(name, kind))

    if service.settings.token is not None:
        _declare_token(app)
    app.add_exception_handler(RequestValidationError, _wrong_values)
    app.add_exception_handler(HTTPException, _wrong_path(app))
    app.add_exception_handler(Refused, _refused(service))
    app.add_exception_handler(Exception, _failed(service))
    return app


def _declare_token(app: FastAPI) -> None:
    """Names the token in the schema, at every path that needs it."""
    described = app.openapi()  # the application keeps this object and sends it
    described.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in described["paths"].items():
        if path not in FREE:
            for operation in operations.values():
                operation["security"] = [{"token": []}]


_PLAIN = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format."}


def _asset(name: str, kind: str) -> Callable[[], Any]:
    content = (resources.files("longtail.serve") / "assets" / name).read_bytes()
    headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}

    async def asset() -> Response:
        return Response(content, media_type=kind, headers=headers)

    return asset


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that FastAPI does not validate again: tests compare our answers with the schema.

    ASCII, so that a label with broken Unicode can be sent too.
    """
    return Response(json.dumps(value, allow_nan=False), status, headers, "application/json")


async def _wrong_values(request: Request, error: Exception) -> Response:
    """Answers with places and reasons, without the values themselves."""
    assert isinstance(error, RequestValidationError)
    errors, kind = error.errors(), request.headers.get("content-type", "")
    if request.method == "POST" and "json" not in kind.lower():  # FastAPI did not parse the body as JSON
        return _json(
            {"error": "send the body as JSON, with the header Content-Type: application/json", "where": []}, 415
        )
    places = [".".join(str(part) for part in one["loc"])[:200] for one in errors[:20]]
    reason = "; ".join(f"{place}: {_reason(one)}" for place, one in zip(places[:3], errors, strict=False))
    status = 400 if errors and errors[0]["type"] == "json_invalid" else 422
    return _json({"error": reason[:500], "where": places}, status)


def _reason(error: Mapping[str, Any]) -> str:
    """What is wrong; of a field that no request has, what it may have meant."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    names = {name for kind in schema.StrictRequest.__subclasses__() for name in kind.model_fields}
    return "there is no such field" + (did_you_mean(str(error["loc"][-1]), sorted(names)) or "; leave it out")


def _wrong_path(app: FastAPI) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the framework names the methods of one route, and a path may have two
            path = request.scope["path"]
            methods = {name for one in app.routes if getattr(one, "path", "") == path for name in one.methods or ()}  # type: ignore[attr-defined]
            headers = {"Allow": ", ".join(sorted(methods))}
        return _json({"error": str(error.detail), "where": []}, error.status_code, headers)

    return answer


def _refused(service: Service) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        service.counters.refused.add(reason=error.reason)
        return _json({"error": error.error, "where": []}, error.status, error.headers)

    return answer


def _failed(service: Service) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        service.log.failed(error, id=request.scope["state"]["id"])
        return _json({"error": "an error in the service; its log has the details", "where": []}, 500)

    return answer
