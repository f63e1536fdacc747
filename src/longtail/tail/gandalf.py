"""Label texts as training rows, with the labels that stand beside them as soft targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from longtail.arrays import Longs, Matrix
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.data.label_rows import labels_with_input, own_targets, with_label_rows
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.row_plan import more_rows
from longtail.metrics.frequency import equi_volume_bins
from longtail.plan import Facts, Plan
from longtail.progress import note, stage

MANY = 100  # labels of a row that are more than one text is about
FEW = 100  # one row in so many may be left out of the counts unasked
Graph = Literal["cooccurrence", "walk", "symmetric"]


@dataclass(frozen=True)
class Gandalf:
    """Add every label's text as a training row whose soft targets are the labels that stand beside it in rows.

    Row j has target G_ij / G_jj for label i, the share of j's rows that also have i, where above `threshold`, and 1
    for itself. A label that no row has keeps only itself. Counts and propensities stay those of the rows as given.

    `graph="walk"` takes visits of random walks with restart over rows and labels instead, over the visits to j itself;
    `"symmetric"` the logistic function of the mean of both labels' shares, S, where S is above the threshold (GLaS).
    `scale` and `doubt` lower soft targets, where a label's words bring its company less often than the label does, and
    where it was counted on few rows: `scale` x G_ij / (G_jj + `doubt`). `times` gives label rows more weight.
    `longest` leaves rows with very many labels out of the counts: a few of them can make most of all links. "auto" does
    so above 100 labels, where at most one row in a hundred has so many and they make more than half of all pairs.
    `self_only` is `rows`; `rows_only` trains on label rows alone; `budget` draws as many rows as were given from both
    kinds together, so that training costs what it did.

    Paper: Kharbanda et al., Gandalf: learning label-label correlations in XMC via label features (KDD 2024).
    Needs: label texts, or label features over the columns of the rows; labels without any get no row. Goes on every
    learner.
    Costs: training of rows + labels instead of rows; one pass over the pairs of labels in rows. Predicting costs what
    it did. On nets `scale=0.3, times=2` brought the tail more than the paper's settings, on trees less.
    Prefer instead: `rows` where labels stand together that are not alike, as topics of a long text do, and on nets that
    read label texts already (`decaf`, `eclare`); `lever` where most labels have too few rows to stand together.
    Example: longtail compare wordnet "parabel" "parabel + rows" "parabel + gandalf(threshold=0.2, most=5)"
    """

    threshold: float = 0.1  # delta: shares up to it are dropped
    most: int | None = None  # soft targets of a label beside itself; none: all above the threshold
    least: int = 1  # rows that must have both labels; 1: soft targets may also add up to less
    longest: int | Literal["auto"] | None = "auto"  # labels of a row above which it links none of them; none: all link
    scale: float = 1.0  # of soft targets; the label itself stays at 1
    doubt: float = 0.0  # rows of a label's own on which nothing stood beside it, added to those it has
    times: int = 1  # how often the row of each label stands among the rows
    graph: Graph = "cooccurrence"
    self_only: bool = False  # Z^1: every label row has only itself
    rows_only: bool = False  # Z: without the rows given
    budget: bool = False  # U(G, N): as many rows as were given, drawn from both kinds
    share: float = 1.0  # of the labels that become rows
    which: Literal["uniform", "tail"] = "uniform"  # tail: of five bins of equal volume, the rarest first
    steps: int = 400  # of a walk
    restart: float = 0.8  # chance that a walk goes back to its label after a step
    seed: int = 0

    summary: ClassVar[str] = "label texts as training rows, with labels they co-occur with as soft targets"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        given = f"threshold={self.threshold:g}, least={self.least}, most={self.most}, share={self.share:g}"
        if not 0 <= self.threshold < 1 or self.least < 1 or not 0 < self.share <= 1 or (self.most or 0) < 0:
            raise RecipeError(
                "gandalf takes a threshold from 0 to below 1, least of at least 1, most of at least 0 and a share "
                f"above 0 to 1, got {given}"
            )
        if not 0 < self.scale <= 1 or self.doubt < 0 or self.times < 1:
            raise RecipeError(
                "gandalf takes a scale above 0 to 1, a doubt of at least 0 and times of at least 1, got "
                f"scale={self.scale:g}, doubt={self.doubt:g}, times={self.times}"
            )
        if self.steps < 1 or not 0 <= self.restart <= 1:
            raise RecipeError(
                f"walks of gandalf take at least 1 step and a restart from 0 to 1, got steps={self.steps}, "
                f"restart={self.restart:g}"
            )
        if isinstance(self.longest, int) and self.longest < 1:
            raise RecipeError(f"setting 'longest' of gandalf is at least 1, got {self.longest}")
        if self.rows_only and self.budget:
            raise RecipeError("budget draws from given rows and label rows, rows_only leaves the given out; give one")

    def augment(self, train: Dataset) -> Dataset:
        labels = self._chosen(labels_with_input(train, "gandalf"), train.labels)
        assert train.origins is not None
        # Links come from the rows as given: what other methods added repeats them, or is a guess already.
        given = train.targets if not train.origins.any() else train.targets[np.flatnonzero(train.origins == 0)]
        if self.self_only:
            targets = own_targets(labels, len(train.labels))
        else:
            self._tell_of_long_rows(given)
            with stage("linking labels"):
                targets = self.soft_targets(given)
                targets = targets if len(labels) == targets.shape[0] else targets[labels]
        augmented = with_label_rows(train.take([]) if self.rows_only else train, labels, targets, "gandalf")
        if self.times > 1:
            first = len(augmented) - len(labels)
            again = np.tile(np.arange(first, len(augmented)), self.times - 1)
            augmented = augmented.take(np.concatenate([np.arange(len(augmented)), again]))
        if self.budget and len(augmented) > len(train):
            drawn = np.argsort(hashed(augmented.ids, f"gandalf:{self.seed}"), kind="stable")[: len(train)]
            augmented = augmented.take(np.sort(drawn))
        return augmented

    def soft_targets(self, given: Matrix) -> Matrix:
        """The targets of every label's row, from the targets (rows, labels) of the rows given: csr (labels, labels)."""
        rows = self.linking(given)
        given = given if len(rows) == given.shape[0] else given[rows]
        graph = self._linked(given)
        if self.scale < 1 or self.doubt > 0:
            rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
            counts = np.maximum(np.bincount(given.indices, minlength=graph.shape[0]), 1)
            lower = (self.scale * counts / (counts + self.doubt)).astype(np.float32)
            graph.data = np.where(rows == graph.indices, graph.data, graph.data * lower[rows])
        return graph

    def linking(self, given: Matrix) -> Longs:
        """The rows that link their labels."""
        lengths, longest = np.diff(given.indptr), self.longest
        if longest == "auto":
            many, share = _long_rows(given)
            longest = MANY if share > 0.5 and many * FEW <= len(lengths) else None
        return np.arange(len(lengths)) if longest is None else np.flatnonzero(lengths <= longest)

    def _tell_of_long_rows(self, given: Matrix) -> None:
        """Where a few rows make most pairs, soft targets of theirs say little of what stands together."""
        many, share = _long_rows(given)
        if isinstance(self.longest, int) or share <= 0.5:
            return
        told = f"longest={MANY} leaves these rows out of the counts"
        if len(self.linking(given)) < given.shape[0]:
            told = "these rows are left out of the counts, longest=none would keep them"
        note(
            f"gandalf: {many:,} of {given.shape[0]:,} rows have more than {MANY} labels and make {share:.0%} of all "
            f"pairs of labels; {told}"
        )

    def _linked(self, given: Matrix) -> Matrix:
        from longtail.linear.cooccurrence import cooccurrence, symmetric
        from longtail.linear.walks import walks

        if self.graph == "walk":
            walk = {"steps": self.steps, "restart": self.restart, "seed": self.seed}
            return walks(given, threshold=self.threshold, most=self.most, **walk)  # type: ignore[arg-type]
        least = 0 if self.least == 1 else self.least
        if self.graph == "cooccurrence":
            return cooccurrence(given, self.threshold, self.most, least)
        graph = symmetric(given, self.threshold, self.most, least)
        # The label itself stays at 1: the logistic function of 1 would say that its text is 27% not its own.
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        graph.data = np.where(rows == graph.indices, 1, 1 / (1 + np.exp(-graph.data))).astype(np.float32)
        return graph

    def _chosen(self, able: Longs, labels: LabelSet) -> Longs:
        """A share of these labels. A smaller share is part of a larger one, whatever else the label set holds."""
        if self.share == 1:
            return able
        order = hashed([labels.ids[label] for label in able.tolist()], f"gandalf:{self.seed}")
        bins = equi_volume_bins(labels)[able]  # 0 is the head, -1 never seen: the rarest of all
        bins = np.where(bins < 0, -len(labels), -bins) if self.which == "tail" else np.zeros_like(bins)
        first = np.lexsort((order, bins))[: max(round(self.share * len(able)), 1)]
        return np.sort(able[first])

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        each = facts.positives / max(facts.rows, 1)  # labels of a row
        links = 1.0 if self.self_only else min(3 * each, self.most if self.most is not None else 3 * each) + 1
        rows = self.times * self.share * facts.labels
        scratch = 0.0 if self.self_only else 8.0 * facts.positives + 16 * facts.labels * (links + 2)
        seconds = 0.0 if self.self_only else 1.2e-8 * facts.positives * each
        if self.graph == "walk":
            seconds = 4e-8 * self.steps * facts.labels
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


def _long_rows(given: Matrix) -> tuple[int, float]:
    """How many rows have very many labels, and their share of all pairs of labels in rows."""
    lengths = np.diff(given.indptr).astype(np.float64)
    pairs, long = lengths * (lengths - 1), lengths > MANY
    return int(np.count_nonzero(long)), float(pairs[long].sum() / max(pairs.sum(), 1))
