"""Long texts read in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from longtail.arrays import Floats, Ints, Longs
from longtail.data.dataset import Dataset, Rows
from longtail.data.subsample import evenly_spaced
from longtail.errors import RecipeError
from longtail.metrics.evaluate import evaluate
from longtail.papers import MAXP, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import note, stage
from longtail.seams import Declaration, Learner, Scorer, State, TailMethod, Whole, Words, WrappedLearner

LETTERS = 6  # characters of a word with the space behind it, about
TOKENS = 1.4  # of an encoder for each word, about
UNLIMITED_WORDS = 500  # words of a part where the learner has no limit of its own
SLACK = 0.2  # share of a part in which its end is moved to a space
TRIED_ROWS = 500  # long held-out rows on which the way to join is chosen
BLOCK = 4096  # parts that are predicted at once
PLACES = 5  # P@1 to P@5 judge the ways to join

Join = Literal["max", "mean"]
JOINS: tuple[str, ...] = get_args(Join)


def cut_text(text: str, size: int, most: int) -> list[str]:
    """Cut a text into parts of about the same size, between words where there are spaces.

    Args:
        text: the text.
        size: characters of a part.
        most: parts at most; of a longer text, parts evenly spaced over it are taken, the first and the last among them.

    Returns:
        The parts; the text itself where it is no longer than one.
    """
    if len(text) <= size:
        return [text]
    number = -(-len(text) // size)
    if number > most:
        starts = [round(part * (len(text) - size) / max(most - 1, 1)) for part in range(most)]
        bounds = [(start, start + size) for start in starts]
    else:
        ends = [round((part + 1) * len(text) / number) for part in range(number)]
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    slack = int(SLACK * size)
    parts = []
    for begin, end in bounds:
        begin, end = (_between_words(text, place, slack) for place in (begin, end))
        parts.append(text[begin:end])
    return [part for part in parts if part.strip()] or [text[:size]]


def _between_words(text: str, place: int, slack: int) -> int:
    """The place behind the last space before this one, not more than `slack` away; else the place itself."""
    if place <= 0 or place >= len(text):
        return min(max(place, 0), len(text))
    space = text.rfind(" ", max(place - slack, 0), place)
    return place if space < 0 else space + 1


@dataclass(frozen=True, eq=False)
class PartsScorer:
    """Asks a scorer for the labels of each part of a text, and joins the answers."""

    whole: Scorer
    join: str  # one of JOINS
    size: int  # characters of a part
    most: int  # parts of a text
    labels: int  # how many there are
    kind: ClassVar[str] = "parts.v1"
    declared: ClassVar[Declaration] = Declaration(
        settings={"join": Words(JOINS), "size": Whole(1), "most": Whole(1), "labels": Whole(size="labels")},
        parts={"whole": "labels"},
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None or k < 1 or all(len(text) <= self.size for text in rows.texts):
            return self.whole.top(rows, k)
        indices, scores = np.full((len(rows), k), -1, np.int32), np.zeros((len(rows), k), np.float32)
        begin = 0
        while begin < len(rows):  # as many texts as have a block of parts: a book is no more memory than that
            pieces: list[str] = []
            owners: list[int] = []
            end = begin
            while end < len(rows) and (end == begin or len(pieces) < BLOCK):
                found = cut_text(rows.texts[end], self.size, self.most)
                pieces += found
                owners += [end] * len(found)
                end += 1
            labels, joined = self._joined(rows, pieces, np.array(owners), k)
            indices[begin:end, : labels.shape[1]] = labels
            scores[begin:end, : labels.shape[1]] = joined
            begin = end
        return indices, scores

    def _joined(self, rows: Rows, pieces: Sequence[str], owners: Longs, k: int) -> tuple[Ints, Floats]:
        """Labels and scores (texts of these pieces, at most k)."""
        asked = replace(rows.take(owners), texts=tuple(pieces))
        labels, scores = self.whole.top(asked, min(max(k, CANDIDATES), self.labels))
        return join_answers(labels, scores, owners - owners[0], k, self.join)

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {"join": self.join, "size": self.size, "most": self.most, "labels": self.labels}
        return State(settings, {}, {"whole": self.whole})

    @classmethod
    def restore(cls, state: State) -> PartsScorer:
        """See `Scorer.restore`."""
        settings = state.settings
        return cls(state.parts["whole"], settings["join"], settings["size"], settings["most"], settings["labels"])


def join_answers(labels: Ints, scores: Floats, owners: Longs, k: int, join: str) -> tuple[Ints, Floats]:
    """Join the answers for the parts of texts.

    Args:
        labels: (parts, places) label rows, -1 = no label.
        scores: (parts, places).
        owners: (parts,) the text of each part, from 0, in rising order, none left out.
        k: labels of a text at most.
        join: "max" or "mean"; a label that a part does not have counts as 0 in the mean.

    Returns:
        Labels and scores (texts, at most k), best first.
    """
    texts = int(owners[-1]) + 1
    part, place = np.nonzero(labels >= 0)
    label, score, owner = labels[part, place].astype(np.int64), scores[part, place], owners[part]
    order = np.lexsort((label, owner))
    label, score, owner = label[order], score[order], owner[order]
    first = np.ones(len(label), dtype=np.bool_)
    first[1:] = (label[1:] != label[:-1]) | (owner[1:] != owner[:-1])
    starts = np.flatnonzero(first)
    if len(starts) == 0:
        return np.full((texts, 1), -1, np.int32), np.zeros((texts, 1), np.float32)
    joined = np.maximum.reduceat(score, starts) if join == "max" else np.add.reduceat(score, starts)
    label, owner = label[starts], owner[starts]
    if join == "mean":
        joined = joined / np.bincount(owners, minlength=texts)[owner].astype(np.float32)
    best = np.lexsort((label, -joined, owner))
    label, joined, owner = label[best], joined[best], owner[best]
    counts = np.bincount(owner, minlength=texts)
    ranks = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = ranks < k
    width = int(min(k, counts.max()))
    indices, values = np.full((texts, width), -1, np.int32), np.zeros((texts, width), np.float32)
    indices[owner[kept], ranks[kept]] = label[kept]
    values[owner[kept], ranks[kept]] = joined[kept]
    return ranked(indices, values)


@dataclass(frozen=True)
class InParts:
    """Predict texts that are longer than the learner reads in parts, and join the answers: a book as a whole.

    An encoder reads the first `max_tokens` tokens of a text, and no more. Here a longer text is cut into parts of that
    length, between words; a label's score is its highest among the parts, or their mean, whichever has the better P@1
    to P@5 on held-out documents that are long. Of a very long text, `max_parts` parts are read, evenly spaced over it,
    so time and memory have a bound. Training is as it was, and so are the scores of short texts.

    Needs: texts. Goes on every learner; trees and others over words read all of a text already, and gain only where a
    subject is spoken of in a small part of it.
    Costs: nothing to train but the choice; a text of n parts takes n times as long to predict.
    Prefer instead: larger `max_tokens`, where texts are a little longer than that. Scores of joined parts are no
    probabilities: add `calibrate` for those.
    Example: longtail train wordnet "parabel + parts(words_per_part=200)" --out model
    """

    join: Literal["auto", "max", "mean"] = "auto"  # auto: chosen on held-out long texts; mean where there are none
    words_per_part: int = 0  # about; 0: what the learner's max_tokens hold, or 500
    max_parts: int = 64  # parts of a text that are read

    summary: ClassVar[str] = "long texts are predicted in parts, joined by maximum or mean"
    papers: ClassVar[tuple[Paper, ...]] = (MAXP,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]] = PartsScorer

    def __post_init__(self) -> None:
        if self.words_per_part < 0 or self.max_parts < 1:
            raise RecipeError(
                "parts takes a words_per_part of at least 0 and a max_parts of at least 1, got "
                f"words_per_part={self.words_per_part}, max_parts={self.max_parts}"
            )

    def wrap(self, learner: Learner) -> Learner:
        """See `Wraps.wrap`."""
        return PartsLearner(learner, self)


@dataclass(frozen=True)
class PartsLearner(WrappedLearner):
    """A learner whose long texts are predicted in parts."""

    method: InParts

    @property
    def scorer(self) -> type[Scorer]:
        """See `Learner.scorer`."""
        return PartsScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PartsScorer:
        """See `Learner.fit`."""
        whole = self.learner.fit(train, valid, parts)
        size = LETTERS * (self.method.words_per_part or words_read(self.learner))
        found = PartsScorer(whole, "mean", size, self.method.max_parts, len(train.labels))
        if self.method.join != "auto":
            return replace(found, join=self.method.join)
        long = np.array([row for row, text in enumerate(valid.texts or ()) if len(text) > found.size], dtype=np.int64)
        if len(long) == 0:
            note("parts: no held-out text is longer than a part, so parts are joined by their mean")
            return found
        sample = valid.take(long[evenly_spaced(len(long), TRIED_ROWS)])
        with stage("choosing how to join parts"):
            worth = {join: _worth(replace(found, join=join), sample) for join in JOINS}
        best = max(JOINS, key=lambda join: worth[join])
        figures = ", ".join(f"{join} {worth[join]:.2f}" for join in JOINS)
        note(f"parts: joined by {best} (mean of P@1 to P@{PLACES} on {len(sample):,} long held-out texts: {figures})")
        return replace(found, join=best)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        return self.learner.plan(facts)


def words_read(learner: Any) -> int:
    """How many words of a text a learner reads, about.

    Args:
        learner: perhaps inside others.

    Returns:
        The words that its `max_tokens` hold, or those of a part where it has no such limit.
    """
    while isinstance(learner, WrappedLearner):
        learner = learner.learner
    tokens = getattr(learner, "max_tokens", None)
    return max(int(tokens / TOKENS), 1) if isinstance(tokens, int) else UNLIMITED_WORDS


def _worth(scorer: PartsScorer, sample: Dataset) -> float:
    """The mean of P@1 to P@PLACES, in percent."""
    found = Predictions(sample.labels, *scorer.top(sample.rows, min(CANDIDATES, len(sample.labels)))).without(
        sample.excluded
    )
    measures = evaluate(found.top(PLACES), sample, ks=range(1, PLACES + 1))
    return float(np.mean([measures[f"P@{k}"] for k in range(1, PLACES + 1)]))
