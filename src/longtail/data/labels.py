"""The labels of a data set: ids, texts, and how often training has seen each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from longtail.arrays import Longs, Matrix
from longtail.errors import DataError


@dataclass(frozen=True)
class Propensity:
    """The constants A and B of the inverse propensity 1 + C (n + B)^-A; a fact of the data set."""

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (0 < self.a <= 10 and 0.001 <= self.b <= 1000):  # B^-A stands for a label that training never saw
            raise DataError(
                f"propensity constants lie in 0 < A <= 10 and 0.001 <= B <= 1000, got A={self.a:g}, B={self.b:g}; "
                "0.55 and 1.5 are usual"
            )

    def __str__(self) -> str:
        return f"A={self.a:g}, B={self.b:g}"


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelSet:
    """Labels in a fixed order. A label keeps its row for life; new ones are added at the end.

    `counts` and `train_rows` come from the training targets as they were given, before any row is held
    out for validation and before any tail method adds rows or entries: propensities and frequency bins
    are facts of the data and must not move when the training set is augmented.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...] = ()  # "" where a label has no text
    counts: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # training rows per label
    train_rows: int = 0  # rows behind the counts
    features: Matrix | None = None  # (labels, features), where the data has label features
    propensity: Propensity = Propensity()

    def __post_init__(self) -> None:
        number = len(self.ids)
        object.__setattr__(self, "ids", tuple(self.ids))
        object.__setattr__(self, "texts", tuple(self.texts) or ("",) * number)
        counts = np.array(self.counts, dtype=np.int64)
        if counts.size == 0:
            counts = np.zeros(number, dtype=np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)
        if len(self.texts) != number or len(counts) != number:
            raise DataError(f"{number} label ids, {len(self.texts)} texts and {len(counts)} counts do not match")
        if len(self.row_of) != number:
            seen: set[str] = set()
            twice = next(label for label in self.ids if label in seen or seen.add(label))  # type: ignore[func-returns-value]
            raise DataError(f"label id {twice!r} stands twice; label ids must be unique")
        if self.features is not None and self.features.shape[0] != number:
            raise DataError(f"label features have {self.features.shape[0]} rows for {number} labels")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """Sizes: somebody who looks at a million labels in a notebook does not want their names."""
        return f"LabelSet({len(self):,} labels, {int((self.counts > 0).sum()):,} of them in {self.train_rows:,} rows)"

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Label id to row."""
        return {label: row for row, label in enumerate(self.ids)}

    @cached_property
    def has_texts(self) -> bool:
        return any(self.texts)

    def word(self, row: int) -> str:
        """What to show a person for a label: its text, or its id where it has none."""
        return self.texts[row] or self.ids[row]

    def counted(self, targets: Matrix) -> LabelSet:
        """The same labels with counts taken from these training targets (rows, labels)."""
        counts = np.bincount(targets.indices, minlength=len(self)).astype(np.int64)
        return replace(self, counts=counts, train_rows=int(targets.shape[0]))

    def rows(self, ids: Iterable[str]) -> list[int]:
        """Rows of the given ids; an unknown id is an error."""
        try:
            return [self.row_of[label] for label in ids]
        except KeyError as error:
            raise DataError(f"unknown label id {error.args[0]!r}") from None

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, LabelSet):
            return NotImplemented
        return self is other or (
            self.ids == other.ids
            and self.texts == other.texts
            and self.train_rows == other.train_rows
            and self.propensity == other.propensity
            and bool(np.array_equal(self.counts, other.counts))
        )

    __hash__ = None  # type: ignore[assignment]
