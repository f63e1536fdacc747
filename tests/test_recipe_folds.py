"""Out-of-fold predictions: every training row once, by a model that has not seen it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data import Corpus, Dataset, Rows
from longtail.errors import DataError
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.seams import HeldOut, State
from longtail.tail.rerank import Rerank, RerankWeights

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Echo:
    """Answers a row with the labels it remembers for the row's text, and label 0 where it remembers nothing."""

    memory: dict[str, Ints]
    kind: ClassVar[str] = "echo.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        indices = np.full((len(rows), k), -1, np.int32)
        for row, text in enumerate(rows.texts or ()):
            known = self.memory.get(text, np.array([0]))[:k]
            indices[row, : len(known)] = known
        return indices, (indices >= 0).astype(np.float32)

    def state(self) -> State:
        return State()

    @classmethod
    def restore(cls, state: State) -> Echo:
        return cls({})


@dataclass(frozen=True)
class Memory:
    """A learner that knows its training rows by heart and remembers which rows each fit saw."""

    fits: list[Dataset] = field(default_factory=list)
    offers: ClassVar[frozenset[str]] = NONE
    data_needs: ClassVar[frozenset[str]] = NONE

    def fit(self, train: Dataset, valid: Dataset, parts: object) -> Echo:
        self.fits.append(train)
        starts, labels = train.targets.indptr, train.targets.indices
        return Echo({text: labels[starts[row] : starts[row + 1]] for row, text in enumerate(train.texts or ())})


@dataclass(frozen=True)
class Asks:
    """A re-ranker that asks for the folds, keeps what it got, and changes nothing."""

    number: int
    most: int | None = None
    seed: int = 0
    got: list[tuple[Predictions, Dataset]] = field(default_factory=list)
    reranker: ClassVar[type[RerankWeights]] = RerankWeights
    needs: ClassVar[frozenset[str]] = NONE
    data_needs: ClassVar[frozenset[str]] = NONE

    def fit_reranker(self, held_out: HeldOut) -> RerankWeights:
        self.got.append(held_out.folds(self.number, self.most, self.seed))
        return Rerank(strength=0).fit_reranker(held_out)


@dataclass(frozen=True)
class Doubles:
    """Adds every row once more under a marked text: a model that saw the marked row saw the row."""

    needs: ClassVar[frozenset[str]] = NONE
    data_needs: ClassVar[frozenset[str]] = NONE

    def augment(self, train: Dataset) -> Dataset:
        return train.with_rows(targets=train.targets, texts=[f"{text}*" for text in train.texts or ()], origin="again")


def unique(tiny: Corpus) -> Dataset:
    """Training rows whose texts differ, and none of which has label 0."""
    rows = 40
    targets = sparse.csr_array((np.ones(rows, np.float32), np.arange(rows) % 9 + 1, np.arange(rows + 1)), (rows, 10))
    return Dataset(
        labels=tiny.labels,
        targets=targets,
        ids=tuple(f"r{row}" for row in range(rows)),
        texts=tuple(map(str, range(rows))),
    )


def fit(train: Dataset, *tail: object) -> Memory:
    """Fit a recipe of these objects, which stand in no catalogue."""
    recipe = Recipe.parse("centroid")
    learner = Memory()
    recipe.__dict__.update(learner=learner, tail=tail, parts=recipe.parts * (1 + len(tail)))
    recipe.__dict__.pop("fitted_learner")  # what it made of the learner it had
    recipe.fit(train, train.take([]))
    return learner


@pytest.mark.parametrize("number", [2, 3, 7])
def test_every_row_is_predicted_once_by_a_model_that_has_not_seen_it(number: int, tiny: Corpus) -> None:
    train, asks = unique(tiny), Asks(number)
    learner = fit(train, asks)
    predictions, rows = asks.got[0]
    assert rows.ids == train.ids
    assert (rows.targets != train.targets).nnz == 0
    assert predictions.indices.shape == (40, CANDIDATES)
    assert (predictions.indices[:, 0] == 0).all()  # a model that had seen the row would have answered its own label
    whole, *folds = learner.fits
    assert len(whole) == 40 and len(folds) == number
    left = [set(train.ids) - set(fold.ids) for fold in folds]
    assert sorted(name for names in left for name in names) == sorted(train.ids)
    assert max(map(len, left)) - min(map(len, left)) <= 1


def test_folds_depend_on_ids_and_seed_not_on_order(tiny: Corpus) -> None:
    def parts(train: Dataset, seed: int) -> set[frozenset[str]]:
        learner = fit(train, Asks(3, seed=seed))
        return {frozenset(fold.ids) for fold in learner.fits[1:]}

    train = unique(tiny)
    assert parts(train, 0) == parts(train.take(np.arange(40)[::-1]), 0)
    assert parts(train, 0) != parts(train, 1)


def test_augmenting_happens_inside_each_fold_and_added_rows_are_not_predicted(tiny: Corpus) -> None:
    train, asks = unique(tiny), Asks(4)
    learner = fit(train, asks, Doubles())
    predictions, rows = asks.got[0]
    assert rows.ids == train.ids
    for fold in learner.fits[1:]:
        texts = set(fold.texts or ())
        assert len(fold) == 60 and {text for text in texts if f"{text}*" in texts} == set((fold.texts or ())[:30])
    assert (predictions.indices[:, 0] == 0).all()


def test_rows_that_were_added_before_are_learned_from_and_not_predicted(tiny: Corpus) -> None:
    given, asks = unique(tiny), Asks(4)
    train = given.with_rows(targets=given.targets[:8], texts=[f"more {row}" for row in range(8)], origin="rows")
    learner = fit(train, asks)
    _, rows = asks.got[0]
    assert rows.ids == given.ids
    for fold in learner.fits[1:]:
        assert len(fold) == 38 and set(train.ids[40:]) <= set(fold.ids)


def test_earlier_rerankers_are_applied_and_later_ones_are_not(tiny: Corpus) -> None:
    first, second = Asks(2), Asks(2)
    learner = fit(unique(tiny), first, Rerank(), second, Rerank())
    weights = Rerank().fit_reranker(type("Labels", (), {"labels": tiny.labels})()).weights  # type: ignore[arg-type]
    assert first.got[0][0].scores[0, 0] == 1
    assert second.got[-1][0].scores[0, 0] == pytest.approx(weights[0])
    assert len(learner.fits) == 1 + 2 + 2 * (1 + 2)  # the second's folds fit the first's folds again


def test_excluded_pairs_are_honoured(tiny: Corpus) -> None:
    asks = Asks(3)
    train = unique(tiny)
    banned = sparse.csr_array((np.ones(20, bool), (np.arange(20), np.zeros(20, int))), train.targets.shape)
    fit(replace(train, excluded=banned), asks)
    assert (asks.got[0][0].indices[:20] == -1).all()
    assert (asks.got[0][0].indices[20:, 0] == 0).all()


def test_a_cap_predicts_fewer_rows_and_still_learns_from_the_others(tiny: Corpus) -> None:
    asks = Asks(3, most=10)
    learner = fit(unique(tiny), asks)
    predictions, rows = asks.got[0]
    assert len(predictions) == len(rows) == 10
    assert (predictions.indices[:, 0] == 0).all()
    assert all(len(fold) >= 26 for fold in learner.fits[1:])


def test_more_folds_than_rows_are_refused_with_the_remedy(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="40 training examples cannot be cut into 41 folds; give 2 to 40"):
        fit(unique(tiny), Asks(41))


def test_nothing_is_trained_until_the_folds_are_asked_for_and_the_stages_say_so(tiny: Corpus) -> None:
    names: list[str] = []

    class Listener:
        def start(self, name: str, total: int | None) -> int:
            names.append(name)
            return 0

        def advance(self, handle: int, amount: int) -> None: ...

        def finish(self, handle: int) -> None: ...

    assert len(fit(unique(tiny), Rerank()).fits) == 1
    with listening(Listener()):
        fit(unique(tiny), Asks(2))
    assert "predicting out of fold" in names


def test_one_row_cannot_be_held_out_from_others(tiny: Corpus) -> None:
    with pytest.raises(DataError, match=r"need at least 2 training examples, and train has 1"):
        Recipe.parse("knn + ranknet").fit(tiny.train.take([0]), tiny.valid)
