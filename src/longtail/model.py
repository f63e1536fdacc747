"""A fitted recipe: predicts, saves, and never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Longs, Matrix
from longtail.data.dataset import Rows
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.predictions import Predictions
from longtail.progress import stage
from longtail.seams import HasRows, Reranker, Scorer, TakesLabels

SPARE = 64  # exclusions of a row that its chunk makes room for
CHUNK = 8192  # rows predicted at a time, so that memory does not grow with the number of rows


@dataclass(frozen=True, eq=False)
class Model:
    """What `Recipe.fit` returns and `longtail.load_model` reads back."""

    recipe: str
    labels: LabelSet
    scorer: Scorer
    rerankers: tuple[Reranker, ...] = ()
    text_field: str = "title+text"  # which fields of a row made its text in training
    id_field: str = "id"  # which field named a row

    def __repr__(self) -> str:
        return f"Model({self.recipe!r}, {self.labels!r})"

    def with_reranker(self, reranker: Reranker) -> Model:
        return replace(self, rerankers=(*self.rerankers, reranker))

    def with_labels(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> Model:
        """The same model with more labels, known by their texts alone; nothing is trained. Ids default to the texts."""
        if isinstance(texts, str) or not all(text.strip() for text in texts):
            raise DataError("with_labels takes a list of label texts, none of them empty: with_labels([text, ...])")
        if not isinstance(self.scorer, TakesLabels):
            raise DataError(
                f"{self.recipe} cannot take new labels without training: its learner cannot add to what it has "
                "learned; use a recipe whose learner reads label texts by an encoder, such as dpr or ngame"
            )
        if self.rerankers:
            kinds = ", ".join(part.kind for part in self.rerankers)
            raise DataError(f"the re-rankers of {self.recipe} ({kinds}) know only the labels they were fitted on")
        new, old = tuple(texts if ids is None else ids), self.labels
        labels = replace(
            old,
            ids=old.ids + new,
            texts=old.texts + tuple(texts),
            counts=np.concatenate([old.counts, np.zeros(len(new), dtype=np.int64)]),
            features=None,
        )
        known = [old.word(row) for row in range(len(old))]
        return replace(self, labels=labels, scorer=self.scorer.with_labels(texts, known))

    def predict(self, rows: Rows | Sequence[str], k: int = 5, excluded: Matrix | None = None) -> Predictions:
        """The k best labels of each text or row. Excluded (row, label) pairs leave before the top k is taken."""
        if not isinstance(rows, Rows):
            if isinstance(rows, str):
                raise DataError("predict takes a list of texts; put the one text in brackets: predict([text])")
            rows = Rows(texts=tuple(rows))
        if k < 1:
            raise DataError(f"k counts labels a row and is at least 1, got {k}")
        if excluded is not None:
            excluded = sparse.csr_array(excluded, dtype=np.bool_)
            if excluded.shape != (len(rows), len(self.labels)):
                raise DataError(
                    f"excluded pairs are {excluded.shape[0]} x {excluded.shape[1]} for {len(rows)} rows and "
                    f"{len(self.labels)} labels"
                )
        places = min(k, max(len(self.labels), 1))
        indices = np.full((len(rows), places), -1, dtype=np.int32)
        scores = np.zeros((len(rows), places), dtype=np.float32)
        with stage("predicting", total=len(rows)) as advance:
            parts = -(-len(rows) // CHUNK)
            for number in range(parts):  # parts of one size: a short one at the end would cost as much as a long one
                part = slice(len(rows) * number // parts, len(rows) * (number + 1) // parts)
                for chosen in filter(len, _by_exclusions(excluded, part)):
                    banned = None if excluded is None else excluded[chosen]
                    found = self._predict(rows.take(chosen) if len(chosen) < len(rows) else rows, places, banned)
                    indices[chosen, : found.places], scores[chosen, : found.places] = found.indices, found.scores
                advance(part.stop - part.start)
        return Predictions(self.labels, indices, scores)

    def _predict(self, rows: Rows, k: int, excluded: Matrix | None) -> Predictions:
        wanted = max([k, *(part.candidates for part in self.rerankers)])
        spare = int(np.diff(excluded.indptr).max(initial=0)) if excluded is not None else 0
        predictions = Predictions(self.labels, *self.scorer.top(rows, min(wanted + spare, len(self.labels))))
        predictions = predictions.without(excluded).top(wanted)
        for reranker in self.rerankers:
            predictions = reranker.rerank(predictions, rows)
        return predictions.top(k)

    def row_norms(self) -> Floats | None:
        """Length of each label's classifier row (labels,), NaN where it has none; None where no label has one.

        Re-rankers change scores, not rows: a model has the rows of its learner with them and without.
        """
        found = self.scorer.row_norms() if isinstance(self.scorer, HasRows) else np.zeros(0, np.float32)
        norms = np.full(len(self.labels), np.nan, dtype=np.float32)
        norms[: len(found)] = found
        return norms if np.isfinite(norms).any() else None

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a model folder, all of it or nothing."""
        from longtail.store import save

        return save(self, path, overwrite=overwrite)


def _by_exclusions(excluded: Matrix | None, part: slice) -> Iterator[Longs]:
    """The rows of a part in groups: a row with many excluded labels goes alone, since a group asks for as many labels
    more as its row with the most exclusions needs."""
    rows = np.arange(part.start, part.stop)
    if excluded is None:
        yield rows
        return
    many = np.diff(excluded.indptr)[part] > SPARE
    yield rows[~many]
    for row in rows[many]:
        yield np.array([row])
