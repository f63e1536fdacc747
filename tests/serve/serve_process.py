"""The command `longtail serve` as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Ask again and again until it holds: a busy machine may take a while."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


class Process:
    """`longtail serve` as a user starts it."""

    def __init__(self, *words: object, **environment: str) -> None:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "LONGTAIL_THREADS": "1", **environment}
        self.running = forked.Forked(
            ["-m", "longtail", "serve", *map(str, words), "--port", "0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=variables,
        )  # fmt: skip
        assert self.running.stderr is not None
        self.logged: list[str] = []
        for line in self.running.stderr:
            self.logged.append(line)
            if '"event": "listening"' in line:
                self.port = int(json.loads(line)["address"].rpartition(":")[2])
                break
        else:
            raise AssertionError("".join(self.logged))
        self._reader = threading.Thread(target=lambda: self.logged.extend(self.running.stderr or ()), daemon=True)
        self._reader.start()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            try:
                if self.ask("GET", "/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("never ready: " + "".join(self.logged))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        status, answer = self.fetch(method, path, body, **headers)
        return status, json.loads(answer)

    def refuses(self) -> bool:
        """Whether a new connection is turned away."""
        try:
            self.fetch("GET", "/health")
        except OSError:
            return True
        return False

    def fetch(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        raw = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, raw, {"Content-Type": "application/json", **headers})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def workers(self) -> set[int]:
        """Process ids of its workers."""
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.running.pid and b"spawn_main" in (path / "cmdline").read_bytes():
                    found.add(int(path.name))
            except OSError:  # it has ended meanwhile
                pass
        return found

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        code = self.running.wait(120)
        self._reader.join(60)
        return code, [json.loads(line) for line in self.logged if line.startswith("{")]
