"""A model whose label vectors are in PostgreSQL: loads them into a table and searches there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.export.parts import ExportParts
from longtail.model import Model
from longtail.predictions import ranked
from longtail.seams import Declaration, State
from longtail.search.database import Stored, VectorTable, fingerprint


@dataclass(frozen=True, eq=False)
class DatabaseScorer:
    """Encodes texts in this process and searches label vectors in the database."""

    parts: ExportParts
    stored: Stored
    kind: ClassVar[str] = "database"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = Declaration()  # it is never saved

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; give documents with texts, not only features")
        found, products = self.stored.top(self.parts.queries(list(rows.texts)), k)
        probabilities = self.parts.calibration.of(np.maximum(products, -1e30))
        return ranked(found, np.where(found < 0, np.float32(0), probabilities))

    def state(self) -> NoReturn:
        """Refuses: the vectors are in the database."""
        raise DataError("a model that searches a database cannot be saved; save the model it was made from")

    @classmethod
    def restore(cls, state: State) -> NoReturn:
        """Refuses: see `state`."""
        raise ValueError("a model that searches a database cannot be saved")


def index(model: Model, table: VectorTable, *, indexed: bool | None = None) -> bool:
    """Loads a model's label vectors into a table.

    Args:
        model: a model with an encoder and a vector for each label.
        table: the table to write.
        indexed: whether to build an approximate index; None lets the number of labels decide.

    Returns:
        Whether the table has an approximate index.

    Raises:
        ModelError: the model has no vectors of labels.
    """
    parts = ExportParts.of(model)
    labels = model.labels
    return table.load(parts.search_vectors, labels.ids, labels.texts, labels.counts, indexed)


def searching(model: Model, table: VectorTable) -> Model:
    """The same model with its search in the database.

    Args:
        model: the model whose vectors were loaded.
        table: the table that holds them.

    Returns:
        A model that predicts the same labels, but cannot be saved.

    Raises:
        ModelError: the model has no vectors of labels.
    """
    parts = ExportParts.of(model)
    stored = Stored(table, fingerprint(parts.search_vectors, model.labels.ids))
    return replace(model, scorer=DatabaseScorer(parts, stored))
