"""What one-vs-all classifiers leave behind: the encoder, and a weight vector and a number for each label. Loads torch
only to read texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.nn.blend import Odds
from longtail.nn.towers import Reader, unit
from longtail.predictions import ranked
from longtail.seams import State

if TYPE_CHECKING:
    from longtail.nn.heads.head import Head
    from longtail.search.exact import Exact

PULL = 1.0  # how strongly, in known labels of length 1, a new label's row stays where its text is


@dataclass(frozen=True, eq=False)
class OneVsAllScorer:
    """The labels whose weights have the largest product with the row's vector, plus a number of their own. Scores are
    chances, learned on held-out rows, in the same order."""

    reader: Reader
    weights: Floats  # (labels, dimension)
    bias: Floats | None  # (labels,)
    odds: Odds
    rare: tuple[float, float] = (1.0, 0.0)  # length of the row of a label with few examples, and its number
    half: bool = False  # weights were trained in half precision, so a GPU may search in it
    kind: ClassVar[str] = "ova.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        k = min(k, len(self.weights))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.reader.lengthy(rows.texts), k)
        return ranked(found, _apart(self.odds.of(scores), scores))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each vector (rows, dimension), and their scores; none is missed."""
        if self._head is None:
            asked = vectors if self.bias is None else _beside(vectors, np.ones(len(vectors)))
            return self._exact.top(asked, k)
        import torch

        from longtail.nn.heads.top import top

        labels, scores = top(self._head, torch.from_numpy(vectors).to(self._head.weight.device), k)
        return labels.int().cpu().numpy(), scores.cpu().numpy()

    def row_norms(self) -> Floats:
        return _lengths(self.weights)

    @cached_property
    def _exact(self) -> Exact:
        from longtail.nn.precision import best_device
        from longtail.search.exact import Exact

        searched = self.weights if self.bias is None else _beside(self.weights, self.bias)
        return Exact(searched, device=str(best_device()))

    @cached_property
    def _head(self) -> Head | None:
        """The classifiers on a GPU, where weights of half precision stream fastest; None elsewhere."""
        from longtail.nn.precision import best_device

        device = best_device()
        if device.type != "cuda" or not self.half:
            return None
        import torch

        from longtail.nn.heads.head import Head, HeadSettings

        settings = HeadSettings(precision="bf16", bias=None if self.bias is None else 0.0)
        head = Head(len(self.weights), self.weights.shape[1], settings, device)
        head.begin_at(self.weights)
        if head.bias is not None and self.bias is not None:
            head.bias.copy_(torch.from_numpy(self.bias))
        return head

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> OneVsAllScorer:
        """The same model with more labels, told from their texts; `known` are the texts of those it has.

        From known labels it learns where a text's vector lies and where its classifier; a new label's row is its
        text's vector moved so, as long as the rows of labels with few examples, with a number as theirs.
        """
        old, new = (unit(self.reader.lengthy(some, "labels")) for some in (known, texts))
        moved = new @ _from_texts_to_rows(old, unit(self.weights))
        length, number = self.rare
        weights = np.concatenate([self.weights, np.float32(length) * unit(moved)])
        bias = None if self.bias is None else np.append(self.bias, np.full(len(new), number, dtype=np.float32))
        return replace(self, weights=weights, bias=bias)

    def state(self) -> State:
        settings = {
            "encoder": self.reader.settings,
            "longest": self.reader.longest,
            "odds": [self.odds.slope, self.odds.offset],
            "rare": list(self.rare),
            "half": self.half,
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        return State(settings, {**self.reader.tensors(), "weights": self.weights, **bias})

    @classmethod
    def restore(cls, state: State) -> OneVsAllScorer:
        settings, weights, bias = state.settings, state.tensors["weights"], state.tensors.get("bias")
        reader = Reader.restore(settings["encoder"], settings["longest"], None, state.tensors)
        if weights.ndim != 2 or weights.dtype != np.float32 or not np.isfinite(weights).all():
            raise ValueError("the weights are not one finite vector a label")
        if bias is not None and (bias.shape != weights.shape[:1] or not np.isfinite(bias).all()):
            raise ValueError("the biases are not one finite number a label")
        slope, offset = (float(value) for value in settings["odds"])
        length, number = (float(value) for value in settings["rare"])
        return cls(reader, weights, bias, Odds(slope, offset), (length, number), bool(settings["half"]))


def _apart(chances: Floats, scores: Floats) -> Floats:
    """Chances, best first, that differ where scores do: near 1 they would be rounded to the same number."""
    if (chances[:, 1:] < chances[:, :-1]).all():
        return chances
    chances = chances.copy()
    for place in range(1, chances.shape[1]):
        worse = scores[:, place] < scores[:, place - 1]
        below = np.nextafter(chances[:, place - 1], np.float32(0))
        chances[:, place] = np.where(worse, np.minimum(chances[:, place], below), chances[:, place - 1])
    return chances


def rare_of(weights: Floats, bias: Floats | None, counts: AnyArray, most: int = 5) -> tuple[float, float]:
    """The median length and number of labels with 1 to `most` rows; of all labels where there are none such."""
    some = (counts > 0) & (counts <= most)
    chosen = some if some.any() else np.ones(len(counts), dtype=bool)
    return float(np.median(_lengths(weights[chosen]))), 0.0 if bias is None else float(np.median(bias[chosen]))


def _from_texts_to_rows(texts: Floats, rows: Floats) -> Floats:
    """The matrix that takes texts nearest to rows, in squares, and stays near a multiple of the identity where the
    known labels say nothing."""
    near = max(float(np.einsum("ld,ld->l", texts, rows).mean()), 0.1)
    plain = near * np.eye(texts.shape[1])
    inner = (texts.T @ texts).astype(np.float64) + PULL * np.eye(texts.shape[1])
    found: Floats = np.linalg.solve(inner, (texts.T @ rows).astype(np.float64) + PULL * plain).astype(np.float32)
    return found


def _lengths(weights: Floats) -> Floats:
    found: Floats = np.sqrt(np.einsum("ld,ld->l", weights, weights))
    return found


def _beside(vectors: Floats, column: AnyArray) -> Floats:
    joined: Floats = np.concatenate([vectors, column[:, None].astype(np.float32)], axis=1)
    return joined
