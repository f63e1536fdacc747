"""How reliable a label is: how often it was right where members proposed it, counted on rows they did not train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Floats, Ints

FOLDS = 5


@dataclass(frozen=True, eq=False)
class LabelRecord:
    """Counts of each label over the rows that the combiner learns from."""

    proposed: Floats  # (labels,) rows for which a member named it
    expected: Floats  # (labels,) rows for which it would be right if members' shares were probabilities
    right: Floats  # (labels,) rows for which it was named and right

    @classmethod
    def of(cls, labels: Ints, shares: Floats, right: Bools, number: int) -> LabelRecord:
        """Count candidates.

        Args:
            labels: (candidates,).
            shares: (candidates,) how much the members believe in each, 0 to 1.
            right: (candidates,).
            number: of labels.

        Returns:
            The counts.
        """
        return cls(
            np.bincount(labels, minlength=number).astype(np.float32),
            np.bincount(labels, weights=shares, minlength=number).astype(np.float32),
            np.bincount(labels, weights=right, minlength=number).astype(np.float32),
        )

    def with_labels(self, number: int) -> LabelRecord:
        """Return the record of more labels, of which nothing is known yet.

        Args:
            number: of all labels.

        Returns:
            The counts, 0 for the new labels.
        """
        new = np.zeros(number - len(self.right), dtype=np.float32)
        parts = (self.proposed, self.expected, self.right)
        return LabelRecord(*(np.concatenate([part, new]) for part in parts))

    def numbers(self, labels: Ints) -> Floats:
        """Compute what the trees see of some labels.

        Args:
            labels: (candidates,).

        Returns:
            (candidates, 3): log((right + 1) / (expected + 1)), log(1 + proposed), log(1 + right).
        """
        proposed, expected, right = self.proposed[labels], self.expected[labels], self.right[labels]
        found = np.empty((len(labels), 3), dtype=np.float32)
        found[:, 0], found[:, 1], found[:, 2] = (
            np.log((right + 1) / (expected + 1)),
            np.log1p(proposed),
            np.log1p(right),
        )
        return found


def out_of_fold(labels: Ints, rows: Ints, shares: Floats, right: Bools, number: int, seed: int) -> Floats:
    """What the trees see of each candidate's label, counted without the candidate's own row.

    Rows are cut into folds, and a row sees the counts of the other folds, so that no row sees its own answer.

    Args:
        labels: (candidates,).
        rows: (candidates,) the row of each.
        shares: (candidates,) how much the members believe in each, 0 to 1.
        right: (candidates,).
        number: of labels.
        seed: decides which rows share a fold.

    Returns:
        (candidates, 3), see `LabelRecord.numbers`.
    """
    last = int(rows.max(initial=-1))
    fold = (np.random.default_rng(seed).permutation(last + 1) % FOLDS)[rows]
    found = np.zeros((len(labels), 3), dtype=np.float32)
    for one in range(FOLDS):
        own, others = fold == one, fold != one
        record = LabelRecord.of(labels[others], shares[others], right[others], number)
        found[own] = record.numbers(labels[own])
    return found
