"""Every training example twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset


@dataclass(frozen=True)
class Twice:
    """Add a copy of every training example.

    Needs: texts.
    Costs: twice the training.
    Prefer instead: nothing at all.
    Example: longtail compare wordnet "popular" "popular + twice"
    """

    summary: ClassVar[str] = "every training example twice"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})

    def augment(self, train: Dataset) -> Dataset:
        return train.with_rows(texts=train.texts, targets=train.targets, origin="twice")
