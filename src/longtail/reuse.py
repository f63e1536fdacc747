"""Fitted stages that several recipes share.

`parabel` and `parabel + rerank` train the same trees, `lever(teacher="ngame")` the same encoder as `ngame`. A recipe
asks here before it trains a stage, and before it predicts a fold; inside a `reusing` block a store may return what an
earlier recipe, or an earlier run of the same command, has left. Outside a block everything is trained.

The store is a context variable, as progress is: teachers and wrapped learners fit recipes deep inside `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from longtail.data.dataset import Dataset
from longtail.model import Model
from longtail.predictions import Predictions


class StageStore(Protocol):
    """Keeps fitted stages. A stage is known by its name and by its training and validation data."""

    def model(self, name: str, train: Dataset, valid: Dataset, fit: Callable[[], Model]) -> Model:
        """Return the model of a stage that was fitted before, or else fit it.

        Args:
            name: of the stage.
            train: what it trains on.
            valid: what it is validated on.
            fit: fits the stage.

        Returns:
            The fitted model.
        """

    def fold(self, name: str, train: Dataset, valid: Dataset, predict: Callable[[], Predictions]) -> Predictions:
        """Return the predictions of a fold that were made before, or else make them.

        Args:
            name: of the fold.
            train: all training examples.
            valid: what models are validated on.
            predict: fits a model without the fold and predicts it.

        Returns:
            The predictions.
        """


_store: ContextVar[StageStore | None] = ContextVar("longtail_stages", default=None)


@contextmanager
def reusing(store: StageStore) -> Iterator[None]:
    """Ask a store for every stage of every recipe that is fitted inside this block.

    Args:
        store: keeps the stages.

    Yields:
        Nothing.
    """
    token = _store.set(store)
    try:
        yield
    finally:
        _store.reset(token)


def stage_model(name: str, train: Dataset, valid: Dataset, fit: Callable[[], Model]) -> Model:
    """Fit a stage, or take it from the store.

    Args:
        name: of the stage: everything about it but the data.
        train: the training rows given.
        valid: the valid split.
        fit: trains it.

    Returns:
        The fitted model.
    """
    store = _store.get()
    return fit() if store is None else store.model(name, train, valid, fit)


def fold_predictions(name: str, train: Dataset, valid: Dataset, predict: Callable[[], Predictions]) -> Predictions:
    """Predict a fold of the training rows, or take the predictions from the store.

    Args:
        name: of the stage and of the fold: everything about it but the data.
        train: all training rows given.
        valid: the valid split.
        predict: trains on the other folds and predicts this one.

    Returns:
        The predictions.
    """
    store = _store.get()
    return predict() if store is None else store.fold(name, train, valid, predict)
