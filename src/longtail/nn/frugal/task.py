"""The task of a frugal net: word vectors, a small encoder, classifiers over all labels or a pool, and meta-labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Longs
from longtail.nn.batches import random_order
from longtail.nn.checkpoint import Place
from longtail.nn.encoders import Encoder
from longtail.nn.frugal.captured import Captured, Given
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
        self._captured = Captured(self) if Captured.fits(self) else None

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

    @property
    def alone(self) -> bool:
        """Whether the encoder learns from clusters alone in this epoch."""
        return self.meta is not None and self._epoch < self.meta.alone

    def backward(self, batch: Longs, share: float) -> Tensor:
        """Word vectors and classifiers have moved when this returns; the layers' gradients wait for the loop."""
        if self._captured is None:
            return self._backward(batch, share)
        if len(batch) == self.batch and share == 1 and self._captured.data.holds(batch):
            return self._captured.step(batch, self._factor)
        return self._captured.beside(partial(self._backward, batch, share))

    def _backward(self, batch: Longs, share: float) -> Tensor:
        pool, entries = None, self.targets.batch(batch, self.device)
        if self.pool is not None:
            pool = self.pool.of(batch, self._vectors_now if self.pool.asks else None, np.unique(entries.sorted))
            entries = renumbered(entries, pool)
        touched, place = self._touched(batch, pool)
        known = None if self.meta is None else self.meta.targets.batch(batch, self.device)
        given = Given(self.texts.take(batch, self.device, place), touched, entries, known)
        return self.learn(given, share, self._factor, place, pool)

    def learn(
        self, given: Given, share: float, factor: float | Tensor, place: Longs | None = None, pool: Longs | None = None
    ) -> Tensor:
        """One step. `place` says where the words stand that labels of the pool are read by."""
        table = self.words.take(given.touched)
        vectors = self.encoder.body.read(given.run, table)  # type: ignore[operator]
        fixed = vectors.detach()
        whole = self.words.take(slice(None)) if self._whole else None
        by, at = (table, place) if whole is None else (whole, None)
        done = self.labels.step(fixed, given.entries, factor, by, at, pool, back=not self.alone)
        gradient, loss = done.gradient, done.loss
        if self.meta is not None and given.meta is not None:
            found = self.meta.labels.step(fixed, given.meta, factor)
            gradient, loss = gradient + found.gradient, loss + found.loss
        vectors.backward(gradient * (share / len(vectors)))
        if table.grad is not None and not self.frozen:
            self.words.begin_step()
            if whole is not None and whole.grad is not None:
                self.words.move(slice(None), whole.grad.index_add_(0, given.touched, table.grad), factor)
            else:
                self.words.move(given.touched, table.grad, factor, given.same)
        return loss

    def tables(self) -> list[MovingRows]:
        """All that moves by itself."""
        heads = [self.labels, *([] if self.meta is None else [self.meta.labels])]
        return [self.words, *(table for head in heads for table in (head.own, head.bias))]

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
