"""A recipe as a scikit-learn classifier: for pipelines, grid searches, and code that already speaks scikit-learn.

from longtail.sklearn import RecipeClassifier

model = RecipeClassifier("parabel + rerank").fit(texts, labels)  # lists of labels, or sparse 0/1, (rows, labels)
probabilities = model.predict_proba(["a text"])                  # sparse, the best k labels of each row
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.corpus import make_corpus
from longtail.data.dataset import Dataset, Rows
from longtail.data.frames import column, column_names, is_column, is_missing, plain_list
from longtail.data.labels import LabelSet
from longtail.errors import DataError, LongtailError, MissingExtra
from longtail.predictions import Predictions
from longtail.recipe import Recipe
from longtail.recipe_settings import settings_of, with_settings

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtra("scikit-learn", "sklearn", "RecipeClassifier") from None


class RecipeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A recipe with `fit`, `predict`, `predict_proba` and `score`.

    X holds texts (a list, array or column of strings, or a frame with columns of texts) or numbers (sparse or dense). Y
    is a list of labels a row; or a matrix (rows, labels) with targets in (0, 1] where a label is true, sparse, dense or
    a frame with a column a label; or one class a row, and then it is an ordinary classifier.

    A setting of the learner is the parameter `recipe__cost`, that of a tail method `recipe__rerank__strength`: in
    `set_params` and in the grid of a search. With lists of labels give a search a `cv` such as `KFold(3)`: scikit-learn
    itself refuses them where it would have to stratify.

    With many labels `predict_proba` returns a sparse matrix with the scores of the best `k` labels a row, its columns
    as in `classes_`; whether they are probabilities depends on the recipe (`+ calibrate` makes them so). `predict`
    returns the labels that score at least `threshold`, as lists where Y was lists. `score` is P@1: how
    often the best label is right; with one class a row that is the accuracy.

    Rows for `valid`, which some recipes choose or calibrate on, are held out of X by a hash of their row numbers.
    """

    def __init__(
        self,
        recipe: str = "dismec",
        *,
        k: int = 5,
        threshold: float = 0.5,
        valid_share: float = 0.05,
        label_texts: Sequence[str] | Mapping[str, str] | None = None,
        text_columns: str | Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        self.recipe = recipe
        self.k = k
        self.threshold = threshold
        self.valid_share = valid_share
        self.label_texts = label_texts  # by label; or one a column of Y, or a class in sorted order
        self.text_columns = text_columns  # of a frame; default: all columns, where all are texts
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters.

        Args:
            deep: also the settings of the recipe, as `recipe__cost` and `recipe__rerank__strength`.

        Returns:
            Values by name.
        """
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            try:
                settings = settings_of(Recipe.parse(str(self.recipe)))
            except LongtailError:  # a wrong recipe is reported by `fit`
                settings = {}
            found |= {f"recipe__{name}": value for name, value in settings.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Args:
            params: by name; `recipe__cost` changes a setting of the learner, `recipe__rerank__strength` one of a tail
                method.

        Returns:
            Itself.

        Raises:
            ValueError: a parameter is unknown.
            RecipeError: a setting is unknown or its value does not suit it.
        """
        nested = {name: value for name, value in params.items() if name.startswith("recipe__")}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            changes = {name.removeprefix("recipe__"): value for name, value in nested.items()}
            self.recipe = str(with_settings(Recipe.parse(str(self.recipe)), changes))
        return self

    def fit(self, X: Any, Y: Any = None, **named: Any) -> Self:  # noqa: N803
        """Learn from rows and their labels.

        Args:
            X: rows; texts or numbers (rows, features).
            Y: lists of labels, targets (rows, labels), or one class a row.
            named: `y`, as scikit-learn passes Y in places.

        Returns:
            Itself, fitted.

        Raises:
            ValueError: there is no Y, or X and Y have different numbers of rows.
            TypeError: there are other arguments.
        """
        Y = named.pop("y", Y)  # noqa: N806 - scikit-learn passes y by name in places
        if named:
            raise TypeError(f"fit takes X and Y, not {', '.join(named)}")
        if Y is None:
            raise ValueError("RecipeClassifier requires y to be passed, but the target y is None")
        recipe = Recipe.parse(str(self.recipe))
        rows = self._rows(X, reset=True)
        lists = _label_lists(Y)
        self.lists_ = lists is not None
        if lists is not None:
            self.dense_ = self.single_ = False
            self.classes_ = np.array(sorted({label for row in lists for label in row}), dtype=object)
            targets = _list_targets(lists, self.classes_)
        else:
            names = column_names(Y) if hasattr(Y, "shape") and len(Y.shape) == 2 else None
            Y = Y if sparse.issparse(Y) else np.asarray(Y)  # noqa: N806
            self.dense_ = not sparse.issparse(Y)
            self.single_ = bool(self.dense_ and (Y.ndim == 1 or Y.shape[1] == 1))
            targets, self.classes_ = _targets(Y)
            if names is not None and not self.single_:
                self.classes_ = np.array(names, dtype=object)
        if targets.shape[0] != len(rows):
            found = [len(rows), targets.shape[0]]
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {found}")
        given = self.label_texts
        texts: tuple[str, ...] = () if given is None else tuple(given)
        if isinstance(given, Mapping):
            texts = tuple(given.get(label, "") for label in self.classes_)
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
        """Predict scores.

        Args:
            X: rows as in `fit`.

        Returns:
            Many labels: csr (rows, labels) with the scores of the best k. One class a row: dense, rows add up to 1.
        """
        found = self._predict(X, k=None)
        if not self.single_:
            return _matrix(found)
        dense = _matrix(found).toarray().astype(np.float64)
        total = dense.sum(axis=1, keepdims=True)
        return np.divide(dense, total, out=np.full_like(dense, 1 / max(dense.shape[1], 1)), where=total > 0)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict labels.

        Args:
            X: rows as in `fit`.

        Returns:
            Many labels: 0/1 (rows, labels) for scores of at least the threshold, sparse where Y was; an array of lists,
            best label first, where Y was lists. One class a row: the classes (rows,).
        """
        check_is_fitted(self)
        if self.single_:
            best = self._predict(X, k=1).indices[:, 0]
            return self.classes_[np.maximum(best, 0)]
        above = self._predict(X, k=None).above(self.threshold)
        if self.lists_:
            answers = np.empty(len(above), dtype=object)
            answers[:] = [[self.classes_[label] for label in row if label >= 0] for row in above.indices.tolist()]
            return answers
        found = _matrix(above)
        marks = sparse.csr_array((np.ones(found.nnz, np.int64), found.indices, found.indptr), shape=found.shape)
        return marks.toarray() if self.dense_ else marks

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Compute P@1.

        Args:
            X: rows as in `fit`.
            y: targets or classes as in `fit`.
            sample_weight: (rows,), or none.

        Returns:
            The share of rows whose best label is right, from 0 to 1.
        """
        best = self._predict(X, k=1)
        if self.lists_:
            lists = _label_lists(y)
            if lists is None:
                raise ValueError("y must be lists of labels, as in fit")
            places = best.indices[:, 0].tolist()
            true = np.array([p >= 0 and self.classes_[p] in set(row) for p, row in zip(places, lists, strict=True)])
        elif self.single_:
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
        texts = _frame_texts(X, self.text_columns)
        texts = _texts(X) if texts is None else texts
        if texts is not None:
            return Rows(texts=texts)
        numbers = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float32)
        return Rows(features=sparse.csr_array(numbers) if sparse.issparse(numbers) else numbers)


def _texts(X: Any) -> tuple[str, ...] | None:  # noqa: N803
    """The rows as texts, where they are strings."""
    if (hasattr(X, "tolist") and getattr(X, "ndim", 0) == 1 and not sparse.issparse(X)) or is_column(X):
        X = plain_list(X)  # noqa: N806 - an array or a column of a data frame
    if isinstance(X, list | tuple) and X and all(isinstance(text, str) for text in X):
        return tuple(X)
    return None


def _frame_texts(X: Any, wanted: str | Sequence[str] | None) -> tuple[str, ...] | None:  # noqa: N803
    """The texts of a frame, columns joined with a space; None for a frame of numbers, or what is no frame."""
    names = column_names(X) if hasattr(X, "shape") and len(X.shape) == 2 else None
    if names is None:
        return None
    if wanted is None:
        cells = {name: column(X, name, "texts") for name in names}
        kinds = {name: all(isinstance(one, str) or is_missing(one) for one in cell) for name, cell in cells.items()}
        strings = [name for name in names if kinds[name] and any(isinstance(one, str) for one in cells[name])]
        if not strings:
            return None
        if len(strings) < len(names):
            other = next(name for name in names if name not in strings)
            raise DataError(
                f"X has columns of texts ({', '.join(strings)}) and others ({other}); name those to read: "
                f"text_columns={strings!r}"
            )
        wanted = strings
    columns = [column(X, name, "texts") for name in ([wanted] if isinstance(wanted, str) else wanted)]
    return tuple(" ".join(str(cell) for cell in row if not is_missing(cell)) for row in zip(*columns, strict=True))


def _label_lists(Y: Any) -> list[list[Any]] | None:  # noqa: N803
    """Y as a list of labels a row, where it is that: not a matrix, and not one class a row."""
    if sparse.issparse(Y) or (hasattr(Y, "shape") and len(Y.shape) != 1):
        return None
    rows = plain_list(Y) if hasattr(Y, "__len__") and not isinstance(Y, str) else []
    if not rows or not all(
        isinstance(row, list | tuple | set | frozenset | np.ndarray) or is_column(row) for row in rows
    ):
        return None
    lists = [sorted(row) if isinstance(row, set | frozenset) else plain_list(row) for row in rows]
    if any(isinstance(label, list | tuple) for row in lists for label in row):
        return None
    words = all(isinstance(label, str) for row in lists for label in row)
    # Rows of numbers that are all as long are a matrix.
    return lists if words or len({len(row) for row in lists}) > 1 else None


def _list_targets(lists: list[list[Any]], classes: AnyArray) -> Matrix:
    """Lists of labels as 0/1 (rows, labels)."""
    row_of = {label: row for row, label in enumerate(classes.tolist())}
    places = [sorted({row_of[label] for label in row}) for row in lists]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in places])])
    flat = np.array([place for row in places for place in row], dtype=np.int32)
    return sparse.csr_array((np.ones(len(flat), np.float32), flat, starts), shape=(len(lists), len(classes)))


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
    filled = predictions.indices >= 0
    starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    shape = (len(predictions), len(predictions.labels))
    found = sparse.csr_array((predictions.scores[filled], predictions.indices[filled], starts), shape=shape)
    found.sort_indices()
    return found
