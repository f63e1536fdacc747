"""The model of hashed labels: an encoder, the bucket of each label in each repetition, and a classifier of each bucket.
Loads torch only to encode texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.onevsall.onevsall_scorer import separated
from longtail.predictions import ranked
from longtail.seams import Array, Contents, Declaration, Misfit, State, Whole

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 14  # labels whose vectors are held at once
MOST_NETS = 1000


def _nets(settings: Mapping[str, Any]) -> int:
    """How many there are, of settings that are not checked yet."""
    given = settings.get("nets", 1)
    return given if isinstance(given, int) and given <= MOST_NETS else 1


def _is_there_a_bucket(stored: Contents) -> None:
    if stored.tensors["weights"].size == 0:
        raise Misfit("weights", "has no repetition or no bucket")


@dataclass(frozen=True, eq=False)
class HashedScorer:
    """Ranks labels by the mean over the repetitions of their bucket's score. Scores are probabilities, calibrated on
    held-out data, in the same order.

    Where repetitions have encoders of their own, `others` are the nets of further repetitions. The vector of a text is
    then that of all encoders, one behind the other."""

    encoder: TextEncoder
    weights: Floats  # (repetitions, buckets, dimension)
    bias: Floats | None  # (repetitions, buckets)
    tables: Ints  # (repetitions, labels): the bucket of each label
    calibration: PlattScaling
    others: tuple[HashedScorer, ...] = ()
    kind: ClassVar[str] = "hashed.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        then=(
            lambda given: Declaration({"weights": Array("float32", f"repetitions, buckets, {dimension_of(given)}")}),
            lambda given: Declaration(
                {
                    "bias": Array("float32", "repetitions, buckets", optional=True),
                    "tables": Array("int32", "repetitions, labels", least=0, below="buckets"),
                },
                checks=(_is_there_a_bucket,),
            ),
            lambda given: Declaration(
                settings={"nets": Whole(1, MOST_NETS, optional=True)},
                parts={f"net-{number}": "labels" for number in range(1, _nets(given))},
            ),
        ),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; give documents with texts, not only features")
        k = min(k, self.tables.shape[1])
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.row_vectors(rows.texts), k)
        return ranked(found, separated(self.calibration.of(scores), scores))

    @property
    def nets(self) -> tuple[HashedScorer, ...]:
        """Each encoder with the classifiers of its repetitions."""
        return (self, *self.others)

    def row_vectors(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """Encode texts.

        Args:
            texts: the texts.
            what: what they are, for the progress line.

        Returns:
            (texts, numbers of all encoders) float32, unnormalised.
        """
        parts = [net.encoder.unnormalised(texts, what) for net in self.nets]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors, exactly.

        Args:
            vectors: (rows, numbers of all encoders) float32, of `row_vectors`.
            k: number of labels for each row.

        Returns:
            Labels (int32) and scores before calibration (float32), each (rows, k), best first.
        """
        import torch

        from longtail.nn.hashed.bucket_sums import ROWS, top_labels

        k, tables = min(k, self.tables.shape[1]), np.concatenate([net.tables for net in self.nets])
        ends = np.cumsum([net.weights.shape[2] for net in self.nets])[:-1]
        asked = np.split(np.asarray(vectors, dtype=np.float32), ends, axis=1)
        parts = []
        for start in range(0, max(len(vectors), 1), ROWS):
            scores = [
                net._bucket_scores(torch.from_numpy(np.ascontiguousarray(part[start : start + ROWS])))
                for net, part in zip(self.nets, asked, strict=True)
            ]
            parts.append(top_labels(np.concatenate(scores, axis=1), tables, k))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _bucket_scores(self, vectors: torch.Tensor) -> Floats:
        """(rows, repetitions x buckets) of this net alone. By torch: the bits of NumPy's product depend on threads."""
        offset = np.float32(0) if self.bias is None else self.bias.reshape(-1)
        return np.asarray((vectors @ self._flat).numpy() + offset, np.float32)

    @cached_property
    def _flat(self) -> torch.Tensor:
        """(dimension, repetitions x buckets), a view of the weights."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(self.weights)).flatten(0, 1).T

    def label_rows(self) -> tuple[Floats, Floats | None]:
        """One vector and bias a label, the mean of its buckets': its product with a row's vector is the label's score.

        Returns:
            (labels, numbers of all encoders), and (labels,) where buckets have biases.
        """
        labels, every = self.tables.shape[1], sum(len(net.tables) for net in self.nets)
        vectors = np.empty((labels, sum(net.weights.shape[2] for net in self.nets)), dtype=np.float32)
        column = 0
        for net in self.nets:
            end = column + net.weights.shape[2]
            for first in range(0, labels, CHUNK):
                part = net.tables[:, first : first + CHUNK]
                vectors[first : first + CHUNK, column:end] = (
                    sum(own[table] for own, table in zip(net.weights, part, strict=True)) / every
                )
            column = end
        if self.bias is None:
            return vectors, None
        biases = [np.take_along_axis(net.bias, net.tables, axis=1) for net in self.nets if net.bias is not None]
        return vectors, np.concatenate(biases).mean(axis=0)

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        vectors = self.label_rows()[0]
        found: Floats = np.sqrt(np.einsum("ld,ld->l", vectors, vectors))
        return found

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        if self.others:
            settings["nets"] = len(self.nets)
        tensors = {**self.encoder.tensors(), "weights": self.weights, "tables": self.tables, **bias}
        return State(settings, tensors, {f"net-{number}": net for number, net in enumerate(self.others, 1)})

    @classmethod
    def restore(cls, state: State) -> HashedScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors)
        calibration = PlattScaling(*(float(value) for value in settings["calibration"]))
        others = tuple(state.parts[f"net-{number}"] for number in range(1, settings.get("nets", 1)))
        made = cls(encoder, tensors["weights"], tensors.get("bias"), tensors["tables"], calibration, others)
        for net in others:
            if net.others or net.weights.shape[1] != made.weights.shape[1] or (net.bias is None) != (made.bias is None):
                raise ValueError("its nets have different buckets")
        return made
