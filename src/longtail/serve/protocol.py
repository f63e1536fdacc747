"""A connection: strict HTTP, a time limit for each of its phases, and a place among those of its client."""

from __future__ import annotations

import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from longtail.serve.connections import Connections, Phase
from longtail.serve.counters import Counters
from longtail.serve.strict import MAX_HEAD, StrictConnection

PHRASES = {400: "Bad Request", 408: "Request Timeout", 429: "Too Many Requests", 431: "Request Header Fields Too Large"}


class TimedProtocol(H11Protocol):
    """uvicorn's protocol with limits. `protocol_of` gives it the connections of its server."""

    open_connections: Connections
    counters: Counters

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn: StrictConnection = StrictConnection(h11.SERVER, MAX_HEAD)
        self.peer = ""
        self.since = 0.0
        self._phase: Phase = "head"

    @property
    def phase(self) -> Phase:
        """What the connection does; a phase that begins is noted with its time."""
        now = self._seen()
        if now != self._phase:
            self._phase, self.since = now, self.loop.time()
        return now

    def _seen(self) -> Phase:
        if self.transport.is_closing():
            return "closing"
        if self.flow.write_paused:
            return "sending"
        asked: RequestResponseCycle | None = self.cycle
        if asked is None:
            return "head"
        if self.conn.their_state is h11.SEND_BODY:  # also of a request that was refused before its body came
            return "body"
        if not asked.response_complete:
            return "working"
        return "head" if self.conn.trailing_data[0] else "idle"

    def connection_made(self, transport: Any) -> None:
        """Counts the connection, or refuses it."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self.since = self.loop.time()
        refusal = self.open_connections.admit(self)
        if refusal is not None:
            self.counters.refused.add(reason="connections")
            self._refuse(429, refusal)

    def data_received(self, data: bytes) -> None:
        """Notes the beginning of a phase."""
        super().data_received(data)
        _ = self.phase

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the request under way that nobody waits for its answer."""
        self.open_connections.forget(self)
        unanswered = self.cycle is not None and not self.cycle.response_complete
        super().connection_lost(exc)
        if unanswered:
            leave = self.scope.get("state", {}).get("on_disconnect")
            if leave is not None:
                leave()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not strictly HTTP, and closes. uvicorn calls it; its own answer does not say why."""
        self.counters.refused.add(reason="http")
        refused = self.conn.refused
        status = refused.error_status_hint if refused is not None else 400
        self._refuse(status if status in PHRASES else 400, f"this is not strictly HTTP/1.1: {refused or msg}")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its body is not what it seemed
            self.cycle.message_event.set()

    def time_out(self, phase: Phase) -> None:
        """Closes the connection because a phase took too long; answers a head of which a part has come."""
        if phase == "head" and self.conn.trailing_data[0]:
            self._refuse(408, "the head of the request came too slowly")
        else:
            self.transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.transport.abort()

    def _refuse(self, status: int, error: str) -> None:
        """Answers without the application, if no answer has begun, and closes."""
        asked = self.cycle
        if asked is None or not asked.response_started or (asked.response_complete and not self.conn.reading_body):
            body = json.dumps({"error": error, "where": []}).encode()
            retry = "Retry-After: 1\r\n" if status == 429 else ""
            head = f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: application/json\r\n{retry}"
            self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.close()


def protocol_of(connections: Connections, counters: Counters) -> type[TimedProtocol]:
    """Makes the protocol of one server.

    Args:
        connections: of the server.
        counters: its metrics.

    Returns:
        A class for uvicorn, which makes one of each connection.
    """
    return type("ServedProtocol", (TimedProtocol,), {"open_connections": connections, "counters": counters})
