"""The members and the combiner as one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Rows
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.linear.fusion.boosted_trees import BoostedTrees
from longtail.linear.fusion.candidate_numbers import GROUPS, NumberColumns
from longtail.linear.fusion.candidates import Answers, CandidateLists
from longtail.linear.fusion.combiner import Combiner
from longtail.linear.fusion.known_words import knows_words
from longtail.predictions import ranked
from longtail.seams import (
    Array,
    Declaration,
    Explains,
    Explanation,
    FittedMember,
    Many,
    Number,
    State,
    TakesLabels,
    TakesRows,
    Vote,
    Whole,
    Words,
    csr,
    strings,
    takes_labels,
    takes_rows,
)

MOST_MEMBERS, MOST_PLACES = 32, 10_000  # members, and labels that each names
CHUNK = 1024  # rows whose candidates are judged at a time, or fewer where they have very many
PLACES, CHUNK_BYTES = 1 << 23, 1 << 28  # of the members' answers held at once; of the candidates judged at a time


def _declared_members(settings: Mapping[str, Any]) -> Declaration:
    """A part for each member, and the pairs of labels where the trees look at them."""
    members = Declaration(parts={f"member-{number}": "labels" for number in range(settings["members"])})
    company = csr("together", "labels", "labels", least=0, ascending=True)
    return members + company if "company" in settings["groups"] else members


@dataclass(frozen=True, eq=False)
class FuseScorer:
    """Ranks the candidates of its members by the probability that they are right. Scores are these probabilities."""

    members: tuple[FittedMember, ...]
    combiner: Combiner
    labels: LabelSet  # ids and texts, for the members' re-rankers
    kind: ClassVar[str] = "fuse.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = (
        Declaration(
            {name: Array("float32", "labels", least=0) for name in ("counts", "proposed", "expected", "right")},
            {
                "members": Whole(1, MOST_MEMBERS),
                "groups": Many(Words(tuple(GROUPS)), len(GROUPS)),
                "places": Whole(1, MOST_PLACES),
                "log_kept": Number(-100, 100),
            },
            then=(_declared_members,),
        )
        + strings("label_texts", "label_text_offsets", "labels", empty=True)
        + BoostedTrees.declared(optional=True)
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        found = np.full((len(rows), k), -1, dtype=np.int32), np.zeros((len(rows), k), dtype=np.float32)
        if k < 1 or len(rows) == 0:
            return found
        each = sum(member.asked(self.combiner.places) for member in self.members)
        step = max(PLACES // each, 1)
        if len(rows) > step:
            parts = [self.top(rows[start : start + step], k) for start in range(0, len(rows), step)]
            labels, best = (np.concatenate(part) for part in zip(*parts, strict=True))
            return labels, best
        answers = self.answers(rows)
        silent = ~self._understood(rows, answers)
        chunk = max(min(CHUNK, CHUNK_BYTES // (24 * each * len(self.members))), 1)  # a candidate has 24 for each member
        for begin in range(0, len(rows), chunk):
            part = slice(begin, min(begin + chunk, len(rows)))
            candidates = CandidateLists.joined([(labels[part], scores[part]) for labels, scores in answers])
            scores = self.combiner.probabilities(candidates, None if rows.texts is None else rows.texts[part])
            for whole, best in zip(found, best_candidates(candidates, scores, k), strict=True):
                whole[part, : best.shape[1]] = best
        found[0][silent], found[1][silent] = -1, 0
        return found

    def answers(self, rows: Rows) -> Answers:
        """Ask every member.

        Args:
            rows: texts, features or both.

        Returns:
            Labels and scores (rows, places) of each, best first.
        """
        places = min(self.combiner.places, len(self.labels))
        return [member.top(rows, places, self.labels) for member in self.members]

    def _understood(self, rows: Rows, answers: Answers) -> Bools:
        """(rows,) whether a member knows a word of the text. Trees answer even where they know none, so they are asked
        which words they know. Other members give no answer then, and encoders read any word."""
        known = np.zeros(len(rows), dtype=np.bool_)
        asked = []
        for member, (labels, _) in zip(self.members, answers, strict=True):
            if _answers_only_known_words(member.scorer):
                known |= (labels >= 0).any(axis=1)
            else:
                asked.append(member.scorer)
        for scorer in asked:
            left = np.flatnonzero(~known)
            if len(left):
                known[left] = knows_words(scorer, rows.take(left) if len(left) < len(rows) else rows)
        return known

    def knows_words(self, rows: Rows) -> Bools:
        """See `KnowsWords`: whether a member does."""
        known: Bools = np.logical_or.reduce([knows_words(member.scorer, rows) for member in self.members])
        return known

    def explain(self, rows: Rows, labels: Ints) -> list[list[Explanation]]:
        """See `Explains.explain`."""
        candidates = CandidateLists.joined(answers := self.answers(rows))
        record, counts = self.combiner.record, self.combiner.facts.counts
        near = [m.explain(rows, labels) for m in self.members if isinstance(m.scorer, Explains)]
        found = []
        for row in range(len(answers[0][0])):
            place_of = {
                int(candidates.labels[place]): place
                for place in range(candidates.starts[row], candidates.starts[row + 1])
            }
            found.append(
                [
                    Explanation(
                        self._votes(candidates, place_of.get(label)),
                        int(counts[label]),
                        int(record.proposed[label]),
                        int(record.right[label]),
                        tuple(one for part in near for one in part[row][place].neighbours),
                        tuple(one for part in near for one in part[row][place].words),
                    )
                    if label >= 0
                    else Explanation()
                    for place, label in enumerate(labels[row].tolist())
                ]
            )
        return found

    def _votes(self, candidates: CandidateLists, candidate: int | None) -> tuple[Vote, ...]:
        votes = []
        for number, member in enumerate(self.members):
            place = -1 if candidate is None else int(candidates.places[candidate, number])
            score = float(candidates.scores[candidate, number]) if place >= 0 else 0.0
            votes.append(Vote(member.recipe, place + 1 if place >= 0 else None, score))
        return tuple(votes)

    @property
    def takes_labels(self) -> bool:
        """Whether a member takes new labels."""
        return any(map(_takes_labels, self.members))

    @property
    def takes_rows(self) -> bool:
        """Whether a member takes new training rows."""
        return any(map(_takes_rows, self.members))

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> FuseScorer:
        """See `TakesLabels.with_labels`. Members that cannot take labels do not name the new ones."""
        number = len(self.labels) + len(texts)
        members = tuple(
            member.with_scorer(one.with_labels(texts, known), number) if (one := _takes_labels(member)) else member
            for member in self.members
        )
        if not self.takes_labels:
            raise DataError(
                "no member of fuse can take new labels without training; add one whose learner reads label texts by an "
                "encoder, such as dpr or ngame"
            )
        labels = _longer(self.labels, tuple(texts))
        return FuseScorer(members, self.combiner.over(number, labels.texts), labels)

    def with_rows(self, rows: Rows, targets: Matrix, ids: Sequence[str]) -> FuseScorer:
        """See `TakesRows.with_rows`. Members that remember no rows stay as they are."""
        if not self.takes_rows:
            raise DataError("no member of fuse remembers training examples; add memory or knn, which take new ones")
        number = targets.shape[1]
        members = tuple(
            member.with_scorer(one.with_rows(rows, targets, ids), number) if (one := _takes_rows(member)) else member
            for member in self.members
        )
        labels = _longer(self.labels, ("",) * (number - len(self.labels)))
        facts = self.combiner.facts.with_rows(targets)
        return FuseScorer(members, self.combiner.over(number, labels.texts, facts), labels)

    def state(self) -> State:
        """See `Scorer.state`."""
        combiner = self.combiner
        settings: dict[str, Any] = {
            "members": len(self.members),
            "groups": list(combiner.columns.groups),
            "places": combiner.places,
            "log_kept": combiner.log_kept,
        }
        tensors = combiner.tensors()
        tensors["label_texts"], tensors["label_text_offsets"] = pack_strings(self.labels.texts)
        return State(settings, tensors, {f"member-{n}": one for n, one in enumerate(self.members)})

    @classmethod
    def restore(cls, state: State) -> FuseScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        texts = tuple(unpack_strings(tensors["label_texts"], tensors["label_text_offsets"]))
        members = tuple(state.parts[f"member-{number}"] for number in range(len(state.parts)))
        columns = NumberColumns(len(members), tuple(settings["groups"]))
        combiner = Combiner.from_tensors(tensors, columns, int(settings["places"]), float(settings["log_kept"]), texts)
        if not all(isinstance(member, FittedMember) for member in members):
            raise ValueError("a part of fuse is no member")
        return cls(members, combiner, _longer(LabelSet(ids=()), texts))


def _answers_only_known_words(scorer: Any) -> bool:
    """Whether an answer means that a word was known: products over words, unlike trees, have no bias."""
    return getattr(scorer, "index", None) is not None or isinstance(scorer, FuseScorer)


def _takes_labels(member: FittedMember) -> TakesLabels | None:
    """The scorer, where it takes new labels; re-rankers and saved models know only their own."""
    scorer = member.scorer
    free = not member.rerankers and member.label_rows is None
    return scorer if free and takes_labels(scorer) else None


def _takes_rows(member: FittedMember) -> TakesRows | None:
    """The scorer, where it takes new rows."""
    scorer = member.scorer
    return scorer if not member.rerankers and member.label_rows is None and takes_rows(scorer) else None


def _longer(labels: LabelSet, texts: tuple[str, ...]) -> LabelSet:
    """The labels with more at the end; ids are numbers, since the model has the real ones."""
    number = len(labels) + len(texts)
    return replace(
        labels,
        ids=tuple(map(str, range(number))),
        texts=(*labels.texts, *texts),
        names=(),
        broader=None,
        related=None,
        counts=np.concatenate([labels.counts, np.zeros(len(texts), dtype=np.int64)]),
        features=None,
    )


def best_candidates(candidates: CandidateLists, scores: Floats, k: int) -> tuple[Ints, Floats]:
    """Take the k best candidates of each row, ties by label.

    Args:
        candidates: of some rows.
        scores: (candidates,) above 0.
        k: labels a row.

    Returns:
        Labels and scores (rows, at most k), best first, -1 and 0 behind the last.
    """
    counts = np.diff(candidates.starts)
    width = int(counts.max(initial=0))
    filled = np.arange(width) < counts[:, None]
    labels, values = np.full(filled.shape, -1, dtype=np.int32), np.zeros(filled.shape, dtype=np.float32)
    labels[filled], values[filled] = candidates.labels, scores
    if 4 * k < width:  # sort only those that can be among the first k, equal scores included
        least = np.partition(values, width - k, axis=1)[:, width - k, None]
        labels, values = _squeezed(labels, values, values >= np.maximum(least, np.float32(1e-30)))
    best, ordered = ranked(labels, values)
    return best[:, :k], ordered[:, :k]


def _squeezed(labels: Ints, values: Floats, kept: Bools) -> tuple[Ints, Floats]:
    """Only some places of each row, moved to the front."""
    counts = kept.sum(axis=1)
    filled = np.arange(int(counts.max(initial=0))) < counts[:, None]
    fewer, scores = np.full(filled.shape, -1, dtype=np.int32), np.zeros(filled.shape, dtype=np.float32)
    fewer[filled], scores[filled] = labels[kept], values[kept]
    return fewer, scores
