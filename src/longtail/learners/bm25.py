"""Label texts searched with the row's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.text import Vocabulary, matrix_from, matrix_state
from longtail.linear.top import sparse_top
from longtail.plan import Facts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, State, TailMethod

READING_BYTES = 3_000_000  # to cut texts as short as labels are


@dataclass(frozen=True, eq=False)
class Bm25Scorer:
    """Label texts as an index from words to labels, already weighted. Scores are above 0 and have no upper end."""

    vocabulary: Vocabulary | None  # None: rows and labels come with features over the same columns
    index: Matrix  # (words, labels)
    kind: ClassVar[str] = "bm25.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if self.vocabulary is not None:
            if rows.texts is None:
                raise DataError("the model was trained on texts and cannot read rows that have only features")
            words = self.vocabulary.count(rows.texts)
        elif rows.features is None or rows.features.shape[1] != self.index.shape[0]:
            raise DataError(f"the model was trained on {self.index.shape[0]} features; give rows with the same")
        else:
            words = rows.features
        present = sparse.csr_array((np.ones(words.nnz, np.float32), words.indices, words.indptr), shape=words.shape)
        return sparse_top(present, self.index, k)

    def state(self) -> State:
        tensors = matrix_state("index", self.index)
        if self.vocabulary is not None:
            tensors["words"], tensors["word_offsets"] = pack_strings(self.vocabulary.words)
        return State({"texts": self.vocabulary is not None}, tensors)

    @classmethod
    def restore(cls, state: State) -> Bm25Scorer:
        index = matrix_from("index", state.tensors)
        if not state.settings["texts"]:
            return cls(None, index)
        words = unpack_strings(state.tensors["words"], state.tensors["word_offsets"])
        if len(words) != index.shape[0]:
            raise ValueError(f"an index of {index.shape[0]} words for {len(words)} words")
        return cls(Vocabulary(tuple(words)), index)


@dataclass(frozen=True)
class Bm25:
    """A row's words search the label texts, as a search engine searches documents.

    Paper: Robertson and Zaragoza (2009). It never looks at the training rows, so a label with no example at all
    is found as easily as any other: zero-shot by nature, and blind to everything a label's text does not say.
    Needs: label texts (or label features over the same columns as the rows').
    Costs: seconds; memory of the order of the label texts.
    Prefer instead: anything that learns, once labels have examples.
    Example: longtail train wordnet "bm25(b=0.5)" --out model
    """

    k1: float = 1.2  # how fast repeats of a word stop counting
    b: float = 0.75  # how much long label texts are held back

    summary: ClassVar[str] = "label texts as documents, searched with the row's words; zero-shot"
    offers: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})
    scorer: ClassVar[type[Scorer]] = Bm25Scorer

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise RecipeError(f"bm25 takes k1 >= 0 and b between 0 and 1, got k1={self.k1:g}, b={self.b:g}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Bm25Scorer:
        with stage("indexing label texts"):
            if train.texts is not None and train.labels.has_texts:
                vocabulary, counts = Vocabulary.learn(train.labels.texts)
                return Bm25Scorer(vocabulary, self._weigh(counts))
            counts = train.labels.features
            if train.features is None or counts is None or counts.shape[1] != train.features.shape[1]:
                raise DataError("bm25 needs texts for rows and labels, or features for both over the same columns")
            return Bm25Scorer(None, self._weigh(counts))

    def _weigh(self, counts: Matrix) -> Matrix:
        """BM25 weights of words in labels: csr (words, labels)."""
        labels = counts.shape[0]
        lengths = np.asarray(counts.sum(axis=1)).ravel()  # (labels,)
        holders = np.bincount(counts.indices, minlength=counts.shape[1])  # labels that hold each word
        idf = np.log(1 + (labels - holders + 0.5) / (holders + 0.5))
        norm = self.k1 * (1 - self.b + self.b * lengths / max(lengths.mean(), 1e-12))
        rows = np.repeat(np.arange(labels), np.diff(counts.indptr))
        weights = idf[counts.indices] * counts.data * (self.k1 + 1) / (counts.data + norm[rows])
        weighted = sparse.csr_array((weights.astype(np.float32), counts.indices, counts.indptr), counts.shape)
        return weighted.T.tocsr()

    def plan(self, facts: Facts) -> Plan:
        entries = facts.labels * facts.terms_per_label
        words = 0.5 * entries
        met = facts.terms_per_row * entries / max(words, 1)
        return Plan(
            train_bytes=int(READING_BYTES + 66 * words + 24 * entries),
            model_bytes=int(16 * words + 8 * entries + 60 * facts.labels),
            train_seconds=0.05 + 7e-7 * entries,
            predict_seconds=1000 * (5e-6 + facts.reading_seconds / max(facts.rows, 1) + 2e-9 * met),
            steps=(("label words", int(66 * words + 24 * entries)),),
        )
