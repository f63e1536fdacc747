"""The service from start to stop: bind, load, listen, warm up, answer; then drain and exit."""

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
from longtail.serve.connections import Connections, most_connections
from longtail.serve.logs import Forward, Log
from longtail.serve.models import Served
from longtail.serve.protocol import protocol_of
from longtail.serve.service import Service
from longtail.serve.settings import Settings
from longtail.serve.similar_examples import TrainingExamples
from longtail.serve.strict import MAX_HEAD

# The thread that computes and the one that answers share the interpreter's lock. At the usual switch interval of 5 ms
# each would wait for the other longer than it works.
SWITCH = 0.0005
BACKLOG = 512  # connections that wait to be accepted


def bind(settings: Settings) -> socket.socket:
    """Takes the address before the models are loaded; clients cannot connect yet.

    Args:
        settings: host and port.

    Returns:
        A bound socket that does not listen yet.

    Raises:
        DataError: the address is taken or not allowed.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The event loop sets TCP_NODELAY only where the protocol is named. Without it the end of an answer would wait until
    # the client confirms its start, which takes up to 40 ms.
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
    examples: TrainingExamples | None = None,
    log: Log | None = None,
    listening: Callable[[str], None] = lambda address: None,
) -> None:
    """Answers requests until SIGTERM or Ctrl-C, then finishes those under way.

    Args:
        settings: of the service.
        listener: the socket of `bind`.
        models: by name.
        examples: training examples that `/examples` shows; None shows none.
        log: where events are logged; None means standard error.
        listening: called with the address once clients can connect.

    Raises:
        Exception: what a model raised during the warm-up.
    """
    log = log or Log()
    service = Service(settings, models, examples, log)
    server = make_server(service)
    report_journals(models, log)
    address = address_of(settings, listener)
    listener.listen(BACKLOG)
    log.write(
        "listening", address=address, models=list(models), labels=[len(one.now.model.labels) for one in models.values()]
    )
    listening(address)
    answer(service, server, listener)


def address_of(settings: Settings, listener: socket.socket) -> str:
    """The address that clients use.

    Args:
        settings: of the service.
        listener: its socket.

    Returns:
        A URL.
    """
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"


def report_journals(models: Mapping[str, Served], log: Log) -> None:
    """Logs what was odd about the labels that were added before.

    Args:
        models: by name.
        log: takes it.
    """
    for model in models.values():
        if model.journal is not None and model.journal.torn:
            log.write("journal", level="warning", model=model.name, cut_bytes=model.journal.torn)
        if model.renamed:  # it was trained again, and its own texts win
            log.write("journal", level="warning", model=model.name, ids_with_another_text_now=model.renamed)


def answer(service: Service, server: Server, listener: socket.socket) -> None:
    """Answers requests until `leave` of the server is called, then finishes those under way and closes the models.

    Args:
        service: the models and the state of the service.
        server: of `make_server`.
        listener: where clients connect.

    Raises:
        Exception: why the service could not go on.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with asyncio.Runner() as runner:
            runner.run(server.serve([listener]))
    finally:
        sys.setswitchinterval(before)
        listener.close()
        for model in service.models.values():
            model.close()
    service.log.write("stopped")
    if service.failure is not None:
        raise service.failure


def make_server(service: Service, kind: type[Server] | None = None, backlog: int = BACKLOG) -> Server:
    """Builds a server; its `serve` answers on listening sockets, and its `leave` stops it.

    Args:
        service: the models and the state of the service.
        kind: of the server; None: `Server`.
        backlog: the most connections that it accepts at once.

    Returns:
        The server.
    """
    service.connections = Connections(service.settings, most_connections(service.settings))
    server = (kind or Server)(_config(service, backlog), service)
    service.on_failure = server.leave
    return server


def _config(service: Service, backlog: int) -> uvicorn.Config:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], False
        logger.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").handlers = [Forward(service.log)]
    return uvicorn.Config(
        create_app(service),
        http=protocol_of(service.connections, service.counters),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=max(round(service.settings.idle_timeout), 1),
        proxy_headers=False,  # uvicorn would believe every program of this machine; the guard reads them
        timeout_graceful_shutdown=max(int(service.settings.drain), 1),
        h11_max_incomplete_event_size=MAX_HEAD,
        backlog=backlog,
    )


class Server(uvicorn.Server):
    """A uvicorn server that drains on the first signal and stops at once on the second, with exit status 0."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def leave(self) -> None:
        """Starts to drain; a second call stops at once."""
        if self.should_exit:
            self.force_exit = True
        self._service.state = "stopping"
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's, which raises the signal again at the end."""
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        try:
            for one in caught:
                loop.add_signal_handler(one, self.leave)
        except (ValueError, RuntimeError):  # not the main thread: the caller stops it
            yield
            return
        try:
            yield
        finally:
            for one in caught:
                loop.remove_signal_handler(one)
