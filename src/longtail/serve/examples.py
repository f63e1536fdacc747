"""Why a label: the training texts nearest to a text among those that have the label.

Nearness is the cosine of the two texts' words, weighed by tf-idf. It is the same for every model, so that two models
can be compared by what they make of the same rows; a model folder holds no training texts, and none are copied there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from longtail.arrays import Matrix
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.linear.text import Features

SHOWN = 400  # characters of a training text


class Near(NamedTuple):
    id: str
    text: str
    likeness: float


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows with their words counted, and the rows of each label."""

    name: str
    rows: Dataset
    features: Features
    vectors: Matrix  # csr (rows, words), of length 1
    having: Matrix  # csr (labels, rows)

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        rows = corpus.train
        if rows.texts is None:
            raise DataError(f"{corpus.name} has no texts to show as examples; serve without --examples")
        features, vectors = Features.learn(rows)
        return cls(corpus.name, rows, features, vectors, rows.targets.T.tocsr())

    def check(self, labels: LabelSet, model: str | Path) -> None:
        """Whether these can be the rows a model was trained on."""
        if not any(label in self.rows.labels.row_of for label in labels.ids):
            raise DataError(
                f"--examples {self.name} has none of the labels of {model}; give the data that it was trained on"
            )

    def nearest(self, text: str, labels: Sequence[str], most: int) -> dict[str, list[Near]]:
        """For each label id, the nearest of its rows; none for labels without rows."""
        assert self.rows.texts is not None
        query = self.features.of(Rows(texts=(text,)))
        asked = np.zeros(self.vectors.shape[1], dtype=np.float32)
        asked[query.indices] = query.data
        found: dict[str, list[Near]] = {}
        for label in labels:
            row = self.rows.labels.row_of.get(label)
            if row is None:
                found[label] = []
                continue
            having = self.having.indices[self.having.indptr[row] : self.having.indptr[row + 1]]
            likeness = self.vectors[having] @ asked  # (rows of the label,)
            best = np.lexsort((having, -likeness))[:most]
            found[label] = [
                Near(self.rows.ids[one], _shown(self.rows.texts[one]), round(float(likeness[place]), 4))
                for place, one in zip(best.tolist(), having[best].tolist(), strict=True)
            ]
        return found


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN].rsplit(" ", 1)[0] + " …"
