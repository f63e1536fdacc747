"""Dual encoder with in-batch softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.settings import TowerSettings
from longtail.nn.towers import TowerScorer
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Dpr(TowerSettings):
    """One encoder for documents and labels, trained so that a document finds its label among those of its batch.

    Random batches; every row draws one of its positives, and a softmax over cosines / temperature picks it out of all
    that were drawn, in both directions. Other known positives of a row leave its choice. With `rows="labels"` every
    label is seen equally often, each with one of its documents: better for rare labels, worse for common ones.

    Paper: Karpukhin et al., Dense passage retrieval (EMNLP 2020).
    Needs: texts of rows and labels. A soft target is drawn as often as its weight says.
    Costs: epochs x two passes over the texts; memory for one batch, or for `chunk` texts at a time.
    Prefer instead: `ngame`, whose batches hold harder negatives and which adds classifiers for common labels.
    Example: longtail train wordnet "dpr(encoder='bag', epochs=5)" --out model
    """

    both: bool = True  # from labels to documents too

    summary: ClassVar[str] = "dual encoder, random batches, in-batch softmax"
    scorer: ClassVar[type[Scorer]] = TowerScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TowerScorer:
        require("dpr")
        from functools import partial

        from longtail.nn.fit import Towers
        from longtail.nn.losses import softmax

        towers = Towers.begin(self, train, valid, parts)
        towers.learn(partial(softmax, temperature=self.temperature, both=self.both))
        return towers.scorer()
