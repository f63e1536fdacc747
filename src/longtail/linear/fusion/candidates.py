"""The best labels of all members, joined: each label once a row, with what every member said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Floats, Ints, Longs
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.threads import over_rows

Answers = Sequence[
    tuple[Ints, Floats]
]  # labels and scores (rows, places) of each member, -1 and 0 where there are fewer
LEAST = 64  # rows that are worth a thread


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """Row r has the candidates starts[r] to starts[r + 1], in the order in which members name them."""

    starts: Longs  # (rows + 1,)
    labels: Ints  # (candidates,)
    scores: Floats  # (candidates, members), 0 where the member does not name the label
    places: Ints  # (candidates, members) from 0; -1: the member does not name the label
    best: Floats  # (rows, members) the member's highest score of the row; 1 where it names nothing
    lowest: Floats  # (rows, members) its lowest; 1 where it names nothing

    @classmethod
    def joined(cls, answers: Answers) -> CandidateLists:
        """Join the members' labels.

        Args:
            answers: of each member, best first.

        Returns:
            The candidates of every row.
        """
        rows, members = len(answers[0][0]), len(answers)
        ends = np.cumsum([0, *(labels.shape[1] for labels, _ in answers)])  # columns of each member
        named = np.ascontiguousarray(np.concatenate([labels for labels, _ in answers], axis=1), dtype=np.int32)
        scores = np.ascontiguousarray(np.concatenate([scores for _, scores in answers], axis=1), dtype=np.float32)
        slots = np.full(named.shape, -1, dtype=np.int32)  # the candidate that a place became, counted in its row
        counts = np.zeros(rows, dtype=np.int64)
        size = 1 << int(max(2 * named.shape[1], 2) - 1).bit_length()
        over_rows(lambda begin, end: _number(begin, end, named, slots, counts, _tables(size)), rows, LEAST)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(starts[-1])
        labels, said = np.empty(total, dtype=np.int32), np.zeros((total, members), dtype=np.float32)
        places = np.full((total, members), -1, dtype=np.int32)
        best, lowest = (np.ones((rows, members), dtype=np.float32) for _ in range(2))

        def fill(begin: int, end: int) -> None:
            _fill(begin, end, ends, named, scores, slots, starts, labels, said, places, best, lowest)

        over_rows(fill, rows, LEAST)
        return cls(starts, labels, said, places, best, lowest)

    @property
    def rows(self) -> Ints:
        """(candidates,) the row of each candidate."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def take(self, kept: Bools) -> CandidateLists:
        """Return only some candidates; what members said of the others is dropped.

        Args:
            kept: (candidates,).

        Returns:
            As many rows with fewer candidates.
        """
        counts = np.add.reduceat(np.concatenate([kept, [False]]), self.starts[:-1]) if len(self.best) else np.zeros(0)
        counts = np.where(np.diff(self.starts) > 0, counts, 0)  # reduceat takes the next entry for an empty row
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return CandidateLists(starts, self.labels[kept], self.scores[kept], self.places[kept], self.best, self.lowest)


def _tables(size: int) -> tuple[AnyArray, AnyArray]:
    """Scratch space of a thread: a hash table from labels to candidates."""
    return np.full(size, -1, dtype=np.int32), np.empty(size, dtype=np.int32)


@njit(**KERNEL)
def _number(begin, end, named, slots, counts, tables):  # type: ignore[no-untyped-def]
    # Safe: the tables have more slots than a row has places, so a free one is found; labels only choose where to look.
    keys, numbers = tables
    mask = len(keys) - 1
    for row in range(begin, end):
        keys[:] = -1
        count = ZERO
        for place in range(named.shape[1]):
            label = named[row, place]
            if label < 0:
                continue
            slot = (np.int64(label) * 2654435761 >> 7) & mask
            while keys[slot] >= 0 and keys[slot] != label:
                slot = (slot + 1) & mask
            if keys[slot] < 0:
                keys[slot], numbers[slot] = label, count
                count += 1
            slots[row, place] = numbers[slot]
        counts[row] = count


@njit(**KERNEL)
def _fill(begin, end, ends, named, scores, slots, starts, labels, said, places, best, lowest):  # type: ignore[no-untyped-def]
    # Safe: slots are those that `_number` gave, below the row's candidates.
    for row in range(begin, end):
        first = starts[row]
        for member in range(len(ends) - 1):
            seen = ZERO
            for place in range(ends[member], ends[member + 1]):
                slot = slots[row, place]
                if slot < 0:
                    continue
                candidate, score = first + slot, scores[row, place]
                labels[candidate] = named[row, place]
                said[candidate, member] = score
                places[candidate, member] = seen
                if seen == 0 or score > best[row, member]:
                    best[row, member] = score
                if seen == 0 or score < lowest[row, member]:
                    lowest[row, member] = score
                seen += 1
