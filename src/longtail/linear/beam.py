"""Beam search down label trees, for many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import local

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.descent import EVERY, LANES, MANY, arrange, collect, go_down, score_nodes
from longtail.linear.top import hold
from longtail.linear.tree import Chunk
from longtail.threads import thread_count

BLOCK_ROWS = 8192  # rows that go down together and share the cost of unpacking a node
BLOCK_BYTES = 16_000_000  # of their scores in the leaves
ROOM = 1 << 24  # entries that an array has room for at first; pages that are never written take no memory
STEPS = 32767  # of a chunk's scale up to its largest weight: a weight is kept to half a step
PIECES = 2  # that a thread takes one after another
ALONE = 32  # rows that are too few for a thread of their own


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the same labels as flat arrays: what prediction walks and `store` saves.

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
    labels: int
    chances: bool  # scores are log odds (log loss) rather than margins (squared hinge)

    @cached_property
    def words(self) -> Longs:
        """(nodes,) features that the chunks of each node know."""
        sizes = np.concatenate([[0], np.cumsum(np.diff(self.chunk_features)[:, 0])])
        return np.diff(sizes[self.node_chunks])


class ForestMaker:
    """Takes the classifiers of trees as they are trained, and packs them at once: no two copies of the weights."""

    def __init__(self, chances: bool = False) -> None:
        self._chances = chances
        self._roots: list[int] = []
        self._leaf: list[int] = []
        self._order: Ints = np.zeros(0, dtype=np.int32)
        self._offsets: Longs = np.zeros(1, dtype=np.int64)
        # node, first child, children, bias, scale, features
        self._chunks: list[tuple[int, int, Ints, Floats, float, int, int]] = []
        self._features = _Growing(np.int32)
        self._starts = _Growing(np.uint32)
        self._which = _Growing(np.uint8)
        self._weights = _Growing(np.int16)

    def tree(self, order: Ints, levels: list[Longs]) -> None:
        """Begin a tree: the chunks that come now are its."""
        before = int(self._offsets[-1])
        self._order = order
        self._offsets = np.concatenate([[0], np.cumsum([len(bounds) - 1 for bounds in levels])]) + before
        self._roots.append(before)
        for level, bounds in enumerate(levels):
            self._leaf.extend([int(level == len(levels) - 1)] * (len(bounds) - 1))

    def keep(self, chunk: Chunk) -> None:
        numbers = np.arange(chunk.first, chunk.first + len(chunk.bias))
        leaf = chunk.level == len(self._offsets) - 2
        children = self._order[numbers] if leaf else (numbers + self._offsets[chunk.level + 1]).astype(np.int32)
        node = int(self._offsets[chunk.level]) + chunk.parent
        begin = self._features.size
        if self._weights.size + len(chunk.weights) >= 2**32:
            raise OverflowError("a forest holds up to four thousand million weights; raise `cut` or lower `trees`")
        self._starts.extend((chunk.starts[:-1] + self._weights.size).astype(np.uint32))
        self._features.extend(chunk.features)
        self._which.extend(chunk.children)
        scale = float(np.abs(chunk.weights).max(initial=0)) / STEPS or 1.0
        self._weights.extend(np.rint(chunk.weights / np.float32(scale)).astype(np.int16))
        self._chunks.append((node, chunk.first, children, chunk.bias, scale, begin, self._features.size))

    def made(self) -> Forest:
        """The forest; the maker is used up."""
        chunks = sorted(self._chunks, key=lambda chunk: chunk[:2])
        self._starts.extend(np.array([self._weights.size], dtype=np.uint32))
        nodes = int(self._offsets[-1])
        return Forest(
            roots=np.array(self._roots, dtype=np.int32),
            node_chunks=np.searchsorted([chunk[0] for chunk in chunks], np.arange(nodes + 1)).astype(np.int64),
            node_leaf=np.array(self._leaf, dtype=np.int32),
            chunk_children=np.concatenate([[0], np.cumsum([len(chunk[2]) for chunk in chunks])]).astype(np.int64),
            chunk_features=np.array([chunk[5:] for chunk in chunks], dtype=np.int64),
            child=np.concatenate([chunk[2] for chunk in chunks]).astype(np.int32),
            bias=np.concatenate([chunk[3] for chunk in chunks]),
            features=self._features.array(),
            starts=self._starts.array(),
            which=self._which.array(),
            weights=self._weights.array(),
            scales=np.array([chunk[4] for chunk in chunks], dtype=np.float32),
            labels=len(self._order),
            chances=self._chances,
        )


class _Growing:
    """An array that grows in place: the system moves its pages, nobody copies them."""

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


def search(forest: Forest, rows: Matrix, k: int, beam: int) -> tuple[Ints, Floats]:
    """The k best labels of each row and their scores: exp of the summed log chances down a path, mean over trees."""
    labels = np.full((rows.shape[0], k), -1, dtype=np.int32)
    scores = np.zeros((rows.shape[0], k), dtype=np.float32)
    beam = min(beam, len(forest.node_leaf))
    starts, *words = hold(rows)
    blocks = -(-rows.shape[0] // BLOCK_ROWS)
    with _Pool(min(thread_count(), max(rows.shape[0] // ALONE, 1))) as pool:
        for number in range(blocks):  # of one size
            first, last = (rows.shape[0] * end // blocks for end in (number, number + 1))
            block = _Block(forest, (starts[first : last + 1], *words), rows.shape[1], beam, pool)
            block.search(labels[first:last], scores[first:last])
    return labels, scores


class _Pool:
    """Threads that stay for a whole search, and their own arrays with them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.own = local()

    def share(self, first: int, last: int, work: Callable[[int, int], None]) -> None:
        """Call work(low, high) for ranges that cover first..last-1: a few a thread, so that none waits for long."""
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


class _Block:
    """Rows that go down the trees together."""

    def __init__(self, forest: Forest, rows: tuple[AnyArray, ...], columns: int, beam: int, pool: _Pool) -> None:
        self.forest, self.rows, self.columns, self.beam, self.pool = forest, rows, columns, beam, pool
        self.first_child: Longs = forest.chunk_children[forest.node_chunks]
        self.trees, self.number = len(forest.roots), len(rows[0]) - 1
        pairs = self.number * self.trees * beam
        self.node: Ints = np.full(pairs, -1, dtype=np.int32)
        self.node[::beam] = np.tile(forest.roots, self.number)
        self.path: Floats = np.zeros(pairs, dtype=np.float32)
        self.order, self.begin = np.empty(pairs, dtype=np.int64), np.empty(pairs, dtype=np.int64)
        self.ends = np.empty(len(forest.node_leaf), dtype=np.int64)
        self.found: Floats = np.empty(0, dtype=np.float32)
        mean = int(rows[0][-1] - rows[0][0]) // max(self.number, 1)  # words of a row
        self.rows_for_all: Longs = EVERY * forest.words // max(mean, 1)

    def search(self, labels: Ints, scores: Floats) -> None:
        node = int(self.forest.roots[0])
        while not self.forest.node_leaf[node]:  # all leaves stand at the same depth
            node = int(self.forest.child[self.first_child[node]])
            self._score(0, self.number)
            self.pool.share(0, self.number * self.trees, self._go_down)
        for first, last in self._leaf_blocks():
            self.pool.share(0, self._score(first, last), self._out_of_logs)
            self.pool.share(first, last, lambda low, high: self._collect(low, high, labels, scores))

    def _leaf_blocks(self) -> Iterator[tuple[int, int]]:
        """Rows in as few even parts as keep their scores in the leaves near BLOCK_BYTES."""
        sizes = np.where(self.node < 0, 0, np.diff(self.first_child)[self.node])
        total = 4 * np.cumsum(sizes.reshape(self.number, -1).sum(axis=1))
        parts = min(-(-int(total[-1]) // BLOCK_BYTES), self.number)
        return pairwise([0, *np.searchsorted(total, total[-1] / parts * np.arange(1, parts)).tolist(), self.number])

    def _score(self, first: int, last: int) -> int:
        """Log chances of the children of all nodes where these rows stand; returns how many there are."""
        forest, each = self.forest, self.trees * self.beam
        room = arrange(first * each, last * each, self.node, self.first_child, self.ends, self.order, self.begin)
        if room > len(self.found):
            self.found = np.empty(room, dtype=np.float32)
        pairs = (self.ends, self.order, self.path, self.begin, each, *self.rows, self.first_child, self.rows_for_all)
        chunks = (forest.node_chunks, forest.chunk_children, forest.chunk_features, forest.bias)
        packed = (forest.features, forest.starts, forest.which, forest.weights, forest.scales, forest.chances)

        def work(low: int, high: int) -> None:
            score_nodes(*(low, high, *pairs, *chunks, *packed, *self._scratch(), self.found))

        self.pool.share(0, int(self.ends[-1]), work)
        return int(room)

    def _out_of_logs(self, low: int, high: int) -> None:
        np.exp(self.found[low:high], out=self.found[low:high])

    def _scratch(self) -> tuple[AnyArray | int, ...]:
        """This thread's own arrays, made once for all levels: new memory costs more than it looks."""
        longest = int(np.diff(self.rows[0]).max(initial=0))
        columns = self.columns if self.number >= MANY else 0  # else no node has many rows
        held: tuple[int, tuple[AnyArray | int, ...]] = getattr(self.pool.own, "held", (-1, ()))
        if held[0] < longest:
            features = int(np.diff(self.forest.chunk_features).max(initial=0))
            lanes = int(np.diff(self.forest.chunk_children).max(initial=0)) + LANES
            held = self.pool.own.held = (
                longest,
                (
                    np.zeros(columns, dtype=np.uint8),
                    np.full(columns, -1, dtype=np.int32),
                    np.empty(features * lanes if columns else 0, dtype=np.int16),
                    np.empty(features + longest + 1, dtype=np.int32),
                    np.empty(longest + 1, dtype=np.float32),
                    np.empty(lanes, dtype=np.float32),
                ),
            )
        return held[1]

    def _go_down(self, low: int, high: int) -> None:
        where = (self.node, self.path, self.beam, self.begin, self.first_child, self.forest.child)
        go_down(*(low, high, *where, *_room_for(self.beam), self.found))

    def _collect(self, low: int, high: int, labels: Ints, scores: Floats) -> None:
        where = (self.trees, self.node, self.beam, self.begin, self.first_child, self.forest.child, self.found)
        marked, sums = np.zeros(self.forest.labels, dtype=np.bool_), np.zeros(self.forest.labels, dtype=np.float32)
        candidates = np.empty(self.forest.labels, dtype=np.int32)
        collect(*(low, high, *where, marked, sums, candidates, *_room_for(labels.shape[1]), labels, scores))


def _room_for(size: int) -> tuple[Ints, Floats]:
    return np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
