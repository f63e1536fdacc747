"""The levels of a label tree, in which the children of a cluster are a run: the nodes of each level are numbered in the
order of their parents, and labels are numbered again as leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from longtail.arrays import AnyArray, Ints, Longs, Matrix
from longtail.linear.trees.label_clusters import balanced_halves
from longtail.seams import Array, Contents, Declaration, Misfit, Whole

MAX_LEVELS = 30


@dataclass(frozen=True, eq=False)
class LabelLevels:
    """A tree whose levels are numbered from 0; the last level's nodes are the labels."""

    order: Ints  # (labels,) the label of each leaf
    begins: tuple[Longs, ...]  # of each level of clusters: (clusters + 1,) where their children begin

    @classmethod
    def build(cls, vectors: Matrix, max_leaf_labels: int, branches: int, levels: int, seed: int) -> LabelLevels:
        """Cluster labels by balanced 2-means, and keep some of its levels.

        Args:
            vectors: csr (labels, features), unit-norm.
            max_leaf_labels: labels of a cluster of the last level of clusters.
            branches: clusters below a cluster, a power of 2.
            levels: levels of clusters, from the last one up. A first level of less than `branches` clusters is left
                out: scoring all of the level below costs no more.
            seed: of the starts of 2-means.

        Returns:
            The tree, with at least one level of clusters.
        """
        order, halves = balanced_halves(vectors, max_leaf_labels, seed)
        last, step = len(halves) - 1, int(math.log2(branches))
        depths = list(range(last, step - 1, -step))[:levels][::-1] or [last]
        begins = [2 ** (below - depth) * np.arange(2**depth + 1, dtype=np.int64) for depth, below in pairwise(depths)]
        return cls(order, (*begins, halves[depths[-1]].astype(np.int64)))

    @classmethod
    def flat(cls, labels: int) -> LabelLevels:
        """The tree without clusters: all labels are scored."""
        return cls(np.arange(labels, dtype=np.int32), ())

    @property
    def count(self) -> int:
        """Levels, the labels' own included."""
        return len(self.begins) + 1

    def nodes(self, level: int) -> int:
        """Nodes of a level."""
        return len(self.order) if level == len(self.begins) else len(self.begins[level]) - 1

    def widest(self, level: int) -> int:
        """The most children that a node of this level has."""
        return int(np.diff(self.begins[level]).max())

    def narrowest(self, level: int) -> int:
        """The fewest children that a node of this level has."""
        return int(np.diff(self.begins[level]).min())

    @cached_property
    def node_of_label(self) -> tuple[Ints, ...]:
        """The node of each label on each level: (labels,) each."""
        leaf = np.empty(len(self.order), dtype=np.int64)
        leaf[self.order] = np.arange(len(self.order))
        found = [leaf]
        for begins in self.begins[::-1]:
            found.append(np.searchsorted(begins, found[-1], side="right") - 1)
        return tuple(nodes.astype(np.int32) for nodes in found[::-1])

    def tensors(self) -> dict[str, AnyArray]:
        """The arrays to save, by name, for `restore`."""
        return {"order": self.order, **{f"begins.{level}": begins for level, begins in enumerate(self.begins)}}

    @classmethod
    def restore(cls, clusters: int, tensors: dict[str, AnyArray]) -> LabelLevels:
        """Restore a saved tree, which is as `tree_declared` declares.

        Args:
            clusters: levels of clusters.
            tensors: those of `tensors`; others are ignored.

        Returns:
            The tree.
        """
        return cls(tensors["order"], tuple(tensors[f"begins.{level}"] for level in range(clusters)))


def tree_declared(clusters: int) -> Declaration:
    """What is stored of a tree.

    Args:
        clusters: levels of clusters.

    Returns:
        The declaration; the number of nodes of level 1 is the size "nodes 1", and so on.
    """
    sizes = [f"nodes {level}" for level in range(clusters)] + ["labels"]
    return Declaration(
        {
            "order": Array("int32", "labels", least=0, below="labels"),
            **{
                f"begins.{level}": Array("int64", f"{sizes[level]} + 1", points_to=sizes[level + 1], rising=True)
                for level in range(clusters)
            },
        },
        {"clusters": Whole(0, MAX_LEVELS)},
        checks=(_every_label_once, *(_evenly_filled(level) for level in range(clusters))),
    )


def _evenly_filled(level: int) -> Callable[[Contents], None]:
    """A check that no cluster of a level is much fuller than others: search gives each the room of the fullest."""

    def check(stored: Contents) -> None:
        children = np.diff(stored.tensors[f"begins.{level}"])
        if len(children) and len(children) * int(children.max()) > 2 * int(children.sum()):
            raise Misfit(
                f"begins.{level}", f"has a cluster of {children.max()} children where most have fewer than half"
            )

    return check


def _every_label_once(stored: Contents) -> None:
    order = stored.tensors["order"]
    seen = np.zeros(len(order), dtype=np.bool_)
    seen[order] = True
    if not seen.all():
        raise Misfit("order", "names a label twice, and leaves one out")
