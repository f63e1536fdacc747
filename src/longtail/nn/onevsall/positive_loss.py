"""The loss of a batch's positives: what a training over all labels logs."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from longtail.nn.onevsall.head import OneVsAllHead
from longtail.nn.training.thread_invariant import softplus


class Positives(Protocol):
    """Targets of a batch; those with label -1 are padding."""

    @property
    def rows(self) -> Tensor:
        """(entries,) row in the batch."""

    @property
    def labels(self) -> Tensor:
        """(entries,) label."""


def positive_loss(head: OneVsAllHead, vectors: Tensor, targets: Positives) -> Tensor:
    """Sum the loss of the targets, each counted as a positive of weight 1.

    Args:
        head: the classifiers.
        vectors: (rows, dimension) of the batch.
        targets: of the batch.

    Returns:
        (2,) the sum and the number of targets.
    """
    real = targets.labels >= 0
    labels = targets.labels.clamp(min=0)
    scores = torch.einsum("ed,ed->e", head.rows(labels), vectors[targets.rows].float())
    if head.bias is not None:
        scores = scores + head.bias[labels]
    found = softplus(-scores) if head.settings.loss == "bce" else (1 - scores).clamp(min=0) ** 2
    return torch.stack([torch.where(real, found, 0).sum(), real.sum().to(found.dtype)])
