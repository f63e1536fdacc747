"""Strings that lie in a file: they look like a tuple of strings, and only those that are asked for are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from operator import eq
from typing import overload

import numpy as np

from longtail.arrays import AnyArray, Bytes, Longs, pack_strings
from longtail.errors import DataError

BLOCK = 4096  # strings decoded at once
SAMPLE = 1000  # strings whose characters are counted


class MappedTexts(Sequence[str]):
    """Strings of a packed file, or some of them. A part is a view: it holds row numbers, and no string."""

    __slots__ = ("_begin", "_end", "_offsets", "_packed", "_rows")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, packed: Bytes, offsets: Longs, rows: Longs | None = None, span: slice | None = None) -> None:
        """Strings over arrays that `pack_strings` made.

        Args:
            packed: (bytes,) UTF-8 of all strings.
            offsets: (strings + 1,).
            rows: which strings, in this order; None: all.
            span: which of those; None: all.
        """
        self._packed, self._offsets, self._rows = packed, offsets, rows
        total = len(offsets) - 1 if rows is None else len(rows)
        self._begin, self._end, _ = (span or slice(None)).indices(total)

    def __len__(self) -> int:
        return max(self._end - self._begin, 0)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            begin, end, step = place.indices(len(self))
            if step != 1:
                return self.take(np.arange(begin, end, step))
            return MappedTexts(
                self._packed, self._offsets, self._rows, slice(self._begin + begin, self._begin + max(begin, end))
            )
        number = int(place)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} strings, and none has the number {number}")
        return self._decoded(number % len(self), number % len(self) + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), BLOCK):
            yield from self._decoded(begin, min(begin + BLOCK, len(self)))

    def __add__(self, others: Sequence[str]) -> JoinedTexts:
        return JoinedTexts((self, others))

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __repr__(self) -> str:
        """Their number, because nobody wants to print a million texts."""
        return f"MappedTexts({len(self):,} strings)"

    def take(self, rows: AnyArray) -> MappedTexts:
        """Some of the strings.

        Args:
            rows: (strings taken,) their numbers.

        Returns:
            A view of them, in this order.
        """
        rows = np.asarray(rows, dtype=np.int64)
        own = rows + self._begin if self._rows is None else self._rows[rows + self._begin]
        return MappedTexts(self._packed, self._offsets, own)

    def packed(self) -> tuple[Bytes, Longs]:
        """See `packed`."""
        if self._rows is None:
            offsets = self._offsets[self._begin : max(self._end, self._begin) + 1]
            return np.array(self._packed[offsets[0] : offsets[-1]]), offsets - offsets[0]
        rows = self._rows[self._begin : self._end]
        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        raw = b"".join([self._packed[start:end].tobytes() for start, end in spans])
        return np.frombuffer(raw, dtype=np.uint8).copy(), np.concatenate([[0], np.cumsum(ends - starts)])

    def bytes(self) -> int:
        """Adds up the lengths of the strings without reading them.

        Returns:
            Bytes of their UTF-8.
        """
        if self._rows is None:
            return int(self._offsets[self._begin + len(self)] - self._offsets[self._begin])
        rows = self._rows[self._begin : self._begin + len(self)]
        return int((self._offsets[rows + 1] - self._offsets[rows]).sum())

    def _decoded(self, begin: int, end: int) -> list[str]:
        low, high = self._begin + begin, self._begin + end
        if self._rows is None:
            offsets = self._offsets[low : high + 1]
            raw = self._packed[offsets[0] : offsets[-1]].tobytes()
            cuts = pairwise((offsets - offsets[0]).tolist())
            return [_text(raw[start:stop]) for start, stop in cuts]
        rows = self._rows[low:high]
        spans = zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
        return [_text(self._packed[start:stop].tobytes()) for start, stop in spans]


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:  # nobody reads all texts when a store is opened
        raise DataError(
            f"a text or id of the store is no UTF-8 any more ({error.reason}); convert the data again"
        ) from None


class JoinedTexts(Sequence[str]):
    """Several sequences of strings, one behind the other."""

    __slots__ = ("_parts", "_starts")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        """One sequence over several.

        Args:
            parts: the sequences.
        """
        flat = chain.from_iterable(part._parts if isinstance(part, JoinedTexts) else (part,) for part in parts)
        self._parts: tuple[Sequence[str], ...] = tuple(part for part in flat if len(part))
        self._starts = np.cumsum([0, *map(len, self._parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            begin, end, step = place.indices(len(self))
            if step != 1:
                return self.take(np.arange(begin, end, step))
            spans = zip(self._parts, self._starts.tolist(), strict=False)
            return JoinedTexts([part[max(begin - start, 0) : max(end - start, 0)] for part, start in spans])
        number = int(place)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} strings, and none has the number {number}")
        number %= len(self)
        which = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._parts[which][number - int(self._starts[which])]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __add__(self, others: Sequence[str]) -> JoinedTexts:
        return JoinedTexts((self, others))

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __repr__(self) -> str:
        """Their number, because nobody wants to print a million texts."""
        return f"JoinedTexts({len(self):,} strings)"

    def take(self, rows: AnyArray) -> tuple[str, ...] | MappedTexts:
        """Some of the strings.

        Args:
            rows: (strings taken,) their numbers.

        Returns:
            A view where all lie in the first part and that is one; else the strings.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if self._parts and isinstance(self._parts[0], MappedTexts) and rows.max(initial=-1) < self._starts[1]:
            return self._parts[0].take(rows)
        return tuple([self[row] for row in rows.tolist()])


def characters_of(texts: Sequence[str]) -> int:
    """How long texts are together.

    Args:
        texts: the texts.

    Returns:
        Their characters. Of texts in a file these are estimated from their bytes: a sample says how many bytes a
        character takes, and the others are not read.
    """
    if isinstance(texts, JoinedTexts):
        return sum(map(characters_of, texts._parts))
    if not isinstance(texts, MappedTexts):
        return sum(map(len, texts))
    sample = texts[:: max(len(texts) // SAMPLE, 1)]
    assert isinstance(sample, MappedTexts)
    return round(texts.bytes() * sum(map(len, sample)) / max(sample.bytes(), 1))


def as_strings(given: Sequence[str]) -> Sequence[str]:
    """Strings that cannot change.

    Args:
        given: any strings.

    Returns:
        Those of a file as they are, others as a tuple.
    """
    return given if isinstance(given, MappedTexts | JoinedTexts) else tuple(given)


def taken(given: Sequence[str], rows: AnyArray) -> Sequence[str]:
    """Some strings.

    Args:
        given: from `as_strings`.
        rows: (strings taken,) their numbers.

    Returns:
        The strings in this order; those of a file as a view.
    """
    if isinstance(given, MappedTexts | JoinedTexts):
        return given.take(rows)
    return tuple([given[row] for row in rows.tolist()])


def packed(given: Sequence[str]) -> tuple[Bytes, Longs]:
    """Strings as arrays.

    Args:
        given: any strings.

    Returns:
        As `pack_strings`; strings of a file are copied and not decoded.
    """
    return given.packed() if isinstance(given, MappedTexts) else pack_strings(given)


def joined(given: Sequence[str], more: Sequence[str]) -> Sequence[str]:
    """Strings behind others.

    Args:
        given: from `as_strings`.
        more: any strings.

    Returns:
        Both; none of a file is copied.
    """
    if isinstance(given, tuple) and not isinstance(more, MappedTexts | JoinedTexts):
        return given + tuple(more)
    return JoinedTexts((given, as_strings(more)))


def _equal(one: Sequence[str], other: object) -> bool:
    return isinstance(other, MappedTexts | JoinedTexts | tuple) and len(one) == len(other) and all(map(eq, one, other))
