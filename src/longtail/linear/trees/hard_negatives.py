"""Hard negatives: the nodes of a tree that the search finds for a row though none of its labels is in them.

In `bonsai` each row also trains the three wrong clusters that the root finds most likely, as a negative of all their
labels. A leaf then knows rows that are not its own, so only half of the root's log probability counts
(`Training.path_weight`). That factor is multiplied into the root's weights and bias, so the search and the saved form
do not know of it.

On rows held out of train this brings 0.4 to 0.6 of P@1, 0.6 to 1.1 of PSP@1 and up to 3 points of C@5 on three sets,
with five passes instead of eight (`docs/results/linear.md`). A wider beam or a smaller `weight_threshold` brings
nothing. Two more trees bring half of that P@1 and nothing in the tail.
"""

from __future__ import annotations

import numpy as np

from longtail.arrays import Bools, Ints, Longs, Matrix
from longtail.linear.trees.beam_search import NO_COLUMNS, ForestMaker, search
from longtail.linear.trees.dense_kernels import DenseColumns
from longtail.linear.trees.train_tree import Chunk, HardNegatives
from longtail.memory import release

BEAM = 10  # nodes kept on the levels above


def hard_negatives_of(rows: Matrix, number: int, dense: DenseColumns = NO_COLUMNS) -> HardNegatives:
    """For `fit_tree`: the most likely wrong nodes of each row, by the classifiers of the levels above.

    Without them, the classifiers below a node never see the rows that the search will bring there by mistake. Rows
    without any label have no hard negatives.

    Args:
        rows: csr (rows, features).
        number: nodes for each row.
        dense: the last columns of the rows, where they are dense.

    Returns:
        A function that finds pairs of rows and nodes.
    """

    def find(above: list[Chunk], levels: list[Longs], nodes: Matrix) -> tuple[Longs, Ints]:
        maker = ForestMaker(dense=dense)
        maker.begin_tree(np.arange(nodes.shape[1], dtype=np.int32), levels)
        for chunk in above:
            maker.keep(chunk)
        right = np.diff(nodes.indptr)
        wanted = min(number + int(right.max(initial=0)), nodes.shape[1])
        found, _ = search(maker.finish(), rows, wanted, BEAM)
        row = np.arange(len(found))[:, None]
        own = np.repeat(row[:, 0], right) * nodes.shape[1] + nodes.indices  # ascending, as columns are within a row
        wrong = (found >= 0) & (right[:, None] > 0) & ~_among(row * nodes.shape[1] + found, own)
        wrong &= np.cumsum(wrong, axis=1) <= number
        places = np.nonzero(wrong)
        pairs = places[0], found[places]
        del maker, found, row, own, wrong, places  # before the leaves need the memory
        release()
        return pairs

    return find


def _among(numbers: Longs, ascending: Longs) -> Bools:
    """Which numbers are among the others, which ascend."""
    if not len(ascending):
        return np.zeros(numbers.shape, dtype=np.bool_)
    found: Bools = ascending[np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)] == numbers
    return found
