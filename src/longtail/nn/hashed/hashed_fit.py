"""From texts to an encoder and the classifiers of buckets. All repetitions share one encoder and one head, so a step is
one product with repetitions x buckets vectors, and several processes each hold a range of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from longtail.arrays import Floats, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.hashed.bucket_tables import Hashing, bucket_number, bucket_tables, output_counts
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.onevsall.onevsall_fit import OneVsAllFit, Outputs
from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings


@runtime_checkable
class HashedSettings(Protocol):
    """The settings of the hashing."""

    @property
    def repetitions(self) -> int:
        """How often labels are hashed."""

    @property
    def buckets(self) -> int | None:
        """Of each repetition; None: by the number of labels."""

    @property
    def hashing(self) -> Hashing:
        """How labels fall into buckets."""

    @property
    def seed(self) -> int:
        """Of the hashing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketTargets(TrainingTargets):
    """Targets of buckets: the largest of their labels' targets, so that two labels in a bucket are not one of weight 2.
    They are made for each batch: the matrix stays one of labels."""

    tables: Ints  # (repetitions, labels)
    buckets: int

    @property
    def outputs(self) -> int:
        """Buckets of all repetitions."""
        return self.buckets * len(self.tables)

    def to_classifiers(self, owners: Longs, labels: Longs, shares: Floats) -> tuple[Longs, Longs, Floats]:
        """See `TrainingTargets.to_classifiers`."""
        repetitions = len(self.tables)
        starts = self.buckets * np.arange(repetitions, dtype=np.int64)
        places = self.tables[:, labels] + starts[:, None]  # (repetitions, entries)
        return np.tile(owners, repetitions), places.ravel(), np.tile(shares, repetitions)


@dataclass(eq=False)
class HashedFit(OneVsAllFit):
    """An encoder and classifiers of buckets in training."""

    @classmethod
    def outputs(cls, settings: OneVsAllSettings, train: Dataset) -> Outputs:
        """The classifiers of the head: one a repetition and bucket."""
        tables, buckets = _tables(settings, train)
        return Outputs(output_counts(train.labels.counts, tables, buckets), of_a_label=len(tables))

    @cached_property
    def hashed(self) -> tuple[Ints, int]:
        """The bucket of each label in each repetition, and the number of buckets."""
        return _tables(self.settings, self.train)

    def training_targets(self, first: int, last: int) -> BucketTargets:
        """See `OneVsAllFit.training_targets`."""
        own, inverse, (tables, buckets) = self.settings, None, self.hashed
        if own.propensity_power:
            inverse = (inverse_propensity(self.train.labels) ** own.propensity_power).astype(np.float32)
        return BucketTargets(
            self.train.targets, own.positive_weight, inverse, first, last, tables=tables, buckets=buckets
        )

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        scorer, vectors = self.uncalibrated(), self.held_out_vectors()

        def find(k: int) -> tuple[Ints, Floats]:
            labels, scores = scorer.nearest(vectors, k)
            return labels, PlattScaling(1.0, 0.0).of(scores)

        return self.measure(find)

    def hashed_scorer(self) -> HashedScorer:
        """The trained model, calibrated on valid; every process gets all buckets."""
        scorer = self.uncalibrated()
        return self.calibrated(scorer, scorer.row_vectors)

    def uncalibrated(self) -> HashedScorer:
        """The trained model, whose scores are no probabilities yet."""
        tables, buckets = self.hashed
        weights, bias = self.whole_head()
        shape = (len(tables), buckets)
        return HashedScorer(
            TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens),
            weights.reshape(*shape, -1),
            None if bias is None else bias.reshape(shape),
            tables,
            PlattScaling(1.0, 0.0),
        )


def _tables(settings: OneVsAllSettings, train: Dataset) -> tuple[Ints, int]:
    assert isinstance(settings, HashedSettings)
    buckets = bucket_number(len(train.labels), settings.buckets)
    counts = train.labels.counts
    return bucket_tables(counts, settings.repetitions, buckets, settings.hashing, settings.seed), buckets
