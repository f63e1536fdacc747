"""RankNet: a small network that re-orders the learner's candidates so that rare right labels rise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from longtail.arrays import Doubles, Floats, Longs
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.solvers.ranknet_kernels import Blocks, Candidates, Loss, added, descend
from longtail.linear.solvers.ranknet_matrix import matrix_added, matrix_descend
from longtail.metrics.propensity import inverse_propensity
from longtail.papers import RANKNET_TAUG, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import note, stage
from longtail.seams import Array, Contents, Declaration, Flag, HeldOut, Misfit, Number, Reranker, State, Whole

MIN_SCORE = np.finfo(np.float32).smallest_subnormal  # scores stay above 0
MAX_SCORE = np.finfo(np.float32).max
MAX_EXPONENT = 700.0  # e to this is a number in double precision
FLOOR_QUANTILE = 0.05  # of the out-of-fold scores; a score there is input 0
STEPS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # tried on the valid split
STRENGTHS = tuple(tenth / 10 for tenth in range(16))
KS = (1, 3, 5)  # step and strength are chosen by P@k + PSP@k
DEFAULT_STEP = 0.3  # without valid examples
# Of raw scores, which lie between 0 and 1: the defaults suit their logarithms. The best of nine on gutenberg's valid.
RAW = {"margin": 0.02, "learning_rate": 0.0005, "negatives": 50}
INIT_STD = 0.05  # standard deviation of W1 before training


def _check_width(stored: Contents) -> None:
    """The kernel reads the first hidden unit without a check."""
    if stored.sizes["bottleneck"] == 0:
        raise Misfit("into", "has no hidden units")


def _declared_matrix(settings: Mapping[str, Any]) -> Declaration:
    """The full matrix, where there is one."""
    return Declaration({"matrix": Array("float32", "labels, labels")} if settings["matrix"] else {})


@dataclass(frozen=True, eq=False)
class RankNetBlocks:
    """The trained blocks. Their inputs are logarithms, so what they add to a candidate multiplies its score."""

    blocks: Blocks  # stacked networks
    floor: float  # logarithm of the score whose input is 0
    candidates: int
    step: float = 1.0  # factor of what the network adds
    strength: float = 0.0  # exponent on the inverse propensity
    raw: bool = False  # inputs are scores, not their logarithms
    matrix: Floats | None = None  # (labels, labels), W_r in place of networks
    kind: ClassVar[str] = "ranknet.v3"
    declared: ClassVar[Declaration] = Declaration(
        {
            "into": Array("float32", "blocks, labels, bottleneck"),
            "out": Array("float32", "blocks, labels, bottleneck"),
            "shared": Array("float32", "blocks, bottleneck"),
            "rarity": Array("float32", "labels"),
        },
        {
            "floor": Number(),
            "candidates": Whole(1),
            "step": Number(),
            "strength": Number(),
            "raw": Flag(),
            "matrix": Flag(),
        },
        then=(_declared_matrix,),
        checks=(_check_width,),
    )

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`."""
        kept = predictions.top(self.candidates)
        return self._rescored(kept, self._added(kept)).sorted()

    def _added(self, kept: Predictions) -> Floats:
        inputs = _inputs(kept, self.floor, self.raw)
        if self.matrix is not None:
            return matrix_added(self.matrix, kept.indices, inputs)
        return added(self.blocks, kept.indices, inputs)

    def _rescored(self, kept: Predictions, change: Floats) -> Predictions:
        """The candidates in the places they had, with new scores."""
        total = self.step * change.astype(np.float64) + self.strength * self.blocks.rarity[kept.indices]
        if self.raw:  # F may be below 0; its order is what counts, and scores are above 0
            total += kept.scores
        scores = np.exp(np.minimum(total, MAX_EXPONENT)) * (1 if self.raw else kept.scores)
        scores = np.clip(scores, MIN_SCORE, MAX_SCORE)
        return Predictions(kept.labels, kept.indices, np.where(kept.indices >= 0, scores, 0).astype(np.float32))

    def balanced(
        self,
        predictions: Predictions,
        data: Dataset,
        steps: Sequence[float] = STEPS,
        strengths: Sequence[float] = STRENGTHS,
    ) -> RankNetBlocks:
        """Choose the step and the strength with the highest P + PSP at 1, 3 and 5.

        Args:
            predictions: the learner's candidates for these rows.
            data: held-out rows with their targets.
            steps: values of `step` to try.
            strengths: values of `strength` to try.

        Returns:
            The same blocks with the best of them.
        """
        kept = predictions.top(self.candidates)
        change, hits = self._added(kept), kept.hits(data.targets)
        inverse = inverse_propensity(data.labels)
        gains = np.where(hits, inverse[kept.indices], 0)
        possible = _possible(inverse, data)
        own = kept.scores if self.raw else np.log(np.maximum(kept.scores, MIN_SCORE))
        logs = np.where(kept.indices >= 0, own, -np.inf)
        rarity = self.blocks.rarity[kept.indices]
        best, best_value = self, -1.0
        for step, strength in product(steps, strengths):
            first = _first(logs + np.float32(step) * change + np.float32(strength) * rarity)
            found, gained = (np.take_along_axis(part, first, axis=1).sum(axis=0).cumsum() for part in (hits, gains))
            # A row with fewer than k candidates has all of them among its first k.
            value = sum(
                found[min(k, len(found)) - 1] / (k * len(data)) + gained[min(k, len(found)) - 1] / possible[k]
                for k in KS
            )
            if value > best_value:
                best, best_value = replace(self, step=step, strength=strength), value
        return best

    def state(self) -> State:
        """See `Scorer.state`."""
        names = ("floor", "candidates", "step", "strength", "raw")
        tensors = dict(self.blocks._asdict())
        if self.matrix is not None:
            tensors["matrix"] = self.matrix
        settings = {name: getattr(self, name) for name in names}
        return State(settings | {"matrix": self.matrix is not None}, tensors)

    @classmethod
    def restore(cls, state: State) -> RankNetBlocks:
        """See `Scorer.restore`."""
        blocks = Blocks(**{name: state.tensors[name] for name in Blocks._fields})
        floor, step, strength = (float(state.settings[name]) for name in ("floor", "step", "strength"))
        candidates, raw = state.settings["candidates"], state.settings["raw"]
        return cls(blocks, floor, candidates, step, strength, raw, state.tensors.get("matrix"))


def _published(form: str) -> Preset:
    equation = 'section 3.2: "F(x) = W_r y + y"' if form == "matrix" else "section 3.2, the form with a bottleneck"
    return Preset(
        {"form": form, "scores": "raw", "sampling": "random", "shared": False, "blocks": 1, **RAW},
        "section 3.2",
        {"form": equation, "sampling": 'section 3.2: "a subset of irrelevant labels is sampled randomly"'}
        | dict.fromkeys(RAW, "ours, for scores between 0 and 1"),
        differs="the paper prints no bottleneck, margin, lambda, number of negatives or learning rate; negatives are "
        "drawn among the candidates, and it learns from examples that the learner has not seen",
    )


@dataclass(frozen=True)
class RankNet:
    """Learn which candidates to raise: F = W2 sigmoid(W1 y) + y over the learner's best labels.

    The loss puts the rarer of two right labels first, the more so the more their counts differ, and keeps right labels
    a margin above the highest wrong candidates: few of them, since a ranking is judged by its first places. W2 starts
    at 0, so training starts from the learner's own ranking. Each row of W2 is its own weights plus the label's log
    inverse propensity times one row that all labels share: a label with two examples learns from the others how far to
    rise. Finally the factor of the network and the exponent of an added inverse propensity are chosen on the valid
    split, by P + PSP at 1, 3 and 5: a network with so many weights moves candidates further than unseen documents
    justify, and a learner whose scores are good probabilities needs less of it. `shared=false` leaves out both, as in
    the paper.

    It learns from training examples that the learner did not see: the training set is cut into folds and each is
    predicted by a model of the others. A label with one training example can never be right there, so it is not used as
    a wrong candidate either; it would only learn to sink.

    y is the logarithm of the score, so what the network adds acts as a factor, as inverse propensity does in `rerank`:
    raw scores gave less of the tail for the same precision (`scores="raw"`). Only candidates are re-ordered;
    other labels are dropped. `form="matrix"` is F = W y + y with one matrix over labels, 4 x labels x labels bytes.

    Published form: section 3.2, `ranknet:paper`; its first form `ranknet:matrix`.
    Needs: nothing of the learner but that it can be trained again.
    Costs: `folds` more trainings of the learner, then seconds; 8 x blocks x bottleneck bytes a label in the model.
    Prefer instead: `rerank` when the learner is slow to train, or there are few examples.
    Example: longtail compare wordnet "centroid" "centroid + rerank" "centroid + ranknet"
    """

    bottleneck: int = 64  # V
    blocks: int = 1
    margin_weight: float = 10.0  # lambda: the smaller, the more the tail rises and precision falls
    margin: float = 1.5  # c, in logarithms of the score
    negatives: int = 3  # wrong candidates of an example
    sampling: Literal["hardest", "random"] = "hardest"  # which wrong candidates: those with the highest scores, or any
    scores: Literal["log", "raw"] = "log"  # y: logarithms of the scores, or the scores
    form: Literal["network", "matrix"] = "network"  # W2 sigmoid(W1 y), or W y
    # One weight by label frequency for all labels, too, and how far to go chosen on valid; false: as published.
    shared: bool = True
    epochs: int = 5
    learning_rate: float = 0.02
    folds: int = 3  # models that predict out of fold
    max_examples: int = 500_000  # training examples it learns from, at most
    candidates: int = CANDIDATES  # labels of the learner's ranking that may move
    seed: int = 0

    summary: ClassVar[str] = "a network over candidates that raises rare right labels"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"lambda": "margin_weight", "c": "margin", "V": "bottleneck"}
    papers: ClassVar[tuple[Paper, ...]] = (RANKNET_TAUG,)
    presets: ClassVar[Mapping[str, Preset]] = {"paper": _published("network"), "matrix": _published("matrix")}
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = RankNetBlocks

    def __post_init__(self) -> None:
        minimum = {"bottleneck": 1, "blocks": 1, "negatives": 1, "epochs": 0, "folds": 2, "max_examples": 1, "seed": 0}
        minimum |= {"margin_weight": 0, "margin": 0, "learning_rate": 0, "candidates": 1}
        for name, low in minimum.items():
            if not low <= getattr(self, name) < np.inf:  # NaN fails too
                raise RecipeError(f"setting '{name}' of ranknet is at least {low}, got {getattr(self, name)}")
        if self.candidates > CANDIDATES:
            raise RecipeError(f"setting 'candidates' of ranknet is at most {CANDIDATES}, got {self.candidates}")

    def fit_reranker(self, held_out: HeldOut) -> RankNetBlocks:
        """See `Reranks.fit_reranker`."""
        rng = np.random.default_rng(self.seed)
        labels = held_out.labels
        full, raw = self.form == "matrix", self.scores == "raw"
        shape = (0, len(labels), 1) if full else (self.blocks, len(labels), self.bottleneck)
        rarity = np.log(inverse_propensity(labels)) if self.shared else np.zeros(len(labels))
        blocks = Blocks(
            into=(INIT_STD * rng.standard_normal(shape)).astype(np.float32),
            out=np.zeros(shape, dtype=np.float32),
            shared=np.zeros((shape[0], shape[2]), dtype=np.float32),
            rarity=rarity.astype(np.float32),
        )
        matrix = np.zeros((len(labels), len(labels)), dtype=np.float32) if full else None
        if self.epochs == 0:
            return RankNetBlocks(blocks, 0.0, self.candidates, raw=raw, matrix=matrix)
        predictions, data = held_out.folds(self.folds, self.max_examples, self.seed)
        predictions = predictions.top(self.candidates)
        floor = 0.0 if raw else _floor(predictions)
        examples = np.bincount(held_out.train.targets.indices, minlength=len(labels))
        candidates = Candidates(
            indices=predictions.indices,
            inputs=_inputs(predictions, floor, raw),
            hits=predictions.hits(data.targets),
            usable=examples > 1,
            counts=labels.counts.astype(np.float32),
        )
        drawn = self.seed % 2**31 if self.sampling == "random" else -1
        loss = Loss(np.float32(self.margin), np.float32(self.margin_weight), self.negatives, drawn)
        orders = (rng.permutation(len(data)) for _ in range(self.epochs))
        with stage("learning to re-rank", total=self.epochs) as advance:
            training = (
                descend(blocks, loss, candidates, self.learning_rate, orders)
                if matrix is None
                else matrix_descend(matrix, loss, candidates, self.learning_rate, orders)
            )
            for _ in training:
                advance(1)
        fitted = RankNetBlocks(blocks, floor, self.candidates, raw=raw, matrix=matrix)
        if not self.shared:
            return fitted
        valid, rows = held_out.valid()
        if rows.targets.nnz == 0:
            return replace(fitted, step=DEFAULT_STEP)
        chosen = fitted.balanced(valid, rows)
        note(f"ranknet: chosen {chosen.step:g} of the network and inverse propensity to the power {chosen.strength:g}")
        return chosen

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`: the model and the candidates of earlier folds stay while a fold is trained."""
        weights = 8 * self.blocks * facts.labels * self.bottleneck
        if self.form == "matrix":
            weights = 4 * facts.labels**2
        if self.epochs == 0:
            return replace(before, model_bytes=before.model_bytes + weights)
        rows, part = min(self.max_examples, facts.rows), 1 - 1 / self.folds
        candidates = 8 * CANDIDATES * rows
        learning = 9 * candidates  # sorted, their logarithms in double precision, and which of them are right
        held = before.model_bytes + weights
        folds = self.folds * part * before.train_seconds + before.predict_seconds * rows / 1000
        each = self.candidates * (self.candidates if self.form == "matrix" else self.blocks * self.bottleneck)
        steps = self.epochs * each * rows
        return Plan(
            train_bytes=max(before.train_bytes, held + candidates + int(part * before.train_bytes), held + learning),
            model_bytes=held,
            train_seconds=before.train_seconds + folds + 1e-9 * steps,
            predict_seconds=before.predict_seconds + 1e-6 * each,
            steps=(*before.steps, ("candidates out of fold", learning), ("weights of the ranking net", weights)),
        )


def _possible(inverse: Doubles, data: Dataset) -> dict[int, float]:
    """The highest sum of inverse propensities that the first k labels of these rows can reach, by k."""
    rows, gains = data.targets.nonzero()[0], inverse[data.targets.indices]
    gains = gains[np.lexsort((-gains, rows))]  # each row's labels, the rarest first
    place = np.arange(len(rows)) - data.targets.indptr[:-1][rows]
    return {k: float(gains[place < k].sum()) for k in KS}


def _first(scores: Floats) -> Longs:
    """Places of the highest scores, highest first: (rows, up to the largest k)."""
    number = min(KS[-1], scores.shape[1])
    highest = np.argpartition(-scores, number - 1, axis=1)[:, :number]
    order = np.argsort(-np.take_along_axis(scores, highest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(highest, order, axis=1)


def _floor(predictions: Predictions) -> float:
    """The logarithm of a low score. It is subtracted from inputs: most are then above 0, and the last ones near 0."""
    scores = predictions.scores[predictions.indices >= 0]
    return float(np.log(max(np.quantile(scores, FLOOR_QUANTILE), MIN_SCORE))) if len(scores) else 0.0


def _inputs(predictions: Predictions, floor: float, raw: bool) -> Floats:
    filled = predictions.indices >= 0
    if raw:
        return np.where(filled, predictions.scores, 0).astype(np.float32)
    logs: Doubles = np.log(np.maximum(predictions.scores, MIN_SCORE, dtype=np.float64))
    return np.where(filled, logs - floor, 0).astype(np.float32)
