"""Soft targets along the hierarchy of a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.graph.ancestors import ancestors, with_linked
from longtail.papers import HIERARCHICAL, Paper


@dataclass(frozen=True)
class Broader:
    """Give the labels above an example's own a part of their target: what is about dogs is a little about animals.

    A label n steps above has `weight`^n of the target of the label below; `narrower` and `related` do the same for
    labels one step below and beside. A label that an example has itself keeps its own target.

    Needs: labels with broader labels: a SKOS vocabulary, or "broader" in labels.jsonl; a learner of soft targets.
    Costs: training with more targets: at most (1 + labels linked to one) times as many.
    Prefer instead: `gandalf`, which links labels by the examples that they share, where there are many examples.
    Example: longtail compare my-vocabulary "parabel" "parabel + broader"
    """

    weight: float = 0.3  # of the target, for each step upwards; 0: nothing for broader labels
    depth: int = 2  # steps upwards
    narrower: float = 0.0  # of the target, for labels one step below
    related: float = 0.0  # of the target, for related labels

    summary: ClassVar[str] = "broader labels of a vocabulary as soft targets"
    papers: ClassVar[tuple[Paper, ...]] = (HIERARCHICAL,)
    needs: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"hierarchy"})

    def __post_init__(self) -> None:
        shares = (self.weight, self.narrower, self.related)
        if not all(0 <= share <= 1 for share in shares) or not any(shares) or not 1 <= self.depth <= 100:
            raise RecipeError(
                "broader takes a weight, narrower and related of 0 to 1, not all 0, and a depth of 1 to 100, got "
                f"weight={self.weight:g}, narrower={self.narrower:g}, related={self.related:g}, depth={self.depth}"
            )

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        links: list[Matrix] = []
        above, related = train.labels.broader, train.labels.related
        if above is not None and self.weight:
            links.append(self.weight * ancestors(above, self.depth, self.weight))
        if above is not None and self.narrower:
            links.append(self.narrower * ancestors(sparse.csr_array(above.T), 1))
        if related is not None and self.related:
            links.append(self.related * ancestors(related, 1))
        targets = train.targets
        for link in links:  # each from the targets as given: a soft target gives nothing on
            found = with_linked(train.targets, sparse.csr_array(link))
            targets = sparse.csr_array(targets.maximum(found))
        return replace(train, targets=targets)
