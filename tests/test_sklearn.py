"""A recipe among scikit-learn's own tools."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from longtail.data import Corpus
from longtail.errors import RecipeError
from longtail.sklearn import RecipeClassifier

# Every check that may fail, and why.
EXPECTED = {
    "check_classifiers_multilabel_output_format_predict_proba": (
        "many labels: chances are a sparse matrix of the best k, where scikit-learn asks for a dense array over labels"
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
    chances = model.predict_proba(texts)
    assert isinstance(chances, sparse.csr_array)
    assert chances.shape == (60, 10)
    assert np.diff(chances.indptr).max() <= 3
    assert 0 < chances.data.min() <= chances.data.max() <= 1
    best = np.asarray(chances.argmax(axis=1)).ravel()
    right = tiny.test.targets.toarray()[np.arange(60), best].astype(bool).mean()
    assert model.score(texts, tiny.test.targets) == pytest.approx(right)
    assert right > 0.9
    marks = model.predict(texts)
    assert sparse.issparse(marks)
    assert (marks.toarray() == (chances.toarray() >= 0.5)).all()


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


def test_what_is_wrong_is_told(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match="unknown learner"):
        RecipeClassifier("nonsense").fit(["a"], [1])
    with pytest.raises(NotFittedError):
        RecipeClassifier().predict(["a"])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        RecipeClassifier().fit(["a", "b"], tiny.train.targets)
