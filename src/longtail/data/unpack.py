"""Unpacks .gz and .xz piece by piece: never more at once than is asked for, whatever the file says of itself."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol

from longtail.data.limits import XZ_MEMORY

PACKED = 1 << 15  # bytes read from the file at a time; after each joined file the rest of them is copied once


class Stream(Protocol):
    """What is read piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Read the next bytes.

        Args:
            size: bytes, at most.

        Returns:
            The next bytes; none at the end.
        """


class Unpacked:
    """The content of a compressed file, which may be several ones joined.

    Raises:
        EOFError: the file ends too early.
        ValueError: it is damaged.
    """

    def __init__(self, raw: IO[bytes], ending: str) -> None:
        self._raw = raw
        self._ending = ending
        self._make: Callable[[], Any] = _gzip if ending == ".gz" else _xz
        self._unpacker = self._make()
        self._rest = b""  # packed bytes that wait
        self._started = False  # within one of the joined files
        self._done = False

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, fewer only at the end."""
        pieces: list[bytes] = []
        wanted = size
        while wanted and self._ready():
            pieces.append(self._step(wanted))
            wanted -= len(pieces[-1])
        return b"".join(pieces)

    def _ready(self) -> bool:
        """Whether there is anything left to unpack; reads more of the file where that is needed."""
        if self._unpacker.eof:
            self._rest = self._unpacker.unused_data.lstrip(b"\0")  # padding between joined files
            self._unpacker, self._started = self._make(), False
            while not self._rest and (more := self._raw.read(PACKED)):
                self._rest = more.lstrip(b"\0")
            self._done = not self._rest
        if self._done:
            return False
        if not self._rest and (self._ending == ".gz" or not self._started or self._unpacker.needs_input):
            self._rest = self._raw.read(PACKED)
            if not self._rest:
                raise EOFError
        self._started = True
        return True

    def _step(self, size: int) -> bytes:
        """Unpacks a piece of what waits; perhaps nothing."""
        try:
            piece: bytes = self._unpacker.decompress(self._rest, size)
        except (zlib.error, lzma.LZMAError) as error:
            reason = str(error).replace("Memory usage limit exceeded", f"it asks for more than {XZ_MEMORY} bytes")
            raise ValueError(reason) from None
        # zlib hands back what it did not use; lzma keeps it.
        self._rest = self._unpacker.unconsumed_tail if self._ending == ".gz" else b""
        return piece


def _gzip() -> Any:
    return zlib.decompressobj(31)  # 31: with the header and checksum of gzip


def _xz() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
