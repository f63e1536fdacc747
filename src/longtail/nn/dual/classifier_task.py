"""The task of classifiers on frozen vectors: one weight vector per label, initialised with the label's own vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize

from longtail.arrays import Floats, Longs
from longtail.nn.dual.balanced_clusters import balanced_clusters
from longtail.nn.dual.dual_task import Loss
from longtail.nn.dual.pair_batches import Curriculum, PairBatch, Pairs, clustered_order, paired, random_order
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.row_penalties import RATE, Penalty, RowsUnderAdam


class ClassifierRows(nn.Module):
    """Weights (labels, dimension)."""

    def __init__(self, init: Floats) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(init.copy()))


@dataclass(eq=False)
class ClassifierTask:
    """Rows are documents, whose vectors are frozen. The pool of a batch is all labels that its rows have, and the hard
    negatives of its rows where there are any."""

    documents: Floats  # (documents, dimension) unit vectors
    init: Floats  # (labels, dimension) unit vectors, the classifiers' initial weights
    pairs: Pairs  # documents x labels
    loss: Loss
    batch_size: int
    learning_rate: float
    device: torch.device
    dropout: float = 0.5  # on the documents' vectors
    seed: int = 0
    curriculum: Curriculum | None = None  # batches of similar documents; None: random ones
    negatives: Longs | None = None  # (documents, negatives of a document) labels, -1 for none
    epochs: int = 1  # of the curriculum
    penalties: Sequence[Penalty] = ()
    evaluate: Callable[[Floats], dict[str, float]] | None = None  # measures on valid, given the weights
    name: str = "classifiers"

    def __post_init__(self) -> None:
        self.rows = len(self.pairs.rows)
        self.steps = math.ceil(self.rows / self.batch_size)
        self.table = ClassifierRows(self.init).to(self.device)
        self._documents = torch.from_numpy(self.documents).to(self.device)
        self._clusters: Longs = np.zeros(0, dtype=np.int64)  # of each of pairs.rows; empty = random order
        self._factor, self._done = 1.0, 0  # of the schedule; steps so far

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        return {"classifiers": self.table}

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        return [{"params": [self.table.weight], "lr": self.learning_rate, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`: clusters the documents at each new size; their vectors stay the same."""
        if self.curriculum is None:
            return
        size = min(self.curriculum.size(epoch, self.epochs), self.batch_size)
        before = min(self.curriculum.size(epoch - 1, self.epochs), self.batch_size) if epoch else 1
        if size != before:
            vectors = self.documents[self.pairs.rows]
            self._clusters = balanced_clusters(vectors, size=size, seed=self.seed, device=str(self.device))

    def begin_step(self, factor: float) -> None:
        """See `StepHooks.begin_step`."""
        self._factor = factor
        self._done += 1

    def end_step(self) -> None:
        """See `StepHooks.end_step`: penalties take their steps before the optimiser takes its own."""
        rows = RowsUnderAdam(self.table.weight.data, self._done)
        for penalty in self.penalties:
            penalty.step(rows, RATE * self._factor)

    def checkpoint_dir(self, place: CheckpointDir) -> CheckpointDir:
        """See `StepHooks.checkpoint_dir`."""
        return place

    def batches(self, epoch: int, begin: int) -> Iterator[PairBatch]:
        """See `Task.batches`."""
        rng = np.random.default_rng([self.seed, epoch])
        rows = self.pairs.rows
        order = clustered_order(rows, self._clusters, rng) if len(self._clusters) else random_order(rows, rng)
        drawn = self.pairs.draw(order, rng)
        return paired(self.pairs, order, drawn, self.batch_size, self.device, begin, self.negatives, all_positives=True)

    def backward(self, batch: PairBatch, share: float) -> Tensor:
        """See `Task.backward`."""
        documents = self._documents.index_select(0, batch.row_tensor)
        rows = normalize(dropout(documents, self.dropout, self.table.training), dim=1)
        labels = normalize(self.table.weight.index_select(0, batch.pool_tensor), dim=1)
        loss = self.loss(rows @ labels.T, batch.positive(), batch.chosen, batch.weights)
        torch.autograd.backward(loss * share)
        return loss.detach()

    @property
    def vectors(self) -> Floats:
        """(labels, dimension): the classifiers as they are now, as unit vectors."""
        found: Floats = normalize(self.table.weight.detach(), dim=1).cpu().numpy()
        return found

    def validate(self) -> dict[str, float]:
        """See `Task.validate`."""
        return {} if self.evaluate is None else self.evaluate(self.vectors)

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`: the clusters and the number of steps beside the weights."""
        return {"clusters": torch.from_numpy(self._clusters), "done": torch.tensor(self._done)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        self._clusters = state["clusters"].numpy()
        self._done = int(state["done"])
