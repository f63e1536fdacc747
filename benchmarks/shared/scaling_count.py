"""How many numbers the kernels of a label tree touch in a training: exact, the same on every machine.

`operations` trains once while the library counts; it counts nothing otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from longtail import Dataset, Recipe


@dataclass(frozen=True)
class Operations:
    """Numbers touched, by what touches them."""

    scores: int  # entries x unfinished children, over all passes; updates touch at most as many again
    once: int  # entries x children in one pass
    groups: int  # clustering of the labels: entries and features, over all rounds
    nodes: int  # rows and targets of nodes copied, tables of weights allocated and pruned

    @property
    def all(self) -> int:
        return self.scores + self.groups + self.nodes


def operations(recipe: Recipe, train: Dataset) -> Operations:
    from longtail.linear.operation_counts import counting_operations

    with counting_operations() as seen:
        recipe.fit(train, train.take([]))
    return Operations(**{kind: sum(seen[kind]) for kind in ("scores", "once", "groups", "nodes")})
