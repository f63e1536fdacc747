"""From start to stop: bind, load, listen, warm up, answer; then drain and leave."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import uvicorn

from longtail.errors import DataError
from longtail.serve.app import create_app
from longtail.serve.examples import TrainingRows
from longtail.serve.logs import Forward, Log
from longtail.serve.models import Served
from longtail.serve.protocol import Prompt
from longtail.serve.service import Service
from longtail.serve.settings import Settings

# The thread that computes and the one that answers share the interpreter's lock: with the usual 5 ms each would wait
# for the other longer than it works.
SWITCH = 0.0005
BACKLOG = 512  # connections that wait to be taken up
KEEP_ALIVE = 30  # seconds that an idle connection stays


def bind(settings: Settings) -> socket.socket:
    """The address, taken before the models are loaded; nobody can connect yet."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named, because the event loop looks for it: only then it sends the end of an answer at once, and
    # does not wait for the client to confirm the beginning, for which a client takes its time (40 ms).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise DataError(
            f"cannot listen on {settings.host} port {settings.port} ({error.strerror or error}); choose another "
            "--port, or 0 for any free one"
        ) from None
    return listener


def serve(
    settings: Settings,
    listener: socket.socket,
    models: Mapping[str, Served],
    rows: TrainingRows | None = None,
    log: Log | None = None,
    listening: Callable[[str], None] = lambda address: None,
) -> None:
    """Answer until the process is told to stop, by SIGTERM or Ctrl-C; then finish what is under way. `listening` is
    called with the address once clients can connect."""
    log = log or Log()
    service = Service(settings, models, rows, log)
    server = make_server(service)
    for model in models.values():
        if model.journal is not None and model.journal.torn:
            log.say("journal", level="warning", model=model.name, cut_bytes=model.journal.torn)
        if model.renamed:  # it was trained again, and its own texts stay
            log.say("journal", level="warning", model=model.name, ids_with_another_text_now=model.renamed)
    address = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{listener.getsockname()[1]}"
    listener.listen(BACKLOG)
    log.say(
        "listening", address=address, models=list(models), labels=[len(one.now.model.labels) for one in models.values()]
    )
    listening(address)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with asyncio.Runner() as runner:
            runner.run(server.serve([listener]))
    finally:
        sys.setswitchinterval(before)
        listener.close()
        for model in models.values():
            model.close()
    log.say("stopped")
    if service.failure is not None:
        raise service.failure


def make_server(service: Service) -> Server:
    """Ready to `serve` on listening sockets; `leave` stops it."""
    server = Server(_config(service), service)
    service.on_failure = server.leave
    return server


def _config(service: Service) -> uvicorn.Config:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], False
        logger.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").handlers = [Forward(service.log)]
    return uvicorn.Config(
        create_app(service),
        http=Prompt,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(int(service.settings.drain), 1),
        h11_max_incomplete_event_size=32 << 10,  # of a request's head
        backlog=BACKLOG,
    )


class Server(uvicorn.Server):
    """Stops on the first signal, and at once on the second; the process then ends as if its work were done."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def leave(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self._service.state = "stopping"
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        try:
            for one in caught:
                loop.add_signal_handler(one, self.leave)
        except (ValueError, RuntimeError):  # not the main thread: whoever started it stops it
            yield
            return
        try:
            yield
        finally:
            for one in caught:
                loop.remove_signal_handler(one)
