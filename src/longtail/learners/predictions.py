"""Answers that another tool gave for the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import ClassVar

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints, Longs, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, did_you_mean
from longtail.nn.extra import expand_home
from longtail.papers import Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES
from longtail.predictions_file import RowAnswer, is_run, read_answers
from longtail.progress import note, stage
from longtail.seams import Array, Declaration, Flag, Scorer, State, TailMethod, Words, strings

FEW = 50  # examples of a call that may all be without a line in a TREC run; more are of a split that it does not cover


@dataclass(frozen=True, eq=False)
class PredictionsScorer:
    """The answers by the id of the example. Scores are those of the tool, moved above 0 where they were not."""

    ids: tuple[str, ...]
    starts: Longs  # (examples + 1,) where the labels of each begin
    labels: Ints
    scores: Floats  # best first in each example, no two equal
    files: str  # where they came from, for messages
    gaps: bool  # whether an example without a line has no label: a TREC run cannot say it otherwise
    kind: ClassVar[str] = "predictions.v2"
    declared: ClassVar[Declaration] = Declaration(
        {
            "starts": Array("int64", "examples + 1", points_to="answers"),
            "labels": Array("int32", "answers", least=0, below="labels"),
            "scores": Array("float32", "answers", least=1e-45),
        },
        {"files": Words(), "gaps": Flag()},
    ) + strings("ids", "id_offsets", "examples")

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.ids is None:
            raise DataError("this model knows examples by their ids alone, and these have none; give each its id")
        found = np.array([self._row_of.get(name, -1) for name in rows.ids], dtype=np.int64)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            self._check_missing(rows.ids, missing)
            note(
                f"predictions: {len(missing):,} of {len(rows):,} examples asked for have no line in {self.files}, so "
                f"no label; the first is {rows.ids[missing[0]]!r}"
            )
        begins, counts = self.starts[found], np.append(np.diff(self.starts), 0)[found]
        filled = np.arange(k) < counts[:, None]
        places = np.where(filled, begins[:, None] + np.arange(k), 0)
        if not len(self.labels):
            return np.full(filled.shape, -1, dtype=np.int32), np.zeros(filled.shape, dtype=np.float32)
        return np.where(filled, self.labels[places], np.int32(-1)), np.where(filled, self.scores[places], np.float32(0))

    def _check_missing(self, ids: Sequence[str], missing: Longs) -> None:
        """Raises an error where examples without a line are a mistake."""
        first = ids[missing[0]]
        if len(missing) == len(ids) > (FEW if self.gaps else 1):
            raise DataError(
                f"none of the {len(ids):,} examples asked for has predictions in {self.files}, the first is "
                f"{first!r}; name the file of their split too: predictions(train='…', valid='…', test='…')"
            )
        if not self.gaps:
            near = did_you_mean(first, islice(self.ids, 50_000))
            raise DataError(f"example {first!r} has no predictions in {self.files}{near or ';'} add a line for it")

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}

    def state(self) -> State:
        """See `Scorer.state`."""
        tensors: dict[str, AnyArray] = {"starts": self.starts, "labels": self.labels, "scores": self.scores}
        tensors["ids"], tensors["id_offsets"] = pack_strings(self.ids)
        return State({"files": self.files, "gaps": self.gaps}, tensors)

    @classmethod
    def restore(cls, state: State) -> PredictionsScorer:
        """See `Scorer.restore`."""
        tensors = state.tensors
        starts, labels, scores = tensors["starts"], tensors["labels"], tensors["scores"]
        ids = tuple(unpack_strings(tensors["ids"], tensors["id_offsets"]))
        return cls(ids, starts, labels, scores, state.settings["files"], state.settings["gaps"])


@dataclass(frozen=True)
class FilePredictions:
    """Take the answers of another tool for the same examples: PECOS's, Annif's, anybody's.

    Compare them, re-rank or calibrate them, or combine them by `fuse`. A file has a JSON object a line, as `longtail
    predict` writes it, or is a TREC run. Examples are matched by id. Lines of other examples are not used. An example
    without a line is an error in JSON lines; in a TREC run, which cannot say it otherwise, it has no label. What learns
    from held-out answers needs `valid`; `fuse` with folds needs `train`, whose answers must be out of fold. Scores that
    are not above 0 are moved up, all by the same amount.

    Needs: data whose examples have ids; a file for each split that is asked for.
    Costs: reading the files; the model holds the answers.
    Prefer instead: a recipe, where the model must answer new texts.
    Example: longtail compare books.csv "parabel" "predictions(test='pecos.jsonl')"
    """

    train: str | None = None  # file of out-of-fold answers for the training examples
    valid: str | None = None  # file of answers for the valid examples
    test: str | None = None  # file of answers for the test examples

    summary: ClassVar[str] = "answers of another tool, read from files"
    papers: ClassVar[tuple[Paper, ...]] = ()
    offers: ClassVar[frozenset[str]] = frozenset()
    learns_from_rows: ClassVar[bool] = False
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = PredictionsScorer

    def check(self, data: Dataset) -> None:
        """See `ChecksData.check`: the files can be read, and their labels are those of the data."""
        if not self._files:
            raise DataError("predictions needs at least one file: predictions(valid='valid.jsonl', test='test.jsonl')")
        for _, path in self._files:
            for _ in read_answers(expand_home(path), data.labels):
                pass

    @property
    def _files(self) -> list[tuple[str, str]]:
        given = (("train", self.train), ("valid", self.valid), ("test", self.test))
        return [(split, path) for split, path in given if path is not None]

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PredictionsScorer:
        """See `Learner.fit`."""
        found: dict[str, RowAnswer] = {}
        with stage("reading predictions"):
            for split, path in self._files:
                known = {*train.ids, *valid.ids} if len(valid) or split == "train" else set()
                own = 0
                # `check` has refused unknown labels; here they belong to a part of the label set that is fitted apart.
                for answer in read_answers(expand_home(path), train.labels, skip_unknown=True):
                    if split == "valid" and known and answer.id not in known:
                        near = did_you_mean(answer.id, islice(valid.ids, 50_000))
                        raise DataError(
                            f"id {answer.id!r} is not an example of valid{near or ';'} remove the line",
                            path,
                            answer.line,
                        )
                    if answer.id in found:
                        raise DataError(f"id {answer.id!r} is in two of the files; ids must differ", path, answer.line)
                    found[answer.id] = answer
                    own += answer.id in known
                if split == "train" and not own:
                    raise DataError("none of its lines is an example of train; is it the file of another split?", path)
        gaps = any(is_run(expand_home(path)) for _, path in self._files)
        return _scorer(found, ", ".join(path for _, path in self._files), gaps)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        entries = facts.rows * min(CANDIDATES, facts.labels) // 4
        return Plan(
            train_bytes=int(120 * entries + 300 * facts.rows),
            model_bytes=int(8 * entries + 40 * facts.rows + 60 * facts.labels),
            train_seconds=1e-6 * entries + 1e-5 * facts.rows,
            predict_seconds=0.01,
            steps=(("answers", int(120 * entries)),),
        )


def _scorer(found: dict[str, RowAnswer], files: str, gaps: bool) -> PredictionsScorer:
    answers = list(found.values())
    starts = np.concatenate([[0], np.cumsum([len(answer.labels) for answer in answers])]).astype(np.int64)
    labels = np.array([label for answer in answers for label in answer.labels], dtype=np.int32)
    scores = np.array([score for answer in answers for score in answer.scores], dtype=np.float64)
    if len(scores) and scores.min() <= 0:
        spread = float(scores.max() - scores.min()) or 1.0
        note(f"predictions: scores down to {scores.min():g} are moved above 0, all by the same amount")
        scores = scores - scores.min() + 1e-3 * spread
    return PredictionsScorer(tuple(found), starts, labels, _falling(scores.astype(np.float32), starts), files, gaps)


def _falling(scores: Floats, starts: Longs) -> Floats:
    """The scores with equal ones moved apart by the smallest steps there are: the order of a file is the tool's own."""
    scores = np.maximum(scores, np.float32(1e-30))
    first = np.zeros(len(scores) + 1, dtype=np.bool_)
    first[starts] = True
    while True:
        late = ~first[1:-1] & (scores[1:] >= scores[:-1])
        if not late.any():
            return scores
        scores[1:][late] = np.nextafter(scores[:-1][late], np.float32(0))
