"""A bag of word vectors under a classifier a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.frugal.settings import FrugalSettings
from longtail.nn.heads.scorer import OneVsAllScorer
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Astec(FrugalSettings):
    """A tf-idf weighted sum of word vectors, ReLU, a residual block, and a classifier a label.

    Where every row can be compared with every label, words, block and classifiers are learned together. Where there are
    too many labels, words are first learned on clusters of labels (the surrogate task) and kept; then block and
    classifiers learn from pools: the labels of a batch's rows, the labels whose mean rows are nearest to them, those of
    like training rows, and random ones. A batch shares its pool, so no label that is right is ever taken as wrong.

    Paper: Dahiya et al., DeepXML: a deep extreme multi-label learning framework applied to short text documents
    (WSDM 2021).
    Needs: texts of rows. Soft targets are exact: the slope of a score is σ(s) - t.
    Costs: epochs x rows x labels x dimension x 6 operations; three numbers for each of a word's and a label's.
    Prefer instead: `renee`, where a pretrained encoder fits; `decaf` or `eclare` where labels have texts.
    Example: longtail train wordnet "astec(dimension=64, epochs=5)" --out model
    """

    residual: bool = True  # the block; without it the sum goes to the classifiers as it is
    shortlist: int = 50  # labels of a row in a pool, found by nearness
    votes: float = 0.075  # what labels of like training rows count there, against nearness to a label's mean row

    summary: ClassVar[str] = "bag of word vectors, residual block, classifiers over all labels or a pool"
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortlist < 1 or not 0 <= self.votes <= 1:
            raise RecipeError(
                f"astec takes a shortlist of at least 1 and votes in [0, 1], got {self.shortlist} and {self.votes:g}"
            )

    @property
    def body(self) -> dict[str, Any]:
        block = "added" if self.residual else "none"
        return {"kind": "frugal bag", "width": self.dimension, "block": block, "dropout": self.dropout}

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        require("astec")
        from longtail.nn.frugal.fit import FrugalFit
        from longtail.nn.frugal.near import shortlists

        net = FrugalFit.begin(self, train, valid, parts, self.body)
        if net.against_all:
            net.make_labels()
            net.learn(None)
        else:
            net.learn_surrogate()
            near = shortlists(net.coarse_vectors(), train.targets, self.shortlist, self.votes, str(net.device))
            net.make_labels()
            net.learn(net.pool(nearest=near), frozen=True)
        found: OneVsAllScorer = net.scorer()
        return found
