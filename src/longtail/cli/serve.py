"""`longtail serve`: models over HTTP, with a page for people.

Encoder and search use the threads of two libraries by turns. Idle threads spin, so `serve` shortens that before
either library is loaded.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.shared import progress, say

# The matrix libraries read these when they are loaded, which happens later.
LIBRARIES = {
    # They cache kernels for each shape of a batch, and the batches of a service have ever new shapes.
    "LRU_CACHE_CAPACITY": "16",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
    # Encoding and searching use the threads of two libraries in turn. Threads that are done spin for milliseconds
    # before they sleep, and keep those of the other library from the cores: a single text would take twice as long.
    "OPENBLAS_THREAD_TIMEOUT": "4",  # 2 to this many cycles
    "GOMP_SPINCOUNT": "10000",  # rounds
}


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model folders that train wrote; NAME=FOLDER gives one a name."),
    ],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; default: only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="NUMBER", help="Port; 0: any free one.")] = 8000,
    examples: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Data whose similar training texts are shown under each label."),
    ] = None,
    text_column: Annotated[str | None, typer.Option(metavar="NAMES", help="Text columns of that table.")] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Label column of that table.")] = None,
    label_separator: Annotated[str, typer.Option(metavar="MARK", help="Separator between its labels.")] = "|",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that clients must send; default: LONGTAIL_TOKEN."),
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="Let other machines connect without a token.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Host name to answer to, besides its own; may repeat.")
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest wait for other requests to share a batch.")
    ] = 0.003,
    batch_size: Annotated[int, typer.Option(metavar="TEXTS", help="Most texts of a batch.")] = 64,
    queue: Annotated[int, typer.Option(metavar="TEXTS", help="Texts that may wait; more are refused with 429.")] = 256,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for a request, from first byte to answer.")
    ] = 10,
    head_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Time for the head of a request.")] = 10,
    idle_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time until a connection without requests is closed.")
    ] = 30,
    connections: Annotated[int, typer.Option(metavar="NUMBER", help="Most open connections.")] = 1024,
    connections_per_address: Annotated[
        int, typer.Option(metavar="NUMBER", help="Most open connections of one client address.")
    ] = 128,
    forwarded_allow_ips: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Proxy or network whose X-Forwarded-For is believed; may repeat."),
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="NUMBER", help="Processes that answer; they share the memory of the models.")
    ] = 1,
    database: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="PostgreSQL database that keeps added labels for every process."),
    ] = None,
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
    from longtail.data.read import Columns
    from longtail.serve.content import Content
    from longtail.serve.server import bind, serve
    from longtail.serve.settings import Settings, read_token
    from longtail.serve.worker_processes import serve_with_workers

    settings = Settings(
        host=host,
        port=port,
        token=read_token(token_file),
        hosts=tuple(allow_host or ()),
        open=open,
        wait=wait,
        batch_size=batch_size,
        queue=queue,
        timeout=timeout,
        head_timeout=head_timeout,
        idle_timeout=idle_timeout,
        connections=connections,
        connections_per_address=connections_per_address,
        forwarded_allow_ips=tuple(word for given in forwarded_allow_ips or () for word in given.split(",") if word),
        workers=workers,
    )
    columns = Columns(text=text_column, labels=label_column, separator=label_separator)
    content = Content(tuple(models), examples, columns, several=workers > 1, database=database)
    listener = bind(settings)

    def listening(address: str) -> None:
        say(f"open {address} (Ctrl-C stops)")

    if workers > 1:
        serve_with_workers(settings, listener, content, listening=listening)
        return
    with progress():
        served, training = content.load()
    serve(settings, listener, served, training, listening=listening)
