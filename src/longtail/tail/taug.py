"""Head and tail labels learned apart, the tail from more rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, cast

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.noise import noisy_features, noisy_texts
from longtail.linear.scale import Scale
from longtail.nn.checkpoint import kept_folder
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import stage
from longtail.seams import HasRows, Learner, Scorer, State, TailMethod

SCALE_ROWS = 2000  # held-out rows that a side's three weights are learned from


@dataclass(frozen=True, eq=False)
class Side:
    """What was learned about the head labels, or about the tail labels."""

    scorer: Scorer  # over this side's labels only
    labels: Longs  # (side's labels,) their rows in the whole label set, rising
    scale: Scale


@dataclass(frozen=True, eq=False)
class TaugScorer:
    """The sides' answers in one ranking. Scores lie in (0, 1): chances of being right."""

    sides: dict[str, Side]  # "head" and "tail", or the one that has labels to learn
    kind: ClassVar[str] = "taug.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        # More than k of each side, so that rounding at place k cannot change what stands before it.
        found = self.answers(rows, max(k, CANDIDATES))
        labels, chances = [np.full((len(rows), k), -1, np.int32)], [np.zeros((len(rows), k), np.float32)]
        for name, (places, scores, rivals) in found.items():
            side = self.sides[name]
            labels.append(np.where(places >= 0, side.labels[places], -1).astype(np.int32))
            chances.append(side.scale.of(scores, rivals))
        best, sure = ranked(np.concatenate(labels, axis=1), np.concatenate(chances, axis=1))
        return best[:, :k], sure[:, :k]

    def answers(self, rows: Rows, k: int) -> dict[str, tuple[Ints, Floats, Floats]]:
        """Each side's own labels and scores (rows, up to k), and the best score of the other side (rows, 1)."""
        found = {name: side.scorer.top(rows, min(k, len(side.labels))) for name, side in self.sides.items()}
        best = {name: scores.max(axis=1, keepdims=True, initial=0) for name, (_, scores) in found.items()}
        best.setdefault("nobody", np.zeros((len(rows), 1), np.float32))
        return {name: (*found[name], next(best[other] for other in best if other != name)) for name in found}

    def row_norms(self) -> Floats:
        """Of each label, its own side's row: the lengths the sides learned, before their scores share a scale."""
        norms = np.full(1 + max(int(side.labels.max()) for side in self.sides.values()), np.nan, dtype=np.float32)
        for side in self.sides.values():
            if isinstance(side.scorer, HasRows):
                norms[side.labels] = side.scorer.row_norms()
        return norms

    def state(self) -> State:
        return State(
            {name: asdict(side.scale) for name, side in self.sides.items()},
            {f"{name}.labels": side.labels for name, side in self.sides.items()},
            {name: side.scorer for name, side in self.sides.items()},
        )

    @classmethod
    def restore(cls, state: State) -> TaugScorer:
        sides = {}
        for name, scale in state.settings.items():
            labels = state.tensors[f"{name}.labels"]
            if labels.ndim != 1 or (np.diff(labels, prepend=-1) <= 0).any():
                raise ValueError(f"the labels of the {name} are not rows of a label set in their order")
            sides[name] = Side(state.parts[name], labels, Scale(**scale))
        return cls(sides)


@dataclass(frozen=True)
class Taug:
    """Learn the frequent and the rare labels apart, and the rare ones from noisy copies of their rows too.

    The head is the share of the labels with most training rows (of equals, the earlier ones); the learner is fitted
    on the rows that have a head label, knowing only head labels, and again on the rows that have a tail label,
    knowing only tail labels. Each tail row gets copies: on texts, words are dropped and trade places; on features,
    values. A learner that counts single words does not see places: on texts, `swap` matters to one that reads order.

    The paper does not say how the two answers become one. The tail's model has never seen a row without a tail
    label, so its scores are too high for such rows and cannot stand beside the head's as they are. Here both models
    answer for rows of valid, all of them, and each side gets its own logistic curve from the log of its score, and
    the best score of the other side, to the chance that its label is right; the ranking is by that chance. Without
    valid rows, the odds are the side's score times the share of training rows that it saw.

    Controls: `copies=0` decouples only; `swap=0` only drops; `keep=1` only swaps; `head_share=0` only adds copies, and
    `head_share=1` leaves the learner as it was.

    Paper: Wei et al., RankNet + TAUG (2021), section 3.3.
    Needs: nothing; goes on every learner.
    Costs: 1 + copies times the rows and the training time of the tail, two predictions instead of one. Head and tail
    are fitted one after the other, or with `parallel` at once, in the memory of both; never at once where checkpoints
    are kept.
    Prefer instead: `rerank`, where only the ranking has to move to the tail; it costs nothing and often does more.
    Example: longtail compare wordnet "knn" "knn + taug(copies=0)" "knn + taug"
    """

    head_share: float = 0.1  # tau: share of the labels that are head
    copies: int = 4  # n_aug: noisy copies of each tail row
    keep: float = 0.8  # rho: chance that a word or value stays; the paper does not give its own
    swap: float = 0.2  # share of the words or values that trade places, one pair at the least where above 0
    seed: int = 0
    parallel: bool = False  # fit head and tail at once

    summary: ClassVar[str] = "head and tail labels learned apart, the tail with noisy copies of its rows"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = TaugScorer

    def __post_init__(self) -> None:
        if not 0 <= self.head_share <= 1:
            raise RecipeError(f"setting 'head_share' of taug lies between 0 and 1, got {self.head_share:g}")
        if self.copies < 0:
            raise RecipeError(f"setting 'copies' of taug is at least 0, got {self.copies}")
        if not 0 < self.keep <= 1:
            raise RecipeError(f"setting 'keep' of taug is above 0 and at most 1, got {self.keep:g}")
        if not 0 <= self.swap <= 1:
            raise RecipeError(f"setting 'swap' of taug lies between 0 and 1, got {self.swap:g}")
        if self.seed < 0:
            raise RecipeError(f"setting 'seed' of taug is at least 0, got {self.seed}")

    def wrap(self, learner: Learner) -> Learner:
        return cast(Learner, Decoupled(learner, self))  # what it offers depends on the learner, not on the class

    def head(self, labels: LabelSet) -> Bools:
        """Which labels are head: (labels,)."""
        number = int(self.head_share * len(labels) + 1e-9)  # 0.29 x 100 is a little below 29 in floating point
        chosen = np.zeros(len(labels), dtype=np.bool_)
        chosen[np.argsort(-labels.counts, kind="stable")[:number]] = True
        return chosen

    def with_copies(self, data: Dataset) -> Dataset:
        """The rows and their noisy copies, which keep the targets."""
        chance = np.random.default_rng(self.seed)
        texts: list[str] = []
        features = []
        for _ in range(self.copies):
            if data.texts is not None:
                texts += noisy_texts(data.texts, self.keep, self.swap, chance)
            if data.features is not None:
                features.append(noisy_features(data.features, self.keep, self.swap, chance))
        if not self.copies:
            return data
        return data.with_rows(
            texts=None if data.texts is None else texts,
            features=None if data.features is None else sparse.vstack(features, format="csr"),
            targets=sparse.vstack([data.targets] * self.copies, format="csr"),
            origin="taug",
        )


@dataclass(frozen=True)
class Decoupled:
    """A learner fitted twice: on the head labels and on the tail labels."""

    learner: Learner
    method: Taug

    summary: ClassVar[str] = Taug.summary
    scorer: ClassVar[type[Scorer]] = TaugScorer

    @property
    def offers(self) -> frozenset[str]:
        return self.learner.offers

    @property
    def data_needs(self) -> frozenset[str]:
        return self.learner.data_needs

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TaugScorer:
        head = self.method.head(train.labels)
        labels = {"head": np.flatnonzero(head), "tail": np.flatnonzero(~head)}
        # A learner that reads label texts answers for labels without a row too; others have nothing to say of them.
        zero_shot = "label_texts" in self.learner.data_needs
        names = [
            name
            for name, own in labels.items()
            if len(own) and (zero_shot or np.isin(own, train.targets.indices).any())
        ]

        def fit(name: str) -> Side:
            with stage(f"learning {name} labels"):
                return self._fit_side(name, labels[name], train, valid, parts)

        # Checkpoints are found again by the order in which trainings begin, which threads do not keep.
        if self.method.parallel and kept_folder() is None:
            with ThreadPoolExecutor(2) as pool:  # a copied context each, so that the stages inside are heard
                begun = {name: pool.submit(copy_context().run, fit, name) for name in names}
                sides = {name: side.result() for name, side in begun.items()}
        else:
            sides = {name: fit(name) for name in names}
        with stage("learning the scale of the scores"):
            return on_one_scale(TaugScorer(sides), valid)

    def _fit_side(self, name: str, own: Longs, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Side:
        labels = some_labels(train.labels, own)
        rows = restricted(train, own, labels)
        rows = rows.take(np.flatnonzero(np.diff(rows.targets.indptr)))
        scale = Scale.of_share(max(len(rows), 1) / len(train))
        if name == "tail":
            with stage("copying tail rows"):
                rows = self.method.with_copies(rows)
        return Side(self.learner.fit(rows, restricted(valid, own, labels), parts), own, scale)

    def plan(self, facts: Facts) -> Plan:
        sides = facts_of_sides(facts, self.method)
        head, tail = (self.learner.plan(side) for side in sides)
        copied = sides[1].rows * self.method.copies / (1 + self.method.copies)
        length = self.method.keep * facts.characters / max(facts.rows, 1)  # of a copied text
        values = 0 if facts.characters else self.method.keep * facts.terms_per_row  # of a copied row of features
        copies = int(copied * (150 + 1.5 * length + 8 * values))  # ids, targets; texts in one or two bytes a letter
        asked = min(SCALE_ROWS, facts.rows // 20)  # held-out rows, where they are held out of train
        scale = 160 * CANDIDATES * asked
        first = max(head.train_bytes, head.model_bytes + scale)
        second = copies + max(tail.train_bytes, tail.model_bytes + scale)
        predicting = head.predict_seconds + tail.predict_seconds
        copying = copied * (2e-6 + 4e-8 * length)
        return Plan(
            train_bytes=first + second if self.method.parallel else max(first, head.model_bytes + second),
            model_bytes=head.model_bytes + tail.model_bytes,
            train_seconds=head.train_seconds + copying + tail.train_seconds + predicting * asked / 1000,
            predict_seconds=predicting,
            steps=(
                *((f"{name} of head", size) for name, size in head.steps),
                ("copies of tail rows", copies),
                *((f"{name} of tail", size) for name, size in tail.steps),
            ),
        )


def some_labels(labels: LabelSet, own: Longs) -> LabelSet:
    """Only these labels, in their order, with the counts they have."""
    return replace(
        labels,
        ids=tuple([labels.ids[row] for row in own]),
        texts=tuple([labels.texts[row] for row in own]),
        counts=labels.counts[own],
        features=None if labels.features is None else labels.features[own],
    )


def restricted(data: Dataset, own: Longs, labels: LabelSet) -> Dataset:
    """The same rows, knowing only these labels."""
    excluded = None if data.excluded is None else data.excluded[:, own]
    return replace(data, labels=labels, targets=data.targets[:, own], excluded=excluded)


def on_one_scale(scorer: TaugScorer, valid: Dataset) -> TaugScorer:
    """The same sides with scales learned from their candidates for held-out rows, with a label of theirs or without."""
    rows = np.linspace(0, len(valid) - 1, min(len(valid), SCALE_ROWS)).astype(np.int64)
    sample = valid.take(np.unique(rows))
    sides = {}
    for name, (places, scores, rivals) in scorer.answers(sample.rows, CANDIDATES).items():
        side = scorer.sides[name]
        found = Predictions(sample.labels, np.where(places >= 0, side.labels[places], -1).astype(np.int32), scores)
        banned = np.zeros(places.shape, bool) if sample.excluded is None else found.hits(sample.excluded)
        kept = (places >= 0) & ~banned
        rival = np.broadcast_to(rivals, places.shape)[kept]
        sides[name] = replace(side, scale=side.scale.fitted(scores[kept], rival, found.hits(sample.targets)[kept]))
    return TaugScorer(sides)


def facts_of_sides(facts: Facts, method: Taug) -> tuple[Facts, Facts]:
    """Sizes of the head and of the tail, on the assumption that the n-th label has 1/n of the first one's rows."""
    number = int(method.head_share * facts.labels + 1e-9)
    counts = facts.positives / np.arange(1, facts.labels + 1) / max((1 / np.arange(1, facts.labels + 1)).sum(), 1)
    growth = np.log(max(facts.terms / max(facts.terms_per_row, 1), 1)) / np.log(max(facts.rows, 2))
    words = counts**growth  # different words of a label's rows, up to a factor
    sides = []
    for part, copies in ((slice(0, number), 0), (slice(number, None), method.copies)):
        positives = counts[part].sum()
        rows = facts.rows * -np.expm1(-positives / max(facts.rows, 1))  # those with at least one of the labels
        length = (1 + copies * method.keep) / (1 + copies)  # of a row, copies and originals together
        sides.append(
            replace(
                facts,
                rows=int(rows * (1 + copies)),
                labels=len(counts[part]),
                positives=int(positives * (1 + copies)),
                terms_per_row=facts.terms_per_row * length,
                shared_terms=facts.shared_terms * length**2,
                mean_terms=int(facts.mean_terms * words[part].sum() / max(words.sum(), 1e-9)) + 1,
                characters=int(facts.characters * rows / max(facts.rows, 1) * (1 + copies) * length),
            )
        )
    return sides[0], sides[1]
