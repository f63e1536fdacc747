"""A recipe among scikit-learn's own tools."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from longtail.data import Corpus, Dataset
from longtail.errors import DataError, RecipeError
from longtail.sklearn import RecipeClassifier

# Every check that may fail, and why.
EXPECTED = {
    "check_classifiers_multilabel_output_format_predict_proba": (
        "many labels: predict_proba is a sparse matrix of the best k, scikit-learn wants a dense array over labels"
    )
}


@pytest.mark.parametrize("recipe", ["dismec", "knn"])
def test_checks_of_scikit_learn(recipe: str) -> None:
    found = check_estimator(
        RecipeClassifier(recipe), expected_failed_checks=EXPECTED, on_fail="raise", on_skip=None, legacy=True
    )
    statuses = [one["status"] for one in found]
    assert statuses.count("passed") > 50
    assert statuses.count("xfail") == len(EXPECTED)  # a check that passes must leave the list


def test_texts_and_many_labels(tiny: Corpus) -> None:
    model = RecipeClassifier("centroid", k=3).fit(list(tiny.train.texts or ()), tiny.train.targets)
    texts = list(tiny.test.texts or ())
    probabilities = model.predict_proba(texts)
    assert isinstance(probabilities, sparse.csr_array)
    assert probabilities.shape == (60, 10)
    assert np.diff(probabilities.indptr).max() <= 3
    assert 0 < probabilities.data.min() <= probabilities.data.max() <= 1
    best = np.asarray(probabilities.argmax(axis=1)).ravel()
    right = tiny.test.targets.toarray()[np.arange(60), best].astype(bool).mean()
    assert model.score(texts, tiny.test.targets) == pytest.approx(right)
    assert right > 0.9
    marks = model.predict(texts)
    assert sparse.issparse(marks)
    assert (marks.toarray() == (probabilities.toarray() >= 0.5)).all()


def test_dense_targets_come_back_dense_and_numbers_do_for_texts(numbers: Corpus) -> None:
    features = numbers.train.features
    for given in (features, features.toarray()):
        model = RecipeClassifier("knn(neighbours=5)").fit(given, numbers.train.targets.toarray())
        assert isinstance(model.predict(numbers.test.features), np.ndarray)
        assert model.n_features_in_ == 15
        assert model.score(numbers.test.features.toarray(), numbers.test.targets.toarray()) > 0.9


def test_classes_are_words_again(tiny: Corpus) -> None:
    texts, names = ["red apple", "green apple", "fast car", "slow car"] * 5, ["fruit", "fruit", "thing", "thing"] * 5
    model = RecipeClassifier("centroid").fit(np.array(texts, dtype=object), names)
    assert model.predict(["apple", "car"]).tolist() == ["fruit", "thing"]
    assert model.predict_proba(["apple", "nothing known"]).sum(axis=1) == pytest.approx([1, 1])
    assert model.score(["apple", "car"], ["fruit", "fruit"]) == 0.5


def test_a_pipeline_and_a_small_search(tiny: Corpus) -> None:
    texts, targets = list(tiny.train.texts or ()), tiny.train.targets
    line = make_pipeline(TfidfVectorizer(), RecipeClassifier("knn(neighbours=5)")).fit(texts, targets)
    assert line.score(list(tiny.test.texts or ()), tiny.test.targets) > 0.9
    search = GridSearchCV(RecipeClassifier(), {"recipe": ["knn(neighbours=1)", "centroid"], "k": [2]}, cv=2)
    search.fit(texts, targets)
    assert search.best_params_["recipe"] in ("knn(neighbours=1)", "centroid")
    assert search.cv_results_["mean_test_score"].shape == (2,)
    assert search.best_score_ > 0.9


def test_label_texts_reach_recipes_that_read_them(tiny: Corpus) -> None:
    model = RecipeClassifier("bm25", label_texts=tiny.labels.texts)
    again = clone(model)
    assert again.get_params() == model.get_params()
    again.fit(list(tiny.train.texts or ()), tiny.train.targets)
    assert again.score(list(tiny.test.texts or ()), tiny.test.targets) > 0.9


def label_lists(data: Dataset) -> list[list[str]]:
    bounds = data.targets.indptr
    return [[data.labels.ids[label] for label in data.targets.indices[a:b]] for a, b in pairwise(bounds)]


def test_lists_of_labels_are_as_good_as_a_matrix(tiny: Corpus) -> None:
    texts, asked = list(tiny.train.texts or ()), list(tiny.test.texts or ())
    labels = label_lists(tiny.train)
    model = RecipeClassifier("centroid", k=3).fit(texts, labels)
    matrix = RecipeClassifier("centroid", k=3).fit(texts, tiny.train.targets)
    assert model.classes_.tolist() == sorted(tiny.labels.ids)
    assert model.score(asked, label_lists(tiny.test)) == matrix.score(asked, tiny.test.targets) > 0.9
    assert (model.predict_proba(asked) != matrix.predict_proba(asked)).nnz == 0
    answers, marks = model.predict(asked), matrix.predict(asked).toarray()
    for answer, mark in zip(answers, marks, strict=True):
        assert set(answer) == {tiny.labels.ids[label] for label in np.flatnonzero(mark)}
    numbers = RecipeClassifier("centroid").fit(texts, [[int(label[1:]) for label in row] for row in labels])
    assert numbers.classes_.tolist() == list(range(10))  # rows of one or two whole numbers are labels too
    sets = RecipeClassifier("centroid", k=3).fit(texts, [set(row) for row in labels])
    assert (sets.predict_proba(asked) != model.predict_proba(asked)).nnz == 0


def test_label_texts_by_label(tiny: Corpus) -> None:
    texts = dict(zip(tiny.labels.ids, tiny.labels.texts, strict=True))
    model = RecipeClassifier("bm25", label_texts=texts).fit(list(tiny.train.texts or ()), label_lists(tiny.train))
    assert model.score(list(tiny.test.texts or ()), label_lists(tiny.test)) > 0.9


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames(package: str, tiny: Corpus) -> None:
    frames = pytest.importorskip(package)
    texts, labels = list(tiny.train.texts or ()), label_lists(tiny.train)
    halves = [text.split(" ", 1) for text in texts]
    frame = frames.DataFrame({"title": [half[0] for half in halves], "rest": [half[-1] for half in halves]})
    model = RecipeClassifier("centroid").fit(frame, frames.Series(labels))
    assert model.score(frames.Series(list(tiny.test.texts or ())), label_lists(tiny.test)) > 0.9
    one_hot = frames.DataFrame(
        {label: tiny.train.targets.toarray()[:, row].astype(int) for row, label in enumerate(tiny.labels.ids)}
    )
    marked = RecipeClassifier("centroid").fit(frames.Series(texts), one_hot)
    assert marked.classes_.tolist() == list(tiny.labels.ids)
    numbered = frames.DataFrame({"title": texts, "year": list(range(len(texts)))})
    with pytest.raises(DataError, match=r"text_columns=\['title'\]"):
        RecipeClassifier("centroid").fit(numbered, one_hot)
    named = RecipeClassifier("centroid", text_columns="title").fit(numbered, one_hot)
    assert (named.predict_proba(numbered[:9]) != marked.predict_proba(texts[:9])).nnz == 0
    only_numbers = RecipeClassifier("knn(neighbours=1)").fit(one_hot, one_hot)
    assert only_numbers.n_features_in_ == 10
    with pytest.raises(DataError, match="no column 'titel' for texts; did you mean 'title'"):
        RecipeClassifier("centroid", text_columns="titel").fit(numbered, one_hot)


def test_settings_of_the_recipe_are_parameters(tiny: Corpus) -> None:
    model = RecipeClassifier("parabel + rerank(strength=0.5)")
    params = model.get_params()
    assert params["recipe__cost"] == 1.5 and params["recipe__rerank__strength"] == 0.5
    assert model.set_params(**params).recipe == "parabel + rerank(strength=0.5)"  # what is as it was stays unwritten
    model.set_params(recipe__cost=2, recipe__rerank__strength=0.1)
    assert model.recipe == "parabel(cost=2) + rerank(strength=0.1)"
    assert clone(model).recipe == model.recipe
    assert model.set_params(recipe="knn", recipe__neighbours=np.int64(7)).recipe == "knn(neighbours=7)"
    with pytest.raises(RecipeError, match=r"no setting 'neighbour'; did you mean 'neighbours'"):
        model.set_params(recipe__neighbour=3)
    with pytest.raises(RecipeError, match="takes a whole number"):
        model.set_params(recipe__neighbours="three")
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(nonsense=1)
    assert "recipe__neighbours" not in RecipeClassifier("nonsense").get_params()


def test_a_search_over_settings_with_lists_of_labels(tiny: Corpus) -> None:
    texts, labels = list(tiny.train.texts or ())[:120], label_lists(tiny.train)[:120]
    search = GridSearchCV(RecipeClassifier("knn"), {"recipe__neighbours": [1, 60]}, cv=KFold(2))
    search.fit(texts, labels)
    one, sixty = search.cv_results_["mean_test_score"]
    assert one != sixty and min(one, sixty) > 0.5
    best = 1 if one > sixty else 60
    assert search.best_params_ == {"recipe__neighbours": best}
    assert search.best_estimator_.recipe == f"knn(neighbours={best})"


def test_what_is_wrong_is_told(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match="unknown learner"):
        RecipeClassifier("nonsense").fit(["a"], [1])
    with pytest.raises(NotFittedError):
        RecipeClassifier().predict(["a"])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        RecipeClassifier().fit(["a", "b"], tiny.train.targets)
