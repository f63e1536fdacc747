"""Texts and feature files to sparse, unit-norm vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.features.spoken_texts import spoken
from longtail.linear.features.word_count_jobs import counter_of
from longtail.linear.features.word_counts import MAX_HASH_BITS, PLAIN, Counter, WordCounts
from longtail.linear.features.word_counts import Vocabulary as Vocabulary
from longtail.seams import (
    Array,
    Contents,
    Declaration,
    Fields,
    Flag,
    Misfit,
    Number,
    State,
    Whole,
    Words,
    strings,
)
from longtail.seams.declared import LARGEST

MAX_DENSE = 8192  # columns whose weights are all kept


@dataclass(frozen=True, eq=False)
class Features:
    """What the linear learners see of an example: a sparse, unit-norm vector, float32, columns ascending.

    From texts: (1 + ln count) x idf, with idf = ln((1 + rows) / (1 + rows with the word)) + 1. From features: the
    values as they are. From both: the columns of the features come behind those of the words.
    """

    vocabulary: Vocabulary | None  # None: examples are read from their features alone
    idf: Floats  # (words,)
    columns: int
    share: float = 0.0  # of the examples' own features beside their words
    title_weight: float = 1.0  # of the words of the first line, beside those of the rest

    @classmethod
    def learn(
        cls, train: Dataset, words: WordCounts = PLAIN, share: float = 0.0, title_weight: float = 1.0
    ) -> tuple[Features, Matrix]:
        """Learn the vocabulary and the idf weights.

        Args:
            train: training data.
            words: how texts become columns; where it names no language, that of the data counts.
            share: weight of the examples' own features beside their words; see `joined`.
            title_weight: of the words of the first line, beside those of the rest.

        Returns:
            The features, and the vectors of the training examples: csr (rows, columns).
        """
        if train.texts is None or share == 1:
            assert train.features is not None
            features = cls(None, np.zeros(0, np.float32), int(train.features.shape[1]))
            return features, unit_rows(train.features)
        settings = words.told(train.language, train.languages is not None)
        texts = spoken(train.texts, train.languages if settings.by_text else None)
        counter = counter_of(texts)
        vocabulary, counts = Vocabulary.learn(texts, settings, counter)
        rows_with = np.bincount(counts.indices, minlength=vocabulary.columns)
        idf = (np.log((1 + len(train)) / (1 + rows_with)) + 1).astype(np.float32)
        own = int(train.features.shape[1]) if share and train.features is not None else 0
        features = cls(vocabulary, idf, vocabulary.columns + own, share, title_weight)
        vectors = (
            features._weigh(counts) if title_weight == 1 else features._words(train.texts, train.languages, counter)
        )
        return features, features._join(vectors, train.features)

    def of(self, rows: Rows) -> Matrix:
        """Vectors of other examples.

        Args:
            rows: examples with texts or features, as those of training.

        Returns:
            csr (rows, columns).

        Raises:
            DataError: the examples lack the texts or features that the model was trained on.
        """
        if self.vocabulary is None or self.share:
            self._check(rows)
        if self.vocabulary is None:
            return unit_rows(_canonical(rows.features))
        if rows.texts is None:
            raise DataError("the model was trained on texts and cannot read examples that have only features")
        return self._join(self._words(rows.texts, rows.languages), rows.features)

    def _check(self, rows: Rows) -> None:
        own = self.columns - (0 if self.vocabulary is None else self.vocabulary.columns)
        if rows.features is None:
            trained_on = "features" if self.vocabulary is None else "texts with vectors beside them"
            raise DataError(
                f"the model was trained on {trained_on} and cannot read plain texts; give documents with {own} features"
            )
        if rows.features.shape[1] != own:
            raise DataError(f"the examples have {rows.features.shape[1]} features, the model was trained on {own}")

    def _join(self, words: Matrix, own: Matrix) -> Matrix:
        return joined(words, own, self.share) if self.share else words

    def _words(self, texts: Sequence[str], languages: Sequence[str] | None, counter: Counter | None = None) -> Matrix:
        """Unit vectors of the words; title and rest of a text are counted apart where they have different weights."""
        assert self.vocabulary is not None
        count, languages = self.vocabulary.count, languages if self.vocabulary.settings.by_text else None
        if self.title_weight == 1:
            return self._weigh(count(spoken(texts, languages)))
        parts = [text.partition("\n") for text in texts]
        sides = (spoken([part[side] for part in parts], languages) for side in (0, 2))
        titles, rests = (self._scaled(count(side, counter)) for side in sides)
        return unit_rows(_canonical(sparse.csr_array(np.float32(self.title_weight) * titles + rests)))

    def _weigh(self, counts: Matrix) -> Matrix:
        return unit_rows(self._scaled(counts))

    def _scaled(self, counts: Matrix) -> Matrix:
        assert self.vocabulary is not None
        if self.vocabulary.settings.sublinear_tf:
            counts.data = 1 + np.log(counts.data)
        counts.data *= self.idf[counts.indices]  # `_columns_fit` holds a weight for every column
        return counts

    def state(self) -> State:
        """Settings and tensors to save; a scorer adds its own."""
        settings = {"columns": self.columns, "texts": self.vocabulary is not None, "feature_weight": self.share}
        if self.vocabulary is None:
            return State(settings, {})
        packed, offsets = pack_strings(self.vocabulary.words)
        tensors: dict[str, AnyArray] = {"words": packed, "word_offsets": offsets, "idf": self.idf}
        if len(self.vocabulary.pairs):
            tensors["word_pairs"] = self.vocabulary.pairs
        if self.title_weight != 1:
            settings["title_weight"] = self.title_weight
        return State({**settings, "words": asdict(self.vocabulary.settings)}, tensors)

    @classmethod
    def restore(cls, state: State) -> Features:
        """The features from what `state` returned; it is as `FEATURES` declares."""
        columns, tensors = state.settings["columns"], state.tensors
        if not state.settings["texts"]:
            return cls(None, np.zeros(0, np.float32), columns)
        words = tuple(unpack_strings(tensors["words"], tensors["word_offsets"]))
        pairs = tensors.get("word_pairs", np.zeros(0, dtype=np.int64))
        vocabulary = Vocabulary(words, WordCounts(**state.settings.get("words", {})), pairs)
        settings = state.settings
        shares = settings.get("feature_weight", 0.0), settings.get("title_weight", 1.0)
        return cls(vocabulary, tensors["idf"], columns, *shares)


COUNTING = Fields(  # of a `WordCounts`
    {
        "bigrams": Flag(),
        "sublinear_tf": Flag(),
        "hash_bits": Whole(0, MAX_HASH_BITS),
        "min_df": Whole(1),
        "max_features": Whole(0),
        "words": Words(optional=True),
        "language": Words(optional=True),
        "main_language": Words(optional=True),
        "by_text": Flag(optional=True),
    },
    optional=True,
)


VOCABULARY = Fields({**COUNTING.fields, "hash_bits": Whole(0, 0)}, optional=True)  # where columns are words alone


def _declared_words(settings: Mapping[str, Any]) -> Declaration:
    """What `Features` stores besides, where examples are read from texts."""
    if not settings["texts"]:
        return Declaration()
    arrays = {
        "idf": Array("float32", "word columns", least=0),
        "word_pairs": Array("int64", "pairs of words", least=0, optional=True),
    }
    return strings("words", "word_offsets", "words") + Declaration(arrays, {"words": COUNTING}, checks=(_columns_fit,))


def _columns_fit(stored: Contents) -> None:
    """Every column of the words has a weight, because the product with counts checks no column."""
    sizes, settings = stored.sizes, stored.settings
    bits = settings.get("words", {}).get("hash_bits", 0)
    words = 1 << bits if bits else sizes["words"] + sizes.get("pairs of words", 0)
    weights, columns = sizes["word columns"], sizes["columns"]
    if weights != words:
        raise Misfit("idf", f"has {weights} weights for {words} words and pairs of words")
    if not (weights < columns if settings.get("feature_weight") else weights == columns):
        raise Misfit("idf", f"has {weights} weights for {columns} columns")


FEATURES = Declaration(  # of what `Features.state` returns
    settings={
        "columns": Whole(0, LARGEST, size="columns"),
        "texts": Flag(),
        "feature_weight": Number(0, 1, optional=True),
        "title_weight": Number(0, 1000, optional=True),
    },
    then=(_declared_words,),
)


def dense_columns(columns: int, per_row: float) -> int:
    """How many columns are dense, so that classifiers keep a weight for each of them.

    Args:
        columns: of the examples' own features.
        per_row: values of an example that are not 0, on average.

    Returns:
        All columns; none where they are many, or more than half of their values are 0.
    """
    return columns if columns <= MAX_DENSE and 2 * per_row >= columns else 0


def unit_rows(matrix: Matrix) -> Matrix:
    """Every row scaled to unit norm; rows without entries stay empty.

    Args:
        matrix: csr (rows, columns).

    Returns:
        csr float32 (rows, columns), which shares the indices with `matrix`.
    """
    squares: Doubles = matrix.data.astype(np.float64)
    squares *= squares
    sizes = np.diff(matrix.indptr)
    norms, filled = np.ones(len(sizes)), sizes > 0
    norms[filled] = np.sqrt(np.add.reduceat(squares, matrix.indptr[:-1][filled]))
    norms[norms == 0] = 1.0
    scaled = matrix.data / np.repeat(norms.astype(np.float32), sizes)
    scaled = scaled.astype(np.float32, copy=False)
    return sparse.csr_array((scaled, matrix.indices, matrix.indptr), shape=matrix.shape)


def _canonical(matrix: Matrix) -> Matrix:
    """The same matrix with columns ascending in each row, none twice."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def joined(words: Matrix, own: Matrix | AnyArray, share: float) -> Matrix:
    """Two vectors of each example side by side, such as its words and the vector of an encoder.

    The dot product of two joined examples is (1 - share) x the cosine of their first vectors + share x that of their
    second ones. An example with only one of the two vectors gives it the whole norm.

    Args:
        words: csr (rows, words).
        own: the second vectors (rows, columns), sparse or dense.
        share: the second vector's part of the squared norm, from 0 to 1.

    Returns:
        csr (rows, columns of both), unit-norm.

    Raises:
        RecipeError: the share is not between 0 and 1.
        DataError: the numbers of rows differ, or a value is not finite.
    """
    if not 0 <= share <= 1:
        raise RecipeError(f"the share of vectors beside words is between 0 and 1, got {share:g}")
    if own.ndim != 2 or own.shape[0] != words.shape[0]:
        raise DataError(f"vectors of shape {own.shape} cannot be joined to the words of {words.shape[0]} examples")
    second = sparse.csr_array(own, dtype=np.float32)
    if not np.isfinite(second.data).all():
        bad = int(np.flatnonzero(~np.isfinite(second.data))[0])
        row = int(np.searchsorted(second.indptr, bad, side="right")) - 1
        raise DataError(f"the vector of example {row} has a value that is not a finite number")
    parts = [unit_rows(_canonical(words)) * np.float32(np.sqrt(1 - share)), unit_rows(_canonical(second))]
    parts[1] = parts[1] * np.float32(np.sqrt(share))
    return unit_rows(sparse.hstack(parts, format="csr"))


def matrix_state(name: str, matrix: Matrix) -> dict[str, AnyArray]:
    """A csr matrix as tensors.

    Args:
        name: beginning of the tensors' names.
        matrix: csr (rows, columns).

    Returns:
        Tensors by name, for `matrix_from`.
    """
    return {
        f"{name}.data": matrix.data.astype(np.float32, copy=False),
        f"{name}.indices": matrix.indices.astype(np.int32, copy=False),
        f"{name}.indptr": matrix.indptr.astype(np.int64, copy=False),
        f"{name}.shape": np.array(matrix.shape, dtype=np.int64),
    }


def matrix_from(name: str, tensors: dict[str, AnyArray]) -> Matrix:
    """The csr matrix of `matrix_state`. Kernels do not check indices: a scorer declares them by `longtail.seams.csr`.

    Args:
        name: beginning of the tensors' names.
        tensors: tensors by name.

    Returns:
        csr (rows, columns).
    """
    rows, columns = (int(size) for size in tensors[f"{name}.shape"])
    data, indices, starts = (tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    if len(data) < 2**31:
        # SciPy would widen the indices to the type of the starts. No start overflows: the last counts the entries.
        starts = starts.astype(np.int32)
    return sparse.csr_array((data, indices, starts), shape=(rows, columns))
