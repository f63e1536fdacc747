"""`longtail serve`: models behind HTTP, with a page to look at."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.shared import progress, say

# Read by the matrix libraries when they are loaded, which is later than this.
LIBRARIES = {
    # They keep what they made for each shape of a batch, and batches of a service have ever new shapes.
    "LRU_CACHE_CAPACITY": "16",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
    # Encoding and searching use the threads of two libraries, by turns. Those of one that is done go on turning for
    # milliseconds, in case there is more, and keep the other's from the cores: a single text would wait twice as long.
    "OPENBLAS_THREAD_TIMEOUT": "4",  # 2 to this many cycles
    "GOMP_SPINCOUNT": "10000",  # rounds
}


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model folders, as train writes them; NAME=FOLDER names one."),
    ],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; default: only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", help="Port; 0 is any free one.")] = 8000,
    examples: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Data whose training rows are shown as reasons for a label."),
    ] = None,
    text_column: Annotated[str | None, typer.Option(metavar="NAMES", help="Text columns of such a table.")] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Label column of such a table.")] = None,
    label_separator: Annotated[str, typer.Option(metavar="MARK", help="What separates its labels.")] = "|",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that clients must show; default: LONGTAIL_TOKEN."),
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="Let other machines in without a token.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another name the service is called by; may repeat.")
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest wait for other requests to share a batch.")
    ] = 0.003,
    batch: Annotated[int, typer.Option(metavar="TEXTS", help="Texts that go through a model together.")] = 64,
    queue: Annotated[int, typer.Option(metavar="TEXTS", help="Texts that may wait; more are refused with 429.")] = 256,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for a request, from first byte to answer.")
    ] = 10,
) -> None:
    """Serve models over HTTP, with a page at /.

    POST /predict, POST and GET /labels, POST /examples, GET /models, /health, /ready, /metrics and /openapi.json. Logs
    are JSON lines on standard error and never hold a text. SIGTERM lets requests under way finish.
    """
    from longtail.errors import MissingExtra

    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra(package, "serve", "longtail serve")
    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)
    from longtail.data.read import Columns, load
    from longtail.serve.examples import TrainingRows
    from longtail.serve.models import load_models
    from longtail.serve.run import bind, serve
    from longtail.serve.settings import Settings, read_token

    settings = Settings(
        host=host,
        port=port,
        token=read_token(token_file),
        hosts=tuple(allow_host or ()),
        open=open,
        wait=wait,
        batch=batch,
        queue=queue,
        timeout=timeout,
    )
    listener = bind(settings)
    rows = None
    with progress():
        served = load_models(models)
        if examples is not None:
            first = next(iter(served.values())).now.model
            columns = Columns(text=text_column, labels=label_column, separator=label_separator)
            fields = None if text_column else first.text_field
            rows = TrainingRows.of(load(examples, columns=columns, text=fields, valid_share=0))
            for one in served.values():
                rows.check(one.now.model.labels, one.path)
    serve(settings, listener, served, rows, listening=lambda address: say(f"open {address} (Ctrl-C stops)"))
