"""The sparse soft targets of a batch, sorted by label, as the head takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Floats, Longs, Matrix
from longtail.errors import DataError
from longtail.nn.training.to_device import to_device


class ChunkTargets(NamedTuple):
    """The targets of one chunk of labels."""

    rows: Tensor  # (entries,) int64, row in the batch
    labels: Tensor  # (entries,) int64
    positive_weight: Tensor  # (entries,) float32: weight of the loss as a positive
    negative_weight: Tensor  # (entries,) float32: weight of the loss as a negative


@dataclass(frozen=True, eq=False)
class BatchTargets:
    """All targets above 0 of a batch, sorted by label; fields as in `ChunkTargets`. Any other pair has target 0."""

    rows: Tensor
    labels: Tensor
    positive_weight: Tensor
    negative_weight: Tensor
    sorted: Longs  # the labels again, on the host: chunks are cut without synchronising with the device

    def between(self, start: int, end: int) -> ChunkTargets:
        """Select a range of labels.

        Args:
            start: first label.
            end: one past the last label.

        Returns:
            The targets of these labels.
        """
        low, high = np.searchsorted(self.sorted, (start, end)).tolist()
        return ChunkTargets(
            self.rows[low:high], self.labels[low:high], self.positive_weight[low:high], self.negative_weight[low:high]
        )


@dataclass(frozen=True, eq=False)
class TrainingTargets:
    """Soft targets in (0, 1] of all rows, and the weight of each in the loss.

    The loss of score s and target t is positive · t · loss⁺(s) + (1 - t) · loss⁻(s). With propensities p it is the
    unbiased t/p · loss⁺(s) + (1 - t/p) · loss⁻(s): a label that is often missing from the data gets a larger weight.
    """

    matrix: Matrix  # csr float32 (rows, labels)
    positive: float = 1.0  # weight of positives
    inverse_propensities: Floats | None = None  # (labels,) 1/p
    first: int = 0  # range of the labels that batches hold; last None: all
    last: int | None = None

    def __post_init__(self) -> None:
        data = self.matrix.data
        if len(data) and not (data.min() > 0 and data.max() <= 1):
            raise DataError(f"targets must lie in (0, 1], these range from {data.min():g} to {data.max():g}")

    @property
    def outputs(self) -> int:
        """Classifiers that the targets are for: one a label."""
        return int(self.matrix.shape[1])

    def to_classifiers(self, owners: Longs, labels: Longs, shares: Floats) -> tuple[Longs, Longs, Floats]:
        """Turn targets of labels into targets of classifiers, where these are not the same.

        Args:
            owners: (entries,) row in the batch.
            labels: (entries,) label.
            shares: (entries,) weight of the loss as a positive.

        Returns:
            The same of each entry's classifiers; of entries with the same row and classifier the largest counts.
        """
        return owners, labels, shares

    def batch(self, rows: Longs, device: torch.device) -> BatchTargets:
        """Collect the targets of a batch.

        Args:
            rows: (rows,) of the matrix; they get the numbers 0, 1, ... in the batch.
            device: where the tensors go.

        Returns:
            The targets; labels are numbered from `first`.
        """
        indptr, indices, data = self.matrix.indptr, self.matrix.indices, self.matrix.data
        starts = indptr[rows].astype(np.int64)
        counts = indptr[np.asarray(rows) + 1].astype(np.int64) - starts
        places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        labels, values = indices[places].astype(np.int64), data[places]
        owners = np.repeat(np.arange(len(rows)), counts)
        shares = values if self.inverse_propensities is None else values * self.inverse_propensities[labels]
        owners, labels, shares = self.to_classifiers(owners, labels, shares)
        last = self.outputs if self.last is None else self.last
        if self.first > 0 or last < self.outputs:
            inside = (labels >= self.first) & (labels < last)
            labels, shares, owners = labels[inside] - self.first, shares[inside], owners[inside]
        # One integer holds label and row, so one fast sort orders by both.
        width = np.int64(max(len(rows), 1))
        keys = labels * width + owners
        order = np.argsort(keys, kind="stable")
        keys, shares = keys[order], shares[order]
        if len(keys) > 1 and (keys[1:] == keys[:-1]).any():  # duplicate entries count once, the largest
            firsts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            keys, shares = keys[firsts], np.maximum.reduceat(shares, firsts)
        labels, owners = keys // width, keys % width
        positive_weight, negative_weight = (self.positive * shares).astype(np.float32), (1 - shares).astype(np.float32)
        return BatchTargets(
            to_device(owners, device),
            to_device(labels, device),
            to_device(positive_weight, device),
            to_device(negative_weight, device),
            sorted=labels,
        )
