"""A recipe as a scikit-learn classifier: for pipelines, grid searches, and code that already speaks scikit-learn.

from longtail.sklearn import RecipeClassifier

model = RecipeClassifier("parabel + rerank").fit(texts, targets)  # targets: sparse 0/1, (rows, labels)
chances = model.predict_proba(["a text"])                         # sparse, the best k labels of each row
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.corpus import make_corpus
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.errors import DataError, MissingExtra
from longtail.predictions import Predictions
from longtail.recipe import Recipe

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtra("scikit-learn", "sklearn", "RecipeClassifier") from None


class RecipeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A recipe with `fit`, `predict`, `predict_proba` and `score`.

    X holds texts (a list or array of strings) or numbers (sparse or dense). Y is a matrix (rows, labels) with targets
    in (0, 1] where a label is true, sparse or dense; or one class a row, and then it is an ordinary classifier.

    `predict_proba` of many labels is sparse and holds the scores of the best `k` labels a row; whether they are
    chances depends on the recipe (`+ calibrate` makes them so). `predict` gives the labels that score at least
    `threshold`. `score` is P@1: how often the best label is right, which of one class a row is the accuracy.

    Rows for `valid`, which some recipes choose or calibrate on, are held out of X by a hash of their places.
    """

    def __init__(
        self,
        recipe: str = "dismec",
        *,
        k: int = 5,
        threshold: float = 0.5,
        valid_share: float = 0.05,
        label_texts: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        self.recipe = recipe
        self.k = k
        self.threshold = threshold
        self.valid_share = valid_share
        self.label_texts = label_texts  # one a column of Y, or a class in sorted order; for recipes that read them
        self.seed = seed

    def fit(self, X: Any, Y: Any = None, **named: Any) -> Self:  # noqa: N803
        """Learn from rows and their labels."""
        Y = named.pop("y", Y)  # noqa: N806 - scikit-learn passes y by name in places
        if named:
            raise TypeError(f"fit takes X and Y, not {', '.join(named)}")
        if Y is None:
            raise ValueError("RecipeClassifier requires y to be passed, but the target y is None")
        recipe = Recipe.parse(self.recipe)
        rows = self._rows(X, reset=True)
        Y = Y if sparse.issparse(Y) else np.asarray(Y)  # noqa: N806
        self.dense_ = not sparse.issparse(Y)
        self.single_ = self.dense_ and (Y.ndim == 1 or Y.shape[1] == 1)
        targets, self.classes_ = _targets(Y)
        if targets.shape[0] != len(rows):
            found = [len(rows), targets.shape[0]]
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {found}")
        texts = () if self.label_texts is None else tuple(self.label_texts)
        labels = LabelSet(ids=tuple(map(str, range(len(self.classes_)))), texts=texts)
        data = Dataset(
            labels=labels,
            targets=targets,
            ids=tuple(map(str, range(len(rows)))),
            texts=rows.texts,
            features=rows.features,
        )
        share = self.valid_share if len(rows) > 1 else 0.0
        corpus = make_corpus(name="X", train=data, valid=None, test=None, valid_share=share, seed=self.seed)
        self.model_ = recipe.fit(corpus.train, corpus.valid)
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Many labels: sparse (rows, labels), scores of the best k. One class a row: dense, each row adds up to 1."""
        found = self._predict(X, k=None)
        if not self.single_:
            return _matrix(found)
        dense = _matrix(found).toarray().astype(np.float64)
        total = dense.sum(axis=1, keepdims=True)
        return np.divide(dense, total, out=np.full_like(dense, 1 / max(dense.shape[1], 1)), where=total > 0)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Many labels: 0/1 (rows, labels) of those at the threshold or above, sparse where Y was. One class a row: the
        classes."""
        check_is_fitted(self)
        if self.single_:
            best = self._predict(X, k=1).indices[:, 0]
            return self.classes_[np.maximum(best, 0)]
        found = _matrix(self._predict(X, k=None).above(self.threshold))
        marks = sparse.csr_array((np.ones(found.nnz, np.int64), found.indices, found.indptr), shape=found.shape)
        return marks.toarray() if self.dense_ else marks

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """P@1 between 0 and 1."""
        best = self._predict(X, k=1)
        if self.single_:
            true = self.classes_[np.maximum(best.indices[:, 0], 0)] == np.asarray(y).ravel()
        else:
            true = best.hits(_targets(y)[0])[:, 0]
        return float(np.average(true, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        return tags

    def _predict(self, X: Any, k: int | None) -> Predictions:  # noqa: N803
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        every = len(self.classes_)
        return self.model_.predict(rows, k or (every if self.single_ else min(self.k, every)))

    def _rows(self, X: Any, reset: bool) -> Rows:  # noqa: N803
        texts = _texts(X)
        if texts is not None:
            return Rows(texts=texts)
        numbers = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float32)
        return Rows(features=sparse.csr_array(numbers) if sparse.issparse(numbers) else numbers)


def _texts(X: Any) -> tuple[str, ...] | None:  # noqa: N803
    """The rows as texts, where they are strings."""
    if hasattr(X, "tolist") and getattr(X, "ndim", 0) == 1 and not sparse.issparse(X):
        X = X.tolist()  # noqa: N806 - an array or a column of a data frame
    if isinstance(X, list | tuple) and X and all(isinstance(text, str) for text in X):
        return tuple(X)
    return None


def _targets(Y: Any) -> tuple[Matrix, AnyArray]:  # noqa: N803
    """Targets (rows, labels) and the classes of their columns."""
    if sparse.issparse(Y):
        return sparse.csr_array(Y, dtype=np.float32), np.arange(Y.shape[1])
    given = np.asarray(Y)
    if given.ndim == 2 and given.shape[1] > 1:
        if given.dtype.kind not in "fiub":
            raise DataError(f"Y must be numbers in rows and labels, got {given.dtype}; use a 0/1 matrix")
        return sparse.csr_array(given.astype(np.float32)), np.arange(given.shape[1])
    check_classification_targets(given)
    classes, places = np.unique(column_or_1d(given, warn=True), return_inverse=True)
    starts = np.arange(len(places) + 1)
    ones = np.ones(len(places), dtype=np.float32)
    return sparse.csr_array((ones, places.ravel(), starts), shape=(len(places), len(classes))), classes


def _matrix(predictions: Predictions) -> Matrix:
    """Scores as a sparse matrix (rows, labels), columns in order."""
    there = predictions.indices >= 0
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    shape = (len(predictions), len(predictions.labels))
    found = sparse.csr_array((predictions.scores[there], predictions.indices[there], starts), shape=shape)
    found.sort_indices()
    return found
