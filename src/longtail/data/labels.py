"""The labels of a data set: ids, texts, and training counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Longs, Matrix
from longtail.errors import DataError

MOSTLY_UNSEEN = 0.9  # share of the labels without a training row from which on usual measures say little
COUNTED = 1 << 23  # numbers counted at once


@dataclass(frozen=True)
class Propensity:
    """The constants A and B of the inverse propensity 1 + C (n + B)^-A; a fact of the data set.

    Raises:
        DataError: a constant is out of range.
    """

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (0 < self.a <= 10 and 0.001 <= self.b <= 1000):  # an unseen label has B^-A
            raise DataError(
                f"propensity constants must be 0 < A <= 10 and 0.001 <= B <= 1000, got A={self.a:g}, B={self.b:g}; "
                "0.55 and 1.5 are usual"
            )

    def __str__(self) -> str:
        return f"A={self.a:g}, B={self.b:g}"


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelSet:
    """Labels in a fixed order. A label keeps its row for life; new ones are added at the end.

    `counts` and `train_rows` come from the training targets as given, before anything is held out for validation and
    before any tail method adds examples or targets. Propensities and frequency bins are facts of the data, so
    augmentation must not change them.

    Raises:
        DataError: parts do not match, or an id occurs twice.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...] = ()  # "" where a label has no text
    counts: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # training examples per label
    train_rows: int = 0  # training examples that the counts come from
    features: Matrix | None = None  # (labels, features), where the data has label features
    propensity: Propensity = Propensity()
    names: tuple[tuple[str, ...], ...] = ()  # further names of each label, such as synonyms; () where there are none
    broader: Matrix | None = None  # (labels, labels), 1 where the column's label is broader than the row's
    related: Matrix | None = None  # (labels, labels), 1 where two labels are related

    def __post_init__(self) -> None:
        number = len(self.ids)
        names = tuple(map(tuple, self.names))
        object.__setattr__(self, "names", names if any(names) else ((),) * number)
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
            raise DataError(f"label id {twice!r} occurs twice; label ids must be unique")
        if self.features is not None and self.features.shape[0] != number:
            raise DataError(f"label features have {self.features.shape[0]} rows for {number} labels")
        if len(self.names) != number:
            raise DataError(f"{len(self.names)} labels have further names, and there are {number} labels")
        for relation in (self.broader, self.related):
            if relation is not None and relation.shape != (number, number):
                raise DataError(f"relations of labels are {relation.shape} for {number} labels")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """Sizes, because nobody wants to print the names of a million labels."""
        return f"LabelSet({len(self):,} labels, {int((self.counts > 0).sum()):,} of them in {self.train_rows:,} rows)"

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each label id."""
        return {label: row for row, label in enumerate(self.ids)}

    @cached_property
    def has_texts(self) -> bool:
        """Whether at least one label has a text."""
        return any(self.texts)

    @cached_property
    def without_text(self) -> tuple[int, ...]:
        """The rows of labels whose text is empty or blank."""
        return tuple([row for row, text in enumerate(self.texts) if not text.strip()])

    @cached_property
    def texts_with_names(self) -> tuple[str, ...]:
        """The text of each label with its further names behind: what learners read that read the texts of labels."""
        if not any(self.names):
            return self.texts
        return tuple(
            ["; ".join(filter(None, (text, *more))) for text, more in zip(self.texts, self.names, strict=True)]
        )

    @cached_property
    def mostly_unseen(self) -> bool:
        """Whether nearly all labels have no training row: PSP, coverage and frequency bins say little then."""
        return self.train_rows > 0 and int((self.counts == 0).sum()) > MOSTLY_UNSEEN * len(self)

    def word(self, row: int) -> str:
        """The name of a label for people.

        Args:
            row: of the label.

        Returns:
            Its text, or its id where it has none.
        """
        return self.texts[row] or self.ids[row]

    def counted(self, targets: Matrix) -> LabelSet:
        """The same labels with other counts.

        Args:
            targets: (rows, labels) the training targets to count.

        Returns:
            A new label set.
        """
        counts = occurrences(targets.indices, len(self))
        return replace(self, counts=counts, train_rows=int(targets.shape[0]))

    def take(self, rows: Longs) -> LabelSet:
        """Some of the labels, with the counts they have.

        Args:
            rows: (labels kept,) their rows, in rising order.

        Returns:
            A new label set.
        """
        kept = rows.tolist()
        return replace(
            self,
            ids=tuple([self.ids[row] for row in kept]),
            texts=tuple([self.texts[row] for row in kept]),
            names=tuple([self.names[row] for row in kept]),
            counts=self.counts[rows],
            features=None if self.features is None else self.features[rows],
            broader=None if self.broader is None else self.broader[rows][:, rows],
            related=None if self.related is None else self.related[rows][:, rows],
        )

    def with_more(self, ids: Sequence[str], texts: Sequence[str]) -> LabelSet:
        """The same labels, and behind them new ones that no training example has.

        Args:
            ids: of the new labels.
            texts: of the new labels.

        Returns:
            A new label set, without label features.
        """
        number = len(self) + len(ids)

        def wider(relation: Matrix | None) -> Matrix | None:
            if relation is None:
                return None
            pointers = np.pad(relation.indptr, (0, len(ids)), mode="edge")
            return sparse.csr_array((relation.data, relation.indices, pointers), shape=(number, number))

        return replace(
            self,
            ids=self.ids + tuple(ids),
            texts=self.texts + tuple(texts),
            names=self.names + ((),) * len(ids),
            counts=np.concatenate([self.counts, np.zeros(len(ids), dtype=np.int64)]),
            features=None,
            broader=wider(self.broader),
            related=wider(self.related),
        )

    def rows(self, ids: Iterable[str]) -> list[int]:
        """Finds labels by id.

        Args:
            ids: of the labels.

        Returns:
            Their rows, in this order.

        Raises:
            DataError: an id is unknown.
        """
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


def occurrences(numbers: AnyArray, size: int) -> Longs:
    """Counts how often each number occurs, without a wider copy of all of them, as `np.bincount` makes.

    Args:
        numbers: (numbers,) of 0 to size - 1.
        size: of the result.

    Returns:
        (size,)
    """
    counts = np.zeros(size, dtype=np.int64)
    for begin in range(0, len(numbers), COUNTED):
        counts += np.bincount(numbers[begin : begin + COUNTED], minlength=size)
    return counts
