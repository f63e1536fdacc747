"""The model of XR-Transformer: label trees over words and an encoder's vectors. Loads torch only to encode texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.trees.label_forest import ForestScorer
from longtail.nn.encoders.encoder_declared import ENCODER
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.seams import Declaration, State


@dataclass(frozen=True, eq=False)
class ResolutionScorer:
    """Gives the trees the encoder's unit vectors beside the words."""

    encoder: TextEncoder
    forest: ForestScorer
    kind: ClassVar[str] = "resolutions.v2"
    declared: ClassVar[Declaration] = ENCODER + ForestScorer.declared

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; pass documents with texts, not only features")
        return self.forest.top(replace(rows, features=sparse.csr_array(self.encoder.vectors(rows.texts))), k)

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        return self.forest.row_norms()

    def row_vectors(self, rows: Rows) -> Floats:
        """See `HasVectors.row_vectors`."""
        if rows.texts is None:
            raise DataError("this model reads texts; pass documents with texts, not only features")
        return self.encoder.vectors(rows.texts)

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {"encoder": self.encoder.settings, "max_tokens": self.encoder.max_tokens, "calibration": [1.0, 0.0]}
        trees = self.forest.state()
        return State({**trees.settings, **settings}, {**trees.tensors, **self.encoder.tensors()})

    @classmethod
    def restore(cls, state: State) -> ResolutionScorer:
        """See `Scorer.restore`."""
        encoder = TextEncoder.restore(state.settings["encoder"], state.settings["max_tokens"], None, state.tensors)
        return cls(encoder, ForestScorer.restore(state))
