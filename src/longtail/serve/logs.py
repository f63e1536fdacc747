"""The log: one JSON object per line on standard error. It never holds texts, labels, tokens or queries."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Writes to a stream; None means the standard error of the moment. `always` are facts of every line."""

    def __init__(self, stream: TextIO | None = None, **always: Any) -> None:
        self._stream, self._always = stream, always

    def write(self, event: str, **facts: Any) -> None:
        """Writes one event.

        Args:
            event: its name.
            facts: JSON values by name.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        stream = self._stream or sys.stderr
        try:
            stream.write(json.dumps({"time": now, "event": event, **self._always, **facts}) + "\n")
            stream.flush()
        except (OSError, ValueError):  # a closed pipe or a full disk must not stop the service
            pass

    def failed(self, error: BaseException, **facts: Any) -> None:
        """Writes where an unexpected error happened and its class; not its message, which might quote a text.

        Args:
            error: the error.
            facts: JSON values by name.
        """
        places = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        self.write("failed", level="error", error=type(error).__name__, at=places[-8:], **facts)


class Forward(logging.Handler):
    """Writes the warnings of the server library in the same form."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        if record.exc_info and record.exc_info[1] is not None:
            self._log.failed(record.exc_info[1])
        else:
            self._log.write("server", level=record.levelname.lower(), message=record.getMessage())
