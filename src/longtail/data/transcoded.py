"""Files in other encodings than UTF-8, as UTF-8: piece by piece, however long they are."""

from __future__ import annotations

import codecs
from pathlib import Path

from longtail.data.mending import ENCODING, Mender, mender
from longtail.data.unpack import Stream
from longtail.errors import DataError

MARKS = {  # the longer first: a mark of UTF-32 begins as one of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
LOOKED_AT = 512  # bytes of a file without a mark
FEWEST = 16  # of them: fewer may be a text with a zero in it


def wide_encoding(first: bytes) -> str | None:
    """Which encoding of two or four bytes a letter a file has.

    Args:
        first: its first bytes.

    Returns:
        The encoding; None for others. Without a byte order mark, text in Latin letters has a zero in every other byte.
    """
    for mark, name in MARKS.items():
        if first.startswith(mark):
            return name
    begun = first[: min(LOOKED_AT, len(first) // 2 * 2)]
    if len(begun) < FEWEST:
        return None
    zeros = [begun[place::2].count(0) * 2 / max(len(begun), 1) for place in (0, 1)]
    for place, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if zeros[place] > 0.7 and zeros[1 - place] < 0.1:
            return name
    return None


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
    """A stream whose first bytes tell whether it is UTF-16 or UTF-32; they are looked at when they are read."""

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
        encoding = wide_encoding(first)
        if encoding is None or (at.remedies.encoding == "utf-8" and not at.collecting):
            return first
        at.note(f"files in {encoding[:6].upper()}", ENCODING, self._path, None)
        self._stream = Transcoded(self._stream, encoding, self._path, first)
        return self._stream.read(size)
