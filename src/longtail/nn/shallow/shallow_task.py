"""The training task of a shallow net: word vectors, a small encoder, classifiers over all labels or a pool, and
meta-labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from longtail.arrays import Doubles, Longs
from longtail.nn.dual.pair_batches import random_order
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.onevsall.batch_targets import BatchTargets, TrainingTargets
from longtail.nn.shallow.cuda_graph_step import RecordedStep
from longtail.nn.shallow.fixed_size_batches import StepInputs
from longtail.nn.shallow.label_head import LabelHead
from longtail.nn.shallow.label_pool import Pool, renumbered
from longtail.nn.shallow.sparse_adam import AdamRows, Rule
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.precision import decay_groups
from longtail.nn.training.row_penalties import RATE, Penalty, RowsUnderAdam


@dataclass(eq=False)
class Meta:
    """Meta-labels: a second set of classifiers, over clusters of labels, on the same vectors."""

    labels: LabelHead
    targets: TrainingTargets
    alone: int = 0  # epochs in which the encoder learns from these alone


@dataclass(eq=False)
class ShallowTask:
    """Trains all parts together. The loop's AdamW trains the encoder's layers. Word vectors and classifiers are updated
    here, and only the rows that a step used, which makes a step cheap."""

    encoder: Encoder
    texts: Runs
    labels: LabelHead
    targets: TrainingTargets
    batch_size: int
    learning_rate: float
    device: torch.device
    meta: Meta | None = None
    pool: Pool | None = None  # None: every row is compared with all labels
    frozen: bool = False  # word vectors are not trained
    mixup_alpha: float = 0.0  # of the Beta distribution that weights of mixed vectors are drawn from; 0: none are mixed
    penalties: Sequence[Penalty] = ()  # on the labels' classifiers
    evaluate: Callable[[], dict[str, float]] | None = None  # validation measures
    seed: int = 0
    name: str = "net"

    def __post_init__(self) -> None:
        self.rows = len(self.texts)
        self.steps = math.ceil(self.rows / self.batch_size)
        self.words = AdamRows(self.encoder.body.table, Rule(self.learning_rate))  # type: ignore[arg-type]
        self._unused = nn.Parameter(torch.zeros(1, device=self.device))  # AdamW refuses an empty list of parameters
        self._factor, self._epoch = 1.0, 0
        self._row_of_word = np.zeros(len(self.words), dtype=np.int64)
        # Where each step reads the texts of all labels, it uses most words: then the whole table is updated.
        self._whole = bool(self.labels.texts) and self.pool is None
        self._recorded = RecordedStep(self) if RecordedStep.fits(self) else None

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        meta = {} if self.meta is None else {"meta": self.meta.labels}
        return {"encoder": self.encoder, "labels": self.labels, **meta}

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        layers = [decay_groups(module, self.learning_rate, 0.0) for module in self.modules.values()]
        unused = [{"params": [self._unused], "lr": self.learning_rate}]
        return [group for groups in layers for group in groups] or unused

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`."""

    def batches(self, epoch: int, begin: int) -> Iterator[Longs]:
        """See `Task.batches`."""
        self._epoch = epoch
        order = random_order(np.arange(self.rows), np.random.default_rng([self.seed, epoch]))
        return (
            order[first : first + self.batch_size]
            for first in range(begin * self.batch_size, self.rows, self.batch_size)
        )

    def begin_step(self, factor: float) -> None:
        """See `StepHooks.begin_step`."""
        self._factor = factor

    def end_step(self) -> None:
        """See `StepHooks.end_step`: penalties on the classifiers take their steps."""
        for penalty in self.penalties:
            rows = RowsUnderAdam(self.labels.own.weight, self.labels.own.done)
            penalty.step(rows, RATE * self._factor)

    def checkpoint_dir(self, place: CheckpointDir) -> CheckpointDir:
        """See `StepHooks.checkpoint_dir`."""
        return place

    @property
    def alone(self) -> bool:
        """Whether the encoder learns from clusters alone in this epoch."""
        return self.meta is not None and self._epoch < self.meta.alone

    def backward(self, batch: Longs, share: float) -> Tensor:
        """See `Task.backward`. Also updates word vectors and classifiers; the loop updates the encoder's layers."""
        if self._recorded is None:
            return self._backward(batch, share)
        if len(batch) == self.batch_size and share == 1 and self._recorded.batches.holds(batch):
            return self._recorded.step(batch, self._factor)
        return self._recorded.on_recording_stream(partial(self._backward, batch, share))

    def _backward(self, batch: Longs, share: float) -> Tensor:
        mixture = self._mixture(batch)
        pool, targets = None, self._targets(self.targets, batch, mixture)
        if self.pool is not None:
            encode = self._vectors_now if self.pool.needs_vectors else None
            pool = self.pool.choose(batch, encode, np.unique(targets.sorted))
            targets = renumbered(targets, pool)
        touched, row_of_word = self._touched(batch, pool)
        meta = None if self.meta is None else self._targets(self.meta.targets, batch, mixture)
        inputs = StepInputs(self.texts.take(batch, self.device, row_of_word), touched, targets, meta)
        return self.learn(inputs, share, self._factor, row_of_word, pool, mixture)

    def _mixture(self, batch: Longs) -> Doubles | None:
        """(rows,) the share that each row keeps; the next row fills the rest. None: rows are not mixed."""
        if self.mixup_alpha == 0 or len(batch) < 2:
            return None
        # Drawn from the batch itself, so that a training that was stopped goes on with the same mixtures.
        rng = np.random.default_rng([self.seed, self._epoch, int(batch[0])])
        return rng.beta(self.mixup_alpha, self.mixup_alpha, len(batch))

    def _targets(self, targets: TrainingTargets, batch: Longs, mixture: Doubles | None) -> BatchTargets:
        if mixture is None:
            return targets.batch(batch, self.device)
        own, share = sparse.csr_array(targets.matrix[batch]), mixture[:, None]
        after = np.roll(np.arange(len(batch)), -1)
        mixed = sparse.csr_array(own.multiply(share) + own[after].multiply(1 - share), dtype=np.float32)
        mixed.eliminate_zeros()  # very small shares underflow
        return replace(targets, matrix=mixed).batch(np.arange(len(batch)), self.device)

    def learn(
        self,
        inputs: StepInputs,
        share: float,
        factor: float | Tensor,
        row_of_word: Longs | None = None,
        pool: Longs | None = None,
        mixture: Doubles | None = None,
    ) -> Tensor:
        """Train on one batch.

        Args:
            inputs: texts and targets of the batch.
            share: of the batch in an optimiser step of the loop.
            factor: on the learning rate.
            row_of_word: (all words,) place of each word among `inputs.touched`, for the label texts of a pool.
            pool: labels that the batch is compared with; None: all.
            mixture: (rows,) how much each row's vector keeps of itself; the targets are mixed already. None: all.

        Returns:
            The mean loss of the positives.
        """
        table = self.words.take(inputs.touched)
        vectors = self.encoder.body.read(inputs.run, table)  # type: ignore[operator]
        if mixture is not None:
            parts = torch.from_numpy(mixture).to(vectors)[:, None]
            vectors = parts * vectors + (1 - parts) * vectors.roll(-1, 0)
        fixed = vectors.detach()
        whole = self.words.take(slice(None)) if self._whole else None
        label_table, label_rows = (table, row_of_word) if whole is None else (whole, None)
        done = self.labels.step(
            fixed, inputs.targets, factor, label_table, label_rows, pool, with_gradient=not self.alone
        )
        gradient, loss = done.gradient, done.loss
        if self.meta is not None and inputs.meta is not None:
            found = self.meta.labels.step(fixed, inputs.meta, factor)
            gradient, loss = gradient + found.gradient, loss + found.loss
        vectors.backward(gradient * (share / len(vectors)))
        if table.grad is not None and not self.frozen:
            self.words.begin_step()
            if whole is not None and whole.grad is not None:
                self.words.update(slice(None), whole.grad.index_add_(0, inputs.touched, table.grad), factor)
            else:
                self.words.update(inputs.touched, table.grad, factor, inputs.duplicate_of)
        return loss

    def tables(self) -> list[AdamRows]:
        """List the tables that the task updates itself.

        Returns:
            Word vectors, then free vectors and biases of each head.
        """
        heads = [self.labels, *([] if self.meta is None else [self.meta.labels])]
        return [self.words, *(table for head in heads for table in (head.own, head.bias))]

    def _touched(self, batch: Longs, pool: Longs | None) -> tuple[Tensor, Longs]:
        """The words that this step uses, and the place of each among them; words of label texts only with a pool."""
        used = np.zeros(len(self.words), dtype=bool)
        used[self.texts.words[self.texts.places(batch)[0]]] = True
        for words in self.labels.words(pool) if pool is not None else ():
            used[words] = True
        touched = np.flatnonzero(used)
        self._row_of_word[touched] = np.arange(len(touched))
        return torch.from_numpy(touched).to(self.device), self._row_of_word

    @torch.no_grad()
    def _vectors_now(self, batch: Longs) -> Tensor:
        """The rows' vectors as at prediction, without dropout."""
        training = self.encoder.training
        self.encoder.eval()
        found: Tensor = self.encoder.body.read(self.texts.take(batch, self.device), self.words.weight)  # type: ignore[operator]
        self.encoder.train(training)
        return found

    def validate(self) -> dict[str, float]:
        """See `Task.validate`."""
        return {} if self.evaluate is None else self.evaluate()

    def _with_moments(self) -> dict[str, AdamRows | LabelHead]:
        meta = {} if self.meta is None else {"meta": self.meta.labels}
        return {"words": self.words, "labels": self.labels, **meta}

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`."""
        parts = self._with_moments().items()
        return {f"{name}/{key}": value for name, part in parts for key, value in part.moments().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        for name, part in self._with_moments().items():
            known = {key.split("/", 1)[1]: value for key, value in state.items() if key.startswith(f"{name}/")}
            part.load_moments(known)
