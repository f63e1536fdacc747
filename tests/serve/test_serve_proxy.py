"""The proxy configurations of docs/proxy.md, run as they stand there but for ports, names of files and certificates."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from serving import Running, serving

import processes

PAGE = Path(__file__).parents[2] / "docs" / "proxy.md"
TOKEN = "correct-horse-battery-staple"
PATHS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.S)
    assert found is not None
    return found[1]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def started(command: list[str], port: int) -> Iterator[None]:
    process = processes.popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, process.stderr.read()  # type: ignore[union-attr]
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(60)


def certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    found, key = folder / "labels.example.crt", folder / "labels.example.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=labels.example", "-days", "2",
         "-addext", "subjectAltName=DNS:labels.example", "-keyout", key, "-out", found],
        check=True, capture_output=True,
    )  # fmt: skip
    return found, key


def ask(port: int, folder: Path, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """A request over TLS with the certificate checked; returns status and body."""
    context = ssl.create_default_context(cafile=str(folder / "labels.example.crt"))
    raw = b"" if body is None else json.dumps(body).encode()
    lines = {"Host": "labels.example", "Connection": "close", "Content-Length": str(len(raw)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    with (
        socket.create_connection(("127.0.0.1", port), 30) as plain,
        context.wrap_socket(plain, server_hostname="labels.example") as connection,
    ):
        answer = b""
        with suppress(ssl.SSLError, ConnectionError):  # the proxy may close before a large body is sent
            connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + raw)
        with suppress(ssl.SSLError, ConnectionError):
            while part := connection.recv(65536):
                answer += part
    return int(answer[9:12] or 0), answer.partition(b"\r\n\r\n")[2]


def check(running: Running, port: int, folder: Path) -> None:
    asked = {"text": "an apple"}
    bearer = {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    seen: list[str] = []
    full = running.service.batcher.full
    running.service.batcher.full = lambda address=None: seen.append(address) or full(address)  # type: ignore[method-assign]
    assert ask(port, folder, "GET", "/ready")[0] == 200
    assert ask(port, folder, "POST", "/predict", asked, Content_Type="application/json")[0] == 401
    status, body = ask(port, folder, "POST", "/predict", asked, X_Forwarded_For="9.9.9.9", **bearer)
    assert status == 200 and b'"labels"' in body
    assert set(seen) == {"127.0.0.1"}  # the proxy names the client, and not what the client wrote
    page = {"Origin": "https://labels.example", **bearer}
    assert ask(port, folder, "POST", "/predict", asked, **page)[0] == 200
    assert ask(port, folder, "POST", "/predict", {"text": "a" * (5 << 20)}, **bearer)[0] in (413, 0)  # 0: closed
    assert ask(port, folder, "GET", "/metrics", **bearer)[0] == 403


SERVED: dict[str, Any] = {"token": TOKEN, "hosts": ("labels.example",), "forwarded_allow_ips": ("127.0.0.1",)}


def test_nginx(trained: Path, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path=PATHS)
    if nginx is None:
        pytest.skip("nginx is not installed")
    found, key = certificate(tmp_path)
    with serving(trained / "means.longtail", **SERVED) as running:
        port = free_port()
        inside = block("nginx").replace("127.0.0.1:8000", f"127.0.0.1:{running.port}")
        inside = inside.replace("listen 443", f"listen 127.0.0.1:{port}")
        inside = inside.replace("/etc/ssl/labels.example.crt", str(found))
        inside = inside.replace("/etc/ssl/labels.example.key", str(key))
        places = "".join(
            f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/errors;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{places}{inside}}}\n"
        )
        command = [nginx, "-p", str(tmp_path), "-e", str(tmp_path / "errors"), "-c", str(config)]
        done = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert done.returncode == 0 and "warn" not in done.stderr, done.stderr
        with started(command, port):
            check(running, port, tmp_path)
            statuses = [ask(port, tmp_path, "GET", "/health")[0] for _ in range(120)]
            assert statuses.count(429) > 0 and set(statuses) == {200, 429}  # the rate limit


def test_caddy(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caddy = shutil.which("caddy", path=PATHS)
    if caddy is None:
        pytest.skip("caddy is not installed")
    found, key = certificate(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with serving(trained / "means.longtail", **SERVED) as running:
        port = free_port()
        inside = block("caddy").replace("127.0.0.1:8000", f"127.0.0.1:{running.port}")
        inside = inside.replace("labels.example {", f"https://labels.example:{port} {{\n\ttls {found} {key}", 1)
        config = tmp_path / "Caddyfile"
        config.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + inside)
        done = subprocess.run([caddy, "validate", "--config", config, "--adapter", "caddyfile"], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        with started([caddy, "run", "--config", str(config), "--adapter", "caddyfile"], port):
            check(running, port, tmp_path)
