"""The scorer that all label trees leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.data.dataset import Rows
from longtail.linear.beam import Forest, ForestMaker, search
from longtail.linear.norms import leaf_norms
from longtail.linear.rivals import rivals_of
from longtail.linear.text import Features
from longtail.linear.tree import Training, fit_tree
from longtail.memory import release
from longtail.progress import stage
from longtail.seams import State
from longtail.threads import in_threads

Group = Callable[[Matrix, int], tuple[Ints, list[Longs]]]


@dataclass(frozen=True, eq=False)
class ForestScorer:
    """Features and trees. Scores are the mean over trees of the product of chances down to the label."""

    features: Features
    forest: Forest
    beam: int
    kind: ClassVar[str] = "forest.v3"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        return search(self.forest, self.features.of(rows), k, self.beam)

    def row_norms(self) -> Floats:
        return leaf_norms(self.forest)

    def state(self) -> State:
        words = self.features.state()
        trees = {field.name: getattr(self.forest, field.name) for field in fields(Forest)}
        numbers = {name: trees.pop(name) for name in ("labels", "chances")}
        tensors = {**words.tensors, **{f"forest.{name}": value for name, value in trees.items()}}
        return State({**words.settings, **numbers, "beam": self.beam}, tensors)

    @classmethod
    def restore(cls, state: State) -> ForestScorer:
        names = [field.name for field in fields(Forest) if field.name not in ("labels", "chances")]
        trees = {name: state.tensors[f"forest.{name}"] for name in names}
        forest = Forest(**trees, labels=state.settings["labels"], chances=state.settings["chances"])
        features = Features.restore(state)
        _check(forest, features.columns)
        return cls(features, forest, state.settings["beam"])


def fit_forest(
    features: Features,
    rows: Matrix,
    targets: Matrix,
    describe: Callable[[], Matrix],
    group: Group,
    training: Training,
    trees: int,
    beam: int,
    rivals: int = 0,
) -> ForestScorer:
    """Several trees whose groups and training start from different seeds.

    `describe` makes the vectors of the labels, `group` a tree's groups of vectors and a seed. A row also trains the
    `rivals` nodes of each level that it is most likely taken for.
    """
    maker = ForestMaker(training.chances)
    mistaken = rivals_of(rows, rivals) if rivals else None
    seeds = range(training.seed, training.seed + trees)
    groups = _groups(describe, group, seeds)
    release()
    for (order, levels), seed in zip(groups, seeds, strict=True):
        maker.tree(order, levels)
        fit_tree(rows, targets, order, levels, replace(training, seed=seed), maker.keep, mistaken)
        release()
    return ForestScorer(features, maker.made(), beam)


def _groups(describe: Callable[[], Matrix], group: Group, seeds: range) -> list[tuple[Ints, list[Longs]]]:
    """Trees side by side, since the first cuts of one keep only one core busy. The vectors are gone afterwards."""
    found: dict[int, tuple[Ints, list[Longs]]] = {}
    with stage("grouping labels"):
        vectors = describe()
        in_threads(lambda seed: found.update({seed: group(vectors, seed)}), seeds)
    return [found[seed] for seed in seeds]


def _check(forest: Forest, columns: int) -> None:
    """The search trusts its arrays, so arrays that lead outside each other are refused."""
    if not (_ladders_fit(forest) and _children_fit(forest, columns)):
        raise ValueError("the arrays of the trees do not fit each other")


def _ladders_fit(forest: Forest) -> bool:
    """Whether what is cut into nodes, chunks and features is cut without gaps."""
    nodes, chunks = len(forest.node_leaf), len(forest.chunk_children) - 1
    if forest.chunk_features.shape != (chunks, 2) or forest.scales.shape != (chunks,):
        return False
    packed = _packed(forest)
    ladders = (
        (forest.node_chunks, nodes + 1, chunks),
        (forest.chunk_children, chunks + 1, len(forest.child)),
        (np.concatenate([[0], forest.chunk_features[packed, 1]]), chunks + 1, len(forest.features)),
        (forest.starts, len(forest.features) + 1, len(forest.weights)),
    )
    return bool((forest.chunk_features[packed[1:], 0] == forest.chunk_features[packed[:-1], 1]).all()) and all(
        len(steps) == length and steps[0] == 0 and steps[-1] == end and bool((steps[1:] >= steps[:-1]).all())
        for steps, length, end in ladders
    )


def _children_fit(forest: Forest, columns: int) -> bool:
    if len(forest.bias) != len(forest.child) or len(forest.which) != len(forest.weights):
        return False
    nodes = len(forest.node_leaf)
    owner = np.repeat(np.arange(nodes), np.diff(forest.chunk_children[forest.node_chunks]))
    leaf = forest.node_leaf[owner] > 0
    packed = _packed(forest)
    ends = forest.starts[np.concatenate([[0], forest.chunk_features[packed, 1]])].astype(np.int64)
    wide = np.repeat(np.diff(forest.chunk_children)[packed], np.diff(ends))
    return (
        _within(forest.child[leaf], forest.labels)
        and _within(forest.child[~leaf], nodes)
        and bool((forest.child[~leaf] > owner[~leaf]).all())  # children come later, so the search ends
        and _within(forest.features, columns)
        and bool((forest.which < wide).all())
        and _within(forest.roots, nodes)
    )


def _packed(forest: Forest) -> Longs:
    """The chunks in the order in which their features lie."""
    return np.lexsort((forest.chunk_features[:, 1], forest.chunk_features[:, 0]))


def _within(numbers: Ints, end: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < end)
