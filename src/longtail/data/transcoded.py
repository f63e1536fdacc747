"""Files in other encodings than UTF-8, as UTF-8: piece by piece, however long they are."""

from __future__ import annotations

import codecs
from pathlib import Path

from longtail.data.mending import ENCODING, Mender, mender
from longtail.data.unpack import Stream
from longtail.errors import DataError

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Transcoded:
    """A stream of bytes in some encoding, read as UTF-8.

    Raises:
        DataError: a byte means nothing in the encoding.
    """

    def __init__(self, stream: Stream, encoding: str, path: Path, begun: bytes = b"") -> None:
        self._stream = stream
        self._begun = begun
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoding = encoding
        self._path = path
        self._line = 1
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """The next bytes, perhaps more than `size`: letters may get longer."""
        while not self._ended:
            raw, self._begun = self._begun or self._stream.read(size), b""
            self._ended = not raw
            try:
                text = self._decoder.decode(raw, final=self._ended)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"is not {self._encoding} ({error.reason}); give another --encoding, or auto",
                    self._path,
                    self._line,
                ) from None
            self._line += text.count("\n")
            if text:
                return text.encode("utf-8", "replace")
        return b""


def transcoded(stream: Stream, path: Path) -> Stream:
    """A stream as UTF-8, where the user named an encoding or the file begins as UTF-16 does.

    Args:
        stream: of the bytes of a file.
        path: the file.

    Returns:
        The stream to read; the same one where nothing was asked for.
    """
    at = mender()
    if at is None:
        return stream
    named = at.remedies.encoding
    if named not in ("auto", "utf-8"):
        return Transcoded(stream, named, path)
    return _GuessedEncoding(stream, path, at)


class _GuessedEncoding:
    """A stream whose first bytes tell whether it is UTF-16; they are looked at when they are read."""

    def __init__(self, stream: Stream, path: Path, at: Mender) -> None:
        self._stream = stream
        self._path = path
        self._at = at
        self._begun = False

    def read(self, size: int, /) -> bytes:
        if self._begun:
            return self._stream.read(size)
        self._begun = True
        first = self._stream.read(size)
        at = self._at
        if first[:2] not in UTF16 or (at.remedies.encoding == "utf-8" and not at.collecting):
            return first
        at.note("files in UTF-16", ENCODING, self._path, None)
        self._stream = Transcoded(self._stream, "utf-16", self._path, first)
        return self._stream.read(size)
