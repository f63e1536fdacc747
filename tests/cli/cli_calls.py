"""The command called inside this process: quick, and everything but the process itself is real."""

from __future__ import annotations

import io
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from longtail.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON value; anything else there is an error, and so is a NaN."""
        return json.loads(self.out, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one line of a refusal."""
        assert self.code == 2, self
        assert self.out == "", self.out
        return self.one_line

    @property
    def one_line(self) -> str:
        """Standard error as one line that begins with `error: `, without it."""
        assert self.err.startswith("error: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n"), self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").removesuffix("\n")


def call(*words: str | Path, stdin: str | bytes = b"") -> Done:
    """`longtail WORDS < stdin`."""
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"),
        "stdout": io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n"),
        "stderr": io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="\n"),
    }
    handler = signal.getsignal(signal.SIGTERM)
    with mock.patch.multiple(sys, argv=["longtail", *map(str, words)], **streams):
        try:
            main()
        except SystemExit as leave:
            assert isinstance(leave.code, int)
            code = leave.code
        finally:
            signal.signal(signal.SIGTERM, handler)
        return Done(code, _written(streams["stdout"]), _written(streams["stderr"]))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()
