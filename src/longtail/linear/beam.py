"""Beam search down label trees, for many rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.descent import descend
from longtail.linear.top import hold
from longtail.linear.tree import Chunk
from longtail.threads import in_threads, thread_count

BLOCK_ROWS = 4096  # rows that go down together; more of them share the cost of unpacking a node
BLOCK_BYTES = 64_000_000  # of their scores in the leaves, over all threads
ROOM = 1 << 24  # entries that an array has room for at first; pages that are never written take no memory
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
    which: AnyArray  # uint16 child of the chunk
    weights: Floats
    labels: int
    chances: bool  # scores are log odds (log loss) rather than margins (squared hinge)


class ForestMaker:
    """Takes the classifiers of trees as they are trained, and packs them at once: no two copies of the weights."""

    def __init__(self, chances: bool = False) -> None:
        self._chances = chances
        self._roots: list[int] = []
        self._leaf: list[int] = []
        self._order: Ints = np.zeros(0, dtype=np.int32)
        self._offsets: Longs = np.zeros(1, dtype=np.int64)
        self._chunks: list[tuple[int, int, Ints, Floats, int, int]] = []  # node, first child, children, bias, features
        self._features = _Growing(np.int32)
        self._starts = _Growing(np.uint32)
        self._which = _Growing(np.uint16)
        self._weights = _Growing(np.float32)

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
        self._weights.extend(chunk.weights)
        self._chunks.append((node, chunk.first, children, chunk.bias, begin, self._features.size))

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
            chunk_features=np.array([chunk[4:] for chunk in chunks], dtype=np.int64),
            child=np.concatenate([chunk[2] for chunk in chunks]).astype(np.int32),
            bias=np.concatenate([chunk[3] for chunk in chunks]),
            features=self._features.array(),
            starts=self._starts.array(),
            which=self._which.array(),
            weights=self._weights.array(),
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
    number = rows.shape[0]
    labels = np.full((number, k), -1, dtype=np.int32)
    scores = np.zeros((number, k), dtype=np.float32)
    plain = (*hold(rows), rows.shape[1])
    held = tuple(vars(forest).values())
    threads = min(thread_count(), max(number // ALONE, 1))
    row_bytes = 4 * beam * len(forest.roots) * _widest(forest)
    block = min(BLOCK_ROWS, max(BLOCK_BYTES // (row_bytes * threads), ALONE))
    bounds = [number * part // threads for part in range(threads + 1)]

    def work(part: int) -> None:
        size = bounds[part + 1] - bounds[part]
        even = -(-size // max(-(-size // block), 1))  # blocks of one size
        descend(*(bounds[part], bounds[part + 1], max(even, 1), *plain, *held, beam, labels, scores))

    in_threads(work, range(threads), threads)
    return labels, scores


def _widest(forest: Forest) -> int:
    return int(np.diff(forest.chunk_children[forest.node_chunks]).max(initial=1))
