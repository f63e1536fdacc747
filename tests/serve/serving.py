"""A service in a thread of the test, asked over a real socket."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.serve.logs import Log
from longtail.serve.models import Served, load_models
from longtail.serve.server import bind, make_server
from longtail.serve.service import Service
from longtail.serve.settings import Settings
from longtail.serve.similar_examples import TrainingExamples


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """A service and how to ask it."""

    service: Service
    port: int
    log: io.StringIO

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """A body that is not bytes goes as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})} if raw is not None else dict(headers or {})
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return self.ask("POST", path, body, headers)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.ask("GET", path, None, headers)

    def raw(self, data: bytes, wait: float = 10) -> bytes:
        """Bytes as they are, and all that comes back until the service hangs up or nothing more comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            with suppress(ConnectionError):  # it may close before all is sent
                connection.sendall(data)
            return drain(connection)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def drain(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except (TimeoutError, ConnectionError):
        pass
    return found


@contextmanager
def serving(
    *folders: Path | str,
    examples: TrainingExamples | None = None,
    models: Mapping[str, Served] | None = None,
    ready: bool = True,
    **settings: Any,
) -> Iterator[Running]:
    given = Settings(port=0, **settings)
    log = io.StringIO()
    served = load_models([str(folder) for folder in folders]) if models is None else models
    service = Service(given, served, examples, Log(log))
    listener = bind(given)
    server = make_server(service)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    running = Running(service, listener.getsockname()[1], log)
    until = time.monotonic() + 180
    while not server.started or (ready and service.state == "starting" and service.failure is None):
        assert thread.is_alive() and time.monotonic() < until, "the service did not start"
        time.sleep(0.01)
    try:
        yield running
    finally:
        server.leave()
        thread.join(120)
        assert not thread.is_alive(), "the service did not stop"
        for one in served.values():
            one.close()
