"""Head and tail labels learned apart, the tail from more examples."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Longs
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.features.noise import noisy_features, noisy_texts
from longtail.linear.fusion.sides import CALIBRATION_ROWS, Side, TaugScorer, calibrated
from longtail.linear.solvers.score_scale import ScoreCalibration
from longtail.nn.training.checkpoint import checkpoint_folder
from longtail.papers import RANKNET_TAUG, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES
from longtail.progress import note, stage
from longtail.seams import Learner, Scorer, TailMethod, WrappedLearner


def _published(head_share: float) -> Preset:
    return Preset(
        {"head_share": head_share, "copies": 4, "scores": "raw"},
        "section 4, implementation",
        {"scores": 'section 3.3: "the prediction score of models are integrated"'},
        differs="the paper prints neither how many entries are kept nor how many are swapped: these stay the defaults",
    )


PRESETS = {
    "paper": _published(0.1),
    "EURLex-4K": _published(0.1),
    "AmazonCat-13K": _published(0.01),
    "Wiki10-31K": _published(0.01),
    "Amazon-670K": _published(0.01),
}


@dataclass(frozen=True)
class Taug:
    """Learn the frequent and the rare labels apart, and the rare ones from noisy copies of their documents too.

    The head is the share of the labels with most training examples (of equals, the earlier ones). The learner is fitted
    on the examples with a head label, over head labels only, and again on the examples with a tail label, over tail
    labels only. Each example of the tail gets copies: in texts, words are dropped and swapped; in features, values. A
    learner that counts single words does not see their order: on texts, `swap_fraction` matters to one that reads
    order.

    How the two rankings become one: with `scores="raw"` the scores of both models stand beside each other as they are,
    as in the paper: more of the tail, less precision. The tail's model has never seen a document without a tail label,
    so its scores are too high for such documents. With `scores="calibrated"` both models predict valid, and each side
    gets its own logistic curve from the log of its score, and the best score of the other side, to the probability that
    its label is right; the ranking is by that probability. Without valid, the odds are the side's score times the
    share of the training examples that it saw.

    Controls: `copies=0` decouples only; `swap_fraction=0` only drops; `keep_probability=1` only swaps; `head_share=0`
    only adds copies, and `head_share=1` leaves the learner as it was.

    Published form: section 3.3, `taug:paper`.
    Needs: nothing; goes on every learner.
    Costs: 1 + copies times the examples and the training time of the tail, two predictions instead of one. Head and
    tail are fitted one after the other, or with `parallel` at the same time, in the memory of both; with checkpoints
    always one after the other.
    Prefer instead: `rerank`, where only the ranking has to move to the tail; it costs nothing and often does more.
    Example: longtail compare wordnet "knn" "knn + taug(copies=0)" "knn + taug"
    """

    head_share: float = 0.1  # tau: share of the labels that are head
    copies: int = 4  # n_aug: noisy copies of each example of the tail
    keep_probability: float = 0.8  # rho: probability that a word or value stays; the paper gives none
    scores: Literal["calibrated", "raw"] = "calibrated"  # probabilities fitted on valid, or each model's own scores
    swap_fraction: float = 0.2  # share of the words or values that are swapped, one pair at the least where above 0
    seed: int = 0
    parallel: bool = False  # fit head and tail at the same time

    summary: ClassVar[str] = "head and tail learned apart, the tail with noisy copies"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"tau": "head_share", "n_aug": "copies", "rho": "keep_probability"}
    papers: ClassVar[tuple[Paper, ...]] = (RANKNET_TAUG,)
    presets: ClassVar[Mapping[str, Preset]] = PRESETS
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = TaugScorer

    def __post_init__(self) -> None:
        if not 0 <= self.head_share <= 1:
            raise RecipeError(f"setting 'head_share' of taug lies between 0 and 1, got {self.head_share:g}")
        if self.copies < 0:
            raise RecipeError(f"setting 'copies' of taug is at least 0, got {self.copies}")
        if not 0 < self.keep_probability <= 1:
            raise RecipeError(
                f"setting 'keep_probability' of taug is above 0 and at most 1, got {self.keep_probability:g}"
            )
        if not 0 <= self.swap_fraction <= 1:
            raise RecipeError(f"setting 'swap_fraction' of taug lies between 0 and 1, got {self.swap_fraction:g}")
        if self.seed < 0:
            raise RecipeError(f"setting 'seed' of taug is at least 0, got {self.seed}")

    def wrap(self, learner: Learner) -> Learner:
        """See `Wraps.wrap`."""
        return DecoupledLearner(learner, self)

    def head(self, labels: LabelSet) -> Bools:
        """Choose the head labels.

        Args:
            labels: with training counts.

        Returns:
            (labels,) true for the head.
        """
        number = int(self.head_share * len(labels) + 1e-9)  # 0.29 x 100 is a little below 29 in floating point
        chosen = np.zeros(len(labels), dtype=np.bool_)
        chosen[np.argsort(-labels.counts, kind="stable")[:number]] = True
        return chosen

    def with_copies(self, data: Dataset) -> Dataset:
        """Add noisy copies of the rows.

        Args:
            data: rows to copy.

        Returns:
            The rows, then their copies, which have the same targets.
        """
        rng = np.random.default_rng(self.seed)
        texts: list[str] = []
        features = []
        for _ in range(self.copies):
            if data.texts is not None:
                texts += noisy_texts(data.texts, self.keep_probability, self.swap_fraction, rng)
            if data.features is not None:
                features.append(noisy_features(data.features, self.keep_probability, self.swap_fraction, rng))
        if not self.copies:
            return data
        return data.with_rows(
            texts=None if data.texts is None else texts,
            features=None if data.features is None else sparse.vstack(features, format="csr"),
            targets=sparse.vstack([data.targets] * self.copies, format="csr"),
            origin="taug",
        )


@dataclass(frozen=True)
class DecoupledLearner(WrappedLearner):
    """A learner fitted twice: on the head labels and on the tail labels."""

    method: Taug

    @property
    def scorer(self) -> type[Scorer]:
        """See `Learner.scorer`."""
        return TaugScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TaugScorer:
        """See `Learner.fit`."""
        head = self.method.head(train.labels)
        labels = {"head": np.flatnonzero(head), "tail": np.flatnonzero(~head)}
        # A learner that reads label texts predicts labels without a row too; others cannot.
        zero_shot = "label_texts" in self.learner.data_needs
        names = [
            name
            for name, own in labels.items()
            if len(own) and (zero_shot or np.isin(own, train.targets.indices).any())
        ]

        def fit(name: str) -> Side:
            with stage(f"learning {name} labels"):
                return self._fit_side(name, labels[name], train, valid, parts)

        # Checkpoints are found again by the order in which trainings start, and threads start in any order.
        if self.method.parallel and checkpoint_folder() is None:
            with ThreadPoolExecutor(2) as pool:  # a copied context each, so that the stages inside reach the listener
                started = {name: pool.submit(copy_context().run, fit, name) for name in names}
                sides = {name: side.result() for name, side in started.items()}
        else:
            sides = {name: fit(name) for name in names}
        if self.method.scores == "raw":
            return TaugScorer(sides)
        with stage("calibrating the scores"):
            return calibrated(TaugScorer(sides), valid)

    def _fit_side(self, name: str, own: Longs, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Side:
        labels = train.labels.take(own)
        rows = restricted(train, own, labels)
        rows = rows.take(np.flatnonzero(np.diff(rows.targets.indptr)))
        raw = self.method.scores == "raw"
        scale = None if raw else ScoreCalibration.of_share(max(len(rows), 1) / len(train))
        if name == "tail":
            self._note_no_order(rows)
            with stage("copying examples of the tail"):
                rows = self.method.with_copies(rows)
        return Side(self.learner.fit(rows, restricted(valid, own, labels), parts), own, scale)

    def _note_no_order(self, rows: Dataset) -> None:
        """Log a note where swapping words cannot change what the learner reads."""
        own = self.method
        if rows.texts is None or not own.copies or not own.swap_fraction:
            return
        if getattr(self.learner, "ignores_word_order", False):
            left = "copies are plain duplicates to it" if own.keep_probability == 1 else "only dropping words acts"
            note(f"taug: the learner counts words whatever their order, so swapping them changes nothing: {left}")

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        sides = facts_of_sides(facts, self.method)
        head, tail = (self.learner.plan(side) for side in sides)
        copied = sides[1].rows * self.method.copies / (1 + self.method.copies)
        kept = self.method.keep_probability
        characters = kept * facts.characters / max(facts.rows, 1)  # of a copied text
        values = 0 if facts.characters else kept * facts.terms_per_row  # of a copied row of features
        copies = int(copied * (150 + 1.5 * characters + 8 * values))  # ids, targets; one or two bytes a character
        held_out = min(CALIBRATION_ROWS, facts.rows // 20)  # where valid is held out of train
        calibration = 160 * CANDIDATES * held_out
        first = max(head.train_bytes, head.model_bytes + calibration)
        second = copies + max(tail.train_bytes, tail.model_bytes + calibration)
        predicting = head.predict_seconds + tail.predict_seconds
        copying = copied * (2e-6 + 4e-8 * characters)
        return Plan(
            train_bytes=first + second if self.method.parallel else max(first, head.model_bytes + second),
            model_bytes=head.model_bytes + tail.model_bytes,
            train_seconds=head.train_seconds + copying + tail.train_seconds + predicting * held_out / 1000,
            predict_seconds=predicting,
            steps=(
                *((f"{name} of head", size) for name, size in head.steps),
                ("copies of tail examples", copies),
                *((f"{name} of tail", size) for name, size in tail.steps),
            ),
        )


def restricted(data: Dataset, own: Longs, labels: LabelSet) -> Dataset:
    """Restrict a data set to some of its labels.

    Args:
        data: rows over the whole label set.
        own: (labels kept,) their rows in the whole label set.
        labels: what `LabelSet.take` returns for them.

    Returns:
        The same rows over these labels only.
    """
    excluded = None if data.excluded is None else data.excluded[:, own]
    return replace(data, labels=labels, targets=data.targets[:, own], excluded=excluded)


def facts_of_sides(facts: DataFacts, method: Taug) -> tuple[DataFacts, DataFacts]:
    """Estimate the sizes of the head and of the tail, as if the n-th label had 1/n of the first one's rows.

    Args:
        facts: sizes of the whole data.
        method: decides the head and the copies.

    Returns:
        Sizes of the head's data and of the tail's, copies included.
    """
    number = int(method.head_share * facts.labels + 1e-9)
    counts = facts.positives / np.arange(1, facts.labels + 1) / max((1 / np.arange(1, facts.labels + 1)).sum(), 1)
    growth = np.log(max(facts.terms / max(facts.terms_per_row, 1), 1)) / np.log(max(facts.rows, 2))
    words = counts**growth  # different words of a label's rows, up to a factor
    sides = []
    for part, copies in ((slice(0, number), 0), (slice(number, None), method.copies)):
        positives = counts[part].sum()
        rows = facts.rows * -np.expm1(-positives / max(facts.rows, 1))  # those with at least one of the labels
        kept = (1 + copies * method.keep_probability) / (1 + copies)  # share of words, copies and originals together
        sides.append(
            replace(
                facts,
                rows=int(rows * (1 + copies)),
                labels=len(counts[part]),
                positives=int(positives * (1 + copies)),
                terms_per_row=facts.terms_per_row * kept,
                shared_terms=facts.shared_terms * kept**2,
                mean_terms=int(facts.mean_terms * words[part].sum() / max(words.sum(), 1e-9)) + 1,
                characters=int(facts.characters * rows / max(facts.rows, 1) * (1 + copies) * kept),
            )
        )
    return sides[0], sides[1]
