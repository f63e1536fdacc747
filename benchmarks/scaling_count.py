"""How many numbers the kernels of a label tree touch while it is trained: exact, the same on every machine.

`operations` trains once with the kernels' callers listened to; nothing of it costs anything when it is not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import longtail.learners.parabel as learner
import longtail.linear.cluster as cluster
import longtail.linear.solve as solve
import longtail.linear.tree as tree
from longtail import Recipe
from longtail.data.dataset import Dataset


@dataclass(frozen=True)
class Operations:
    """Numbers touched, by what touches them."""

    scores: int  # entries x children that are not done, over all passes; moving them touches at most as many again
    once: int  # entries x children in one pass
    groups: int  # vectors of labels and their halves: entries and features, over all rounds
    nodes: int  # rows and targets of nodes gathered, tables of weights made empty and read off

    @property
    def all(self) -> int:
        return self.scores + self.groups + self.nodes


def operations(recipe: Recipe, train: Dataset) -> Operations:
    seen: dict[str, list[int]] = {"scores": [], "once": [], "groups": [], "nodes": []}

    def note(kind: str, number: Any) -> None:
        seen[kind].append(int(number))  # of several threads: a list takes them one by one

    def passes(given: tuple[Any, ...], made: Any) -> None:
        lanes, begins, ends, seed = given[0], given[1], given[2], given[15]
        entries = int((ends - begins).sum())
        note("scores", made * lanes * entries)
        note("once", lanes * entries if seed >= 0 else 0)
        note("nodes", (given[9].size + given[10].size) if seed >= 0 else 0)

    def vectors(given: tuple[Any, ...], _: Any) -> None:
        targets, rows = given
        note("groups", (rows.indptr[1:] - rows.indptr[:-1]) @ (targets.indptr[1:] - targets.indptr[:-1]))

    with (
        listening(solve, "_passes", passes),
        listening(learner, "label_vectors", vectors),
        listening(cluster, "_halve", lambda _, touched: note("groups", touched)),
        listening(cluster, "_halve_below", lambda _, touched: note("groups", touched)),
        listening(cluster, "gather", lambda _, found: note("groups", len(found[1]))),
        listening(tree, "gather", lambda _, found: note("nodes", 2 * len(found[1]))),
        listening(tree, "pruned", lambda given, _: note("nodes", given[0].size)),
        listening(tree, "_raised", lambda given, _: note("nodes", given[0].nnz)),
    ):
        recipe.fit(train, train.take([]))
    return Operations(**{kind: sum(numbers) for kind, numbers in seen.items()})


@contextmanager
def listening(where: Any, name: str, hear: Callable[[tuple[Any, ...], Any], None]) -> Iterator[None]:
    """While it is open, `hear` is told what the function of this name is given and what it returns."""
    real = getattr(where, name)

    def listen(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        hear(given, found)
        return found

    setattr(where, name, listen)
    try:
        yield
    finally:
        setattr(where, name, real)
