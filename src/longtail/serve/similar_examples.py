"""Reasons for a predicted label: the training texts with that label that are most similar to the text.

Similarity is the cosine of tf-idf word vectors. It is the same for every model, so that two models can be compared on
the same examples. Model folders hold no training texts, and none are copied into them.

Reasons come from the training data (`serve --examples`), not from the model folder: models stay small and carry no
texts.
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
from longtail.linear.features.sparse_features import Features

SHOWN = 400  # characters of a training text


class NearExample(NamedTuple):
    """A training example and its similarity to a text."""

    id: str
    text: str
    similarity: float


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """Training examples as tf-idf vectors, and the examples of each label."""

    name: str
    rows: Dataset
    features: Features
    vectors: Matrix  # csr (rows, words), unit norm
    rows_of_label: Matrix  # csr (labels, rows)

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Reads the training examples of a data set.

        Args:
            corpus: the data set.

        Returns:
            Its training examples.

        Raises:
            DataError: it has no texts.
        """
        rows = corpus.train
        if rows.texts is None:
            raise DataError(f"{corpus.name} has no texts to show as examples; serve without --examples")
        features, vectors = Features.learn(rows)
        return cls(corpus.name, rows, features, vectors, rows_of_label=rows.targets.T.tocsr())

    def check(self, labels: LabelSet, model: str | Path) -> None:
        """Checks that a model can have been trained on these examples.

        Args:
            labels: of the model.
            model: its name or folder, for the message.

        Raises:
            DataError: the examples have none of the labels.
        """
        if not any(label in self.rows.labels.row_of for label in labels.ids):
            raise DataError(
                f"--examples {self.name} has none of the labels of {model}; give the data that it was trained on"
            )

    def nearest(self, text: str, labels: Sequence[str], limit: int) -> dict[str, list[NearExample]]:
        """Finds the most similar examples of each label.

        Args:
            text: the text to explain.
            labels: ids of its labels.
            limit: the most examples of a label.

        Returns:
            Examples by label id, the most similar first; none for a label without examples that share a word.
        """
        assert self.rows.texts is not None
        query = self.features.of(Rows(texts=(text,)))
        dense = np.zeros(self.vectors.shape[1], dtype=np.float32)
        dense[query.indices] = query.data
        found: dict[str, list[NearExample]] = {}
        for label in labels:
            row = self.rows.labels.row_of.get(label)
            if row is None:
                found[label] = []
                continue
            indptr = self.rows_of_label.indptr
            having = self.rows_of_label.indices[indptr[row] : indptr[row + 1]]
            similarity = self.vectors[having] @ dense  # (rows of the label,)
            best = np.lexsort((having, -similarity))[:limit]
            found[label] = [
                NearExample(self.rows.ids[one], _shown(self.rows.texts[one]), round(float(similarity[place]), 4))
                for place, one in zip(best.tolist(), having[best].tolist(), strict=True)
                if similarity[place] > 0  # a document that shares no word is no reason
            ]
        return found


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN].rsplit(" ", 1)[0] + " …"
