"""What the trees see of a candidate, a column of numbers each; `GROUPS` names them.

Frequency is counted over the rows that the members were fitted on, the same counts for every row. Counts that leave
out the row's own targets would give the answer away: a label with one row would have count 0 only where it is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numba import njit

from longtail.arrays import Floats, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.fusion.candidates import CandidateLists
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.threads import over_rows

OF_A_MEMBER = ("log score", "distance to the member's best", "place")
GROUPS = {  # columns of each group; those of "members" stand once for each member
    "members": OF_A_MEMBER,
    "frequency": ("training rows",),
    "agreement": ("members that name it", "reciprocal places", "best place"),
    "reliability": ("right against expected", "times proposed", "times right"),
    "phrase": ("share of its words", "phrase found", "place of the phrase"),
    "length": ("words of the text",),
    "company": ("with the surest other", "with the three surest others"),
}
SUREST = 3  # other candidates of a row that count as company
LEAST = 64  # rows that are worth a thread
SMALLEST = np.float32(1e-12)


@dataclass(frozen=True)
class NumberColumns:
    """Which columns there are."""

    members: int
    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = set(self.groups) - set(GROUPS)
        if unknown or self.members < 1 or not self.groups or len(set(self.groups)) < len(self.groups):
            raise ValueError(f"numbers of {self.members} members in the groups {sorted(unknown) or self.groups}")

    @cached_property
    def _ends(self) -> list[int]:
        """Where the columns of each group end."""
        sizes = [self.members * 3 if group == "members" else len(GROUPS[group]) for group in self.groups]
        return list(accumulate(sizes))

    @property
    def width(self) -> int:
        """How many."""
        return self._ends[-1]

    def of(self, group: str) -> slice:
        """Return where the columns of a group stand."""
        place = self.groups.index(group)
        return slice(self._ends[place - 1] if place else 0, self._ends[place])

    def names(self) -> list[str]:
        """Return the name of each column, for reports."""
        found: list[str] = []
        for group in self.groups:
            parts = [f"{name} ({member})" for member in range(self.members) for name in OF_A_MEMBER]
            found += parts if group == "members" else GROUPS[group]
        return found


def member_numbers(candidates: CandidateLists, behind: int) -> tuple[Floats, Floats, Floats]:
    """Numbers that follow from the members' lists alone.

    Args:
        candidates: of some rows.
        behind: the place of a label that a member does not name: as many labels as a member names at most.

    Returns:
        (candidates, 3 x members): the log score, that less the member's best of the row, log(1 + place). A label that a
        member does not name has its lowest log score of the row - 1 and the place behind the last.
        (candidates, 3): members that name it, the sum of 1 / (1 + place), log(1 + best place).
        (candidates,): the mean over members of score / best score of the row, how much they believe in it.
    """
    total, members = candidates.scores.shape
    own = np.empty((total, 3 * members), dtype=np.float32)
    agreement, shares = np.empty((total, 3), dtype=np.float32), np.empty(total, dtype=np.float32)
    last = np.int32(behind)

    def work(begin: int, end: int) -> None:
        _members(
            begin,
            end,
            candidates.starts,
            candidates.scores,
            candidates.places,
            candidates.best,
            candidates.lowest,
            last,
            own,
            agreement,
            shares,
        )

    over_rows(work, len(candidates.starts) - 1, LEAST)
    return own, agreement, shares


def company_numbers(candidates: CandidateLists, surest_by: Floats, together: Matrix, counts: Floats) -> Floats:
    """How often a candidate's label stands with the row's surest other candidates in training.

    Args:
        candidates: of some rows.
        surest_by: (candidates,) how sure members are of each.
        together: csr (labels, labels), training rows that have both labels.
        counts: (labels,) training rows of each label.

    Returns:
        (candidates, 2): the share of the surest other label's rows that have this label too, and the mean of that share
        over the three surest others.
    """
    found = np.zeros((len(candidates.labels), 2), dtype=np.float32)
    arrays: CsrArrays = csr_arrays(together)

    def work(begin: int, end: int) -> None:
        scratch = np.empty(SUREST + 1, dtype=np.int64)
        _company(begin, end, candidates.starts, candidates.labels, surest_by, *arrays, counts, scratch, found)

    over_rows(work, len(candidates.starts) - 1, LEAST)
    return found


def side_by_side(columns: NumberColumns, parts: Iterable[tuple[str, Floats]]) -> Floats:
    """Put groups into one array.

    Args:
        columns: which there are.
        parts: group and its numbers (candidates, columns of the group).

    Returns:
        (candidates, columns) float32.
    """
    found = dict(parts)
    wide = np.empty((len(found["members"]), columns.width), dtype=np.float32)
    for group in columns.groups:
        wide[:, columns.of(group)] = found[group]
    return wide


@njit(**KERNEL)
def _members(begin, end, starts, scores, places, best, lowest, behind, own, agreement, shares):  # type: ignore[no-untyped-def]
    # Safe: all arrays are of `CandidateLists`, which made them.
    members = scores.shape[1]
    for row in range(begin, end):
        for candidate in range(starts[row], starts[row + 1]):
            named, reciprocal, first, share = ZERO, 0.0, behind, 0.0
            for member in range(members):
                top = np.log(max(best[row, member], SMALLEST))
                place = places[candidate, member]
                if place >= 0:
                    value = np.log(max(scores[candidate, member], SMALLEST))
                    named += 1
                    reciprocal += 1.0 / (1 + place)
                    first = min(first, place)
                    share += scores[candidate, member] / max(best[row, member], SMALLEST)
                else:
                    value, place = np.log(max(lowest[row, member], SMALLEST)) - 1, behind
                own[candidate, 3 * member] = value
                own[candidate, 3 * member + 1] = value - top
                own[candidate, 3 * member + 2] = np.log1p(np.float32(place))
            agreement[candidate, 0] = named
            agreement[candidate, 1] = reciprocal
            agreement[candidate, 2] = np.log1p(np.float32(first))
            shares[candidate] = share / members


@njit(**KERNEL)
def _company(begin, end, starts, labels, surest_by, rows, partners, times, counts, surest, found):  # type: ignore[no-untyped-def]
    # Safe: candidates are labels that members named; a stored `together` has a row and a column for each (`csr`), and
    # `counts` a number. `surest` has a place more than `SUREST`.
    for row in range(begin, end):
        low, high = starts[row], starts[row + 1]
        number = ZERO
        for candidate in range(low, high):  # the surest, best first; equals by label
            place = number
            while place > 0 and (
                surest_by[surest[place - 1]] < surest_by[candidate]
                or (
                    surest_by[surest[place - 1]] == surest_by[candidate]
                    and labels[surest[place - 1]] > labels[candidate]
                )
            ):
                place -= 1
            if place > SUREST:
                continue
            for later in range(len(surest) - 1, place, -1):
                surest[later] = surest[later - 1]
            surest[place] = candidate
            if number <= SUREST:
                number += 1
        for candidate in range(low, high):
            used, total = ZERO, 0.0
            for rank in range(number):
                other = surest[rank]
                if other == candidate or used == SUREST:
                    continue
                left, right = rows[labels[other]], rows[labels[other] + 1]
                stop = right
                while left < right:
                    middle = (left + right) >> 1
                    if partners[middle] < labels[candidate]:
                        left = middle + 1
                    else:
                        right = middle
                share = 0.0
                if left < stop and partners[left] == labels[candidate]:
                    share = times[left] / max(counts[labels[other]], SMALLEST)
                if used == 0:
                    found[candidate, 0] = share
                used += 1
                total += share
            if used > 0:
                found[candidate, 1] = total / used
