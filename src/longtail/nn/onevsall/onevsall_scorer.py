"""The model of one-vs-all classifiers: an encoder, and a weight vector and a bias per label. Loads torch only to encode
texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder, normalised
from longtail.predictions import ranked
from longtail.seams import Array, Declaration, Flag, Number, Several, State

if TYPE_CHECKING:
    from longtail.nn.onevsall.head import OneVsAllHead
    from longtail.search.exact import Exact

RIDGE = 1.0  # regularisation of the map from texts to classifiers, in known labels of unit norm


@dataclass(frozen=True, eq=False)
class OneVsAllScorer:
    """Ranks labels by the inner product of their weights with the row's vector, plus their bias. Scores are
    probabilities, calibrated on held-out data, in the same order."""

    encoder: TextEncoder
    weights: Floats  # (labels, dimension)
    bias: Floats | None  # (labels,)
    calibration: PlattScaling
    rare: tuple[float, float] = (1.0, 0.0)  # median norm and bias of labels with few examples, for new labels
    half: bool = False  # weights were trained in half precision, so a GPU may search in it
    kind: ClassVar[str] = "onevsall.v2"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        {"bias": Array("float32", "labels", optional=True)},
        {"rare": Several((Number(), Number())), "half": Flag()},
        then=(lambda given: Declaration({"weights": Array("float32", f"labels, {dimension_of(given)}")}),),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; give documents with texts, not only features")
        k = min(k, len(self.weights))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.encoder.unnormalised(rows.texts), k)
        return ranked(found, separated(self.calibration.of(scores), scores))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors by exact search.

        Args:
            vectors: (rows, dimension) float32, unnormalised.
            k: number of labels for each row.

        Returns:
            Labels (int32) and scores before calibration (float32), each (rows, k), best first.
        """
        if self._head is None:
            queries = vectors if self.bias is None else _with_column(vectors, np.ones(len(vectors)))
            return self._exact.top(queries, k)
        import torch

        from longtail.nn.onevsall.head_top import top

        labels, scores = top(self._head, torch.from_numpy(vectors).to(self._head.weight.device), k)
        return labels.int().cpu().numpy(), scores.cpu().numpy()

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        return _norms(self.weights)

    @cached_property
    def _exact(self) -> Exact:
        from longtail.nn.training.precision import best_device
        from longtail.search.exact import Exact

        searched = self.weights if self.bias is None else _with_column(self.weights, self.bias)
        return Exact(searched, device=str(best_device()))

    @cached_property
    def _head(self) -> OneVsAllHead | None:
        """The classifiers on a GPU, where half-precision weights are read fastest; None elsewhere."""
        from longtail.nn.training.precision import best_device

        device = best_device()
        if device.type != "cuda" or not self.half:
            return None
        import torch

        from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead

        settings = HeadSettings(precision="bf16", bias=None if self.bias is None else 0.0)
        head = OneVsAllHead(len(self.weights), self.weights.shape[1], settings, device)
        head.set_weights(self.weights)
        if head.bias is not None and self.bias is not None:
            head.bias.copy_(torch.from_numpy(self.bias))
        return head

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> OneVsAllScorer:
        """Add labels by their texts.

        A linear map from text vectors to classifiers is fitted on the known labels. A new label's classifier is the map
        of its text, with the norm and the bias that rare labels have.

        Args:
            texts: of the new labels.
            known: texts of the labels that the model has.

        Returns:
            The model with the new labels behind the old ones.
        """
        old, new = (normalised(self.encoder.unnormalised(words, "labels")) for words in (known, texts))
        mapped = new @ _map_to_classifiers(old, normalised(self.weights))
        norm, offset = self.rare
        weights = np.concatenate([self.weights, np.float32(norm) * normalised(mapped)])
        bias = None if self.bias is None else np.append(self.bias, np.full(len(new), offset, dtype=np.float32))
        return replace(self, weights=weights, bias=bias)

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "rare": list(self.rare),
            "half": self.half,
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        return State(settings, {**self.encoder.tensors(), "weights": self.weights, **bias})

    @classmethod
    def restore(cls, state: State) -> OneVsAllScorer:
        """See `Scorer.restore`."""
        settings, weights, bias = state.settings, state.tensors["weights"], state.tensors.get("bias")
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, state.tensors)
        calibration = PlattScaling(*(float(value) for value in settings["calibration"]))
        norm, offset = (float(value) for value in settings["rare"])
        return cls(encoder, weights, bias, calibration, (norm, offset), bool(settings["half"]))


def separated(probabilities: Floats, scores: Floats) -> Floats:
    """Make probabilities differ where scores do: near 1 they may round to the same number.

    Args:
        probabilities: (rows, places), best first.
        scores: (rows, places) that they were made of.

    Returns:
        (rows, places) probabilities in the order of the scores.
    """
    if (probabilities[:, 1:] < probabilities[:, :-1]).all():
        return probabilities
    probabilities = probabilities.copy()
    for place in range(1, probabilities.shape[1]):
        worse = scores[:, place] < scores[:, place - 1]
        before = probabilities[:, place - 1]
        below = np.nextafter(before, np.float32(0))
        probabilities[:, place] = np.where(worse, np.minimum(probabilities[:, place], below), before)
    return probabilities


def rare_of(weights: Floats, bias: Floats | None, counts: AnyArray, max_count: int = 5) -> tuple[float, float]:
    """Compute the median norm and bias of rare labels.

    Args:
        weights: (labels, dimension).
        bias: (labels,), or None.
        counts: (labels,) training counts.
        max_count: of a rare label; its count is at least 1.

    Returns:
        Median norm and median bias of rare labels, or of all labels where none is rare; the bias is 0 without biases.
    """
    rare = (counts > 0) & (counts <= max_count)
    chosen = rare if rare.any() else np.ones(len(counts), dtype=bool)
    return float(np.median(_norms(weights[chosen]))), 0.0 if bias is None else float(np.median(bias[chosen]))


def _map_to_classifiers(texts: Floats, rows: Floats) -> Floats:
    """Least squares from text vectors to classifiers, regularised towards a multiple of the identity."""
    cosine = max(float(np.einsum("ld,ld->l", texts, rows).mean()), 0.1)
    identity = cosine * np.eye(texts.shape[1])
    inner = (texts.T @ texts).astype(np.float64) + RIDGE * np.eye(texts.shape[1])
    found: Floats = np.linalg.solve(inner, (texts.T @ rows).astype(np.float64) + RIDGE * identity).astype(np.float32)
    return found


def _norms(weights: Floats) -> Floats:
    found: Floats = np.sqrt(np.einsum("ld,ld->l", weights, weights))
    return found


def _with_column(vectors: Floats, column: AnyArray) -> Floats:
    joined: Floats = np.concatenate([vectors, column[:, None].astype(np.float32)], axis=1)
    return joined
