"""Gradient-boosted trees as plain arrays. LightGBM grows them; predicting needs only our own kernel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Ints, Longs
from longtail.errors import LongtailError, MissingExtra
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.progress import stage
from longtail.seams import Array, Declaration
from longtail.threads import over_rows, thread_count

LEAST = 4096  # candidates that are worth a thread
BLOCK = 128  # candidates that walk all trees together
MAX_DEPTH = 12  # of a tree: all are padded to the depth of the deepest
MAX_LEAVES = 1 << 22  # of all trees after padding: a few deep ones among many would take any memory
NODE, STEP, THREE = np.uint32(0), np.uint32(1), np.uint32(3)
PATIENCE = 25  # trees without gain on held-out candidates after which growing stops


@dataclass(frozen=True, kw_only=True)
class Growing:
    """How trees are grown."""

    trees: int = 300  # at most; held-out candidates decide
    leaves: int = 31
    learning_rate: float = 0.05
    max_depth: int = 6  # of a tree: a walk takes as long as the deepest leaf of four candidates
    min_leaf: int = 100  # candidates of a leaf
    share: float = 0.8  # of the candidates and of the numbers that a tree sees
    seed: int = 0


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Trees over columns of numbers; a prediction is the sum of one leaf of each tree.

    A node sends a value that is at most its threshold to the left. A child below 0 is a leaf: ~child is its row.
    """

    roots: Ints  # (trees,) first node of each tree; below 0: the tree is a single leaf
    columns: Ints  # (nodes,) the column that is compared
    thresholds: Doubles  # (nodes,)
    children: Ints  # (nodes, 2) left and right
    leaves: Doubles  # (all leaves,)
    width: int  # columns of the numbers

    def __post_init__(self) -> None:
        nodes, leaves = len(self.columns), len(self.leaves)
        if self.children.shape != (nodes, 2) or self.thresholds.shape != (nodes,) or self.leaves.ndim != 1:
            raise ValueError("the arrays of the trees do not match")
        if not (np.isfinite(self.thresholds).all() and np.isfinite(self.leaves).all()):
            raise ValueError("a tree has a number that is not finite")
        if nodes and not (self.columns.min() >= 0 and self.columns.max() < self.width):
            raise ValueError("a tree compares a column that is not there")
        inner = self.children >= 0
        # A child stands behind its parent, so that every walk ends.
        if (self.children <= np.arange(nodes, dtype=np.int32)[:, None])[inner].any():
            raise ValueError("a tree leads back")
        for links in (self.children, self.roots):
            if links.size and not (links.min() >= -leaves and links.max() < nodes):
                raise ValueError("a tree leads to a node that is not there")
        depth = np.zeros(nodes, dtype=np.int64)
        for level in range(1, MAX_DEPTH + 1):
            above = depth == level - 1
            depth[self.children[above][inner[above]]] = level
        if depth.max(initial=0) >= MAX_DEPTH:
            raise ValueError(f"a tree is deeper than {MAX_DEPTH} levels")
        if (padded := len(self.roots) << int(depth.max(initial=-1) + 1)) > MAX_LEAVES:
            raise ValueError(
                f"{len(self.roots)} trees as deep as the deepest have {padded:,} leaves, above {MAX_LEAVES:,}"
            )

    @classmethod
    def constant(cls, log_odds: float, width: int) -> BoostedTrees:
        """One tree of a single leaf.

        Args:
            log_odds: of every candidate.
            width: columns of the numbers.

        Returns:
            The tree.
        """
        nothing = np.zeros(0, dtype=np.int32)
        links = np.zeros((0, 2), dtype=np.int32)
        return cls(np.array([-1], np.int32), nothing, np.zeros(0), links, np.array([log_odds]), width)

    def log_odds(self, numbers: Floats) -> Doubles:
        """Walk every tree for every candidate.

        Args:
            numbers: (candidates, columns) float32, all finite.

        Returns:
            (candidates,) the sums of the leaves.
        """
        total = np.zeros(len(numbers), dtype=np.float64)

        def walk(begin: int, end: int) -> None:
            turned, state = np.empty((self.width, BLOCK), dtype=np.float32), np.empty(BLOCK, dtype=np.uint32)
            _walk(begin, end, numbers, *self._complete, turned, state, total)

        over_rows(walk, len(numbers), LEAST)
        return total

    @cached_property
    def _complete(self) -> tuple[Ints, Floats, Doubles]:
        """The trees padded to one depth d, so that they are walked without looking for the end: columns and thresholds
        (trees, 2^d - 1), leaves (trees, 2^d). Both children of a padding node lead to the same leaf."""
        # The largest float32 that is not above a threshold: float32 values compare with it alike.
        near = self.thresholds.astype(np.float32)
        lower = np.where(near > self.thresholds, np.nextafter(near, np.float32(-np.inf)), near)
        nodes = self.roots[:, None]  # (trees, nodes of the level)
        columns, thresholds = [np.zeros((len(nodes), 0), np.int32)], [np.zeros((len(nodes), 0), np.float32)]
        while (nodes >= 0).any():
            inner, place = nodes >= 0, np.maximum(nodes, 0)
            columns.append(np.where(inner, self.columns[place], 0).astype(np.int32))
            thresholds.append(np.where(inner, lower[place], np.float32(np.inf)).astype(np.float32))
            below = np.where(inner[:, :, None], self.children[place], nodes[:, :, None])
            nodes = below.reshape(len(nodes), -1)
        return np.concatenate(columns, axis=1), np.concatenate(thresholds, axis=1), self.leaves[~nodes]

    @staticmethod
    def declared(*, optional: bool = False) -> Declaration:
        """What `tensors` stores. How nodes lead to each other is checked when the trees are built.

        Args:
            optional: whether the trees may be missing.

        Returns:
            The declaration.
        """
        return Declaration(
            {
                "trees.roots": Array("int32", "trees", optional=optional),
                "trees.columns": Array("int32", "nodes", least=0, optional=optional),
                "trees.thresholds": Array("float64", "nodes", optional=optional),
                "trees.children": Array("int32", "nodes, 2", optional=optional),
                "trees.leaves": Array("float64", "leaves", optional=optional),
            }
        )

    def tensors(self) -> dict[str, AnyArray]:
        """Return the arrays by name, for a saved model."""
        return {
            "trees.roots": self.roots,
            "trees.columns": self.columns,
            "trees.thresholds": self.thresholds,
            "trees.children": self.children,
            "trees.leaves": self.leaves,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, AnyArray], width: int) -> BoostedTrees:
        """Build the trees from what `tensors` returned.

        Args:
            tensors: arrays by name; they may have been damaged since.
            width: columns of the numbers.

        Returns:
            The trees.

        Raises:
            ValueError: the arrays do not fit together.
        """
        names = ("roots", "columns", "thresholds", "children", "leaves")
        return cls(**{name: tensors[f"trees.{name}"] for name in names}, width=width)


def require_lightgbm() -> Any:
    """Import LightGBM.

    Returns:
        The module.

    Raises:
        MissingExtra: it is not installed.
        LongtailError: it is installed, but a library of the system that it needs is not.
    """
    # OpenMP reads this once, when it is loaded. Its threads otherwise spin while they wait, and on a busy machine that
    # takes the cores from those that work: trees that grow in 3 seconds took a minute.
    asked = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return import_module("lightgbm")
    except ImportError:
        raise MissingExtra("lightgbm", "fuse", "learning how to combine members") from None
    except OSError as error:  # such as "libgomp.so.1: cannot open shared object file"
        library = str(error).partition(":")[0]
        raise LongtailError(
            f"learning how to combine members needs LightGBM, which cannot load {library}: install OpenMP, by "
            "apt install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora) or brew install libomp (macOS)"
        ) from None
    finally:
        if asked is None:
            del os.environ["OMP_WAIT_POLICY"]


def grow(numbers: Floats, right: Bools, held_out: Bools | None, growing: Growing) -> BoostedTrees:
    """Grow trees whose sum is the log odds that a candidate is right. The result does not depend on the threads.

    Args:
        numbers: (candidates, columns) float32, all finite.
        right: (candidates,).
        held_out: (candidates,) whether it only decides when to stop; None: as many trees as `growing` says.
        growing: settings.

    Returns:
        The trees.
    """
    lightgbm = require_lightgbm()
    options = {
        "objective": "binary",
        "num_leaves": growing.leaves,
        "max_depth": growing.max_depth,
        "learning_rate": growing.learning_rate,
        "min_data_in_leaf": growing.min_leaf,
        "bagging_fraction": growing.share,
        "bagging_freq": 1,
        "feature_fraction": growing.share,
        "seed": growing.seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": thread_count(),
        "verbose": -1,
        "metric": "binary_logloss",
        "max_bin": 255,
        "feature_pre_filter": False,
    }
    learned = slice(None) if held_out is None else ~held_out
    whole = lightgbm.Dataset(numbers[learned], right[learned].astype(np.float32), params=options)
    with stage("trees", total=growing.trees) as advance:
        callbacks: list[Any] = [lambda _: advance(1)]
        if held_out is None or not held_out.any():
            return _arrays_of(lightgbm.train(options, whole, growing.trees, callbacks=callbacks), numbers.shape[1])
        outside = right[held_out].astype(np.float32)
        watched = lightgbm.Dataset(numbers[held_out], outside, reference=whole, params=options)
        callbacks.append(lightgbm.early_stopping(PATIENCE, verbose=False))
        booster = lightgbm.train(options, whole, growing.trees, valid_sets=[watched], callbacks=callbacks)
    return _arrays_of(booster, numbers.shape[1], booster.best_iteration)


def _arrays_of(booster: Any, width: int, trees: int | None = None) -> BoostedTrees:
    """LightGBM's trees, read from its text form, whose numbers are written with all their digits."""
    roots: list[int] = []
    columns: list[AnyArray] = [np.zeros(0)]
    thresholds: list[AnyArray] = [np.zeros(0)]
    children: list[AnyArray] = [np.zeros((0, 2))]
    leaves: list[AnyArray] = [np.zeros(0)]
    nodes = ends = 0
    text = booster.model_to_string(num_iteration=trees)
    for block in text.split("\nTree=")[1:]:
        lines = dict(line.split("=", 1) for line in block.split("\n\n")[0].splitlines() if "=" in line)
        values = np.array(lines["leaf_value"].split(), dtype=np.float64)
        if len(values) == 1:
            roots.append(~ends)
        else:
            roots.append(nodes)
            links = np.stack([_numbers(lines[f"{side}_child"]) for side in ("left", "right")], axis=1)
            children.append(np.where(links >= 0, links + nodes, links - ends))
            columns.append(_numbers(lines["split_feature"]))
            thresholds.append(np.array(lines["threshold"].split(), dtype=np.float64))
            nodes += len(links)
        leaves.append(values)
        ends += len(values)
    return BoostedTrees(
        np.array(roots, dtype=np.int32),
        np.concatenate(columns).astype(np.int32),
        np.concatenate(thresholds),
        np.concatenate(children).astype(np.int32),
        np.concatenate(leaves),
        width,
    )


def _numbers(text: str) -> Longs:
    return np.array(text.split(), dtype=np.int64)


@njit(**KERNEL)
def _walk(begin, end, numbers, columns, thresholds, leaves, turned, state, total):  # type: ignore[no-untyped-def]
    """A block of candidates walks all trees, one level of one tree at a time, without a branch: the child of node n is
    2n + 1 or 2n + 2. The block's numbers lie column by column, so that neighbours read neighbouring numbers. Of the
    first two levels each candidate compares the same three columns, so nothing is gathered. That saves a quarter.

    Safe: `BoostedTrees` holds columns below its width, and `_complete` has a node or a leaf wherever a walk leads."""
    inner, levels = np.uint32(columns.shape[1]), ZERO
    while (1 << levels) - 1 < columns.shape[1]:
        levels += 1
    for low in range(begin, end, BLOCK):
        size = min(BLOCK, end - low)
        for place in range(size):
            for column in range(numbers.shape[1]):
                turned[column, place] = numbers[low + place, column]
        for tree in range(len(columns)):
            own_columns, own_thresholds, own_leaves = columns[tree], thresholds[tree], leaves[tree]
            gathered = levels
            if levels < 2:
                for place in range(size):
                    state[place] = NODE
            else:
                gathered = levels - 2
                at_root, at_left, at_right = own_thresholds[0], own_thresholds[1], own_thresholds[2]
                root, left, right = np.uint32(own_columns[0]), np.uint32(own_columns[1]), np.uint32(own_columns[2])
                for place in range(size):
                    state[place] = np.uint32(turned[root, place] > at_root)
                for place in range(size):
                    lower, upper = np.uint32(turned[left, place] > at_left), np.uint32(turned[right, place] > at_right)
                    above = state[place]
                    state[place] = THREE + above + above + lower + above * (upper - lower)
            for _ in range(gathered):
                for place in range(size):
                    node = state[place]
                    up = turned[np.uint32(own_columns[node]), place] > own_thresholds[node]
                    state[place] = node + node + STEP + np.uint32(up)
            for place in range(size):
                total[low + place] += own_leaves[state[place] - inner]
