"""An answer that needs no more of the request."""

from __future__ import annotations

from collections.abc import Mapping


class Refused(Exception):
    """`error` is for the client, `reason` one word for the figures."""

    def __init__(self, status: int, error: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.reason, self.headers = status, error, reason, dict(headers or {})
