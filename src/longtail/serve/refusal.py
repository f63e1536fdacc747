"""The error that refuses a request."""

from __future__ import annotations

from collections.abc import Mapping


class Refused(Exception):
    """A request is answered with an error.

    Args:
        status: of HTTP.
        error: the message for the client.
        reason: one word for the metrics.
        headers: of the answer.
    """

    def __init__(self, status: int, error: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.reason, self.headers = status, error, reason, dict(headers or {})
