"""The value at one place of an order, without sorting: a kernel that searches and trees share."""

from __future__ import annotations

import numpy as np
from numba import njit

ZERO = np.int64(0)  # a bare 0 is a type of its own to Numba: a count from it is typed once more
FIRST, FACTOR, LUCKS = np.int64(16807), np.int64(1103515245), np.int64(2**31 - 1)


@njit(nogil=True, cache=True)
def at_place(values, place):  # type: ignore[no-untyped-def]
    """The value that would stand at `place` if the values were sorted; they are left in disorder."""
    low, high, luck = ZERO, len(values) - 1, FIRST
    while low < high:
        luck = (luck * FACTOR + 12345) % LUCKS  # values that rise and then fall would trap a fixed choice
        pivot = values[low + luck % (high - low + 1)]
        up, down = low, high
        while up <= down:
            while values[up] < pivot:
                up += 1
            while values[down] > pivot:
                down -= 1
            if up <= down:
                values[up], values[down] = values[down], values[up]
                up += 1
                down -= 1
        if place <= down:
            high = down
        elif place >= up:
            low = up
        else:
            break
    return values[place]
