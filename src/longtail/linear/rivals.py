"""The nodes of a tree that a row is taken for though none of its labels stands in them."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Bools, Ints, Longs, Matrix
from longtail.linear.beam import ForestMaker, search
from longtail.linear.tree import Chunk, Mistaken
from longtail.memory import release

BEAM = 10  # nodes of the levels above that are looked into


def rivals_of(rows: Matrix, number: int) -> Mistaken:
    """For `fit_tree`: the `number` likeliest nodes of each row that are wrong, by the classifiers that lead to them.

    What comes below a node otherwise never meets the rows that the search will bring there by mistake. Rows without any
    label have none.
    """

    def find(above: list[Chunk], levels: list[Longs], nodes: Matrix) -> tuple[Longs, Ints]:
        maker = ForestMaker()
        maker.tree(np.arange(nodes.shape[1], dtype=np.int32), levels)
        for chunk in above:
            maker.keep(chunk)
        right = np.diff(nodes.indptr)
        most = min(number + int(right.max(initial=0)), nodes.shape[1])
        found, _ = search(maker.made(), rows, most, BEAM)
        row = np.arange(len(found))[:, None]
        own = np.repeat(row[:, 0], right) * nodes.shape[1] + nodes.indices  # rise, as columns do within a row
        wrong = (found >= 0) & (right[:, None] > 0) & ~_among(row * nodes.shape[1] + found, own)
        wrong &= np.cumsum(wrong, axis=1) <= number
        places = np.nonzero(wrong)
        pairs = places[0], found[places]
        del maker, found, row, own, wrong, places  # before the leaves need room
        release()
        return pairs

    return find


def _among(numbers: Longs, rising: Longs) -> Bools:
    """Which numbers are among those that rise."""
    if not len(rising):
        return np.zeros(numbers.shape, dtype=np.bool_)
    found: Bools = rising[np.minimum(np.searchsorted(rising, numbers), len(rising) - 1)] == numbers
    return found
