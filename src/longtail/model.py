"""A fitted recipe: predicts, saves, and never changes.

Excluded pairs are dropped from a longer list. `Model.predict` asks the scorer for as many more candidates as the row
with the most exclusions needs, so the top k that are left are the scorer's true top k. A row with very many exclusions
is predicted alone, so that it does not make the lists of the other rows longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Longs, Matrix
from longtail.cutoff import Cutoff
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.data.table_facts import TableFacts
from longtail.dial import check_dial, turned
from longtail.errors import DataError, ModelError, counted
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import (
    Explains,
    Explanation,
    HasClassifierRows,
    HasVectors,
    Reranker,
    Scorer,
    TakesLabels,
    TakesRows,
    gives_probabilities,
)

if TYPE_CHECKING:
    from longtail.doubts import Doubts
    from longtail.report.card import Card

MAX_SHARED_EXCLUSIONS = 64  # a row with more excluded labels than this is predicted alone
CHUNK_PLACES = 1 << 23  # candidates of rows predicted at a time: many candidates make the chunks shorter
CHUNK = 8192  # rows predicted at a time, so that memory does not grow with the number of rows


@dataclass(frozen=True, eq=False)
class Model:
    """What `Recipe.fit` returns and `longtail.load_model` reads back. It never changes: methods return new models."""

    recipe: str
    labels: LabelSet
    scorer: Scorer
    rerankers: tuple[Reranker, ...] = ()
    text_field: str = "title+text"  # the fields of a row that made its text in training
    id_field: str = "id"  # the field that named a row
    language_field: str | None = None  # the field that had the language of its text
    doubts: Doubts | None = None  # which texts it knows too little of; None: it never says
    table: TableFacts | None = None  # how the table of training was read, so that others are read the same way
    cutoff: Cutoff | None = None  # which labels are given where nothing else is asked for

    def __repr__(self) -> str:
        return f"Model({self.recipe!r}, {self.labels!r})"

    def with_reranker(self, reranker: Reranker) -> Model:
        """Return the same model with one more re-ranker, applied after those it has.

        Args:
            reranker: a fitted re-ranker over the same labels.

        Returns:
            A new model.
        """
        return replace(self, rerankers=(*self.rerankers, reranker))

    def with_labels(self, texts: Sequence[str], ids: Sequence[str] | None = None) -> Model:
        """Return the same model with more labels, known by their texts alone. Nothing is trained.

        Args:
            texts: one text for each new label, none of them empty.
            ids: one id for each new label; default: the texts.

        Returns:
            A new model; the new labels stand behind those it had.

        Raises:
            DataError: a text is empty, the learner cannot take new labels, or re-rankers know only the old labels.
        """
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
        labels = old.with_more(new, texts)
        known = [old.word(row) for row in range(len(old))]
        doubts = None if self.doubts is None else self.doubts.with_texts(texts)
        return replace(self, labels=labels, scorer=self.scorer.with_labels(texts, known), doubts=doubts)

    @property
    def probabilities(self) -> bool:
        """Whether scores are probabilities of being right, so that `predict` takes a dial. The last part decides."""
        return gives_probabilities(self.rerankers[-1] if self.rerankers else self.scorer)

    def check_dial(self, dial: float, name: str = "dial") -> float:
        """Check a setting of the dial before anything is predicted.

        Args:
            dial: what was given.
            name: of the argument or option, for the message.

        Returns:
            The setting.

        Raises:
            DataError: it lies outside 0 to 2, or is above 0 and the scores are no probabilities.
        """
        dial = check_dial(dial, name)
        if dial and not self.probabilities:
            raise DataError(
                f"{name} {dial:g} weighs probabilities, and the scores of {self.recipe} are none; add calibrate and "
                f"train again: {self.recipe} + calibrate"
            )
        return dial

    def with_rows(
        self,
        texts: Sequence[str],
        labels: Sequence[Sequence[str]],
        ids: Sequence[str] | None = None,
        label_texts: Mapping[str, str] | None = None,
    ) -> Model:
        """Return the same model with more training examples, for learners that remember them. Nothing is trained.

        Args:
            texts: of the new examples.
            labels: for each, the ids of its labels; an id that the model does not know becomes a new label.
            ids: of the examples; default: "new-" and a number.
            label_texts: texts of new labels by id; default: their ids.

        Returns:
            A new model; new labels stand behind those it had, and counts include the new examples.

        Raises:
            DataError: the texts and labels do not match, the learner remembers no examples, or re-rankers know only the
                old labels.
        """
        if isinstance(texts, str) or isinstance(labels, str) or len(texts) != len(labels):
            raise DataError("with_rows takes as many lists of label ids as texts: with_rows([text], [[label, ...]])")
        if any(
            isinstance(names, str) or not names or not all(isinstance(name, str) for name in names) for names in labels
        ):
            raise DataError(
                "with_rows takes a list of label ids, which are strings, for each text, none of them empty: "
                "[[label, ...], ...]"
            )
        if not isinstance(self.scorer, TakesRows):
            raise DataError(
                f"{self.recipe} cannot take new examples without training: its learner does not remember them; use "
                "memory or knn, or fuse with one of them"
            )
        old = self.labels
        new = [name for name in dict.fromkeys(name for names in labels for name in names) if name not in old.row_of]
        if new and self.rerankers:
            kinds = ", ".join(part.kind for part in self.rerankers)
            raise DataError(f"the re-rankers of {self.recipe} ({kinds}) do not know the new label {new[0]!r}")
        words = [(label_texts or {}).get(name, name) for name in new]
        grown = old.with_more(new, words) if new else old
        columns = [sorted({grown.row_of[name] for name in names}) for names in labels]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
        flat = np.array([label for row in columns for label in row], dtype=np.int32)
        targets = sparse.csr_array((np.ones(len(flat), np.float32), flat, starts), shape=(len(texts), len(grown)))
        counts = grown.counts + np.bincount(flat, minlength=len(grown))
        named = tuple(ids) if ids is not None else tuple(f"new-{number}" for number in range(len(texts)))
        scorer = self.scorer.with_rows(Rows(texts=tuple(texts), ids=named), targets, named)
        known = replace(grown, counts=counts, train_rows=old.train_rows + len(texts))
        doubts = None if self.doubts is None else self.doubts.with_texts([*texts, *words])
        return replace(self, labels=known, scorer=scorer, doubts=doubts)

    def unsure(self, rows: Rows | Sequence[str], predictions: Predictions | None = None) -> list[str | None]:
        """Say for which texts the predictions are not to be trusted, because the texts are like nothing seen.

        Args:
            rows: the texts, or `Rows`, that were predicted.
            predictions: what `predict` returned for them without a dial, before any threshold; None: only words count.

        Returns:
            For each row the reason, or None; all None where the model was saved without doubts, or rows have no texts.
        """
        texts = rows.texts if isinstance(rows, Rows) else rows
        if self.doubts is None or texts is None:
            return [None] * len(rows)
        return self.doubts.reasons(texts, None if predictions is None else predictions.scores.max(axis=1, initial=0))

    def with_doubts(self, train: Dataset, valid: Dataset) -> Model:
        """Return the same model, which can say when it does not know: see `unsure`.

        Args:
            train: what it was trained on.
            valid: documents that it was not trained on; from 200 on, limits are taken from them.

        Returns:
            A new model; the same where the data has no texts.
        """
        from longtail.doubts import Doubts

        if train.texts is None or valid.texts is None:
            return self
        best = None
        if isinstance(self.scorer, HasVectors | TakesRows) and len(valid):
            best = self.predict(valid.rows, 1).scores[:, 0]
        return replace(self, doubts=Doubts.of([*train.texts, *train.labels.texts_with_names], valid.texts, best))

    def explain(self, rows: Rows | Sequence[str], predictions: Predictions) -> list[list[Explanation]]:
        """Say why labels were predicted.

        Args:
            rows: the texts, or `Rows`, that were predicted.
            predictions: what `predict` returned for them.

        Returns:
            For each row an explanation of each place: the label's training examples, and, where the learner knows
            them, the votes of its members, how reliable the label was, and the nearest training examples.

        Raises:
            DataError: there are not as many rows as predictions.
        """
        if not isinstance(rows, Rows):
            rows = Rows(texts=tuple(rows))
        if len(rows) != len(predictions):
            raise DataError(f"{counted(len(rows), 'document')} and predictions of {len(predictions)} do not match")
        if isinstance(self.scorer, Explains) and len(rows):
            return self.scorer.explain(rows, predictions.indices)
        counts = self.labels.counts
        return [
            [Explanation(train_rows=int(counts[label])) if label >= 0 else Explanation() for label in places]
            for places in predictions.indices.tolist()
        ]

    def predict(
        self, rows: Rows | Sequence[str], k: int = 5, excluded: Matrix | None = None, dial: float = 0.0
    ) -> Predictions:
        """Predict the k best labels of each row.

        The dial moves the ranking from frequent to rare labels: the best CANDIDATES labels, or k if that is more, are
        ordered by score x (inverse propensity)^dial. Scores stay what they are, so they may not fall from place to
        place.

        Args:
            rows: texts, or `Rows` with texts or features.
            k: labels a row, at least 1.
            excluded: sparse (rows, labels); pairs that are set are dropped before the top k is taken.
            dial: 0 orders by score alone; 1 weighs a label by how rare it is, as PSP does; at most 2.

        Returns:
            Predictions with min(k, labels) places a row, best first.

        Raises:
            DataError: `rows` is one string, k is below 1, `excluded` has another shape than (rows, labels), the dial is
                out of range, or it is above 0 and the scores are no probabilities.
        """
        dial = self.check_dial(dial)
        if not isinstance(rows, Rows):
            if isinstance(rows, str):
                raise DataError("predict takes a list of texts; put the one text in brackets: predict([text])")
            rows = Rows(texts=tuple(rows))
        if k < 1:
            raise DataError(f"k counts labels of a document and is at least 1, got {k}")
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
            # Chunks of equal size: a short one at the end would take as long as a full one.
            chunks = -(-len(rows) // min(CHUNK, max(CHUNK_PLACES // self._candidates(places, dial), 1)))
            for number in range(chunks):
                chunk = slice(len(rows) * number // chunks, len(rows) * (number + 1) // chunks)
                for chosen in filter(len, _by_exclusions(excluded, chunk)):
                    banned = None if excluded is None else excluded[chosen]
                    found = self._predict(rows.take(chosen) if len(chosen) < len(rows) else rows, places, banned, dial)
                    indices[chosen, : found.places], scores[chosen, : found.places] = found.indices, found.scores
                advance(chunk.stop - chunk.start)
        return Predictions(self.labels, indices, scores)

    def _candidates(self, k: int, dial: float) -> int:
        """How many labels of a row the learner is asked for, where none is excluded."""
        wanted = max([k, CANDIDATES if dial else k, *(part.candidates for part in self.rerankers)])
        return max(min(wanted, len(self.labels)), 1)

    def _predict(self, rows: Rows, k: int, excluded: Matrix | None, dial: float) -> Predictions:
        if not len(self.labels):
            nothing = (len(rows), k)
            return Predictions(self.labels, np.full(nothing, -1, np.int32), np.zeros(nothing, np.float32))
        wanted = self._candidates(k, dial)
        most_excluded = int(np.diff(excluded.indptr).max(initial=0)) if excluded is not None else 0
        found = self.scorer.top(rows, min(wanted + most_excluded, len(self.labels)))
        predictions = Predictions(self.labels, *found).without(excluded).top(wanted)
        for reranker in self.rerankers:
            predictions = reranker.rerank(predictions, rows)
        if not np.isfinite(predictions.scores).all():  # finite weights may still have sums that are not
            raise ModelError(f"{self.recipe} gives scores that are not finite; its weights are damaged, train it again")
        return turned(predictions, dial).top(k)

    def row_norms(self) -> Floats | None:
        """Compute the norm of each label's classifier row. Re-rankers change scores, not rows.

        Returns:
            (labels,), NaN for a label without a row; None where no label has one.
        """
        found = self.scorer.row_norms() if isinstance(self.scorer, HasClassifierRows) else np.zeros(0, np.float32)
        norms = np.full(len(self.labels), np.nan, dtype=np.float32)
        norms[: len(found)] = found
        return norms if np.isfinite(norms).any() else None

    def save(self, path: str | Path, *, overwrite: bool = False, card: Card | None = None) -> Path:
        """Write a model folder, all of it or nothing. `longtail.load_model` reads it back.

        Args:
            path: the folder; it must not exist unless `overwrite` is set.
            overwrite: replace a model that is already there.
            card: the model card; without one the model gets a card of what it knows itself.

        Returns:
            The path of the folder.

        Raises:
            ModelError: the path is taken by a model that must not be replaced, or by something that is not a model.
        """
        from longtail.model_files import write_model
        from longtail.report.card import Card

        return write_model(self, path, (card or Card()).files(self), overwrite=overwrite)

    def saved_bytes(self) -> int:
        """Compute how many bytes `save` without a card would write, without writing them.

        Returns:
            The size of the folder, to the byte.
        """
        from longtail.model_files import bytes_of_model
        from longtail.report.card import Card

        return bytes_of_model(self, Card().files(self))


def _by_exclusions(excluded: Matrix | None, chunk: slice) -> Iterator[Longs]:
    """The rows of a chunk in groups that are predicted together.

    A group asks the scorer for as many more labels as its row with the most exclusions needs, so a row with many
    exclusions goes alone.
    """
    rows = np.arange(chunk.start, chunk.stop)
    if excluded is None:
        yield rows
        return
    many = np.diff(excluded.indptr)[chunk] > MAX_SHARED_EXCLUSIONS
    yield rows[~many]
    for row in rows[many]:
        yield np.array([row])
