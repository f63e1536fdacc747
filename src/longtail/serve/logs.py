"""What happened, a JSON object a line on standard error. Texts, labels, tokens and queries never stand in it."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Writes to the stream, or to standard error as it is at that moment."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def say(self, event: str, **facts: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        stream = self._stream or sys.stderr
        try:
            stream.write(json.dumps({"time": now, "event": event, **facts}) + "\n")
            stream.flush()
        except (OSError, ValueError):  # a closed pipe or a full disk must not stop the service
            pass

    def failed(self, error: BaseException, **facts: Any) -> None:
        """A mistake of ours: where it happened and its kind; its message might quote a text."""
        places = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        self.say("failed", level="error", error=type(error).__name__, at=places[-8:], **facts)


class Forward(logging.Handler):
    """The server library's own warnings, in the same form."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failed(record.exc_info[1])
        else:
            self._log.say("server", level=record.levelname.lower(), message=record.getMessage())
