"""The classifiers of a frugal net in training: all labels, or those of a pool, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from longtail.arrays import Floats, Longs
from longtail.nn.encode import bf16_pays
from longtail.nn.frugal.bodies import bag
from longtail.nn.frugal.rows import MovingRows, Places, Rule, has_kernels
from longtail.nn.frugal.runs import Run, Runs
from longtail.nn.heads.entries import Entries, Part

SLOPES = {"cpu": 8 << 20, "cuda": 256 << 20}  # bytes of the slopes of one chunk
MOST = 1 << 16  # labels of a chunk


@dataclass(frozen=True, eq=False)
class Step:
    """What the classifiers did in a step."""

    gradient: Tensor  # of the vectors: (rows, dimension), the sum over the labels
    loss: Tensor  # of what is right, the mean over the targets


class Labels(nn.Module):
    """A vector and a number of each label's own; `side` makes the classifier from the vector and from `texts`.

    Each chunk of labels is scored, its slopes are multiplied into the gradients of the vectors and of the classifiers,
    the classifiers move, and the chunk is forgotten: neither dense targets nor all scores ever exist.
    """

    def __init__(
        self, begin: Tensor, bias: float, rule: Rule, side: nn.Module | None = None, texts: Sequence[Runs] = (),
        kind: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.own = MovingRows(begin, rule)
        self.bias = MovingRows(torch.full((len(begin),), bias, device=begin.device), Rule(rule.rate))
        self.side, self.texts = side, tuple(texts)
        self.kind = kind  # of the numbers that are multiplied
        # What makes the classifiers is lowered where that is what a step would wait for.
        self.side_kind = kind if begin.device.type == "cpu" else torch.float32
        self._all: list[tuple[Run, Run | None]] = []

    def __len__(self) -> int:
        return len(self.own)

    def step(
        self, vectors: Tensor, entries: Entries, factor: float | Tensor, table: Tensor | None = None,
        place: Longs | None = None, pool: Longs | None = None, back: bool = True,
    ) -> Step:  # fmt: skip
        """Move the classifiers against the mean loss of a batch. `pool` are the labels that count, in order, which the
        entries number from 0; none: all. Texts are read by `table`, where a word stands at its `place`. If not `back`,
        the vectors are taken as they are and get no gradient."""
        self.own.begin_step()
        self.bias.begin_step()
        rows = len(vectors)
        ready = vectors.to(self.kind)
        shared = (vectors / rows).to(self.kind)  # the gradient is that of the mean over the rows
        total = torch.zeros(vectors.shape, device=vectors.device)
        loss, weight = torch.zeros((), device=vectors.device), torch.zeros((), device=vectors.device)
        read = self._bags(table, place, pool)
        bags = [each.detach().to(self.side_kind) for each in read]
        gradients = [torch.empty_like(each) for each in read]
        for begin, end in self._chunks(len(self) if pool is None else len(pool), rows):
            places = self._places(begin, end, pool)
            own = self.own.take(places)
            made, texts = own, [each[begin:end].requires_grad_() for each in bags]
            if self.side is not None:
                made = self.side(own.to(self.side_kind), texts)
            weights, part = made.detach().to(self.kind), entries.between(begin, end)
            found, right = slopes(weights, self.bias.weight[places], ready, part, begin)
            if back:
                total += product(found.T, weights)
            loss, weight = loss + right, weight + part.pull.sum()
            if self.side is None:
                gradient = product(found, shared)
            else:
                made.backward(torch.mm(found, shared) if made.dtype == found.dtype else product(found, shared))
                gradient = steep(own)
                for whole, each in zip(gradients, texts, strict=True):
                    whole[begin:end] = steep(each)
            self.own.move(places, gradient, factor)
            self.bias.move(places, summed(found) / rows, factor)
        if read:
            torch.autograd.backward(read, gradients)
        return Step(total, loss / weight.clamp_min(1e-9))

    def at_once(self, rows: int) -> bool:
        """Whether one chunk holds all labels."""
        return len(list(self._chunks(len(self), rows))) == 1

    def _chunks(self, labels: int, rows: int) -> Iterator[tuple[int, int]]:
        size = SLOPES.get(self.own.weight.device.type, 64 << 20) // (4 * max(rows, 1))
        size = min(max(size // 256 * 256, 256), MOST)
        return ((begin, min(begin + size, labels)) for begin in range(0, labels, size))

    def _places(self, begin: int, end: int, pool: Longs | None) -> Places:
        if pool is None:
            return slice(begin, end)
        return torch.from_numpy(pool[begin:end]).to(self.own.weight.device)

    def _bags(self, table: Tensor | None, place: Longs | None, pool: Longs | None) -> list[Tensor]:
        """Of the texts of these labels, once for all chunks: each (labels, dimension of the words)."""
        if table is None or not self.texts:
            return []
        if pool is not None:
            return [bag(texts.take(pool, table.device, place), table) for texts in self.texts]
        if not self._all:
            turn = table.device.type == "cpu"
            self._all = [
                (texts.whole(table.device), texts.turned(len(table)).whole(table.device) if turn else None)
                for texts in self.texts
            ]
        return [bag(run, table, turned) for run, turned in self._all]

    def words(self, pool: Longs) -> list[Longs]:
        """The words that these labels are read by, with repetitions."""
        return [texts.words[texts.places(pool)[0]] for texts in self.texts]

    @torch.no_grad()
    def folded(self, table: Tensor | None) -> tuple[Floats, Floats]:
        """The classifiers as they are now: weights (labels, dimension) and numbers (labels,)."""
        weights = np.empty(tuple(self.own.weight.shape), dtype=np.float32)
        bags = self._bags(table, None, None)
        for begin, end in self._chunks(len(self), 1024):
            made = self.own.weight[begin:end]
            if self.side is not None:
                made = self.side(made, [each[begin:end] for each in bags])
            weights[begin:end] = made.float().cpu().numpy()
        return weights, self.bias.weight.cpu().numpy().copy()

    def means(self) -> dict[str, Tensor]:
        return {f"{name}.{key}": value for name in ("own", "bias") for key, value in self._rows(name).means().items()}

    def load_means(self, state: Mapping[str, Tensor]) -> None:
        for name in ("own", "bias"):
            known = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            self._rows(name).load_means(known)

    def _rows(self, name: str) -> MovingRows:
        return self.own if name == "own" else self.bias


def slopes(weights: Tensor, bias: Tensor, vectors: Tensor, part: Part, begin: int) -> tuple[Tensor, Tensor]:
    """The derivative σ(s) - t of the loss by each score (labels in chunk, rows), in the precision of the vectors; and
    the summed loss of what is right, by its target."""
    scores = torch.mm(weights, vectors.T)
    where = (part.labels - begin, part.rows)
    few = scores[where].float() + bias[where[0]]
    if scores.is_cuda and has_kernels():
        from longtail.nn.kernels.sigmoid import chances_

        found = chances_(scores, bias)
    else:
        found = scores.add_(bias.to(weights.dtype)[:, None]).sigmoid_()
    found[where] = (few.sigmoid() - part.pull).to(found.dtype)
    return found, -(part.pull * logsigmoid(few)).sum()


def product(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product in float32, also of half-precision matrices."""
    if left.dtype == torch.bfloat16 and left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return torch.mm(left, right).float() if left.dtype == torch.bfloat16 else torch.mm(left, right)


def summed(found: Tensor) -> Tensor:
    """Of each label, in float32. A processor would copy bf16 to sum it in float32; it does so inside anyway."""
    return found.sum(dim=1).float() if found.device.type == "cpu" else found.sum(dim=1, dtype=torch.float32)


def steep(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad


def multiplied_in(precision: str, device: torch.device) -> torch.dtype:
    """bf16 where it is asked for; on auto, where the machine multiplies it faster."""
    lower = precision == "bf16" or (precision == "auto" and bf16_pays(device))
    return torch.bfloat16 if lower else torch.float32
