"""Beam search down label trees, for many rows at once.

Rows go down all trees together, and threads share the nodes of a level, not the rows, so each node is unpacked about
once. Weights are packed as soon as they are trained, in 16 bits relative to the largest weight of their chunk. So a
forest exists only once in memory, and scores change by less than a thousandth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import local

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.trees.beam_best import CollectScratch, collect, go_down
from longtail.linear.trees.beam_kernels import (
    LANES,
    MANY,
    UNPACK_ALL,
    BeamPairs,
    Nodes,
    PackedWeights,
    ScoreScratch,
    arrange,
    score_nodes,
)
from longtail.linear.trees.dense_kernels import NO_TABLE, DenseColumns, DenseScratch, DenseWeights, padded, split
from longtail.linear.trees.train_tree import Chunk
from longtail.threads import thread_count

BLOCK_ROWS = 8192  # rows that are searched together and share the cost of unpacking a node
BLOCK_BYTES = 16_000_000  # of their scores in the leaves
PAIR_BYTES = 128_000_000  # of the beams of these rows, and of their scores above the leaves
UNPACKED = 32_000_000  # weights of a chunk that a thread unpacks at most; scores from packed weights are the same
ROOM = 1 << 24  # entries that an array has room for at first; pages that are never written take no memory
STEPS = 32767  # of a chunk's scale up to its largest weight: a weight is rounded to the next step
PIECES = 2  # of the work, for each thread
NO_COLUMNS = DenseColumns(np.iinfo(np.int32).max, 0)  # behind all columns
MIN_ROWS = 32  # for a further thread


@dataclass(frozen=True, eq=False)
class LabelForest:
    """Trees over the same labels as flat arrays: what prediction searches and `store` saves.

    Nodes of all trees are numbered together; a node's children are nodes, or, on the last level, labels.
    """

    roots: Ints  # (trees,) node
    node_chunks: Longs  # (nodes + 1,) chunks of each node
    node_leaf: Ints  # (nodes,) 1 where the children are labels
    chunk_children: Longs  # (chunks + 1,) places in `child` and `bias`
    chunk_features: Longs  # (chunks, 2) first and last place in `features`
    child: Ints  # (children in all,) node or label
    bias: Floats  # (children in all,)
    features: Ints  # sorted within a chunk
    starts: AnyArray  # (features in all + 1,) uint32 places in `which` and `weights`
    which: AnyArray  # uint8 child of the chunk
    weights: AnyArray  # int16 steps of the chunk's scale
    scales: Floats  # (chunks,)
    chunk_dense: Longs  # (chunks,) where the table of each chunk begins in `dense`; -1: it has none, all would be 0
    dense: AnyArray  # int16 steps of the chunk's scale: for each chunk a table (dense columns, children)
    dense_columns: int  # the last columns of the rows, whose weights are all stored
    labels: int
    log_loss: bool  # scores are log odds rather than margins (squared hinge)

    @cached_property
    def words(self) -> Longs:
        """(nodes,) features of the chunks of each node."""
        sizes = np.concatenate([[0], np.cumsum(np.diff(self.chunk_features)[:, 0])])
        return np.diff(sizes[self.node_chunks])

    @cached_property
    def widest(self) -> int:
        """Leaves of the tree that has the most: no level of a tree has more nodes."""
        tree = np.zeros(len(self.node_leaf), dtype=np.int64)
        tree[self.roots] = np.arange(len(self.roots))
        first_child = self.chunk_children[self.node_chunks]
        for node in np.flatnonzero(self.node_leaf == 0):  # parents come first
            tree[self.child[first_child[node] : first_child[node + 1]]] = tree[node]
        return int(np.bincount(tree[self.node_leaf == 1]).max())


class ForestMaker:
    """Takes the classifiers of trees as they are trained, and packs them at once: never two copies of the weights."""

    def __init__(self, log_loss: bool = False, dense: DenseColumns = NO_COLUMNS) -> None:
        """No tree yet.

        Args:
            log_loss: whether scores are log odds rather than margins.
            dense: the last columns of the rows, whose weights are all stored.
        """
        self._log_loss, self.dense_columns = log_loss, dense
        self._roots: list[int] = []
        self._leaf: list[int] = []
        self._order: Ints = np.zeros(0, dtype=np.int32)
        self._offsets: Longs = np.zeros(1, dtype=np.int64)
        # node, first child, children, bias, scale, table, features
        self._chunks: list[tuple[int, int, Ints, Floats, float, int, int, int]] = []
        self._features = _Growing(np.int32)
        self._starts = _Growing(np.uint32)
        self._which = _Growing(np.uint8)
        self._weights = _Growing(np.int16)
        self._dense = _Growing(np.int16)

    def begin_tree(self, order: Ints, levels: list[Longs]) -> None:
        """Begin a tree, to which the next chunks belong; `order` and `levels` as for `fit_tree`."""
        before = int(self._offsets[-1])
        self._order = order
        self._offsets = np.concatenate([[0], np.cumsum([len(bounds) - 1 for bounds in levels])]) + before
        self._roots.append(before)
        for level, bounds in enumerate(levels):
            self._leaf.extend([int(level == len(levels) - 1)] * (len(bounds) - 1))

    def keep(self, chunk: Chunk) -> None:
        """Pack the classifiers of a chunk.

        Args:
            chunk: of the current tree.

        Raises:
            OverflowError: the forest has too many weights.
        """
        numbers = np.arange(chunk.first, chunk.first + len(chunk.bias))
        leaf = chunk.level == len(self._offsets) - 2
        children = self._order[numbers] if leaf else (numbers + self._offsets[chunk.level + 1]).astype(np.int32)
        node = int(self._offsets[chunk.level]) + chunk.parent
        begin, table = self._features.size, self._dense.size
        words = int(np.searchsorted(chunk.features, self.dense_columns.first))
        sparse = int(chunk.starts[words])
        if self._weights.size + sparse >= 2**32:
            raise OverflowError("a forest has at most 4,294,967,295 weights; raise weight_threshold or lower trees")
        scale = float(np.abs(chunk.weights).max(initial=0)) / STEPS or 1.0
        steps = np.rint(chunk.weights / np.float32(scale)).astype(np.int16)
        self._starts.extend((chunk.starts[:words] + self._weights.size).astype(np.uint32))
        self._features.extend(chunk.features[:words])
        self._which.extend(chunk.children[:sparse])
        self._weights.extend(steps[:sparse])
        if words == len(chunk.features):
            table = NO_TABLE
        else:
            dense = np.zeros((self.dense_columns.number, len(chunk.bias)), dtype=np.int16)
            columns = np.repeat(chunk.features[words:] - self.dense_columns.first, np.diff(chunk.starts[words:]))
            dense[columns, chunk.children[sparse:]] = steps[sparse:]
            self._dense.extend(dense.ravel())
        self._chunks.append((node, chunk.first, children, chunk.bias, scale, table, begin, self._features.size))

    def finish(self) -> LabelForest:
        """The forest; the maker cannot be used again."""
        chunks = sorted(self._chunks, key=lambda chunk: chunk[:2])
        self._starts.extend(np.array([self._weights.size], dtype=np.uint32))
        nodes = int(self._offsets[-1])
        return LabelForest(
            roots=np.array(self._roots, dtype=np.int32),
            node_chunks=np.searchsorted([chunk[0] for chunk in chunks], np.arange(nodes + 1)).astype(np.int64),
            node_leaf=np.array(self._leaf, dtype=np.int32),
            chunk_children=np.concatenate([[0], np.cumsum([len(chunk[2]) for chunk in chunks])]).astype(np.int64),
            chunk_features=np.array([chunk[6:] for chunk in chunks], dtype=np.int64),
            child=np.concatenate([chunk[2] for chunk in chunks]).astype(np.int32),
            bias=np.concatenate([chunk[3] for chunk in chunks]),
            features=self._features.array(),
            starts=self._starts.array(),
            which=self._which.array(),
            weights=self._weights.array(),
            scales=np.array([chunk[4] for chunk in chunks], dtype=np.float32),
            chunk_dense=np.array([chunk[5] for chunk in chunks], dtype=np.int64),
            dense=self._dense.array(),
            dense_columns=self.dense_columns.number,
            labels=len(self._order),
            log_loss=self._log_loss,
        )


class _Growing:
    """An array that grows in place: the system remaps its pages and copies nothing."""

    def __init__(self, dtype: type) -> None:
        self._array: AnyArray = np.empty(ROOM, dtype=dtype)
        self.size = 0

    def extend(self, values: AnyArray) -> None:
        size = self.size + len(values)
        if size > len(self._array):
            self._array.resize(max(size, len(self._array) * 5 // 4), refcheck=False)
        self._array[self.size : size] = values
        self.size = size

    def array(self) -> AnyArray:
        self._array.resize(self.size, refcheck=False)
        return self._array


def search(forest: LabelForest, rows: Matrix, k: int, beam: int) -> tuple[Ints, Floats]:
    """The best labels of each row by beam search.

    Args:
        forest: the trees.
        rows: csr (rows, features), columns ascending.
        k: labels for each row.
        beam: nodes kept on each level.

    Returns:
        Labels and scores (rows, k), best first, -1 and 0 behind the last. A score is the product of the probabilities
        down the path to the label, mean over the trees.
    """
    labels = np.full((rows.shape[0], k), -1, dtype=np.int32)
    scores = np.zeros((rows.shape[0], k), dtype=np.float32)
    if k == 0:  # the kernels look at the first place
        return labels, scores
    beam = min(beam, len(forest.node_leaf))
    if beam * len(forest.roots) > len(forest.node_leaf):
        beam = min(beam, forest.widest)
    starts, columns, values = csr_arrays(rows)
    blocks = -(-rows.shape[0] // min(_rows_at_once(forest, beam), BLOCK_ROWS))
    with _Pool(min(thread_count(), max(rows.shape[0] // MIN_ROWS, 1))) as pool:
        for number in range(blocks):  # of one size
            first, last = (rows.shape[0] * end // blocks for end in (number, number + 1))
            block = _RowBlock(forest, CsrArrays(starts[first : last + 1], columns, values), rows.shape[1], beam, pool)
            block.search(labels[first:last], scores[first:last])
    return labels, scores


def _rows_at_once(forest: LabelForest, beam: int) -> int:
    """How many rows keep their beams, and the scores of the beams' children above the leaves, within PAIR_BYTES."""
    inner = np.diff(forest.chunk_children[forest.node_chunks])[forest.node_leaf == 0]
    return max(PAIR_BYTES // (len(forest.roots) * beam * (24 + 4 * int(inner.max(initial=0)))), 1)


class _Pool:
    """Threads that live for a whole search, and the arrays of each thread."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.own = local()

    def share(self, first: int, last: int, work: Callable[[int, int], None]) -> None:
        """Call work(low, high) for ranges that cover first..last-1: a few for each thread, so that none waits long."""
        if self._pool is None:
            return work(first, last)
        pieces = PIECES * self._threads
        bounds = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
        list(self._pool.map(work, bounds[:-1], bounds[1:]))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _RowBlock:
    """Rows that are searched together."""

    def __init__(self, forest: LabelForest, rows: CsrArrays, columns: int, beam: int, pool: _Pool) -> None:
        self.forest, self.columns, self.beam, self.pool = forest, columns, beam, pool
        vectors: Floats = np.empty(0, dtype=np.float32)
        if forest.dense_columns:
            rows, vectors = split(rows, DenseColumns(columns - forest.dense_columns, forest.dense_columns))
        self.rows = rows
        self.dense = DenseWeights(forest.chunk_dense, forest.dense, forest.dense_columns, vectors)
        self.first_child: Longs = forest.chunk_children[forest.node_chunks]
        self.trees, self.number = len(forest.roots), len(rows.starts) - 1
        number = self.number * self.trees * beam
        self.pairs = BeamPairs(
            node=np.full(number, -1, dtype=np.int32),
            path=np.zeros(number, dtype=np.float32),
            order=np.empty(number, dtype=np.int64),
            ends=np.empty(len(forest.node_leaf), dtype=np.int64),
            begin=np.empty(number, dtype=np.int64),
        )
        self.pairs.node[::beam] = np.tile(forest.roots, self.number)
        self.found: Floats = np.empty(0, dtype=np.float32)
        mean = int(rows.starts[-1] - rows.starts[0]) // max(self.number, 1)  # words of a row
        self.rows_for_all: Longs = UNPACK_ALL * forest.words // max(mean, 1)

    def search(self, labels: Ints, scores: Floats) -> None:
        node = int(self.forest.roots[0])
        while not self.forest.node_leaf[node]:  # all leaves are at the same depth
            node = int(self.forest.child[self.first_child[node]])
            self._score(0, self.number)
            self.pool.share(0, self.number * self.trees, self._go_down)
        for first, last in self._leaf_blocks():
            self.pool.share(0, self._score(first, last), self._exponentiate)
            self.pool.share(first, last, lambda low, high: self._collect(low, high, labels, scores))

    def _leaf_blocks(self) -> Iterator[tuple[int, int]]:
        """Rows in as few even parts as keep their scores in the leaves near BLOCK_BYTES."""
        sizes = np.where(self.pairs.node < 0, 0, np.diff(self.first_child)[self.pairs.node])
        total = 4 * np.cumsum(sizes.reshape(self.number, -1).sum(axis=1))
        parts = min(-(-int(total[-1]) // BLOCK_BYTES), self.number)
        return pairwise([0, *np.searchsorted(total, total[-1] / parts * np.arange(1, parts)).tolist(), self.number])

    def _score(self, first: int, last: int) -> int:
        """Log probabilities of the children of all nodes that these rows reached; returns their number."""
        forest, each = self.forest, self.trees * self.beam
        room = arrange(first * each, last * each, self.pairs, self.first_child)
        if room > len(self.found):
            self.found = np.empty(room, dtype=np.float32)
        nodes = Nodes(
            self.first_child,
            forest.node_chunks,
            forest.chunk_children,
            forest.chunk_features,
            forest.scales,
            forest.bias,
        )
        packed = PackedWeights(forest.features, forest.starts, forest.which, forest.weights)

        def work(low: int, high: int) -> None:
            score_nodes(
                low,
                high,
                self.pairs,
                each,
                self.rows,
                nodes,
                packed,
                self.dense,
                forest.log_loss,
                self.rows_for_all,
                self._scratch(),
                self.found,
            )

        self.pool.share(0, int(self.pairs.ends[-1]), work)
        return int(room)

    def _exponentiate(self, low: int, high: int) -> None:
        np.exp(self.found[low:high], out=self.found[low:high])

    def _scratch(self) -> ScoreScratch:
        """This thread's own arrays, made once for all levels, because allocating them each time is slow."""
        forest, longest = self.forest, int(np.diff(self.rows.starts).max(initial=0))
        columns = self.columns if self.number >= MANY else 0  # else no node has many rows
        held: tuple[int, ScoreScratch] | None = getattr(self.pool.own, "held", None)
        if held is None or held[0] < longest:
            features = int(np.diff(forest.chunk_features).max(initial=0))
            lanes = int(np.diff(forest.chunk_children).max(initial=0)) + LANES
            held = self.pool.own.held = (
                longest,
                ScoreScratch(
                    seen=np.zeros(columns, dtype=np.uint8),
                    place=np.full(columns, -1, dtype=np.int32),
                    unpacked=np.empty(min(features * lanes, UNPACKED) if columns else 0, dtype=np.int16),
                    lines=np.empty(features + longest + 1, dtype=np.int32),
                    products=np.empty(longest + 1, dtype=np.float32),
                    score=np.empty(lanes, dtype=np.float32),
                    dense=DenseScratch(
                        table=np.empty(padded(forest.dense_columns) * lanes if columns else 0, dtype=np.float32),
                        sums=np.empty(4 * lanes, dtype=np.float32),
                    ),
                ),
            )
        return held[1]

    def _go_down(self, low: int, high: int) -> None:
        room = _room_for(self.beam)
        go_down(low, high, self.pairs, self.beam, self.first_child, self.forest.child, *room, self.found)

    def _collect(self, low: int, high: int, labels: Ints, scores: Floats) -> None:
        number = self.forest.labels
        marked, sums = np.zeros(number, dtype=np.bool_), np.zeros(number, dtype=np.float32)
        scratch = CollectScratch(marked, sums, np.empty(number, dtype=np.int32), *_room_for(labels.shape[1]))
        forest, pairs = self.forest, self.pairs
        collect(
            low,
            high,
            self.trees,
            self.beam,
            pairs,
            self.first_child,
            forest.child,
            self.found,
            scratch,
            labels,
            scores,
        )


def _room_for(size: int) -> tuple[Ints, Floats]:
    return np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
