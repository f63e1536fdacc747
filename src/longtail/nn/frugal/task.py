"""The task of a frugal net: word vectors, a small encoder, classifiers over all labels or a pool, and meta-labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Longs
from longtail.nn.batches import random_order
from longtail.nn.checkpoint import Place
from longtail.nn.encoders import Encoder
from longtail.nn.frugal.labels import Labels
from longtail.nn.frugal.rows import MovingRows, Rule
from longtail.nn.frugal.runs import Runs
from longtail.nn.frugal.shortlist import Pool, renumbered
from longtail.nn.heads.entries import Targets
from longtail.nn.precision import decay_groups


@dataclass(eq=False)
class Meta:
    """A second set of classifiers over clusters of labels, on the same vectors."""

    labels: Labels
    targets: Targets
    alone: int = 0  # epochs in which the encoder learns from these alone


@dataclass(eq=False)
class FrugalTask:
    """All of it is trained at once. The encoder's layers learn by the loop's AdamW; word vectors and classifiers move
    by themselves where they were used, which is what makes a step cheap."""

    encoder: Encoder
    texts: Runs
    labels: Labels
    targets: Targets
    batch: int
    rate: float
    device: torch.device
    meta: Meta | None = None
    pool: Pool | None = None  # none: every row is compared with all labels
    frozen: bool = False  # word vectors stay as they are
    look: Callable[[], dict[str, float]] | None = None  # measures on valid
    seed: int = 0
    name: str = "net"

    def __post_init__(self) -> None:
        self.rows = len(self.texts)
        self.steps = math.ceil(self.rows / self.batch)
        self.words = MovingRows(self.encoder.body.table, Rule(self.rate))  # type: ignore[arg-type]
        self._still = nn.Parameter(torch.zeros(1, device=self.device))  # AdamW wants something to move
        self._factor, self._epoch = 1.0, 0
        self._place = np.zeros(len(self.words), dtype=np.int64)
        # Where all labels are read in each step, most words are: then the table is moved as a whole.
        self._whole = bool(self.labels.texts) and self.pool is None

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        meta = {} if self.meta is None else {"meta": self.meta.labels}
        return {"encoder": self.encoder, "labels": self.labels, **meta}

    def groups(self) -> list[dict[str, Any]]:
        layers = [decay_groups(module, self.rate, 0.0) for module in self.modules.values()]
        return [group for groups in layers for group in groups] or [{"params": [self._still], "lr": self.rate}]

    def begin_epoch(self, epoch: int) -> None: ...

    def batches(self, epoch: int, begin: int) -> Iterator[Longs]:
        self._epoch = epoch
        order = random_order(np.arange(self.rows), np.random.default_rng([self.seed, epoch]))
        return (order[first : first + self.batch] for first in range(begin * self.batch, self.rows, self.batch))

    def begin_step(self, factor: float) -> None:
        self._factor = factor

    def end_step(self) -> None: ...

    def place(self, place: Place) -> Place:
        return place

    def backward(self, batch: Longs, share: float) -> Tensor:
        """Word vectors and classifiers have moved when this returns; the layers' gradients wait for the loop."""
        pool, entries = None, self.targets.batch(batch, self.device)
        if self.pool is not None:
            pool = self.pool.of(batch, self._vectors_now if self.pool.asks else None, np.unique(entries.sorted))
            entries = renumbered(entries, pool)
        touched, place = self._touched(batch, pool)
        table = self.words.take(touched)
        vectors = self.encoder.body.read(self.texts.take(batch, self.device, place), table)  # type: ignore[operator]
        fixed = vectors.detach()
        whole = self.words.take(slice(None)) if self._whole else None
        by, at = (table, place) if whole is None else (whole, None)
        alone = self.meta is not None and self._epoch < self.meta.alone
        done = self.labels.step(fixed, entries, self._factor, by, at, pool, back=not alone)
        gradient, loss = done.gradient, done.loss
        if self.meta is not None:
            known = self.meta.targets.batch(batch, self.device)
            found = self.meta.labels.step(fixed, known, self._factor)
            gradient, loss = gradient + found.gradient, loss + found.loss
        vectors.backward(gradient * (share / len(batch)))
        if table.grad is not None and not self.frozen:
            self.words.begin_step()
            if whole is not None and whole.grad is not None:
                self.words.move(slice(None), whole.grad.index_add_(0, touched, table.grad), self._factor)
            else:
                self.words.move(touched, table.grad, self._factor)
        return loss

    def _touched(self, batch: Longs, pool: Longs | None) -> tuple[Tensor, Longs]:
        """The words that this step reads, and where each stands among them; those of labels only where there is a
        pool of them."""
        used = np.zeros(len(self.words), dtype=bool)
        used[self.texts.words[self.texts.places(batch)[0]]] = True
        for words in self.labels.words(pool) if pool is not None else ():
            used[words] = True
        touched = np.flatnonzero(used)
        self._place[touched] = np.arange(len(touched))
        return torch.from_numpy(touched).to(self.device), self._place

    @torch.no_grad()
    def _vectors_now(self, batch: Longs) -> Tensor:
        """What the encoder says of these rows, as at prediction."""
        learning = self.encoder.training
        self.encoder.eval()
        found: Tensor = self.encoder.body.read(self.texts.take(batch, self.device), self.words.weight)  # type: ignore[operator]
        self.encoder.train(learning)
        return found

    def measure(self) -> dict[str, float]:
        return {} if self.look is None else self.look()

    def _moving(self) -> dict[str, MovingRows | Labels]:
        meta = {} if self.meta is None else {"meta": self.meta.labels}
        return {"words": self.words, "labels": self.labels, **meta}

    def state(self) -> dict[str, Tensor]:
        return {f"{name}/{key}": value for name, part in self._moving().items() for key, value in part.means().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, part in self._moving().items():
            part.load_means({key.split("/", 1)[1]: value for key, value in state.items() if key.startswith(f"{name}/")})
