"""The classifiers of a shallow net in training: all labels, or those of a pool, chunk by chunk.

Classifiers made of label texts stream by in chunks, too: a chunk is made, scored, back-propagated and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from longtail.arrays import Floats, Longs
from longtail.nn.encoders.encode import bf16_pays
from longtail.nn.encoders.word_runs import Run, Runs
from longtail.nn.encoders.word_vector_encoders import bag
from longtail.nn.extra import has_kernels
from longtail.nn.onevsall.batch_targets import BatchTargets, ChunkTargets
from longtail.nn.shallow.sparse_adam import AdamRows, Places, Rule
from longtail.nn.training.thread_invariant import row_products, sigmoid, sigmoid_

CHUNK_BYTES = {"cpu": 8 << 20, "cuda": 256 << 20}  # of the score gradients of one chunk
MAX_CHUNK = 1 << 16  # labels


@dataclass(frozen=True, eq=False)
class StepResult:
    """The result of a step of the classifiers."""

    gradient: Tensor  # of the vectors: (rows, dimension), the sum over the labels
    loss: Tensor  # of the positives, the mean over the targets


class LabelHead(nn.Module):
    """A free vector and a bias per label; `side`, if any, makes the classifier from the vector and the label's texts.

    A step computes the scores of a chunk of labels, multiplies their gradient into those of the vectors and of the
    classifiers, and updates the classifiers before the next chunk: dense targets and all scores never exist.
    """

    def __init__(
        self, init: Tensor, bias: float, rule: Rule, side: nn.Module | None = None, texts: Sequence[Runs] = (),
        kind: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        """Build the classifiers.

        Args:
            init: (labels, dimension) initial free vectors; updated in place.
            bias: initial bias of every label.
            rule: settings of Adam.
            side: module that makes classifiers from free vectors and bags of the texts; None: the free vectors.
            texts: words of the labels, one `Runs` for each input of `side`.
            kind: precision of the large products.
        """
        super().__init__()
        self.own = AdamRows(init, rule)
        self.bias = AdamRows(torch.full((len(init),), bias, device=init.device), Rule(rule.learning_rate))
        self.side, self.texts = side, tuple(texts)
        self.kind = kind
        # On a CPU the side module takes most of a step, so it runs in lower precision too.
        self.side_kind = kind if init.device.type == "cpu" else torch.float32
        self._all: list[tuple[Run, Run | None]] = []

    def __len__(self) -> int:
        return len(self.own)

    def step(
        self, vectors: Tensor, targets: BatchTargets, factor: float | Tensor, table: Tensor | None = None,
        row_of_word: Longs | None = None, pool: Longs | None = None, with_gradient: bool = True,
    ) -> StepResult:  # fmt: skip
        """Update the classifiers by one step of Adam on the mean loss of a batch.

        Args:
            vectors: (rows, dimension) of the batch.
            targets: of the batch; labels are numbered by their place in the pool, where there is one.
            factor: on the learning rate.
            table: (words, width) word vectors for the label texts; collects their gradient.
            row_of_word: (all words,) row of each word in `table`; None: its number.
            pool: labels that the batch is compared with, in rising order; None: all.
            with_gradient: whether to compute the gradient of the vectors.

        Returns:
            The gradient of the vectors, zero without `with_gradient`, and the loss.
        """
        self.own.begin_step()
        self.bias.begin_step()
        rows = len(vectors)
        cast = vectors.to(self.kind)
        scaled = (vectors / rows).to(self.kind)  # the gradient is that of the mean over the rows
        total = torch.zeros(vectors.shape, device=vectors.device)
        loss, weight = torch.zeros((), device=vectors.device), torch.zeros((), device=vectors.device)
        read = self._bags(table, row_of_word, pool)
        bags = [each.detach().to(self.side_kind) for each in read]
        bag_gradients = [torch.empty_like(each) for each in read]
        for start, end in self._chunks(len(self) if pool is None else len(pool), rows):
            places = self._places(start, end, pool)
            own = self.own.take(places)
            made, texts = own, [each[start:end].requires_grad_() for each in bags]
            if self.side is not None:
                made = self.side(own.to(self.side_kind), texts)
            weights, part = made.detach().to(self.kind), targets.between(start, end)
            found, positive_loss = score_gradients(weights, self.bias.weight[places], cast, part, start)
            if with_gradient:
                total += product(found.T, weights)
            loss, weight = loss + positive_loss, weight + part.positive_weight.sum()
            if self.side is None:
                gradient = product(found, scaled)
            else:
                made.backward(torch.mm(found, scaled) if made.dtype == found.dtype else product(found, scaled))
                gradient = gradient_of(own)
                for whole, each in zip(bag_gradients, texts, strict=True):
                    whole[start:end] = gradient_of(each)
            self.own.update(places, gradient, factor)
            self.bias.update(places, label_sums(found) / rows, factor)
        if read:
            torch.autograd.backward(read, bag_gradients)
        return StepResult(total, loss / weight.clamp_min(1e-9))

    def at_once(self, rows: int) -> bool:
        """Check whether one chunk holds all labels.

        Args:
            rows: of a batch.

        Returns:
            Whether a step has a single chunk.
        """
        return len(list(self._chunks(len(self), rows))) == 1

    def _chunks(self, labels: int, rows: int) -> Iterator[tuple[int, int]]:
        size = CHUNK_BYTES.get(self.own.weight.device.type, 64 << 20) // (4 * max(rows, 1))
        size = min(max(size // 256 * 256, 256), MAX_CHUNK)
        return ((start, min(start + size, labels)) for start in range(0, labels, size))

    def _places(self, start: int, end: int, pool: Longs | None) -> Places:
        if pool is None:
            return slice(start, end)
        return torch.from_numpy(pool[start:end]).to(self.own.weight.device)

    def _bags(self, table: Tensor | None, row_of_word: Longs | None, pool: Longs | None) -> list[Tensor]:
        """Bags of the label texts, computed once for all chunks: each (labels, width of the words)."""
        if table is None or not self.texts:
            return []
        if pool is not None:
            return [bag(texts.take(pool, table.device, row_of_word), table) for texts in self.texts]
        if not self._all:
            transpose = table.device.type == "cpu"
            self._all = [
                (texts.whole(table.device), texts.transposed(len(table)).whole(table.device) if transpose else None)
                for texts in self.texts
            ]
        return [bag(run, table, transposed) for run, transposed in self._all]

    def words(self, pool: Longs) -> list[Longs]:
        """Collect the words of label texts.

        Args:
            pool: labels.

        Returns:
            For each `Runs` the words of these labels, with duplicates.
        """
        return [texts.words[texts.places(pool)[0]] for texts in self.texts]

    @torch.no_grad()
    def folded(self, table: Tensor | None) -> tuple[Floats, Floats]:
        """Compute the classifiers as plain weights, without a side module.

        Args:
            table: (words, width) word vectors for the label texts.

        Returns:
            Weights (labels, dimension) and biases (labels,), float32.
        """
        weights = np.empty(tuple(self.own.weight.shape), dtype=np.float32)
        bags = self._bags(table, None, None)
        for start, end in self._chunks(len(self), 1024):
            made = self.own.weight[start:end]
            if self.side is not None:
                made = self.side(made, [each[start:end] for each in bags])
            weights[start:end] = made.float().cpu().numpy()
        return weights, self.bias.weight.cpu().numpy().copy()

    def moments(self) -> dict[str, Tensor]:
        """See `AdamRows.moments`."""
        tables = {"own": self.own, "bias": self.bias}
        return {f"{name}.{key}": value for name, table in tables.items() for key, value in table.moments().items()}

    def load_moments(self, state: Mapping[str, Tensor]) -> None:
        """See `AdamRows.load_moments`."""
        for name, table in (("own", self.own), ("bias", self.bias)):
            known = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            table.load_moments(known)


def score_gradients(
    weights: Tensor, bias: Tensor, vectors: Tensor, part: ChunkTargets, start: int
) -> tuple[Tensor, Tensor]:
    """Compute the derivative σ(s) - t of the loss by each score of a chunk.

    Args:
        weights: (labels in chunk, dimension).
        bias: (labels in chunk,).
        vectors: (rows, dimension), in the precision of the weights.
        part: targets of the chunk.
        start: first label of the chunk.

    Returns:
        The derivative (labels in chunk, rows), in the precision of the vectors; and the summed loss of the positives,
        each times its target.
    """
    scores = row_products(weights, vectors)
    where = (part.labels - start, part.rows)
    listed = scores[where].float() + bias[where[0]]
    if scores.is_cuda and has_kernels():
        from longtail.nn.kernels.sigmoid import sigmoid_ as fused_sigmoid_

        found = fused_sigmoid_(scores, bias)
    else:
        found = sigmoid_(scores.add_(bias.to(weights.dtype)[:, None]))
    found[where] = (sigmoid(listed) - part.positive_weight).to(found.dtype)
    return found, -(part.positive_weight * logsigmoid(listed)).sum()


def product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices with a float32 result, also in half precision.

    Args:
        left: (rows, inner).
        right: (inner, columns).

    Returns:
        (rows, columns) float32.
    """
    if left.dtype == torch.bfloat16 and left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return torch.mm(left, right).float() if left.dtype == torch.bfloat16 else torch.mm(left, right)


def label_sums(found: Tensor) -> Tensor:
    """Sum the score gradients of each label.

    Args:
        found: (labels, rows).

    Returns:
        (labels,) float32.
    """
    # A CPU would first copy bf16 to float32 if asked for a float32 sum; it accumulates in float32 anyway.
    return found.sum(dim=1).float() if found.device.type == "cpu" else found.sum(dim=1, dtype=torch.float32)


def gradient_of(leaf: Tensor) -> Tensor:
    """Read the gradient of a leaf tensor.

    Args:
        leaf: after `backward`.

    Returns:
        Its gradient.
    """
    assert leaf.grad is not None
    return leaf.grad


def product_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Choose the precision of large products.

    Args:
        precision: `auto`, `fp32` or `bf16`; auto is bf16 where the device multiplies it faster.
        device: of the products.

    Returns:
        bfloat16 or float32.
    """
    lower = precision == "bf16" or (precision == "auto" and bf16_pays(device))
    return torch.bfloat16 if lower else torch.float32
