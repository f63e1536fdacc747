"""Texts and feature files to sparse vectors of length 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.words import PLAIN
from longtail.linear.words import Vocabulary as Vocabulary
from longtail.linear.words import Words as Words
from longtail.seams import State


@dataclass(frozen=True, eq=False)
class Features:
    """What the learners of this room see of a row: a sparse vector of length 1, float32, columns rising.

    From texts: (1 + ln count) x idf, with idf = ln((1 + rows) / (1 + rows with the word)) + 1. From features: the
    values as they come. From both: the columns of the features stand behind those of the words.
    """

    vocabulary: Vocabulary | None  # None: rows are read from their features alone
    idf: Floats  # (words,)
    columns: int
    share: float = 0.0  # of the rows' own features beside their words

    @classmethod
    def learn(cls, train: Dataset, words: Words = PLAIN, share: float = 0.0) -> tuple[Features, Matrix]:
        """From the training rows; returns their vectors too. `words` says how texts are read, `share` how much the
        rows' own features count beside them."""
        if train.texts is None or share == 1:
            assert train.features is not None
            features = cls(None, np.zeros(0, np.float32), int(train.features.shape[1]))
            return features, unit_rows(train.features)
        vocabulary, counts = Vocabulary.learn(train.texts, words)
        holders = np.bincount(counts.indices, minlength=vocabulary.columns)
        idf = (np.log((1 + len(train)) / (1 + holders)) + 1).astype(np.float32)
        own = int(train.features.shape[1]) if share and train.features is not None else 0
        features = cls(vocabulary, idf, vocabulary.columns + own, share)
        return features, features._join(features._weigh(counts), train.features)

    def of(self, rows: Rows) -> Matrix:
        """Vectors of other rows: csr (rows, columns)."""
        if self.vocabulary is None or self.share:
            self._check(rows)
        if self.vocabulary is None:
            return unit_rows(_rising(rows.features))
        if rows.texts is None:
            raise DataError("the model was trained on texts and cannot read rows that have only features")
        return self._join(self._weigh(self.vocabulary.count(rows.texts)), rows.features)

    def _check(self, rows: Rows) -> None:
        own = self.columns - (0 if self.vocabulary is None else self.vocabulary.columns)
        if rows.features is None:
            told = "features" if self.vocabulary is None else "texts with vectors beside them"
            raise DataError(
                f"the model was trained on {told} and cannot read plain texts; give rows with {own} features"
            )
        if rows.features.shape[1] != own:
            raise DataError(f"rows have {rows.features.shape[1]} features, the model was trained on {own}")

    def _join(self, words: Matrix, own: Matrix) -> Matrix:
        return joined(words, own, self.share) if self.share else words

    def _weigh(self, counts: Matrix) -> Matrix:
        assert self.vocabulary is not None
        if self.vocabulary.settings.sublinear:
            counts.data = 1 + np.log(counts.data)
        counts.data *= self.idf[counts.indices]
        return unit_rows(counts)

    def state(self) -> State:
        settings = {"columns": self.columns, "texts": self.vocabulary is not None, "vectors": self.share}
        if self.vocabulary is None:
            return State(settings, {})
        packed, offsets = pack_strings(self.vocabulary.words)
        tensors: dict[str, AnyArray] = {"words": packed, "word_offsets": offsets, "idf": self.idf}
        if len(self.vocabulary.pairs):
            tensors["word_pairs"] = self.vocabulary.pairs
        return State({**settings, "words": asdict(self.vocabulary.settings)}, tensors)

    @classmethod
    def restore(cls, state: State) -> Features:
        columns, tensors = state.settings["columns"], state.tensors
        if not state.settings["texts"]:
            return cls(None, np.zeros(0, np.float32), columns)
        words = tuple(unpack_strings(tensors["words"], tensors["word_offsets"]))
        pairs = tensors.get("word_pairs", np.zeros(0, dtype=np.int64))
        vocabulary = Vocabulary(words, Words(**state.settings.get("words", {})), pairs)
        idf, share = tensors["idf"], state.settings.get("vectors", 0.0)
        if len(idf) != vocabulary.columns or not (len(idf) < columns if share else len(idf) == columns):
            raise DataError(f"{len(idf)} word weights for {vocabulary.columns} columns; the saved features are damaged")
        return cls(vocabulary, idf, columns, share)


def unit_rows(matrix: Matrix) -> Matrix:
    """Every row scaled to length 1; rows without entries stay empty."""
    squares: Doubles = matrix.data.astype(np.float64)
    squares *= squares
    sizes = np.diff(matrix.indptr)
    lengths, held = np.ones(len(sizes)), sizes > 0
    lengths[held] = np.sqrt(np.add.reduceat(squares, matrix.indptr[:-1][held]))
    lengths[lengths == 0] = 1.0
    scaled = matrix.data / np.repeat(lengths.astype(np.float32), sizes)
    scaled = scaled.astype(np.float32, copy=False)
    return sparse.csr_array((scaled, matrix.indices, matrix.indptr), shape=matrix.shape)


def _rising(matrix: Matrix) -> Matrix:
    """The same matrix with columns rising in each row, none twice."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def joined(words: Matrix, own: Matrix | AnyArray, share: float) -> Matrix:
    """Two vectors of each row side by side, such as words and what an encoder makes of the text: csr (rows, columns of
    both), rows of length 1.

    `share` is the second's part of a row's squared length, and so of the cosine of two rows: their dot product is
    (1 - share) x the cosine of the first parts + share x that of the second ones. A row with only one of the parts
    gives it the whole length.
    """
    if not 0 <= share <= 1:
        raise RecipeError(f"the share of vectors beside words lies between 0 and 1, got {share:g}")
    if own.ndim != 2 or own.shape[0] != words.shape[0]:
        raise DataError(f"vectors of shape {own.shape} cannot be joined to {words.shape[0]} rows of words")
    second = sparse.csr_array(own, dtype=np.float32)
    if not np.isfinite(second.data).all():
        bad = int(np.flatnonzero(~np.isfinite(second.data))[0])
        row = int(np.searchsorted(second.indptr, bad, side="right")) - 1
        raise DataError(f"the vector of row {row} holds a value that is not a finite number")
    parts = [unit_rows(_rising(words)) * np.float32(np.sqrt(1 - share)), unit_rows(_rising(second))]
    parts[1] = parts[1] * np.float32(np.sqrt(share))
    return unit_rows(sparse.hstack(parts, format="csr"))


def matrix_state(name: str, matrix: Matrix) -> dict[str, AnyArray]:
    """A csr matrix as tensors."""
    return {
        f"{name}.data": matrix.data.astype(np.float32, copy=False),
        f"{name}.indices": matrix.indices.astype(np.int32, copy=False),
        f"{name}.indptr": matrix.indptr.astype(np.int64, copy=False),
        f"{name}.shape": np.array(matrix.shape, dtype=np.int64),
    }


def matrix_from(name: str, tensors: dict[str, AnyArray]) -> Matrix:
    """The csr matrix of `matrix_state`; one that is not well formed is refused, because kernels trust it."""
    rows, columns = (int(size) for size in tensors[f"{name}.shape"])
    data, indices, starts = (tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    if len(data) < 2**31:
        starts = starts.astype(np.int32)  # SciPy would widen the indices to the type of the starts
    matrix = sparse.csr_array((data, indices, starts), shape=(rows, columns))
    matrix.check_format(full_check=True)
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    return matrix
