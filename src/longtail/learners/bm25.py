"""Label texts searched with the words of an example."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.features.languages import main_language
from longtail.linear.features.sparse_features import VOCABULARY, Vocabulary, matrix_from, matrix_state
from longtail.linear.features.sparse_top import sparse_top
from longtail.linear.features.word_counts import WordCounts
from longtail.papers import BM25, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import Declaration, Flag, Nothing, Scorer, State, TailMethod, csr, strings

READING_BYTES = 3_000_000  # to split texts as short as those of labels


@dataclass(frozen=True, eq=False)
class Bm25Scorer:
    """Label texts as an index from words to labels, already weighted. Scores are above 0 without an upper bound."""

    vocabulary: Vocabulary | None  # None: examples and labels have features over the same columns
    index: Matrix  # (words, labels)
    kind: ClassVar[str] = "bm25.v2"
    declared: ClassVar[Declaration] = csr("index", "words", "labels") + Declaration(
        settings={"texts": Flag(), "words": Nothing(VOCABULARY)},
        then=(lambda settings: strings("words", "word_offsets", "words") if settings["texts"] else Declaration(),),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if self.vocabulary is not None:
            if rows.texts is None:
                raise DataError("the model was trained on texts and cannot read examples that have only features")
            words = self.vocabulary.count(rows.texts)
        elif rows.features is None or rows.features.shape[1] != self.index.shape[0]:
            raise DataError(f"the model was trained on {self.index.shape[0]} features; give examples with the same")
        else:
            words = rows.features
        present = sparse.csr_array((np.ones(words.nnz, np.float32), words.indices, words.indptr), shape=words.shape)
        return sparse_top(present, self.index, k)

    def state(self) -> State:
        """See `Scorer.state`."""
        tensors = matrix_state("index", self.index)
        if self.vocabulary is not None:
            tensors["words"], tensors["word_offsets"] = pack_strings(self.vocabulary.words)
        words = None if self.vocabulary is None else asdict(self.vocabulary.settings)
        return State({"texts": self.vocabulary is not None, "words": words}, tensors)

    @classmethod
    def restore(cls, state: State) -> Bm25Scorer:
        """See `Scorer.restore`."""
        index = matrix_from("index", state.tensors)
        if not state.settings["texts"]:
            return cls(None, index)
        words = unpack_strings(state.tensors["words"], state.tensors["word_offsets"])
        return cls(Vocabulary(tuple(words), WordCounts(**(state.settings["words"] or {}))), index)


@dataclass(frozen=True)
class Bm25:
    """The words of an example are a query over the label texts, as a search engine searches documents.

    It does not use the training examples, so a label without any example is found as easily as any other (zero-
    shot), and what a label's text does not mention is never found.

    Needs: label texts (or label features over the same columns as the examples').
    Costs: seconds; memory of the order of the label texts.
    Prefer instead: anything that learns, once labels have examples.
    Example: longtail train wordnet "bm25(b=0.5)" --out model
    """

    k1: float = 1.2  # how fast repeats of a word stop counting
    b: float = 0.75  # how much long label texts are penalised
    words: str = "plain"  # forms of words: plain, stem, lemma; joined to chars, compounds or pieces: "stem+chars"
    language: str = "auto"  # of the texts, for stems and lemmas: a code such as de; auto: the data's, or label texts'

    summary: ClassVar[str] = "searches label texts with the document's words; zero-shot"
    papers: ClassVar[tuple[Paper, ...]] = (BM25,)
    offers: ClassVar[frozenset[str]] = frozenset()
    learns_from_rows: ClassVar[bool] = False
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})
    scorer: ClassVar[type[Scorer]] = Bm25Scorer

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise RecipeError(f"bm25 takes k1 >= 0 and b between 0 and 1, got k1={self.k1:g}, b={self.b:g}")
        WordCounts(words=self.words, language=self.language)  # raises an error for wrong settings

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Bm25Scorer:
        """See `Learner.fit`."""
        with stage("indexing label texts"):
            if train.texts is not None and train.labels.has_texts:
                settings = WordCounts(words=self.words, language=self.language).told(train.language)
                if self.words != "plain" and settings.language == "auto":
                    # Texts are read in the language of the labels: the same word must have the same form in both.
                    settings = replace(settings, language=main_language(train.labels.texts))
                vocabulary, counts = Vocabulary.learn(train.labels.texts_with_names, settings)
                return Bm25Scorer(vocabulary, self._weigh(counts))
            counts = train.labels.features
            if train.features is None or counts is None or counts.shape[1] != train.features.shape[1]:
                raise DataError("bm25 needs texts for examples and labels, or features for both over the same columns")
            return Bm25Scorer(None, self._weigh(counts))

    def _weigh(self, counts: Matrix) -> Matrix:
        """BM25 weights of words in labels: csr (words, labels)."""
        labels = counts.shape[0]
        lengths = np.asarray(counts.sum(axis=1)).ravel()  # (labels,)
        labels_with = np.bincount(counts.indices, minlength=counts.shape[1])  # each word
        idf = np.log(1 + (labels - labels_with + 0.5) / (labels_with + 0.5))
        norm = self.k1 * (1 - self.b + self.b * lengths / max(lengths.mean(), 1e-12))
        rows = np.repeat(np.arange(labels), np.diff(counts.indptr))
        weights = idf[counts.indices] * counts.data * (self.k1 + 1) / (counts.data + norm[rows])
        weighted = sparse.csr_array((weights.astype(np.float32), counts.indices, counts.indptr), counts.shape)
        return weighted.T.tocsr()

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
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
