"""The targets of a batch as the head wants them: a short list in order of the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import AnyArray, Floats, Longs, Matrix
from longtail.errors import DataError


class Part(NamedTuple):
    """The entries of one chunk of labels."""

    rows: Tensor  # (entries,) int64, of the batch
    labels: Tensor  # (entries,) int64
    pull: Tensor  # (entries,) float32: how much of the slope of "this label is right" counts
    push: Tensor  # (entries,) float32: and of "this label is wrong"


@dataclass(frozen=True, eq=False)
class Entries:
    """Every target above 0 of a batch, in order of the label; whatever is not listed has target 0."""

    rows: Tensor
    labels: Tensor
    pull: Tensor
    push: Tensor
    sorted: Longs  # the labels once more, on the host: chunks are cut without asking the device

    def between(self, begin: int, end: int) -> Part:
        """The entries of labels begin to end - 1."""
        low, high = np.searchsorted(self.sorted, (begin, end)).tolist()
        return Part(self.rows[low:high], self.labels[low:high], self.pull[low:high], self.push[low:high])


@dataclass(frozen=True, eq=False)
class Targets:
    """Soft targets in (0, 1] of all rows, and what each counts.

    The loss of a target t is positive · t · right(s) + (1 - t) · wrong(s). With propensities p it is the unbiased
    t/p · right(s) + (1 - t/p) · wrong(s): labels that are often missing pull harder, by as much as they are missing.
    """

    matrix: Matrix  # csr float32 (rows, labels)
    positive: float = 1.0  # weight of what is right
    inverse_propensities: Floats | None = None  # (labels,) 1/p
    first: int = 0  # of the labels, where only a range of them is asked for
    last: int | None = None

    def __post_init__(self) -> None:
        data = self.matrix.data
        if len(data) and not (data.min() > 0 and data.max() <= 1):
            raise DataError(f"targets lie in (0, 1], these go from {data.min():g} to {data.max():g}")

    def batch(self, rows: Longs, device: torch.device) -> Entries:
        """The entries of these rows, which are numbered 0, 1, ... in the batch; labels are numbered from `first`."""
        indptr, indices, data = self.matrix.indptr, self.matrix.indices, self.matrix.data
        begins = indptr[rows].astype(np.int64)
        counts = indptr[np.asarray(rows) + 1].astype(np.int64) - begins
        places = np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        labels, values = indices[places].astype(np.int64), data[places]
        owners = np.repeat(np.arange(len(rows)), counts)
        last = self.matrix.shape[1] if self.last is None else self.last
        if self.first > 0 or last < self.matrix.shape[1]:
            inside = (labels >= self.first) & (labels < last)
            labels, values, owners = labels[inside] - self.first, values[inside], owners[inside]
        # One number holds label, row and place: sorting it needs no second array, and processors sort numbers fast.
        width = np.int64(max(len(rows), 1))
        keys = labels * width + owners
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        if len(keys) > 1 and (keys[1:] == keys[:-1]).any():  # said twice is not more true
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            keys, values = keys[starts], np.maximum.reduceat(values, starts)
        labels, owners = keys // width, keys % width
        shares = values
        if self.inverse_propensities is not None:
            shares = values * self.inverse_propensities[labels + self.first]
        pull, push = (self.positive * shares).astype(np.float32), (1 - shares).astype(np.float32)
        return Entries(
            _sent(owners, device), _sent(labels, device), _sent(pull, device), _sent(push, device), sorted=labels
        )


def _sent(array: AnyArray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
