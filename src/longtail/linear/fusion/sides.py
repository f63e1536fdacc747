"""Two models with labels of their own, head and tail, as one ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.data.dataset import Dataset, Rows
from longtail.data.subsample import evenly_spaced
from longtail.linear.fusion.known_words import knows_words
from longtail.linear.solvers.score_scale import DECLARED, ScoreCalibration
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.seams import Array, Contents, Declaration, Fields, HasClassifierRows, Misfit, Scorer, State

SIDES = ("head", "tail")
CALIBRATION_ROWS = 2000  # held-out rows that a side's three weights are learned from


@dataclass(frozen=True, eq=False)
class Side:
    """The fitted model of the head labels, or of the tail labels."""

    scorer: Scorer  # over this side's labels only
    labels: Longs  # (side's labels,) their rows in the whole label set, in rising order
    scale: ScoreCalibration | None  # none: its scores count as they are

    def scores(self, scores: Floats, rivals: Floats) -> Floats:
        """The scores (rows, places) on the scale of both sides, given the other side's best (rows, 1)."""
        return scores if self.scale is None else self.scale.of(scores, rivals)


def _declared_sides(settings: Mapping[str, Any]) -> Declaration:
    """What is stored of the sides that the settings name; each has a model over its own labels."""
    sides = [name for name in SIDES if name in settings]
    return Declaration(
        {f"{name}.labels": Array("int64", name, least=0, below="labels", rising=True) for name in sides},
        {name: DECLARED if settings[name] else Fields({}) for name in sides},
        parts={name: name for name in sides},
    )


def _check_sides(stored: Contents) -> None:
    """There is a side, none is empty, and no label is on both."""
    sides = [stored.tensors[f"{name}.labels"] for name in SIDES if name in stored.settings]
    if not sides or not all(map(len, sides)):
        raise Misfit("head.labels", "and 'tail.labels' have no label, or a side has none")
    if len(np.unique(np.concatenate(sides))) < sum(map(len, sides)):
        raise Misfit("tail.labels", "has a label that the head has, too")
    if len({bool(stored.settings[name]) for name in SIDES if name in stored.settings}) > 1:
        raise Misfit("tail", "has a scale and the head has none, or the other way round", "setting")


@dataclass(frozen=True, eq=False)
class TaugScorer:
    """The rankings of both sides in one. Scores are probabilities of being right, or those of each side's own model."""

    sides: dict[str, Side]  # "head" and "tail", or the one that has labels to learn
    kind: ClassVar[str] = "taug.v2"
    declared: ClassVar[Declaration] = Declaration(then=(_declared_sides,), checks=(_check_sides,))

    @property
    def probabilities(self) -> bool:
        """See `GivesProbabilities`."""
        return all(side.scale is not None for side in self.sides.values())

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        # More than k of each side, so that rounding at place k cannot change what stands before it.
        found = self.rankings(rows, max(k, CANDIDATES))
        labels, merged = [np.full((len(rows), k), -1, np.int32)], [np.zeros((len(rows), k), np.float32)]
        for name, (places, scores, rivals) in found.items():
            side = self.sides[name]
            # `declared` gives the side's model as many labels as the side has, so its answers are places among them.
            labels.append(np.where(places >= 0, side.labels[places], -1).astype(np.int32))
            merged.append(side.scores(scores, rivals))
        best, scores = ranked(np.concatenate(labels, axis=1), np.concatenate(merged, axis=1))
        return best[:, :k], scores[:, :k]

    def knows_words(self, rows: Rows) -> Bools:
        """See `KnowsWords`: whether a side does."""
        known: Bools = np.logical_or.reduce([knows_words(side.scorer, rows) for side in self.sides.values()])
        return known

    def rankings(self, rows: Rows, k: int) -> dict[str, tuple[Ints, Floats, Floats]]:
        """Rank each side's labels apart.

        Args:
            rows: what to predict.
            k: labels a side.

        Returns:
            By side: labels, counted within the side, and scores (rows, up to k), and the best score of the other side
            (rows, 1).
        """
        found = {name: side.scorer.top(rows, min(k, len(side.labels))) for name, side in self.sides.items()}
        best = {name: scores.max(axis=1, keepdims=True, initial=0) for name, (_, scores) in found.items()}
        best.setdefault("no other side", np.zeros((len(rows), 1), np.float32))
        return {name: (*found[name], next(best[other] for other in best if other != name)) for name in found}

    def row_norms(self) -> Floats:
        """See `HasClassifierRows`: the rows that each side learned, before their scores are calibrated."""
        norms = np.full(1 + max(int(side.labels.max()) for side in self.sides.values()), np.nan, dtype=np.float32)
        for side in self.sides.values():
            if isinstance(side.scorer, HasClassifierRows):
                own = side.scorer.row_norms()  # it may end before labels that nothing was learned for
                norms[side.labels[: len(own)]] = own
        return norms

    def state(self) -> State:
        """See `Scorer.state`."""
        return State(
            {name: {} if side.scale is None else asdict(side.scale) for name, side in self.sides.items()},
            {f"{name}.labels": side.labels for name, side in self.sides.items()},
            {name: side.scorer for name, side in self.sides.items()},
        )

    @classmethod
    def restore(cls, state: State) -> TaugScorer:
        """See `Scorer.restore`."""
        sides = {}
        for name, scale in state.settings.items():
            fitted = ScoreCalibration(**scale) if scale else None
            sides[name] = Side(state.parts[name], state.tensors[f"{name}.labels"], fitted)
        return cls(sides)


def calibrated(scorer: TaugScorer, valid: Dataset) -> TaugScorer:
    """Learn each side's calibration from its candidates for held-out rows, with a label of the side or without.

    Args:
        scorer: both sides with the calibrations to start from.
        valid: held-out rows; up to CALIBRATION_ROWS of them are used, evenly spaced.

    Returns:
        The same sides with fitted calibrations.
    """
    sample = valid.take(evenly_spaced(len(valid), CALIBRATION_ROWS))
    sides = {}
    for name, (places, scores, rivals) in scorer.rankings(sample.rows, CANDIDATES).items():
        side = scorer.sides[name]
        found = Predictions(sample.labels, np.where(places >= 0, side.labels[places], -1).astype(np.int32), scores)
        banned = np.zeros(places.shape, bool) if sample.excluded is None else found.hits(sample.excluded)
        kept = (places >= 0) & ~banned
        rival = np.broadcast_to(rivals, places.shape)[kept]
        assert side.scale is not None
        sides[name] = replace(side, scale=side.scale.fitted(scores[kept], rival, found.hits(sample.targets)[kept]))
    return TaugScorer(sides)
