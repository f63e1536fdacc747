"""Prediction: excluded pairs, long lists, and inputs that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.comparison import compare
from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.errors import DataError, RecipeError
from longtail.model import MAX_SHARED_EXCLUSIONS, Model
from longtail.predictions import CANDIDATES
from longtail.recipe import Recipe


@pytest.fixture(scope="module")
def many() -> Dataset:
    """400 labels, each with three rows of its own words and of shared ones."""
    rng = np.random.default_rng(0)
    labels = LabelSet(ids=tuple(map(str, range(400))), texts=tuple(f"word{label}" for label in range(400)))
    owners = np.repeat(np.arange(400), 3)
    texts = tuple(
        " ".join([f"word{label}", *(f"shared{number}" for number in rng.integers(0, 25, 4))]) for label in owners
    )
    targets = sparse.csr_array((np.ones(1200, np.float32), (np.arange(1200), owners)), shape=(1200, 400))
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(1200))), texts=texts)
    return data.over(labels.counted(targets))


PLAIN = ["centroid", "centroid(probabilities=false)", "knn", "bm25"]


@pytest.fixture(scope="module", params=[*PLAIN, "centroid + rerank"])
def model(request: pytest.FixtureRequest, many: Dataset) -> Model:
    valid = many.take(np.arange(0, 1200, 7))
    return Recipe.parse(request.param).fit(many, valid)


@pytest.mark.parametrize("model", PLAIN, indirect=True)
def test_a_longer_list_starts_the_same(model: Model, many: Dataset) -> None:
    """Without re-rankers: with one, more candidates move when more are asked for."""
    rows = many.rows[:60]
    short, long = model.predict(rows, k=5), model.predict(rows, k=300)
    assert np.array_equal(short.indices, long.indices[:, :5])


@pytest.mark.parametrize("name", ["longtail.model.CHUNK_PLACES", "longtail.learners.knn.PAIRS"])
def test_many_candidates_make_the_chunks_shorter(
    name: str, model: Model, many: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that memory does not grow with what a saved model asks for; the answers are the same."""
    whole = model.predict(many.rows[:50], k=7)
    monkeypatch.setattr(name, 20)
    again = model.predict(many.rows[:50], k=7)
    assert np.array_equal(whole.indices, again.indices)
    assert np.array_equal(whole.scores, again.scores)


def test_exclusions_of_one_row_leave_the_others_alone(model: Model, many: Dataset) -> None:
    rows = many.rows[:60]
    free = model.predict(rows, k=5)
    marks = np.zeros((60, 400), dtype=bool)
    marks[0, : MAX_SHARED_EXCLUSIONS + 200] = True  # far more than a chunk makes room for
    marks[1, free.indices[1, 0]] = True
    held = model.predict(rows, k=5, excluded=sparse.coo_array(marks))
    assert np.array_equal(held.indices[2:], free.indices[2:])
    assert not ((held.indices[0] >= 0) & (held.indices[0] < MAX_SHARED_EXCLUSIONS + 200)).any()
    if "bm25" not in model.recipe:  # which finds the row's own label and no other
        assert (held.indices[0] >= 0).all()
    assert free.indices[1, 0] not in held.indices[1]


def test_excluded_pairs_must_fit(tiny: Corpus) -> None:
    model = Recipe.parse("bm25").fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="excluded pairs are 2 x 10 for 1 rows and 10 labels"):
        model.predict(["apple"], excluded=sparse.csr_array((2, 10), dtype=bool))


def test_texts_must_be_texts(tiny: Corpus) -> None:
    model = Recipe.parse("bm25").fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="text 2 is not a string but NoneType"):
        model.predict(["apple", None])  # type: ignore[list-item]
    with pytest.raises(DataError, match="do not match"):
        Rows(texts=("a",), features=sparse.csr_array((2, 3)))


def test_train_and_valid_share_their_labels(tiny: Corpus) -> None:
    other = Dataset(
        labels=LabelSet(ids=("x",)), targets=sparse.csr_array(np.ones((1, 1))), ids=("0",), texts=("apple",)
    )
    with pytest.raises(DataError, match="different label sets"):
        Recipe.parse("bm25").fit(tiny.train, other)


def test_what_a_notebook_shows_is_short(tiny: Corpus) -> None:
    """However many labels and rows there are."""
    model = Recipe.parse("centroid + rerank").fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, k=3)
    assert repr(model) == "Model('centroid + rerank', LabelSet(10 labels, 10 of them in 410 rows))"
    assert repr(found) == "Predictions(60 rows, 3 places, 10 labels)"
    assert repr(tiny.test) == "Dataset(60 rows with texts, 120 targets, 10 labels)"
    assert repr(tiny.test.rows) == "Rows(60 rows with texts)"
    assert len(repr(tiny)) < 400


def test_one_written_recipe_where_parts_or_a_list_are_wanted(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match=r"Recipe\.parse\('centroid'\)"):
        Recipe("centroid")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"put the one in brackets: \['centroid'\]"):
        compare(tiny, "centroid")


@pytest.mark.parametrize("recipe", ["centroid", "knn + calibrate", "parabel + calibrate", "parabel + taug"])
def test_compare_may_ask_for_candidates_of_the_dial(recipe: str, many: Dataset) -> None:
    """It predicts CANDIDATES labels where scores are probabilities; the first five are those of a shorter list."""
    fitted = Recipe.parse(recipe).fit(many, many.take(np.arange(0, 1200, 7)))
    assert fitted.probabilities
    short, long = fitted.predict(many.rows[:60], k=5), fitted.predict(many.rows[:60], k=CANDIDATES)
    assert np.array_equal(short.indices, long.indices[:, :5])
    assert np.array_equal(short.scores, long.scores[:, :5])
