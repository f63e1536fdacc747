"""Dual encoder with in-batch softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.papers import DPR, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Dpr(DualEncoderSettings):
    """One encoder for documents and labels, trained so that a document finds its label among those of its batch.

    Batches are random. Each document draws one of its positives, and a softmax over cosines / temperature chooses among
    all labels drawn in the batch, in both directions. Other known positives of a document are no negatives. With
    `anchors="labels"` every label is seen equally often, each with one of its documents: better for rare labels, worse
    for common ones.

    Needs: texts of documents and labels. Positives are drawn in proportion to their soft targets.
    Costs: two passes over the texts per epoch; memory for one batch, or for `mini_batch_size` texts at a time.
    Prefer instead: `ngame`, whose batches hold harder negatives and which adds classifiers for common labels.
    Example: longtail train wordnet "dpr(encoder='bag', epochs=5)" --out model
    """

    symmetric: bool = True  # from labels to documents too

    summary: ClassVar[str] = "dual encoder, random batches, in-batch softmax"
    papers: ClassVar[tuple[Paper, ...]] = (DPR,)
    scorer: ClassVar[type[Scorer]] = DualEncoderScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> DualEncoderScorer:
        """See `Learner.fit`."""
        require("dpr")
        from functools import partial

        from longtail.nn.dual.contrastive_losses import softmax
        from longtail.nn.dual.dual_fit import DualEncoderFit

        towers = DualEncoderFit.begin(self, train, valid, parts)
        towers.learn(partial(softmax, temperature=self.temperature, both=self.symmetric))
        return towers.scorer()
