"""Finds labels by their words, among a million of them, without an index on disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from longtail.arrays import Ints, Longs
from longtail.data.labels import LabelSet
from longtail.metrics.frequency import bands

END = "\n"  # after each label; a line end inside a label's text becomes a space


@dataclass(frozen=True, eq=False)
class Finder:
    """All labels as one long case-folded string, which is searched directly."""

    labels: LabelSet

    @cached_property
    def bands(self) -> Ints:
        """(labels,) the frequency band of each label."""
        return bands(self.labels)

    @cached_property
    def _text(self) -> str:
        lines = (_folded(f"{self.labels.word(row)} {name}") for row, name in enumerate(self.labels.ids))
        return END.join(lines) + END

    @cached_property
    def _starts(self) -> Longs:
        """(labels + 1,) where each label starts in the string."""
        ends = np.fromiter((match.end() for match in re.finditer(END, self._text)), np.int64)
        return np.concatenate([[0], ends])

    @cached_property
    def _by_count(self) -> Ints:
        """(labels,) the rank of each label by frequency, 0 for the most frequent."""
        places = np.empty(len(self.labels), dtype=np.int32)
        places[np.argsort(-self.labels.counts, kind="stable")] = np.arange(len(self.labels), dtype=np.int32)
        return places

    def find(self, query: str, limit: int, offset: int = 0) -> tuple[int, list[int]]:
        """Finds labels that have every word of a query in their text or id.

        Args:
            query: words or parts of words; an empty query finds all labels.
            limit: the most labels to return.
            offset: how many to skip.

        Returns:
            How many labels match, and the rows of some: those that start with the query first, then by frequency.
        """
        words = sorted(_folded(query).split(), key=len, reverse=True)
        if not words:
            rows = np.argsort(self._by_count)
            return len(rows), rows[offset : offset + limit].tolist()
        found = np.array([row for row in self._holding(words[0]) if self._holds(row, words[1:])], dtype=np.int64)
        prefix = " ".join(_folded(query).split())
        starts = np.array([self._text.startswith(prefix, int(self._starts[row])) for row in found], dtype=bool)
        order = np.lexsort((self._by_count[found], ~starts)) if len(found) else found
        return len(found), found[order][offset : offset + limit].tolist()

    def _holding(self, word: str) -> list[int]:
        """Rows of the labels that have the word."""
        text, places, place = self._text, [], self._text.find(word)
        while place >= 0:
            places.append(place)
            place = text.find(word, text.index(END, place))  # one hit per label is enough
        return (np.searchsorted(self._starts, places, side="right") - 1).tolist()  # type: ignore[no-any-return]

    def _holds(self, row: int, words: list[str]) -> bool:
        start, end = int(self._starts[row]), int(self._starts[row + 1])
        return all(self._text.find(word, start, end) >= 0 for word in words)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
