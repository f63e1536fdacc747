"""The page about serving: its services start as they are written, and answer what it asks them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call
from guide_blocks import Line, lines

import forked

PAGE = "docs/serving.md"


@contextmanager
def started(line: Line, environment: dict[str, str]) -> Iterator[tuple[int, Any]]:
    """The port of a service that is ready, and how to ask it."""
    words = ["-m", "longtail", *line.words, "--port", "0"]
    with Path("log").open("w+") as log:
        process = forked.Forked(words, stdout=log, stderr=log, env={**os.environ, **environment})
        try:
            yield _ready(process)
        finally:
            process.terminate()
            assert process.wait(120) == 0


def _ready(process: subprocess.Popen[bytes]) -> tuple[int, Any]:
    until = time.monotonic() + 120
    while '"ready"' not in (log := Path("log").read_text()):
        assert process.poll() is None and time.monotonic() < until, log
        time.sleep(0.05)
    address = next(json.loads(one)["address"] for one in log.splitlines() if '"listening"' in one)
    port = int(address.rpartition(":")[2])

    def ask(path: str, token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return json.load(
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", None, headers))
        )

    return port, ask


def test_the_page_does_what_it_says(data: Path) -> None:
    for package in ("fastapi", "uvicorn", "torch"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    shutil.copytree(data, "my-data")
    encoder = "ngame(encoder='bag', dimension=16, batch_size=64, epochs=1)"
    for name, recipe in (("subjects", "parabel"), ("parabel", "parabel"), ("ngame", encoder)):
        assert call("train", "my-data", recipe, "--out", f"{name}.longtail").code == 0
    plain, examples, open_to_all = (line for line in lines(PAGE) if line.program == "longtail")
    curl, export = (line for line in lines(PAGE) if line.program in ("curl", "export"))

    with started(plain, {}) as (port, ask):
        assert [model["name"] for model in ask("/models")["models"]] == ["subjects"]
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        words = [word.replace("localhost:8000", f"localhost:{port}") for word in shlex.split(curl.text)]
        answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        assert len(answer["answers"][0]["labels"]) == json.loads(words[-1])["k"]
        assert set(answer["answers"][0]["labels"][0]) == {"id", "text", "score", "count", "band", "added"}

    with started(examples, {}) as (_, ask):
        answer = ask("/models")
        assert [model["name"] for model in answer["models"]] == ["parabel", "ngame"] and answer["examples"] == "tiny"

    shell = ["bash", "-c", f"{export.text}\necho $LONGTAIL_TOKEN"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    token = subprocess.run(shell, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}).stdout
    with started(open_to_all, {"LONGTAIL_TOKEN": token.strip()}) as (_, ask):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask("/models")
        assert ask("/models", token.strip())["models"]
