"""A trained dual encoder: the encoder, and one vector per label. Loads torch only to encode texts.

Many rows are compared with all labels: they share one matrix product, which costs less than building a graph for them,
so measures on a test split are exact. Few rows are searched with a graph where comparing with all labels is too slow.
The graph is not saved, because it depends on the timing of threads and a model is plain data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.dual.dual_settings import SEARCHES, Search
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder, normalised
from longtail.predictions import ranked
from longtail.progress import stage
from longtail.seams import Array, Declaration, Flag, Misfit, Nothing, Number, State, Whole, Words
from longtail.seams.declared import LARGEST

if TYPE_CHECKING:
    import torch

    from longtail.search.approximate import Approximate
    from longtail.search.exact import Exact


SINGLE = 16  # texts of a call up to which each is searched by itself; more share one matrix product
NEAR = 8  # known labels whose moves are averaged for a new label
WIDE = 256  # rows converted to float64 at once


def _declared_labels(settings: Mapping[str, Any]) -> Declaration:
    """The label vectors are as long as what is kept of the encoder's."""
    whole, cut = dimension_of(settings), settings["cut"]
    if cut is not None and whole.isdigit() and cut > int(whole):
        raise Misfit("cut", f"is {cut}, more than the {whole} numbers of the encoder's vectors", "setting")
    return Declaration({"labels": Array("float32", f"labels, {cut or whole}")})


@dataclass(frozen=True, eq=False)
class DualEncoderScorer:
    """Finds the labels whose vectors have the largest product with the row's vector, plus a bias where frequency
    counts. Scores are probabilities that keep the order of the products."""

    encoder: TextEncoder
    labels: Floats  # (labels, dimension)
    calibration: PlattScaling
    bias: Floats | None = None  # (labels,)
    text_norm: float = 1.0  # norm of the vector of a label that joins later, of which only the text is known
    moved: bool = False  # a label tower moved the label vectors away from their texts' vectors
    search: Search = "auto"
    kind: ClassVar[str] = "dual.v2"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        {"bias": Array("float32", "labels", optional=True)},
        {
            "text_norm": Number(),
            "moved": Flag(),
            "cut": Nothing(Whole(1, LARGEST)),
            "search": Words(SEARCHES),
        },
        then=(_declared_labels,),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        texts = _texts_of(rows)
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        vectors = self.encoder.vectors(texts)
        quick = self.search == "approximate" or (self.search == "auto" and len(rows) <= SINGLE)
        found, products = self._quick[0].top(self._with_one(vectors), k) if quick else self.nearest(vectors, k)
        scores = np.where(found < 0, np.float32(0), self.calibration.of(products))
        return ranked(found, scores)  # equal after rounding: by label row

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels by exact search.

        Args:
            vectors: (rows, dimension) unit vectors of the rows.
            k: labels of a row.

        Returns:
            Labels (rows, k) and their products, best first.
        """
        return self._exact.top(self._with_one(vectors), k)

    @property
    def label_vectors(self) -> Floats:
        """(labels, dimension) unit vectors."""
        norms = np.sqrt(np.einsum("rd,rd->r", self.labels, self.labels))  # float32: there may be millions of labels
        vectors: Floats = self.labels / np.maximum(norms, np.float32(1e-12))[:, None]
        return vectors

    def row_vectors(self, rows: Rows) -> Floats:
        """See `HasVectors.row_vectors`: (rows, dimension) unit vectors."""
        return self.encoder.vectors(_texts_of(rows))

    def encode_to_device(self, rows: Rows) -> torch.Tensor:
        """The same as `row_vectors`, on the encoder's device."""
        return self.encoder.encode_to_device(_texts_of(rows))

    @property
    def searching(self) -> str:
        """How the labels of a few texts are searched, and why. Builds the graph of an approximate search."""
        return self._quick[1]

    def _with_one(self, vectors: Floats) -> Floats:
        """The vectors with a 1 at their end, which the bias is multiplied with."""
        if self.bias is None:
            return vectors
        return np.concatenate([vectors, np.ones((len(vectors), 1), dtype=np.float32)], axis=1)

    @cached_property
    def _exact(self) -> Exact:
        from longtail.nn.training.precision import best_device
        from longtail.search.exact import Exact

        searched = self.labels if self.bias is None else np.concatenate([self.labels, self.bias[:, None]], axis=1)
        return Exact(searched, device=str(best_device()))

    @cached_property
    def _quick(self) -> tuple[Exact | Approximate, str]:
        """The index for a few texts at a time, each searched by itself. It is not saved: loading builds it again."""
        from longtail.search.approximate import build
        from longtail.search.choose import choose

        exact = self._exact
        if self.search == "approximate":
            kind, reason = "hnsw", "approximate search: the recipe asks for it"
        else:
            labels, dimension = exact.vectors.shape
            choice = choose(labels, dimension, queries=None, device=exact.device)
            kind, reason = choice.kind, choice.reason
        if kind == "exact":
            return exact, reason
        with stage(reason):
            index = build(exact.vectors, "hnsw")
        return index, f"{reason}; {index}"

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> DualEncoderScorer:
        """The same model with more labels, each at its text's vector.

        Where a label tower moved the known labels, a new label moves by the mean of the known labels with the nearest
        texts.

        Args:
            texts: of the new labels.
            known: texts of the labels that the model has.

        Returns:
            A new scorer; this one does not change.
        """
        new = self.encoder.vectors(texts, "new labels")
        if self.moved:
            from longtail.search.exact import top_k

            plain = self.encoder.vectors(known, "labels")
            near = top_k(new, plain, NEAR)[0]  # (new, NEAR)
            new = normalised(new + (normalised(self.labels) - plain)[near].mean(axis=1))
        labels = np.concatenate([self.labels, np.float32(self.text_norm) * new])
        bias = None if self.bias is None else np.concatenate([self.bias, np.zeros(len(new), dtype=np.float32)])
        return replace(self, labels=labels, bias=bias)

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "text_norm": self.text_norm,
            "moved": self.moved,
            "cut": self.encoder.cut,
            "search": self.search,
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        return State(settings, {**self.encoder.tensors(), "labels": self.labels, **bias})

    @classmethod
    def restore(cls, state: State) -> DualEncoderScorer:
        """See `Scorer.restore`."""
        settings, labels, bias = state.settings, state.tensors["labels"], state.tensors.get("bias")
        cut, search = settings["cut"], settings["search"]
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], cut, state.tensors)
        scale, offset = (float(value) for value in settings["calibration"])
        text_norm, moved = float(settings["text_norm"]), bool(settings["moved"])
        return cls(encoder, labels, PlattScaling(scale, offset), bias, text_norm, moved, search)


def _texts_of(rows: Rows) -> Sequence[str]:
    if rows.texts is None:
        raise DataError("this model reads texts; give documents with texts, not only features")
    return rows.texts
