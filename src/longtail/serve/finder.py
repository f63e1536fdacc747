"""Labels by their words, over a million of them without an index on disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from longtail.arrays import Ints, Longs
from longtail.data.labels import LabelSet
from longtail.metrics.frequency import bands

END = "\n"  # between labels; a line end inside a label's text becomes a space


@dataclass(frozen=True, eq=False)
class Finder:
    """A label set as one long folded text, which is searched where it lies."""

    labels: LabelSet

    @cached_property
    def bands(self) -> Ints:
        return bands(self.labels)

    @cached_property
    def _text(self) -> str:
        lines = (_folded(f"{self.labels.word(row)} {name}") for row, name in enumerate(self.labels.ids))
        return END.join(lines) + END

    @cached_property
    def _starts(self) -> Longs:
        """Where each label begins in the text: (labels + 1,)."""
        ends = np.fromiter((match.end() for match in re.finditer(END, self._text)), np.int64)
        return np.concatenate([[0], ends])

    @cached_property
    def _by_count(self) -> Ints:
        """The place of each label by frequency, most frequent first."""
        places = np.empty(len(self.labels), dtype=np.int32)
        places[np.argsort(-self.labels.counts, kind="stable")] = np.arange(len(self.labels), dtype=np.int32)
        return places

    def find(self, query: str, limit: int, offset: int = 0) -> tuple[int, list[int]]:
        """How many labels hold every word of the query in their text or id, and the rows of some of them: those that
        begin with the query first, then the most frequent. An empty query finds all."""
        words = sorted(_folded(query).split(), key=len, reverse=True)
        if not words:
            rows = np.argsort(self._by_count)
            return len(rows), rows[offset : offset + limit].tolist()
        found = np.array([row for row in self._holding(words[0]) if self._holds(row, words[1:])], dtype=np.int64)
        asked = " ".join(_folded(query).split())
        begins = np.array([self._text.startswith(asked, int(self._starts[row])) for row in found], dtype=bool)
        order = np.lexsort((self._by_count[found], ~begins)) if len(found) else found
        return len(found), found[order][offset : offset + limit].tolist()

    def _holding(self, word: str) -> list[int]:
        """Rows of the labels that hold the word."""
        text, places, place = self._text, [], self._text.find(word)
        while place >= 0:
            places.append(place)
            place = text.find(word, text.index(END, place))  # one hit a label is enough
        return (np.searchsorted(self._starts, places, side="right") - 1).tolist()  # type: ignore[no-any-return]

    def _holds(self, row: int, words: list[str]) -> bool:
        begin, end = int(self._starts[row]), int(self._starts[row + 1])
        return all(self._text.find(word, begin, end) >= 0 for word in words)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
