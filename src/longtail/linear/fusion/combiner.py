"""The combiner: learns, on rows that the members did not train on, how likely each of their candidates is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Ints, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import counted
from longtail.linear.features.sparse_features import matrix_from, matrix_state
from longtail.linear.fusion.boosted_trees import BoostedTrees, Growing, grow
from longtail.linear.fusion.candidate_numbers import NumberColumns, company_numbers, member_numbers, side_by_side
from longtail.linear.fusion.candidates import Answers, CandidateLists
from longtail.linear.fusion.label_phrases import LabelPhrases
from longtail.linear.fusion.reliability import LabelRecord, out_of_fold
from longtail.progress import emit, note, stage

# Those that paid on the valid splits of two data sets; "agreement" and "length" did not (benchmarks/fuse.py).
KEPT = ("members", "frequency", "reliability", "phrase", "company")
MAX_WRONG = 1_500_000  # wrong candidates to learn from; of more, a share is kept and the odds are corrected
MIN_RIGHT = 20  # right candidates below which nothing is learned
HELD_OUT = 5  # one row in five decides when the trees stop growing, and measures the calibration
CHUNK = 4096  # rows whose numbers are computed at a time
BINS = 15  # of the calibration error
CLIP = 30.0  # of the log odds


@dataclass(frozen=True, eq=False)
class LabelFacts:
    """What the combiner knows of labels from the rows that the members were fitted on."""

    counts: Floats  # (labels,) training rows
    together: Matrix | None  # csr (labels, labels), training rows that have both; None: not counted

    @classmethod
    def of(cls, train: Dataset, company: bool) -> LabelFacts:
        """Count labels, and pairs of labels, over the rows given; rows that tail methods added do not count.

        Args:
            train: the rows that the members were fitted on.
            company: whether to count pairs.

        Returns:
            The facts.
        """
        assert train.origins is not None
        given = train.targets[np.flatnonzero(train.origins == 0)]
        ones = sparse.csr_array((np.ones(given.nnz, np.float32), given.indices, given.indptr), shape=given.shape)
        counts = np.bincount(given.indices, minlength=given.shape[1]).astype(np.float32)
        together = None
        if company:
            together = sparse.csr_array(ones.T @ ones)
            together.sort_indices()
        return cls(counts, together)

    def with_rows(self, targets: Matrix) -> LabelFacts:
        """Return the facts with more rows, over as many labels as `targets` has columns."""
        labels = targets.shape[1]
        counts = np.zeros(labels, dtype=np.float32)
        counts[: len(self.counts)] = self.counts
        together = self.together
        if together is not None:
            together = sparse.csr_array((together.data, together.indices, together.indptr), shape=together.shape)
            together.resize((labels, labels))
            ones = sparse.csr_array((np.ones(targets.nnz, np.float32), targets.indices, targets.indptr), targets.shape)
            together = sparse.csr_array(together + ones.T @ ones)
            together.sort_indices()
        return LabelFacts(counts + np.bincount(targets.indices, minlength=labels).astype(np.float32), together)


@dataclass(frozen=True, eq=False)
class CombinerExamples:
    """Rows to learn from, what members that did not see them say, and the facts of the rows those were fitted on."""

    answers: Answers
    data: Dataset
    facts: LabelFacts


@dataclass(frozen=True)
class CombinerFit:
    """How the combiner was learned, for reports."""

    rows: int
    candidates: int
    right: int
    kept_wrong: float  # share of the wrong candidates that were learned from
    trees: int
    held_out_error: float  # expected calibration error on the fifth of the rows that was held out, in percent


@dataclass(frozen=True, eq=False)
class Combiner:
    """Trees over the candidates' numbers."""

    columns: NumberColumns
    places: int  # labels that a member names at most
    trees: BoostedTrees | None  # None: there was too little to learn from; members' shares are averaged
    log_kept: float  # log of the share of wrong candidates that were learned from: corrects the odds
    facts: LabelFacts
    record: LabelRecord
    phrases: LabelPhrases

    def probabilities(self, candidates: CandidateLists, texts: Sequence[str] | None) -> Floats:
        """Compute the probability that each candidate is right.

        Args:
            candidates: of some rows.
            texts: of these rows; None where they have features alone.

        Returns:
            (candidates,) above 0.
        """
        numbers, shares = _numbers(self.columns, self.places, candidates, texts, self.facts, self.phrases)
        if self.trees is None:
            return np.maximum(shares, np.float32(1e-6))
        if "reliability" in self.columns.groups:
            numbers[:, self.columns.of("reliability")] = self.record.numbers(candidates.labels)
        return _sigmoid(self.trees.log_odds(numbers) + self.log_kept).astype(np.float32)

    def over(self, labels: int, texts: Sequence[str], facts: LabelFacts | None = None) -> Combiner:
        """Return the same combiner over more labels.

        Args:
            labels: how many there are now.
            texts: of all labels.
            facts: over the rows that members know now; none: the new labels have no row.

        Returns:
            The new combiner.
        """
        new = sparse.csr_array((0, labels), dtype=np.float32)
        return replace(
            self,
            facts=facts or self.facts.with_rows(new),
            record=self.record.with_labels(labels),
            phrases=LabelPhrases(tuple(texts)),
        )

    def tensors(self) -> dict[str, AnyArray]:
        """Return the arrays by name, for a saved model; the texts of labels are stored by the model."""
        found: dict[str, AnyArray] = {"counts": self.facts.counts}
        if self.facts.together is not None:
            found |= matrix_state("together", self.facts.together)
        record = self.record
        found |= {"proposed": record.proposed, "expected": record.expected, "right": record.right}
        return found | ({} if self.trees is None else self.trees.tensors())

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, AnyArray], columns: NumberColumns, places: int, log_kept: float, texts: Sequence[str]
    ) -> Combiner:
        """Build the combiner from what `tensors` returned.

        Args:
            tensors: arrays by name; they may have been damaged since.
            columns: what the trees see.
            places: labels that a member names at most.
            log_kept: see the field.
            texts: of the labels.

        Returns:
            The combiner.

        Raises:
            ValueError: the arrays do not fit together.
        """
        together = matrix_from("together", tensors) if "together.shape" in tensors else None
        trees = BoostedTrees.from_tensors(tensors, columns.width) if "trees.roots" in tensors else None
        record = LabelRecord(tensors["proposed"], tensors["expected"], tensors["right"])
        facts = LabelFacts(tensors["counts"], together)
        return cls(columns, places, trees, log_kept, facts, record, LabelPhrases(tuple(texts)))


def learn(
    examples: Sequence[CombinerExamples],
    members: int,
    places: int,
    facts: LabelFacts,
    growing: Growing,
    groups: Sequence[str] = KEPT,
) -> Combiner:
    """Learn how likely candidates are right.

    Args:
        examples: rows and members' answers for them, each with the facts of the rows that those members were fitted on.
        members: how many.
        places: labels that a member names at most.
        facts: of the rows that the members of the model were fitted on.
        growing: how trees are grown.
        groups: which numbers the trees see.

    Returns:
        The combiner.
    """
    labels = examples[0].data.labels
    phrases, columns = LabelPhrases(labels.texts), NumberColumns(members, tuple(groups))
    with stage("joining candidates"):
        joined = [_Joined.of(given, begin) for given in examples for begin in range(0, len(given.data), CHUNK)]
        every = [np.concatenate(parts) for parts in zip(*(one.plain(places) for one in joined), strict=True)]
        names, shares, right = every
        ends = np.cumsum([0, *(one.rows for one in joined)])
        rows = np.concatenate([one.candidates.rows + first for one, first in zip(joined, ends, strict=False)])
        record = LabelRecord.of(names, shares, right, len(labels))
    start = Combiner(columns, places, None, 0.0, facts, record, phrases)
    wrong = len(right) - int(right.sum())
    if right.sum() < MIN_RIGHT or wrong == 0:
        few = f"only {counted(int(right.sum()), 'candidate is', 'candidates are')} right, too few"
        note(
            f"fuse: {few if wrong else 'no candidate is wrong, so nothing'} to learn from; members' scores are averaged"
        )
        return start
    rng = np.random.default_rng(growing.seed)
    share = min(1.0, MAX_WRONG / wrong)
    kept = right | (rng.random(len(right)) < share)
    numbers = _kept_numbers(joined, kept, columns, places, phrases)
    joined.clear()  # growing takes as much memory again
    if "reliability" in groups:
        seen = out_of_fold(names, rows, shares, right, len(labels), growing.seed)
        numbers[:, columns.of("reliability")] = seen[kept]
    with stage("growing trees"):
        small = replace(growing, min_leaf=max(min(growing.min_leaf, len(numbers) // 200), 2))
        held_out = (rng.permutation(ends[-1]) % HELD_OUT == 0)[rows[kept]]
        trees, truth = grow(numbers, right[kept], held_out, small), right[kept]
        log_kept = float(np.log(share))
        error = _calibration_error(trees.log_odds(numbers[held_out]) + log_kept, truth[held_out], share)
        trees = grow(numbers, truth, None, replace(small, trees=max(len(trees.roots), 1)))
    emit(CombinerFit(int(ends[-1]), len(right), int(right.sum()), share, len(trees.roots), error))
    note(
        f"fuse: {counted(len(trees.roots), 'tree')} from {len(right):,} candidates of {ends[-1]:,} examples, "
        f"calibration error {error:.2f} points on a held-out fifth"
    )
    return replace(start, trees=trees, log_kept=log_kept)


@dataclass(frozen=True, eq=False)
class _Joined:
    """Some rows to learn from, with their candidates."""

    candidates: CandidateLists
    right: Bools
    texts: Sequence[str] | None
    facts: LabelFacts

    @classmethod
    def of(cls, given: CombinerExamples, begin: int) -> _Joined:
        part = slice(begin, min(begin + CHUNK, len(given.data)))
        found = CandidateLists.joined([(labels[part], scores[part]) for labels, scores in given.answers])
        if given.data.excluded is not None:
            found = found.take(~_held(found, given.data.excluded[part]))
        texts = None if given.data.texts is None else given.data.texts[part]
        return cls(found, _held(found, given.data.targets[part]), texts, given.facts)

    @property
    def rows(self) -> int:
        return len(self.candidates.starts) - 1

    def plain(self, places: int) -> tuple[Ints, Floats, Bools]:
        return self.candidates.labels, member_numbers(self.candidates, places)[2], self.right

    def numbers(self, columns: NumberColumns, places: int, phrases: LabelPhrases) -> Floats:
        return _numbers(columns, places, self.candidates, self.texts, self.facts, phrases)[0]


def _kept_numbers(
    joined: Sequence[_Joined], kept: Bools, columns: NumberColumns, places: int, phrases: LabelPhrases
) -> Floats:
    """(kept candidates, columns) the numbers of those that are learned from, with 0 for the reliability."""
    with stage("computing the numbers of candidates", total=len(joined)) as advance:
        numbers = np.empty((int(kept.sum()), columns.width), dtype=np.float32)
        place = done = 0
        for one in joined:
            chosen = kept[place : place + len(one.candidates.labels)]
            place += len(chosen)
            found = one.numbers(columns, places, phrases)[chosen]
            numbers[done : done + len(found)] = found
            done += len(found)
            advance(1)
    return numbers


def _numbers(
    columns: NumberColumns,
    places: int,
    candidates: CandidateLists,
    texts: Sequence[str] | None,
    facts: LabelFacts,
    phrases: LabelPhrases,
) -> tuple[Floats, Floats]:
    """(candidates, columns) the numbers, with 0 for the reliability, and (candidates,) the members' shares."""
    own, agreement, shares = member_numbers(candidates, places)
    total, groups = len(candidates.labels), columns.groups
    parts = {"members": own, "agreement": agreement, "reliability": np.zeros((total, 3), dtype=np.float32)}
    parts["frequency"] = np.log1p(facts.counts[candidates.labels])[:, None]
    if "phrase" in groups or "length" in groups:
        found, sizes = np.zeros((total, 3), dtype=np.float32), np.zeros(len(candidates.starts) - 1, dtype=np.float32)
        if texts is not None:
            found, sizes = phrases.numbers(texts, candidates.starts, candidates.labels)
        parts["phrase"], parts["length"] = found, np.repeat(sizes, np.diff(candidates.starts))[:, None]
    if "company" in groups:
        assert facts.together is not None
        parts["company"] = company_numbers(candidates, agreement[:, 1].copy(), facts.together, facts.counts)
    return side_by_side(columns, parts.items()), shares


def _held(candidates: CandidateLists, pairs: Matrix) -> Bools:
    """(candidates,) which of them are among the pairs, csr (rows, labels)."""
    width = np.int64(pairs.shape[1])
    rows = np.repeat(np.arange(pairs.shape[0], dtype=np.int64), np.diff(pairs.indptr))
    return np.isin(candidates.rows * width + candidates.labels, rows * width + pairs.indices)


def _calibration_error(log_odds: Doubles, right: Bools, share: float) -> float:
    """Expected calibration error in percent, over all candidates: a kept wrong one stands for 1 / share of them."""
    probability = _sigmoid(log_odds)
    weights = np.where(right, 1.0, 1 / share)
    bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    said = np.bincount(bins, weights=weights * probability, minlength=BINS)
    was = np.bincount(bins, weights=weights * right, minlength=BINS)
    return float(100 * np.abs(said - was).sum() / weights.sum())


def _sigmoid(log_odds: Doubles) -> Doubles:
    found: Doubles = 1 / (1 + np.exp(-np.clip(log_odds, -CLIP, CLIP)))
    return found
