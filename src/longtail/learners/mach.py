"""MACH: labels hashed into buckets, several times over, and classifiers of the buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.fold_jobs import folds_run_as_jobs
from longtail.jobs import current_job_runner
from longtail.nn.extra import require
from longtail.nn.hashed.bucket_tables import Hashing, bucket_number
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.nn.hashed.net_jobs import nets_by_jobs, stored_corpus, write_net
from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings
from longtail.papers import MACH, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import note, stage
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Mach(OneVsAllSettings):
    """Labels fall into buckets at random, several times; a classifier a bucket is trained.

    A bucket is right for a document that has one of its labels. A label's score is the mean, over the repetitions, of
    its buckets' scores before the sigmoid; two labels rarely share a bucket twice, so the mean tells them apart. The
    repetitions share one encoder; with `shared_encoder=false` each has a net of its own, and `--on` trains each net in
    a job. Of several processes each holds a range of the buckets. A rare label's buckets mostly answer for the frequent
    labels in them, so expect less on the tail than from a classifier a label: it shows what memory alone decides.

    Published form: `shared_encoder=false`.
    Needs: texts of documents. Soft targets are exact: a bucket's target is the largest of its labels'.
    Costs: memory of repetitions x buckets vectors, whatever the number of labels; predicting reads repetitions numbers
    for each label and document. With a net for each repetition, training and reading a text cost as often.
    Prefer instead: `renee` where a vector a label fits in memory, up to millions of labels on one GPU.
    Example: longtail train wordnet "mach(encoder='bag', epochs=5)" --out model
    """

    propensity_power: float = 0.0  # power of the inverse propensity that weighs positives
    head_init: Literal["auto", "random", "texts"] = "random"  # buckets have no texts to start from
    repetitions: int = 16  # R: times that labels are hashed
    buckets: int | None = None  # B: of each repetition; none: the power of 2 from 4 x the square root of the labels on
    hashing: Hashing = "random"  # balanced: buckets of equal size, in which frequent labels do not meet
    shared_encoder: bool = True  # false: a net for each repetition, from the seeds `seed`, `seed + 1` and so on

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

        if not self.shared_encoder:
            return self._trained_apart(train, valid, parts)
        # "auto" would start from label texts, and buckets have none
        fit = HashedFit.begin(replace(self, head_init="random"), train, valid, parts)
        fit.learn()
        return fit.hashed_scorer()

    @property
    def runs_in_jobs(self) -> bool:
        """Whether its nets can be trained in jobs."""
        return not self.shared_encoder

    def _trained_apart(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> HashedScorer:
        """A net for each repetition, here or in jobs."""
        from longtail.nn.encoder_fit import calibrated_on

        runner = current_job_runner()
        if runner is not None and folds_run_as_jobs(train, valid):
            nets = nets_by_jobs(asdict(self), self.repetitions, train, valid, runner)
        else:
            if runner is not None:
                note("mach: tail methods added examples, which no job has, so its nets are trained here")
            nets = [self.net(number, train, valid, parts) for number in range(self.repetitions)]
        whole = replace(nets[0], others=tuple(nets[1:]))
        return calibrated_on(valid, whole, whole.row_vectors)

    def net(self, number: int, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> HashedScorer:
        """Train the net of one repetition.

        Args:
            number: of the repetition.
            train: rows to train on.
            valid: rows to validate on; there may be none.
            parts: tail methods of the recipe.

        Returns:
            The net, whose scores are no probabilities yet.
        """
        from longtail.nn.hashed.hashed_fit import HashedFit

        own = replace(self, head_init="random", repetitions=1, seed=self.seed + number, shared_encoder=True)
        with stage(f"training net {number + 1} of {self.repetitions}"):
            fit = HashedFit.begin(own, train, valid, parts)
            fit.learn()
            return fit.uncalibrated()

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: as one classifier a label with buckets for labels, and the buckets of each label."""
        nets = 1 if self.shared_encoder else self.repetitions
        outputs = self.repetitions // nets * bucket_number(facts.labels, self.buckets)
        plan = super().plan(replace(facts, labels=outputs))
        if nets > 1:  # one after the other, and those that are trained wait for the rest
            plan = replace(
                plan,
                train_bytes=plan.train_bytes + (nets - 1) * plan.model_bytes,
                model_bytes=nets * plan.model_bytes,
                train_seconds=nets * plan.train_seconds,
                predict_seconds=nets * plan.predict_seconds,
                steps=(*plan.steps, ("nets that are trained", (nets - 1) * plan.model_bytes)),
            )
        tables = 4 * self.repetitions * facts.labels
        return replace(
            plan,
            train_bytes=plan.train_bytes + 3 * tables,  # drawing them, and reading them label by label
            model_bytes=plan.model_bytes + tables + 64 * facts.labels,
            predict_seconds=plan.predict_seconds + 1000 * 1e-9 * self.repetitions * facts.labels,
            steps=(*plan.steps, ("buckets of labels", tables)),
        )


def train_net(settings: Mapping[str, Any], source: int, output: Path) -> int:
    """The job of a net: see `longtail.nn.hashed.net_jobs`.

    Args:
        settings: the store, and the settings of the learner.
        source: the number of the repetition.
        output: the file of the net.

    Returns:
        The number of classifiers.
    """
    corpus = stored_corpus(settings["data"])
    scorer = Mach(**settings["mach"]).net(source, corpus.train, corpus.valid, ())
    write_net(scorer, output)
    return int(scorer.weights.shape[0] * scorer.weights.shape[1])
