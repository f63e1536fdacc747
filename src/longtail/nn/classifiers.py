"""The task of classifiers on frozen vectors: one weight vector a label, begun where the label's text stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize

from longtail.arrays import Floats
from longtail.nn.batches import PairBatch, Pairs, paired, random_order
from longtail.nn.siamese import Loss


class ClassifierRows(nn.Module):
    """Weights (labels, dimension)."""

    def __init__(self, begin: Floats) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(begin.copy()))


@dataclass(eq=False)
class Classifiers:
    """Rows are documents, whose vectors do not change; the pool of a batch is all labels that its rows have."""

    documents: Floats  # (documents, dimension), of length 1
    begin: Floats  # (labels, dimension), of length 1
    pairs: Pairs  # documents x labels
    loss: Loss
    batch: int
    rate: float
    device: torch.device
    dropout: float = 0.5  # on the documents' vectors
    seed: int = 0
    look: Callable[[Floats], dict[str, float]] | None = None  # measures on valid, of the weights
    name: str = "classifiers"

    def __post_init__(self) -> None:
        self.rows = len(self.pairs.rows)
        self.steps = math.ceil(self.rows / self.batch)
        self.table = ClassifierRows(self.begin).to(self.device)
        self._documents = torch.from_numpy(self.documents).to(self.device)

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"classifiers": self.table}

    def groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.table.weight], "lr": self.rate, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int) -> None: ...

    def batches(self, epoch: int, begin: int) -> Iterator[PairBatch]:
        chance = np.random.default_rng([self.seed, epoch])
        order = random_order(self.pairs.rows, chance)
        drawn = self.pairs.draw(order, chance)
        return paired(self.pairs, order, drawn, self.batch, self.device, begin, everyone=True)

    def backward(self, batch: PairBatch, share: float) -> Tensor:
        documents = self._documents.index_select(0, batch.row_tensor)
        rows = normalize(dropout(documents, self.dropout, self.table.training), dim=1)
        labels = normalize(self.table.weight.index_select(0, batch.pool_tensor), dim=1)
        loss = self.loss(rows @ labels.T, batch.positive(), batch.chosen, batch.weights)
        torch.autograd.backward(loss * share)
        return loss.detach()

    @property
    def vectors(self) -> Floats:
        """The classifiers as they are now, of length 1."""
        found: Floats = normalize(self.table.weight.detach(), dim=1).cpu().numpy()
        return found

    def measure(self) -> dict[str, float]:
        return {} if self.look is None else self.look(self.vectors)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None: ...
