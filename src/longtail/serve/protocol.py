"""Connections that take too long to say what they want."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

ASK_WITHIN = 10.0  # seconds from the first byte of a request's head, or from the connection, to its end


class Prompt(H11Protocol):
    """The server's own protocol waits without end for the head of a request; a body is timed by the guard."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._asking():
            self._begin()
        else:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _asking(self) -> bool:
        """Whether a head has begun and not ended."""
        return self.cycle is None or (self.cycle.response_complete and bool(self.conn.trailing_data[0]))

    def _begin(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(ASK_WITHIN, self._give_up)

    def _end(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            if self.conn.trailing_data[0]:  # it said something
                self.transport.write(_late_answer())
            self.transport.close()


def _late_answer() -> bytes:
    body = b'{"error": "the head of the request came too slowly", "where": []}'
    head = f"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
