"""Quickselect: the value at one place of the sorted order, without sorting. Searches and trees share this kernel."""

from __future__ import annotations

import numpy as np
from numba import njit

ZERO = np.int64(0)  # to Numba, a bare 0 is a type of its own: a count that starts from it is typed once more
SEED, FACTOR, MODULUS = np.int64(16807), np.int64(1103515245), np.int64(2**31 - 1)  # of a linear congruential generator


@njit(nogil=True, cache=True)
def at_place(values, place):  # type: ignore[no-untyped-def]
    """The value at `place` of the sorted order.

    Args:
        values: one dimension; they are reordered in place.
        place: from 0.

    Returns:
        The value.
    """
    low, high, random = ZERO, len(values) - 1, SEED
    while low < high:
        random = (random * FACTOR + 12345) % MODULUS  # a fixed pivot is slow on values that ascend and then descend
        pivot = values[low + random % (high - low + 1)]
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
