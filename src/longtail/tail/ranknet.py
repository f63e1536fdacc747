"""RankNet: a small network that re-orders the learner's candidates so that rare right labels rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from longtail.arrays import Doubles, Floats, Longs
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.ranknet_kernels import Blocks, Candidates, Loss, added, descend
from longtail.metrics.propensity import inverse_propensity
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import HeldOut, Reranker, State

LEAST = np.finfo(np.float32).smallest_subnormal  # scores stay above 0
MOST = np.finfo(np.float32).max
FLOOR = 0.05  # share of the out-of-fold scores below the one that counts as 0
STEPS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # tried on the valid split
STRENGTHS = tuple(tenth / 10 for tenth in range(16))
PLACES = (1, 3, 5)  # the k of P@k + PSP@k that they are chosen by
UNASKED = 0.3  # the step where there is no valid row to ask
START = 0.05  # spread of W1 before training


@dataclass(frozen=True, eq=False)
class RankNetBlocks:
    """The trained blocks. They work on logarithms, so what they add to a candidate multiplies its score."""

    blocks: Blocks
    floor: float  # logarithm of the score that counts as 0
    candidates: int
    step: float = 1.0  # how much of what the network adds is taken
    strength: float = 0.0  # exponent on the inverse propensity
    kind: ClassVar[str] = "ranknet.v1"

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        kept = predictions.top(self.candidates)
        return self._moved(kept, self._added(kept)).sorted()

    def _added(self, kept: Predictions) -> Floats:
        return added(self.blocks, kept.indices, _inputs(kept, self.floor))

    def _moved(self, kept: Predictions, change: Floats) -> Predictions:
        """The scores after the change, in the places they had."""
        total = self.step * change.astype(np.float64) + self.strength * self.blocks.rarity[kept.indices]
        scores = np.clip(kept.scores * np.exp(total), LEAST, MOST)
        return Predictions(kept.labels, kept.indices, np.where(kept.indices >= 0, scores, 0).astype(np.float32))

    def balanced(
        self,
        predictions: Predictions,
        data: Dataset,
        steps: Sequence[float] = STEPS,
        strengths: Sequence[float] = STRENGTHS,
    ) -> RankNetBlocks:
        """The same blocks with the step and the strength that give most P + PSP at 1, 3 and 5 on these rows."""
        kept = predictions.top(self.candidates)
        change, hits = self._added(kept), kept.hits(data.targets)
        worth = inverse_propensity(data.labels)
        gains = np.where(hits, worth[kept.indices], 0)
        possible = _possible(worth, data)
        logs = np.where(kept.indices >= 0, np.log(np.maximum(kept.scores, LEAST)), -np.inf)
        rarity = self.blocks.rarity[kept.indices]
        best, most = self, -1.0
        for step, strength in product(steps, strengths):
            first = _first(logs + np.float32(step) * change + np.float32(strength) * rarity)
            found, gained = (np.take_along_axis(part, first, axis=1).sum(axis=0).cumsum() for part in (hits, gains))
            # A row with fewer than k candidates has all of them among its first k.
            value = sum(
                found[min(k, len(found)) - 1] / (k * len(data)) + gained[min(k, len(found)) - 1] / possible[k]
                for k in PLACES
            )
            if value > most:
                best, most = replace(self, step=step, strength=strength), value
        return best

    def state(self) -> State:
        names = ("floor", "candidates", "step", "strength")
        return State({name: getattr(self, name) for name in names}, dict(self.blocks._asdict()))

    @classmethod
    def restore(cls, state: State) -> RankNetBlocks:
        blocks = Blocks(**{name: state.tensors[name] for name in Blocks._fields})
        candidates = state.settings["candidates"]
        floor, step, strength = (float(state.settings[name]) for name in ("floor", "step", "strength"))
        number, labels, bottleneck = blocks.into.shape
        shapes = [part.shape for part in blocks]
        if shapes != [blocks.into.shape, blocks.into.shape, (number, bottleneck), (labels,)]:
            raise ValueError("the weights of ranknet do not fit together")
        if not all(part.dtype == np.float32 and np.isfinite(part).all() for part in blocks):
            raise ValueError("the weights of ranknet are not finite numbers")
        if not np.isfinite([floor, step, strength]).all() or not isinstance(candidates, int) or candidates < 1:
            raise ValueError("the settings of ranknet are not finite numbers")
        return cls(blocks, floor, candidates, step, strength)


@dataclass(frozen=True)
class RankNet:
    """Learn which candidates to raise: F = W2 sigmoid(W1 y) + y over the learner's best labels.

    The loss puts the rarer of two right labels first, the more so the more their counts differ, and keeps right
    labels a margin above the wrong candidates that stand highest: few of them, since a ranking is judged by its first
    places. W2 starts at 0, so training starts at the learner's own ranking. Each row of W2 is its own weights plus the
    label's log inverse propensity times one row that all labels share: a label with two examples learns from the
    others how far to rise. At last the valid split says how much of the network to take and how much inverse
    propensity to add, by P + PSP at 1, 3 and 5: a network of so many weights moves candidates further than new rows
    bear out, and a learner whose scores are good chances needs less of it. `shared=false` leaves out both, as in the
    paper.

    It learns from training rows that the learner did not see: the training set is cut into folds and each is predicted
    by a model of the others. A label with one training row can never be right there, so it is not used as a wrong
    candidate either; it would only learn to sink.

    y is the logarithm of the score, so what the network adds acts as a factor, as inverse propensity does in `rerank`:
    raw scores gave less of the tail for the same precision. Rows are re-ordered among the candidates; other labels
    leave.

    Paper: Wei et al., Improving Tail Label Prediction for Extreme Multi-label Learning, RankNet (2020).
    Needs: nothing of the learner but that it can be trained again.
    Costs: `folds` more trainings of the learner, then seconds; 8 x blocks x bottleneck bytes a label in the model.
    Prefer instead: `rerank` when the learner is slow to train, or there are few rows.
    Example: longtail compare wordnet "centroid" "centroid + rerank" "centroid + ranknet"
    """

    bottleneck: int = 64  # V
    blocks: int = 1
    margin_weight: float = 10.0  # lambda: the smaller, the more the tail rises and precision falls
    margin: float = 1.5  # c, in logarithms of the score
    negatives: int = 3  # wrong candidates a row, those that stand highest
    shared: bool = True
    epochs: int = 5
    learning_rate: float = 0.02
    folds: int = 3
    rows: int = 500_000  # training rows it learns from, at most
    candidates: int = CANDIDATES  # places of the learner's ranking that may move
    seed: int = 0

    summary: ClassVar[str] = "a network over the candidates' scores, trained out of fold, that raises rare right labels"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = RankNetBlocks

    def __post_init__(self) -> None:
        least = {"bottleneck": 1, "blocks": 1, "negatives": 1, "epochs": 0, "folds": 2, "rows": 1, "seed": 0}
        least |= {"margin_weight": 0, "margin": 0, "learning_rate": 0, "candidates": 1}
        for name, low in least.items():
            if not low <= getattr(self, name) < np.inf:  # NaN fails too
                raise RecipeError(f"setting '{name}' of ranknet is at least {low}, got {getattr(self, name)}")
        if self.candidates > CANDIDATES:
            raise RecipeError(f"setting 'candidates' of ranknet is at most {CANDIDATES}, got {self.candidates}")

    def fit_reranker(self, held_out: HeldOut) -> RankNetBlocks:
        chance = np.random.default_rng(self.seed)
        labels = held_out.labels
        shape = self.blocks, len(labels), self.bottleneck
        rarity = np.log(inverse_propensity(labels)) if self.shared else np.zeros(len(labels))
        blocks = Blocks(
            into=(START * chance.standard_normal(shape)).astype(np.float32),
            out=np.zeros(shape, dtype=np.float32),
            shared=np.zeros((self.blocks, self.bottleneck), dtype=np.float32),
            rarity=rarity.astype(np.float32),
        )
        if self.epochs == 0:
            return RankNetBlocks(blocks, 0.0, self.candidates)
        predictions, data = held_out.folds(self.folds, self.rows, self.seed)
        predictions = predictions.top(self.candidates)
        floor = _floor(predictions)
        examples = np.bincount(held_out.train.targets.indices, minlength=len(labels))
        candidates = Candidates(
            indices=predictions.indices,
            inputs=_inputs(predictions, floor),
            hits=predictions.hits(data.targets),
            usable=examples > 1,
            counts=labels.counts.astype(np.float32),
        )
        loss = Loss(np.float32(self.margin), np.float32(self.margin_weight), self.negatives)
        orders = (chance.permutation(len(data)) for _ in range(self.epochs))
        with stage("learning to re-rank", total=self.epochs) as advance:
            for _ in descend(blocks, loss, candidates, self.learning_rate, orders):
                advance(1)
        fitted = RankNetBlocks(blocks, floor, self.candidates)
        if not self.shared:
            return fitted
        valid, rows = held_out.valid()
        return fitted.balanced(valid, rows) if rows.targets.nnz else replace(fitted, step=UNASKED)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        """The learner's model stays while each fold is trained, beside the candidates of the folds before."""
        weights = 8 * self.blocks * facts.labels * self.bottleneck
        if self.epochs == 0:
            return replace(before, model_bytes=before.model_bytes + weights)
        rows, part = min(self.rows, facts.rows), 1 - 1 / self.folds
        candidates = 8 * CANDIDATES * rows
        learning = 9 * candidates  # sorted, their logarithms in double precision, and which of them are right
        held = before.model_bytes + weights
        folds = self.folds * part * before.train_seconds + before.predict_seconds * rows / 1000
        steps = self.epochs * self.blocks * self.candidates * self.bottleneck * rows
        return Plan(
            train_bytes=max(before.train_bytes, held + candidates + int(part * before.train_bytes), held + learning),
            model_bytes=held,
            train_seconds=before.train_seconds + folds + 1e-9 * steps,
            predict_seconds=before.predict_seconds + 1e-6 * self.blocks * self.candidates * self.bottleneck,
            steps=(*before.steps, ("candidates out of fold", learning), ("weights of the ranking net", weights)),
        )


def _possible(worth: Doubles, data: Dataset) -> dict[int, float]:
    """The most that the first k labels of these rows can be worth."""
    rows, gains = data.targets.nonzero()[0], worth[data.targets.indices]
    gains = gains[np.lexsort((-gains, rows))]  # each row's labels, dearest first
    place = np.arange(len(rows)) - data.targets.indptr[:-1][rows]
    return {k: float(gains[place < k].sum()) for k in PLACES}


def _first(scores: Floats) -> Longs:
    """Places of the highest scores, highest first: (rows, up to the last of PLACES)."""
    number = min(PLACES[-1], scores.shape[1])
    some = np.argpartition(-scores, number - 1, axis=1)[:, :number]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def _floor(predictions: Predictions) -> float:
    """The logarithm of a low score: from there on, most inputs are above 0 and the last candidates weigh little."""
    scores = predictions.scores[predictions.indices >= 0]
    return float(np.log(max(np.quantile(scores, FLOOR), LEAST))) if len(scores) else 0.0


def _inputs(predictions: Predictions, floor: float) -> Floats:
    there = predictions.indices >= 0
    logs: Doubles = np.log(np.maximum(predictions.scores, LEAST, dtype=np.float64))
    return np.where(there, logs - floor, 0).astype(np.float32)
