"""MACH: labels hashed into buckets, several times over, and classifiers of the buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.hashed.bucket_tables import Hashing, bucket_number
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings
from longtail.papers import MACH, Paper
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Mach(OneVsAllSettings):
    """Labels fall into buckets at random, several times; a classifier a bucket is trained.

    A bucket is right for a document that has one of its labels. A label's score is the mean, over the repetitions, of
    its buckets' scores before the sigmoid; two labels rarely share a bucket twice, so the mean tells them apart. The
    repetitions share one encoder, where the paper trains a net for each. Of several processes each holds a range of the
    buckets. A rare label's buckets mostly answer for the frequent labels in them, so expect less on the tail than from
    a classifier a label: it shows what memory alone decides.

    Needs: texts of documents. Soft targets are exact: a bucket's target is the largest of its labels'.
    Costs: memory of repetitions x buckets vectors, whatever the number of labels; predicting reads repetitions numbers
    for each label and document.
    Prefer instead: `renee` where a vector a label fits in memory, up to millions of labels on one GPU.
    Example: longtail train wordnet "mach(encoder='bag', epochs=5)" --out model
    """

    propensity_power: float = 0.0  # power of the inverse propensity that weighs positives
    head_init: Literal["auto", "random", "texts"] = "random"  # buckets have no texts to start from
    repetitions: int = 16  # R: times that labels are hashed
    buckets: int | None = None  # B: of each repetition; none: the power of 2 from 4 x the square root of the labels on
    hashing: Hashing = "random"  # balanced: buckets of equal size, in which frequent labels do not meet

    summary: ClassVar[str] = "labels hashed into buckets, several times; a classifier each"
    papers: ClassVar[tuple[Paper, ...]] = (MACH,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]] = HashedScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, bound in (("repetitions", 1), ("buckets", 2)):
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of mach is at least {bound}, got {value}")
        if self.head_init == "texts":
            raise RecipeError("mach has classifiers of buckets, which have no texts: leave head_init='texts' out")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> HashedScorer:
        """See `Learner.fit`."""
        require("mach")
        from longtail.nn.hashed.hashed_fit import HashedFit

        # "auto" would start from label texts, and buckets have none
        fit = HashedFit.begin(replace(self, head_init="random"), train, valid, parts)
        fit.learn()
        return fit.hashed_scorer()

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: as one classifier a label with buckets for labels, and the buckets of each label."""
        outputs = self.repetitions * bucket_number(facts.labels, self.buckets)
        plan = super().plan(replace(facts, labels=outputs))
        tables = 4 * self.repetitions * facts.labels
        return replace(
            plan,
            train_bytes=plan.train_bytes + 3 * tables,  # drawing them, and reading them label by label
            model_bytes=plan.model_bytes + tables + 64 * facts.labels,
            predict_seconds=plan.predict_seconds + 1000 * 1e-9 * self.repetitions * facts.labels,
            steps=(*plan.steps, ("buckets of labels", tables)),
        )
