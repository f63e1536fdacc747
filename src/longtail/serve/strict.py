"""HTTP without two meanings: what a proxy in front might read otherwise is refused.

h11 is generous: it takes a bare line feed for a line end, joins folded lines, prefers Transfer-Encoding where
Content-Length is there too, and skips chunk extensions and trailers. If a proxy reads such a request another way, one
request can hide in another. So the bytes are looked at before h11 takes them.
"""

from __future__ import annotations

import re
from typing import Any

import h11

MAX_HEAD = 32 << 10  # bytes

_NAME = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]*"  # everything but control characters
_HEAD = re.compile(_NAME + rb" (?:/[\x21-\x7e]*|\*) HTTP/1\.[01]\r\n(?:" + _NAME + rb":" + _VALUE + rb"\r\n)*+\r\n")
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\0")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([^\r]*)")
_ENCODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*([^\r]*)")
_NUMBER = re.compile(rb"[0-9]{1,18}")
_FRAMING = re.compile(rb"\r?\n?(?:[0-9A-Fa-f]{1,16}\r\n)?(?:\r\n)?")  # between the data of two chunks


class StrictConnection(h11.Connection):
    """An h11 connection of a server that refuses requests with two meanings; it must be closed after one."""

    refused: h11.RemoteProtocolError | None = None  # why the request was refused
    reading_body = False  # whether the last event was looked for in a body
    _chunked = False

    def next_event(self) -> Any:
        """Reads the next event.

        Returns:
            As `h11.Connection.next_event`.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP, or have two meanings.
        """
        self.reading_body = self.their_state is h11.SEND_BODY
        try:
            if self.their_state is h11.IDLE:
                self._check_head(self.trailing_data[0])
            elif self._chunked and self.their_state is h11.SEND_BODY:
                return self._next_chunk()
            return super().next_event()
        except h11.RemoteProtocolError as error:
            self.refused = error
            raise

    def _check_head(self, waiting: bytes) -> None:
        """Checks as much of a head as has come."""
        end = waiting.find(b"\r\n\r\n")
        head = waiting if end < 0 else waiting[: end + 4]
        if len(head) > MAX_HEAD:
            raise h11.RemoteProtocolError(f"the head is longer than {MAX_HEAD} bytes", error_status_hint=431)
        if end < 0 or not _HEAD.fullmatch(head):
            if _BARE.search(head):
                raise h11.RemoteProtocolError("a line does not end with CR LF, or has a CR, LF or NUL in it")
            if end < 0:
                return
            raise h11.RemoteProtocolError(_reason(head))
        lower = head.lower()
        lengths, encodings = _LENGTH.findall(lower), _ENCODING.findall(lower)
        if len(lengths) > 1 or not all(_NUMBER.fullmatch(value.rstrip()) for value in lengths):
            raise h11.RemoteProtocolError("Content-Length is not one number")
        if encodings and (lengths or encodings != [b"chunked"] or b" http/1.0\r\n" in lower[: lower.find(b"\n") + 1]):
            raise h11.RemoteProtocolError(
                "Transfer-Encoding is not just chunked, or stands beside Content-Length or in HTTP/1.0"
            )
        self._chunked = bool(encodings)

    def _next_chunk(self) -> Any:
        before = self.trailing_data[0]
        event = super().next_event()
        taken = len(before) - len(self.trailing_data[0])
        framing = before[: taken - len(event.data) if isinstance(event, h11.Data) else taken]
        ended = isinstance(event, h11.EndOfMessage)
        if not _FRAMING.fullmatch(framing) or (ended and not framing.endswith(b"\r\n")):
            raise h11.RemoteProtocolError("a chunk has an extension, a trailer or a line that does not end with CR LF")
        return event


def _reason(head: bytes) -> str:
    first, *lines = head[:-4].split(b"\r\n")
    if any(line[:1] in (b" ", b"\t") for line in lines):
        return "a header is folded into two lines"
    if any(not re.match(_NAME + b":", line) for line in lines):
        return "a header is not a name, a colon and a value"
    if not re.fullmatch(rb"\S+ (/\S*|\*) HTTP/1\.[01]", first):
        return "the first line is not a method, a path and HTTP/1.1"
    return "the head has a character that may not stand there"
