"""Training of a label tree: a linear classifier for every child of every node.

Between two kernels a thread waits for the interpreter lock, and a large tree has thousands of nodes that train in less
time than that. So little is done to a node in NumPy: converged children change places in their table
(`coordinate_descent`), one kernel drops small weights (`pruning`), one kernel cuts all halves below a node
(`label_clusters`), and a thread takes short tasks many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays, read_only
from longtail.linear.operation_counts import count_touched
from longtail.linear.solvers.coordinate_descent import Descent, NodeRows, fit_children, fit_logistic
from longtail.linear.solvers.pruning import pruned
from longtail.linear.trees.node_rows import LevelTargets, NodeTargets, Scratch, gather
from longtail.progress import stage
from longtail.threads import in_threads, thread_count

BLOCK = 72  # children of a large node that are trained side by side
WIDE, WIDE_CELLS = 104, 1 << 22  # and of a node whose weights and dual variables for WIDE children are no more cells
CHUNK = 128  # children stored side by side; one byte numbers them
PIECES = 64  # of the work, for each thread
COPIED = 2  # nodes with less than one in so many of all rows train on a copy of theirs
NO_THRESHOLD: Floats = np.zeros((), dtype=np.float32)
LAST = 2**31 - 1  # behind every column
SURE = 30.0  # a score whose log probability is 0


class NodeTask(NamedTuple):
    """Classifiers to train; tasks are sorted by cost."""

    cost: int
    level: int
    parent: int
    first: int  # child
    last: int  # behind the last child


@dataclass(frozen=True)
class Training:
    """How the classifiers of a node are trained."""

    cost: float = 1.0  # C: weight of the loss against the norm of the weights
    tol: float = 0.1  # a classifier has converged when no dual variable changes by more in a pass
    max_iter: int = 8  # passes over a node's rows
    weight_threshold: float = 0.1  # smaller weights are dropped, the bias is not
    kept_from: int = LAST  # weights of this column and those behind it are all kept
    relative_threshold: bool = False  # `weight_threshold` is a share of the classifier's largest weight
    log_loss: bool = False  # log loss and relative targets (XReg) rather than squared hinge
    path_weight: float = 1.0  # share of a fork's log probability that counts; a label's own counts in full
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Chunk:
    """Classifiers of up to CHUNK children of one node, by feature: one pass over a row's features scores them all."""

    level: int
    parent: int
    first: int  # first child
    bias: Floats  # (children,)
    features: Ints  # sorted
    starts: Longs  # (features + 1,)
    children: AnyArray  # uint8, counted from first
    weights: Floats


# From the classifiers so far, the levels above a level's nodes, and the rows' targets there: pairs of rows and nodes.
HardNegatives = Callable[[list[Chunk], list[Longs], Matrix], tuple[Longs, Ints]]


@dataclass(frozen=True, eq=False)
class Wave:
    """Nodes of a tree that may be trained at the same time."""

    known: list[Chunk]  # classifiers that need no training
    tasks: list[NodeTask]  # the longest first, so that no thread is left with one at the end
    targets: list[LevelTargets]  # of the levels so far


def fit_tree(
    rows: Matrix,
    targets: Matrix,
    order: Ints,
    levels: list[Longs],
    training: Training,
    store: Callable[[Chunk], None],
    hard_negatives: HardNegatives | None = None,
) -> None:
    """Train every node on the rows that have a label in it.

    Args:
        rows: vectors of the training rows, csr (rows, features).
        targets: csr (rows, labels).
        order: labels in tree order, as `balanced_halves` and `kmeans_tree` return them.
        levels: bounds of the nodes, level by level, as the same functions return them.
        training: settings.
        store: called with the classifiers, always in the same order.
        hard_negatives: finds further rows of a level's nodes, which are negatives of all children; levels are then
            trained one after another.
    """
    arrays, scratch = csr_arrays(rows), Scratch(rows.shape[1])
    above: list[Chunk] = []

    def finished(chunk: Chunk) -> None:
        if hard_negatives and chunk.level < len(levels) - 1:
            above.append(chunk)
        store(chunk)

    for wave in tree_waves(targets, order, levels, hard_negatives, above):
        for chunk in wave.known:
            finished(chunk)

        def train(task: NodeTask, wave: Wave = wave) -> Chunk:
            return train_node(arrays, scratch, wave.targets[task.level], task, training, len(levels))

        _work_off(wave.tasks, train, finished)


def tree_waves(
    targets: Matrix, order: Ints, levels: list[Longs], hard_negatives: HardNegatives | None, above: list[Chunk]
) -> Iterator[Wave]:
    """What is to be trained, in the order in which it can be: all at once, or level by level with hard negatives.

    Args:
        targets: see `fit_tree`.
        order: see `fit_tree`.
        levels: see `fit_tree`.
        hard_negatives: see `fit_tree`.
        above: classifiers of the levels above the leaves, which the caller adds before it asks for the next wave.

    Yields:
        The waves.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    leaves = sparse.csr_array(
        (targets.data.copy(), place[targets.indices].astype(np.int32), targets.indptr), targets.shape
    )
    leaves.sort_indices()
    level_targets: list[LevelTargets] = []
    nodes = [*levels, np.arange(len(order) + 1)]
    wave = Wave([], [], level_targets)
    for level in range(len(levels)):
        parents, children = nodes[level], nodes[level + 1]
        starts = np.searchsorted(children, parents)  # children of a parent are neighbours
        negatives = None
        if hard_negatives and level:
            negatives = hard_negatives(above, levels[:level], _node_targets(leaves, parents))
        level_targets.append(LevelTargets(_node_targets(leaves, children), starts, negatives))
        for parent in range(len(parents) - 1):
            if starts[parent + 1] - starts[parent] == 1:  # an only child is as likely as its parent
                wave.known.append(_only_child(level, parent, int(starts[parent])))
                continue
            rows_here = level_targets[level].rows(parent)
            for first in range(int(starts[parent]), int(starts[parent + 1]), CHUNK):
                last = min(first + CHUNK, int(starts[parent + 1]))
                if rows_here:
                    wave.tasks.append(NodeTask(rows_here * (last - first), level, parent, first, last))
                else:  # labels without rows
                    wave.known.append(chunk_of(level, parent, first, np.zeros((1, last - first), dtype=np.float32)))
        if hard_negatives or level == len(levels) - 1:
            wave.tasks.sort(reverse=True)
            yield wave
            wave = Wave([], [], level_targets)


def train_node(
    arrays: CsrArrays, scratch: Scratch, targets: LevelTargets, task: NodeTask, training: Training, levels: int
) -> Chunk:
    """Train the classifiers of one task.

    Args:
        arrays: vectors of all training rows.
        scratch: over their features.
        targets: of the task's level.
        task: which children of which node.
        training: settings.
        levels: of the tree.

    Returns:
        The classifiers.
    """
    chunk = _fit_chunk(arrays, scratch, targets.of(task.parent), task, training)
    return chunk if task.level == levels - 1 else _path_weighted(chunk, training.path_weight)


def _work_off(tasks: list[NodeTask], train: Callable[[NodeTask], Chunk], store: Callable[[Chunk], None]) -> None:
    """Train the nodes of all tasks, in threads."""
    bounds = _piece_bounds([task.cost for task in tasks])
    in_order = InOrder(store)
    with stage("training classifiers", total=len(tasks)) as advance:

        def work(piece: int) -> None:
            for number in range(bounds[piece], bounds[piece + 1]):
                in_order.put(number, train(tasks[number]))
                advance(1)

        in_threads(work, range(len(bounds) - 1))


def _piece_bounds(costs: list[int]) -> list[int]:
    """Where to cut tasks, the longest first, into pieces for threads: long ones alone, short ones many at once, because
    a thread needs the interpreter lock for every piece."""
    done = np.cumsum(costs, dtype=np.float64)
    full = np.searchsorted(done, np.linspace(0, done[-1:].sum(), PIECES * thread_count())) + 1
    return [int(cut) for cut in np.unique([0, *np.minimum(full, len(costs)), len(costs)])]


class InOrder:
    """Passes on what threads finish in the order of its numbers, whichever thread finishes first."""

    def __init__(self, store: Callable[[Chunk], None]) -> None:
        self._store = store
        self._lock = Lock()
        self._waiting: dict[int, Chunk] = {}
        self._next = 0

    def put(self, number: int, chunk: Chunk) -> None:
        """Take a result; it is passed on once all smaller numbers are."""
        with self._lock:
            self._waiting[number] = chunk
            while self._next in self._waiting:
                self._store(self._waiting.pop(self._next))
                self._next += 1


def _only_child(level: int, parent: int, child: int) -> Chunk:
    return chunk_of(level, parent, child, np.full((1, 1), SURE, dtype=np.float32))


def _path_weighted(chunk: Chunk, weight: float) -> Chunk:
    """The same classifiers with scores s' such that (1 - s')^2 = weight x (1 - s)^2."""
    if weight == 1:
        return chunk
    share = np.float32(np.sqrt(weight))
    return replace(chunk, bias=share * chunk.bias + (1 - share), weights=share * chunk.weights)


def _node_targets(leaves: Matrix, bounds: Longs) -> Matrix:
    """Targets over the nodes with these bounds: the largest target among a node's labels."""
    count_touched("nodes", leaves.nnz)
    node_of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    columns = node_of[leaves.indices]  # sorted within a row, as the labels are
    rows = np.repeat(np.arange(leaves.shape[0]), np.diff(leaves.indptr))
    new = np.ones(len(columns), dtype=bool)
    new[1:] = (columns[1:] != columns[:-1]) | (rows[1:] != rows[:-1])
    begin = np.flatnonzero(new)
    largest = np.maximum.reduceat(leaves.data, begin) if len(begin) else leaves.data
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[begin], minlength=leaves.shape[0]))])
    shape = (leaves.shape[0], len(bounds) - 1)
    return sparse.csr_array((largest, columns[begin].astype(np.int32), starts.astype(np.int64)), shape)


def _fit_chunk(arrays: CsrArrays, scratch: Scratch, targets: NodeTargets, task: NodeTask, training: Training) -> Chunk:
    """Train up to CHUNK children of a node on its rows."""
    begins, ends, columns, values, names = _node_rows(targets.rows, arrays, scratch)
    rows = NodeRows(begins, ends, columns, values, len(names))
    number = task.last - task.first
    wide = WIDE if WIDE * (len(names) + len(begins)) <= WIDE_CELLS else BLOCK
    pieces = -(-number // wide)
    bounds = [task.first + number * piece // pieces for piece in range(pieces + 1)]
    found = []
    for begin, end in pairwise(bounds):
        among = targets.among(begin, end)
        seed = training.seed + 1_000_003 * task.level + begin
        settings = Descent(training.cost, training.tol, training.max_iter, seed)
        if training.log_loss:
            # Relative to the node's own target: the product along the path is then the label's target.
            among.values[:] /= np.repeat(targets.importance, np.diff(among.starts))
            weights = fit_logistic(rows, among, targets.importance, end - begin, settings)
        else:
            weights = fit_children(rows, among, end - begin, settings)
        threshold: Floats = np.array(training.weight_threshold, dtype=np.float32)
        if training.relative_threshold:
            threshold = threshold * np.abs(weights[:-1, : end - begin]).max(axis=0, initial=0)
        kept = int(np.searchsorted(names, training.kept_from))
        found.append(_packed(task.level, task.parent, begin, weights, names, end - begin, threshold, kept))
        del weights  # before the next ones are made
    return found[0] if len(found) == 1 else _joined(found)


def _node_rows(
    rows: AnyArray, arrays: CsrArrays, scratch: Scratch
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, Ints]:
    """Where each of a node's rows begins and ends, their columns and values, and the feature of each column.

    A node with a large part of all rows has most features and reads the rows in place. A small node gets a copy over
    its own features, so that its weights stay in the cache.
    """
    starts, columns, values = arrays
    if COPIED * len(rows) > len(starts) - 1:
        names = np.arange(len(scratch.place), dtype=np.int32)
        if len(rows) == len(starts) - 1:  # a row ends where the next begins: one cache line, not two
            return starts[:-1], starts[1:], columns, values, names
        return read_only(starts[rows]), read_only(starts[rows + 1]), columns, values, names
    own, columns, values, names = gather(rows, *arrays, scratch.place, ascending=True)
    count_touched("nodes", 2 * len(columns))
    return own[:-1], own[1:], columns, values, names


def _joined(blocks: list[Chunk]) -> Chunk:
    """Classifiers of neighbouring children as one chunk."""
    first = blocks[0].first
    words = np.concatenate([np.repeat(block.features, np.diff(block.starts)) for block in blocks])
    children = np.concatenate([block.children + np.uint8(block.first - first) for block in blocks])
    order = np.argsort(words, kind="stable")  # children ascend within a word
    features, counts = np.unique(words, return_counts=True)
    return Chunk(
        level=blocks[0].level,
        parent=blocks[0].parent,
        first=first,
        bias=np.concatenate([block.bias for block in blocks]),
        features=features,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        children=children[order],
        weights=np.concatenate([block.weights for block in blocks])[order],
    )


def chunk_of(level: int, parent: int, first: int, weights: Floats) -> Chunk:
    """Dense weights as a chunk, without zeros.

    Args:
        level: of the node.
        parent: number of the node in its level.
        first: number of the first child.
        weights: (features + 1, children), the bias last.

    Returns:
        The chunk.
    """
    names = np.arange(len(weights) - 1, dtype=np.int32)
    return _packed(level, parent, first, weights, names, weights.shape[1], NO_THRESHOLD)


def _packed(
    level: int,
    parent: int,
    first: int,
    weights: Floats,
    names: Ints,
    children: int,
    threshold: Floats,
    kept: int | None = None,
) -> Chunk:
    """A chunk without small weights; those of the features from number `kept` on are all there."""
    bias = weights[-1, :children].copy()
    count_touched("nodes", weights.size)
    if kept is None or kept == len(names):
        return Chunk(level, parent, first, bias, *pruned(weights, names, children, threshold))
    few = pruned(weights[: kept + 1], names[:kept], children, threshold)  # the line behind the last is left out
    all_of = pruned(weights[kept:], names[kept:], children, NO_THRESHOLD)
    features, which, values = (np.concatenate([few[part], all_of[part]]) for part in (0, 2, 3))
    starts = np.concatenate([few[1], few[1][-1] + all_of[1][1:]])
    return Chunk(level, parent, first, bias, features, starts, which, values)
