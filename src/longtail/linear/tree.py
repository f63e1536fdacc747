"""A tree over labels with a linear classifier for every child, and beam search down it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.node_rows import LevelTargets, NodeTargets, Scratch, gather
from longtail.linear.solve import fit_chances, fit_children, pruned
from longtail.linear.top import fixed, hold
from longtail.plan import Facts, Plan
from longtail.progress import stage
from longtail.threads import in_threads, thread_count

BLOCK = 72  # children of a large node trained side by side
WIDE, WIDE_CELLS = 104, 1 << 22  # and of one whose weights and dual variables for so many children are fewer than this
CHUNK = 128  # children kept side by side; a byte counts them
HANDFULS = 64  # pieces of its work that a thread is handed
COPIED = 2  # nodes with less than this part of all rows train on a copy of theirs
HEAP = 20_000_000  # bytes that short-lived arrays leave behind, two threads
NOTHING: Floats = np.zeros((), dtype=np.float32)
SURE = 30.0  # a score whose log chance is 0

Task: TypeAlias = tuple[int, int, int, int, int]  # cost, level, parent, first child, last child


@dataclass(frozen=True)
class Training:
    """How the classifiers of a node are trained."""

    cost: float = 1.0  # C: weight of the loss against the length of the weights
    limit: float = 0.1  # a classifier is done when no dual variable moves more in a pass
    passes: int = 8
    cut: float = 0.1  # smaller weights are dropped, the bias is not
    cut_is_share: bool = False  # `cut` is a share of the classifier's largest weight
    chances: bool = False  # log loss and relative targets (XReg) rather than squared hinge
    trust: float = 1.0  # part of a fork's log chance that counts; all of a label's own does
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Chunk:
    """Classifiers of up to CHUNK children of one node, by feature: one walk over a row's features scores them all."""

    level: int
    parent: int
    first: int  # first child
    bias: Floats  # (children,)
    features: Ints  # sorted
    starts: Longs  # (features + 1,)
    children: AnyArray  # uint8, counted from first
    weights: Floats


# From the classifiers so far, the levels above a level's nodes, and the rows' targets there: rows and nodes, in pairs.
Mistaken = Callable[[list[Chunk], list[Longs], Matrix], tuple[Longs, Ints]]


def fit_tree(
    rows: Matrix,
    targets: Matrix,
    order: Ints,
    levels: list[Longs],
    training: Training,
    keep: Callable[[Chunk], None],
    mistaken: Mistaken | None = None,
) -> None:
    """Train every node on the rows that have a label in it; `keep` is handed the classifiers, always in the same order.

    `order` and `levels` come from `cluster`. `mistaken` names further rows of a level's nodes, as a no to all children;
    levels are then trained one after another.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    leaves = sparse.csr_array(
        (targets.data.copy(), place[targets.indices].astype(np.int32), targets.indptr), targets.shape
    )
    leaves.sort_indices()
    plain, scratch = hold(rows), Scratch(rows.shape[1])
    tasks: list[Task] = []
    held: list[LevelTargets] = []
    above: list[Chunk] = []
    nodes = [*levels, np.arange(len(order) + 1)]

    def kept(chunk: Chunk) -> None:
        if mistaken and chunk.level < len(levels) - 1:
            above.append(chunk)
        keep(chunk)

    def train(task: Task) -> Chunk:
        _, level, parent, first, last = task
        told = held[level].of(parent)
        chunk = _fit_chunk(plain, scratch, told, level, parent, first, last, training)
        return chunk if level == len(levels) - 1 else _trusted(chunk, training.trust)

    for level in range(len(levels)):
        parents, children = nodes[level], nodes[level + 1]
        starts = np.searchsorted(children, parents)  # children of a parent stand together
        more = mistaken(above, levels[:level], _raised(leaves, parents)) if mistaken and level else None
        held.append(LevelTargets(_raised(leaves, children), starts, more))
        for parent in range(len(parents) - 1):
            if starts[parent + 1] - starts[parent] == 1:  # an only child is as likely as its parent
                kept(_only_child(level, parent, int(starts[parent])))
                continue
            rows_here = held[level].rows(parent)
            for first in range(int(starts[parent]), int(starts[parent + 1]), CHUNK):
                last = min(first + CHUNK, int(starts[parent + 1]))
                if rows_here:
                    tasks.append((rows_here * (last - first), level, parent, first, last))
                else:  # labels without rows
                    kept(chunk_of(level, parent, first, np.zeros((1, last - first), dtype=np.float32)))
        if mistaken or level == len(levels) - 1:
            _work_off(tasks, train, kept)
            tasks = []


def _work_off(tasks: list[Task], train: Callable[[Task], Chunk], keep: Callable[[Chunk], None]) -> None:
    """Train the nodes of all tasks, in threads."""
    tasks.sort(reverse=True)  # the longest first, so that no thread is left with one at the end
    bounds = _handfuls([task[0] for task in tasks])
    in_turn = InTurn(keep)
    with stage("training classifiers", total=len(tasks)) as advance:

        def work(piece: int) -> None:
            for number in range(bounds[piece], bounds[piece + 1]):
                in_turn.put(number, train(tasks[number]))
                advance(1)

        in_threads(work, range(len(bounds) - 1))


def _handfuls(costs: list[int]) -> list[int]:
    """Where to cut tasks, the longest first, into pieces for threads: long ones alone, short ones many at once, because
    threads take turns at the interpreter whenever they are handed something."""
    done = np.cumsum(costs, dtype=np.float64)
    full = np.searchsorted(done, np.linspace(0, done[-1:].sum(), HANDFULS * thread_count())) + 1
    return [int(cut) for cut in np.unique([0, *np.minimum(full, len(costs)), len(costs)])]


class InTurn:
    """Passes on what threads finish in the order of its numbers, whoever is first."""

    def __init__(self, keep: Callable[[Chunk], None]) -> None:
        self._keep = keep
        self._lock = Lock()
        self._waiting: dict[int, Chunk] = {}
        self._next = 0

    def put(self, number: int, chunk: Chunk) -> None:
        with self._lock:
            self._waiting[number] = chunk
            while self._next in self._waiting:
                self._keep(self._waiting.pop(self._next))
                self._next += 1


def _only_child(level: int, parent: int, child: int) -> Chunk:
    return chunk_of(level, parent, child, np.full((1, 1), SURE, dtype=np.float32))


def _trusted(chunk: Chunk, trust: float) -> Chunk:
    """The same classifiers with scores s of which trust x (1 - s)^2 is what (1 - s)^2 was."""
    if trust == 1:
        return chunk
    share = np.float32(np.sqrt(trust))
    return replace(chunk, bias=share * chunk.bias + (1 - share), weights=share * chunk.weights)


def _raised(leaves: Matrix, bounds: Longs) -> Matrix:
    """Targets over the nodes that these bounds cut: the largest target among a node's labels."""
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


def _fit_chunk(
    plain: tuple[AnyArray, AnyArray, AnyArray],
    scratch: Scratch,
    targets: NodeTargets,
    level: int,
    parent: int,
    first: int,
    last: int,
    training: Training,
) -> Chunk:
    """Train up to CHUNK children of a node on its rows."""
    begins, ends, columns, values, names = _node_rows(targets.rows, plain, scratch)
    wide = WIDE if WIDE * (len(names) + len(begins)) <= WIDE_CELLS else BLOCK
    pieces = -(-(last - first) // wide)
    bounds = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
    found = []
    for begin, end in pairwise(bounds):
        told = targets.among(begin, end)
        seed = training.seed + 1_000_003 * level + begin
        settings = (end - begin, training.cost, training.limit, training.passes, seed)
        if training.chances:
            told[2][:] /= np.repeat(targets.importance, np.diff(told[0]))  # the path's product is then the label's own
            weights = fit_chances(*(begins, ends, columns, values, len(names), *told, targets.importance, *settings))
        else:
            weights = fit_children(*(begins, ends, columns, values, len(names), *told, *settings))
        least: Floats = np.array(training.cut, dtype=np.float32)
        if training.cut_is_share:
            least = least * np.abs(weights[:-1, : end - begin]).max(axis=0, initial=0)
        found.append(_packed(level, parent, begin, weights, names, end - begin, least))
        del weights  # before the next ones are made
    return found[0] if len(found) == 1 else _joined(found)


def _node_rows(
    rows: AnyArray, plain: tuple[AnyArray, AnyArray, AnyArray], scratch: Scratch
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, Ints]:
    """Where each of a node's rows begins and ends, their columns and values, and the names of the columns.

    A node with a large part of all rows meets most features and reads the rows where they lie; a small one has a copy
    over the features that it meets, so that its weights stay in the cache.
    """
    starts, columns, values = plain
    if COPIED * len(rows) > len(starts) - 1:
        names = np.arange(len(scratch.place), dtype=np.int32)
        if len(rows) == len(starts) - 1:  # where one ends the next begins: one line of the cache, not two
            return starts[:-1], starts[1:], columns, values, names
        return fixed(starts[rows]), fixed(starts[rows + 1]), columns, values, names
    own, columns, values, names = gather(rows, *plain, scratch.place, rising=True)
    return own[:-1], own[1:], columns, values, names


def _joined(blocks: list[Chunk]) -> Chunk:
    """Classifiers of neighbouring children as one chunk."""
    first = blocks[0].first
    words = np.concatenate([np.repeat(block.features, np.diff(block.starts)) for block in blocks])
    children = np.concatenate([block.children + np.uint8(block.first - first) for block in blocks])
    order = np.argsort(words, kind="stable")  # children rise within a word
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
    """Dense weights (features + 1, children) as a chunk; zeros are not kept."""
    names = np.arange(len(weights) - 1, dtype=np.int32)
    return _packed(level, parent, first, weights, names, weights.shape[1], NOTHING)


def _packed(level: int, parent: int, first: int, weights: Floats, names: Ints, children: int, least: Floats) -> Chunk:
    bias = weights[-1, :children].copy()
    return Chunk(level, parent, first, bias, *pruned(weights, names, children, least))


def plan_trees(
    facts: Facts, trees: int, leaf: float, branches: int, passes: int, beam: int, kept: float, rivals: int = 0
) -> Plan:
    """Memory and time of label trees, from the labels of a mean leaf and the children of the root. The numbers are
    fitted to measured runs.

    `kept` is as in `packed_bytes`, for one tree; `rivals` are the leaves that a row visits by mistake.
    """
    labels = max(facts.labels, 1)
    leaf = min(leaf, labels)
    weights = packed_bytes(facts, trees * kept)
    # The fullest leaf has three times the words and rows of a mean one; a child has its weights there, what
    # is packed of them, and a dual variable a row. The root meets all words, on one thread.
    words = min(3 * facts.mean_terms * leaf / labels, facts.terms)
    visits = facts.positives + rivals * facts.rows  # of leaves by rows
    rows = min(3 * visits * leaf / labels, facts.rows)
    in_leaves = 4 * thread_count() * min(leaf, BLOCK) * (2 * words + rows)
    in_root = 4 * min(branches, BLOCK) * (facts.terms + facts.rows)
    scratch = int(max(in_leaves, in_root))
    groups = 34 * facts.mean_terms  # vectors of labels while they are scaled, or with copies of trees in work
    met = visits + 2 * rivals * facts.rows  # what is often mistaken for others is three times as large as a mean leaf
    meetings = trees * passes * (facts.positives * branches + met * leaf)  # of a row and a classifier
    search = facts.reading_seconds / max(facts.rows, 1) + 1e-8 * trees * beam * (leaf + facts.terms_per_row / 3)
    return Plan(
        train_bytes=max(facts.reading_bytes, facts.read_bytes + groups, facts.kept_bytes + HEAP + weights + scratch),
        model_bytes=20 * facts.terms + weights + 90 * facts.labels,
        train_seconds=facts.reading_seconds + meetings * (3.9e-9 + 9.4e-11 * facts.terms_per_row) + 0.5,
        predict_seconds=1000 * (1e-5 + search),
        steps=(
            ("word counts", facts.reading_bytes),
            ("label groups", groups),
            ("weights", weights),
            ("classifiers in training", scratch),
        ),
    )


def packed_bytes(facts: Facts, kept: float) -> int:
    """Weights and the features they stand under. `kept` is how many weights a label of one word keeps; a label of n
    words keeps about sqrt(n) times as many, one without rows next to none."""
    taught = max(facts.labels * (1 - facts.empty), 1.0)
    return int(5.2 * kept * taught * (facts.mean_terms / taught) ** 0.48)


def kept_at(cut: float) -> float:
    """Weights that pass a cut, against those that pass 0.1; few are smaller than 0.003."""
    return float((0.1 / max(cut, 0.003)) ** 0.65)
