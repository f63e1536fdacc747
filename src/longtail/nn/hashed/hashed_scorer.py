"""The model of hashed labels: an encoder, the bucket of each label in each repetition, and a classifier of each bucket.
Loads torch only to encode texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.onevsall.onevsall_scorer import separated
from longtail.predictions import ranked
from longtail.seams import Array, Contents, Declaration, Misfit, State

CHUNK = 1 << 14  # labels whose vectors are held at once


def _is_there_a_bucket(stored: Contents) -> None:
    if stored.tensors["weights"].size == 0:
        raise Misfit("weights", "has no repetition or no bucket")


@dataclass(frozen=True, eq=False)
class HashedScorer:
    """Ranks labels by the mean over the repetitions of their bucket's score. Scores are probabilities, calibrated on
    held-out data, in the same order."""

    encoder: TextEncoder
    weights: Floats  # (repetitions, buckets, dimension)
    bias: Floats | None  # (repetitions, buckets)
    tables: Ints  # (repetitions, labels): the bucket of each label
    calibration: PlattScaling
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
        ),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; give documents with texts, not only features")
        k = min(k, self.tables.shape[1])
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.encoder.unnormalised(rows.texts), k)
        return ranked(found, separated(self.calibration.of(scores), scores))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors, exactly.

        Args:
            vectors: (rows, dimension) float32, unnormalised.
            k: number of labels for each row.

        Returns:
            Labels (int32) and scores before calibration (float32), each (rows, k), best first.
        """
        import torch

        from longtail.nn.hashed.bucket_sums import ROWS, top_labels

        # By torch: the bits of NumPy's product depend on the number of threads.
        flat = torch.from_numpy(np.ascontiguousarray(self.weights)).flatten(0, 1).T
        asked = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
        offset = np.float32(0) if self.bias is None else self.bias.reshape(-1)
        k = min(k, self.tables.shape[1])
        parts = [
            top_labels(np.asarray((asked[start : start + ROWS] @ flat).numpy() + offset, np.float32), self.tables, k)
            for start in range(0, max(len(vectors), 1), ROWS)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def label_rows(self) -> tuple[Floats, Floats | None]:
        """One vector and bias a label, the mean of its buckets': its product with a row's vector is the label's score.

        Returns:
            (labels, dimension), and (labels,) where buckets have biases.
        """
        labels = self.tables.shape[1]
        vectors = np.empty((labels, self.weights.shape[2]), dtype=np.float32)
        for first in range(0, labels, CHUNK):
            part = self.tables[:, first : first + CHUNK]
            vectors[first : first + CHUNK] = sum(
                own[table] for own, table in zip(self.weights, part, strict=True)
            ) / len(part)
        if self.bias is None:
            return vectors, None
        return vectors, np.take_along_axis(self.bias, self.tables, axis=1).mean(axis=0)

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
        return State(settings, {**self.encoder.tensors(), "weights": self.weights, "tables": self.tables, **bias})

    @classmethod
    def restore(cls, state: State) -> HashedScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors)
        calibration = PlattScaling(*(float(value) for value in settings["calibration"]))
        return cls(encoder, tensors["weights"], tensors.get("bias"), tensors["tables"], calibration)
