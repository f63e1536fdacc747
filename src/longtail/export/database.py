"""A model whose label vectors lie in PostgreSQL: put them there, and predict by asking it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.export.parts import Parts
from longtail.model import Model
from longtail.predictions import ranked
from longtail.seams import State
from longtail.search.database import Stored, Table, fingerprint


@dataclass(frozen=True, eq=False)
class DatabaseScorer:
    """The encoder here, the search there."""

    parts: Parts
    stored: Stored
    kind: ClassVar[str] = "database"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        found, products = self.stored.top(self.parts.asked(list(rows.texts)), k)
        return ranked(found, np.where(found < 0, np.float32(0), self.parts.odds.of(np.maximum(products, -1e30))))

    def state(self) -> NoReturn:
        raise DataError("a model that searches a database is not saved; save the model it was made of")

    @classmethod
    def restore(cls, state: State) -> NoReturn:
        raise ValueError("a model that searches a database is not saved")


def index(model: Model, table: Table, *, indexed: bool | None = None) -> bool:
    """Load the model's label vectors into the table; True where they got an approximate index."""
    parts = Parts.of(model)
    labels = model.labels
    return table.load(parts.searched, labels.ids, labels.texts, labels.counts, indexed)


def searching(model: Model, table: Table) -> Model:
    """The same model, whose labels are found by the database."""
    parts = Parts.of(model)
    stored = Stored(table, fingerprint(parts.searched, model.labels.ids))
    return replace(model, scorer=DatabaseScorer(parts, stored))
