"""The value at one place of an order, without sorting: a kernel that searches and trees share."""

from __future__ import annotations

import numpy as np
from numba import njit

ZERO = np.int64(0)  # a bare 0 is a type of its own to Numba


@njit(nogil=True, cache=True)
def at_place(values, place):  # type: ignore[no-untyped-def]
    """The value that would stand at `place` if the values were sorted; they are left in disorder."""
    low, high = ZERO, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
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
