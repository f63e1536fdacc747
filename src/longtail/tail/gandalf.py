"""Label texts as training examples, with the labels that co-occur with them as soft targets.

A few documents with very many labels would make most links, so by default they link none. The paper counts them;
where they occur, they cost every learner that was tried (yso in `docs/results/gandalf.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from longtail.arrays import Longs, Matrix
from longtail.data.corpus import hashed, held_out
from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, own_targets, with_label_rows
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.features.added_rows_plan import more_rows
from longtail.metrics.frequency import equi_volume_bins
from longtail.papers import GANDALF, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.progress import note, stage
from longtail.seams import Learner, Scorer, TailMethod, WrappedLearner

MANY_LABELS = 100  # a document with more labels than this is hardly about each of them
MIN_ROWS_PER_LONG_ROW = 100  # max_labels="auto" leaves out at most one document in this many
SCALES = (0.0, 0.3, 1.0)  # tried by soft_scale="auto"; 0 is `rows`, which the others have to beat
HELD_OUT = 0.05  # of the training examples, where there is no valid split to choose on
Graph = Literal["cooccurrence", "walk", "symmetric"]


@dataclass(frozen=True)
class Gandalf:
    """Add every label's text as a training example whose soft targets are the labels that co-occur with it.

    Label j's example has target G_ij / G_jj for label i: the share of j's documents that also have i, where above
    `threshold`. Its target for j itself is 1, and the only one if no document has j. Counts and propensities stay those
    of the examples as given.

    `graph="walk"` counts the visits of random walks with restart over documents and labels instead, divided by the
    visits to j itself. `"symmetric"` takes the logistic function of S, the mean of both labels' shares, where S is
    above the threshold (GLaS). `soft_scale` and `prior_count` lower soft targets, because a label's text brings its
    co-occurring labels less often than the label does, and because a share of few documents is unsure: `soft_scale` x
    G_ij / (G_jj + `prior_count`). `soft_scale="auto"` chooses 0 (that is `rows`), 0.3 or 1 by P + PSP at 1, 3 and 5 on
    valid, or on a twentieth of train where there is none: one training of the learner for each, and a logged line. Take
    it where you do not know whether co-occurring labels are alike; the labels' examples are then added last, after
    those of other methods. `repeats` gives them more weight. `max_labels` leaves documents with more labels out of the
    counts: a few of them can make most of all links. "auto" does so above 100 labels, where at most one document in a
    hundred has so many and they make more than half of all pairs. `self_only` is `rows`; `rows_only` trains on the
    labels' examples alone; `budget` draws as many examples as were given from both kinds together, so that training
    costs what it did.

    Needs: label texts, or label features over the columns of the documents' features; a label without either adds no
    example. Goes on every learner.
    Costs: one more training example for each label; one pass over the pairs of labels that documents have. Predicting
    costs what it did. On nets `soft_scale=0.3, repeats=2` brought the tail more than the paper's settings, on trees
    less.
    Prefer instead: `rows` where labels co-occur that are not alike, as topics of a long text do, and on nets that read
    label texts already (`decaf`, `eclare`); `lever` where most labels have too few documents to co-occur.
    Example: longtail compare wordnet "parabel" "parabel + rows" "parabel + gandalf(threshold=0.2, max_soft_targets=5)"
    """

    threshold: float = 0.1  # delta: shares up to it are dropped
    max_soft_targets: int | None = None  # soft targets of a label beside itself; none: all above the threshold
    min_cooccurrence: int = 1  # documents that must have both labels; 1: soft targets may also add up to less
    max_labels: int | Literal["auto"] | None = "auto"  # documents with more labels link none; none: all link
    # Factor of soft targets; the label itself stays at 1. auto: chosen on valid.
    soft_scale: float | Literal["auto"] = 1.0
    prior_count: float = 0.0  # documents without other labels, added to a label's own
    repeats: int = 1  # how often the example of each label is added
    graph: Graph = "cooccurrence"  # where soft targets come from
    self_only: bool = False  # Z^1: every label's example has only that label
    rows_only: bool = False  # Z: without the examples given
    budget: bool = False  # U(G, N): as many examples as were given, drawn from both kinds
    label_share: float = 1.0  # of the labels that become examples
    label_selection: Literal["uniform", "tail"] = "uniform"  # tail: from five equi-volume bins, the rarest first
    walk_steps: int = 400  # of each random walk
    restart: float = 0.8  # probability that a walk goes back to its label after a step
    seed: int = 0

    summary: ClassVar[str] = "label texts as examples, labels they co-occur with as targets"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"delta": "threshold"}
    papers: ClassVar[tuple[Paper, ...]] = (GANDALF,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {"threshold": 0.1, "max_labels": None, "graph": "cooccurrence"},
            "equation 6",
            {"threshold": "table 7: delta = 0.1"},
        )
    }
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if (
            not 0 <= self.threshold < 1
            or self.min_cooccurrence < 1
            or not 0 < self.label_share <= 1
            or (self.max_soft_targets or 0) < 0
        ):
            raise RecipeError(
                "gandalf takes a threshold from 0 to below 1, a min_cooccurrence of at least 1, max_soft_targets of at "
                f"least 0 and a label_share above 0 to 1, got threshold={self.threshold:g}, "
                f"min_cooccurrence={self.min_cooccurrence}, max_soft_targets={self.max_soft_targets}, "
                f"label_share={self.label_share:g}"
            )
        if self.soft_scale == "auto" and (self.self_only or self.rows_only):
            raise RecipeError(
                'gandalf(soft_scale="auto") chooses between `rows` and soft targets, so self_only and rows_only have '
                "no place beside it; leave them out, or give soft_scale a number"
            )
        if self._scale == 0:
            raise RecipeError("gandalf(soft_scale=0) has no soft targets: write `rows`, or soft_scale above 0")
        if not 0 < self._scale <= 1 or self.prior_count < 0 or self.repeats < 1:
            raise RecipeError(
                "gandalf takes a soft_scale above 0 to 1, a prior_count of at least 0 and repeats of at least 1, got "
                f"soft_scale={self._scale:g}, prior_count={self.prior_count:g}, repeats={self.repeats}"
            )
        if self.walk_steps < 1 or not 0 <= self.restart <= 1:
            raise RecipeError(
                f"gandalf takes walk_steps of at least 1 and a restart from 0 to 1, got walk_steps={self.walk_steps}, "
                f"restart={self.restart:g}"
            )
        if isinstance(self.max_labels, int) and self.max_labels < 1:
            raise RecipeError(f"setting 'max_labels' of gandalf is at least 1, got {self.max_labels}")
        if self.rows_only and self.budget:
            raise RecipeError(
                "gandalf takes budget or rows_only, not both: budget draws from the examples that rows_only drops"
            )

    @property
    def _scale(self) -> float:
        """The factor of soft targets; 1 where it is still to be chosen."""
        return 1.0 if self.soft_scale == "auto" else self.soft_scale

    def at(self, scale: float) -> Gandalf:
        """Fix the factor of soft targets.

        Args:
            scale: from 0, which is `rows`, to 1.

        Returns:
            The method with this factor.
        """
        return replace(self, self_only=True, soft_scale=1.0) if scale == 0 else replace(self, soft_scale=scale)

    def chosen_on_valid(self, learner: Learner) -> Learner:
        """See `ChoosesOnValid.chosen_on_valid`."""
        return TriedLearner(learner, self) if self.soft_scale == "auto" else learner

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`. With `soft_scale="auto"` the rows are added for each try instead."""
        return train if self.soft_scale == "auto" else self._with_label_rows(train)

    def _with_label_rows(self, train: Dataset) -> Dataset:
        labels = self._chosen(labels_with_input(train, "gandalf"), train.labels)
        assert train.origins is not None
        # Links come from the rows as given: rows that other methods added repeat them, or are estimates already.
        given = train.targets if not train.origins.any() else train.targets[np.flatnonzero(train.origins == 0)]
        if self.self_only:
            targets = own_targets(labels, len(train.labels))
        else:
            self._note_long_rows(given)
            with stage("linking labels"):
                targets = self.soft_targets(given)
                targets = targets if len(labels) == targets.shape[0] else targets[labels]
        augmented = with_label_rows(train.take([]) if self.rows_only else train, labels, targets, "gandalf")
        if self.repeats > 1:
            first = len(augmented) - len(labels)
            copies = np.tile(np.arange(first, len(augmented)), self.repeats - 1)
            augmented = augmented.take(np.concatenate([np.arange(len(augmented)), copies]))
        if self.budget and len(augmented) > len(train):
            drawn = np.argsort(hashed(augmented.ids, f"gandalf:{self.seed}"), kind="stable")[: len(train)]
            augmented = augmented.take(np.sort(drawn))
        return augmented

    def soft_targets(self, given: Matrix) -> Matrix:
        """Compute the targets of label rows from co-occurrence.

        Args:
            given: csr (rows, labels), the targets of the rows given.

        Returns:
            csr (labels, labels) float32; row j holds the targets of label j's text.
        """
        rows = self.linking(given)
        given = given if len(rows) == given.shape[0] else given[rows]
        graph = self._linked(given)
        if self._scale < 1 or self.prior_count > 0:
            rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
            counts = np.maximum(np.bincount(given.indices, minlength=graph.shape[0]), 1)
            lower = (self._scale * counts / (counts + self.prior_count)).astype(np.float32)
            graph.data = np.where(rows == graph.indices, graph.data, graph.data * lower[rows])
        return graph

    def linking(self, given: Matrix) -> Longs:
        """Choose the rows whose labels are linked.

        Args:
            given: csr (rows, labels), the targets of the rows given.

        Returns:
            (rows that link,) their numbers.
        """
        labels_of_row, limit = np.diff(given.indptr), self.max_labels
        if limit == "auto":
            long_rows, share = _long_rows(given)
            few = long_rows * MIN_ROWS_PER_LONG_ROW <= len(labels_of_row)
            limit = MANY_LABELS if share > 0.5 and few else None
        return np.arange(len(labels_of_row)) if limit is None else np.flatnonzero(labels_of_row <= limit)

    def _note_long_rows(self, given: Matrix) -> None:
        """Log a note where a few rows make most pairs: their soft targets do not mean that labels belong together."""
        long_rows, share = _long_rows(given)
        if isinstance(self.max_labels, int) or share <= 0.5:
            return
        advice = f"max_labels={MANY_LABELS} leaves these documents out of the counts"
        if len(self.linking(given)) < given.shape[0]:
            advice = "these documents are left out of the counts, max_labels=none would keep them"
        note(
            f"gandalf: {long_rows:,} of {given.shape[0]:,} documents have more than {MANY_LABELS} labels and make "
            f"{share:.0%} of all pairs of labels; {advice}"
        )

    def _linked(self, given: Matrix) -> Matrix:
        from longtail.linear.graph.cooccurrence import cooccurrence, symmetric
        from longtail.linear.graph.random_walks import walks

        if self.graph == "walk":
            walk = {"steps": self.walk_steps, "restart": self.restart, "seed": self.seed}
            return walks(given, threshold=self.threshold, most=self.max_soft_targets, **walk)  # type: ignore[arg-type]
        min_count = 0 if self.min_cooccurrence == 1 else self.min_cooccurrence
        if self.graph == "cooccurrence":
            return cooccurrence(given, self.threshold, self.max_soft_targets, min_count)
        graph = symmetric(given, self.threshold, self.max_soft_targets, min_count)
        # The label itself stays at 1: the logistic function of 1 is 0.73.
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        graph.data = np.where(rows == graph.indices, 1, 1 / (1 + np.exp(-graph.data))).astype(np.float32)
        return graph

    def _chosen(self, with_input: Longs, labels: LabelSet) -> Longs:
        """A share of these labels. A smaller share is a subset of a larger one, whatever else the label set holds."""
        if self.label_share == 1:
            return with_input
        order = hashed([labels.ids[label] for label in with_input.tolist()], f"gandalf:{self.seed}")
        bins = equi_volume_bins(labels)[with_input]  # 0 is the head; -1 was never seen: the rarest of all
        bins = np.where(bins < 0, -len(labels), -bins) if self.label_selection == "tail" else np.zeros_like(bins)
        first = np.lexsort((order, bins))[: max(round(self.label_share * len(with_input)), 1)]
        return np.sort(with_input[first])

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        labels_of_row = facts.positives / max(facts.rows, 1)
        links = 1.0
        if not self.self_only:
            estimate = 3 * labels_of_row
            links = min(estimate, self.max_soft_targets if self.max_soft_targets is not None else estimate) + 1
        rows = self.repeats * self.label_share * facts.labels
        scratch = 0.0 if self.self_only else 8.0 * facts.positives + 16 * facts.labels * (links + 2)
        seconds = 0.0 if self.self_only else 1.2e-8 * facts.positives * labels_of_row
        if self.graph == "walk":
            seconds = 4e-8 * self.walk_steps * facts.labels
        if self.budget:
            rows = 0
        return more_rows(
            before,
            facts,
            rows,
            rows * links,
            facts.terms_per_label,
            instead=self.rows_only,
            seconds=seconds,
            scratch=scratch,
        )


@dataclass(frozen=True)
class TriedLearner(WrappedLearner):
    """A learner that is fitted once for each factor of soft targets; the fit that is best on valid is kept."""

    method: Gandalf

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """See `Learner.fit`."""
        from longtail.nn.distill.student_choice import validation_value

        seen, measured = train, valid
        if valid.targets.nnz == 0:
            away = held_out(train.ids, HELD_OUT, "gandalf")
            seen, measured = train.take(np.flatnonzero(~away)), train.take(np.flatnonzero(away))
        if measured.targets.nnz == 0:
            note("gandalf: too few examples to choose soft_scale on, so labels get no soft targets")
            return self.learner.fit(self.method.at(0).augment(train), valid, parts)
        best, most, chosen = None, -1.0, 0.0
        for scale in SCALES:
            with stage(f"trying soft_scale={scale:g}"):
                scorer = self.learner.fit(self.method.at(scale).augment(seen), measured, parts)
                value, words = validation_value(scorer, measured)
            note(f"gandalf: soft_scale={scale:g}: {words}")
            if value > most:  # of equal values the smaller factor
                best, most, chosen = scorer, value, scale
        note(f"gandalf: chosen soft_scale={chosen:g}")
        if seen is not train:  # the learner trains on the rows measured now, so it may not choose anything on them
            return self.learner.fit(self.method.at(chosen).augment(train), valid, parts)
        assert best is not None
        return best

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. What the label rows add, the method's own plan adds."""
        once = self.learner.plan(facts)
        return replace(once, train_seconds=len(SCALES) * once.train_seconds)


def _long_rows(given: Matrix) -> tuple[int, float]:
    """How many rows have more than MANY_LABELS labels, and their share of all pairs of labels in rows."""
    labels_of_row = np.diff(given.indptr).astype(np.float64)
    pairs, long = labels_of_row * (labels_of_row - 1), labels_of_row > MANY_LABELS
    return int(np.count_nonzero(long)), float(pairs[long].sum() / max(pairs.sum(), 1))
