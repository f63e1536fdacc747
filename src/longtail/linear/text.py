"""Texts to sparse vectors: words counted, or weighted by tf-idf."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix, pack_strings, unpack_strings
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError
from longtail.seams import State

BLOCK = 8192  # texts whose repeated words are merged at a time
_words = re.compile(r"\w+").findall


class _Known(dict[str, int]):
    """A vocabulary in which an unknown word is -1."""

    def __missing__(self, word: str) -> int:
        return -1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words in a fixed order: runs of letters and digits, in lower case."""

    words: tuple[str, ...]

    @classmethod
    def learn(cls, texts: Iterable[str]) -> tuple[Vocabulary, Matrix]:
        """The words of these texts and how often each text holds each of them."""
        places: defaultdict[str, int] = defaultdict(count().__next__)
        counts = _count(texts, places)
        vocabulary = cls(tuple(places))
        return vocabulary, sparse.csr_array(counts, shape=(len(counts[2]) - 1, len(places)))

    @cached_property
    def places(self) -> dict[str, int]:
        return _Known(zip(self.words, range(len(self.words)), strict=True))

    def count(self, texts: Iterable[str]) -> Matrix:
        """How often each text holds each known word: csr (texts, words)."""
        counts = _count(texts, self.places)
        return sparse.csr_array(counts, shape=(len(counts[2]) - 1, len(self.words)))


def _count(texts: Iterable[str], places: dict[str, int]) -> tuple[Floats, Ints, Longs]:
    """Counts of the words that have a place: data, columns and row starts of a csr matrix.

    Repeats are merged block by block, so that a long text costs memory for its different words only.
    """
    look, rows = places.__getitem__, iter(texts)
    blocks = []
    while block := list(islice(rows, BLOCK)):
        columns, starts = array("i"), array("q", [0])
        for text in block:
            columns.extend(map(look, _words(text.lower())))
            starts.append(len(columns))
        found, bounds = np.frombuffer(columns, dtype=np.int32), np.frombuffer(starts, dtype=np.int64)
        if (found < 0).any():
            known = found >= 0
            found, bounds = found[known], np.concatenate([[0], np.cumsum(known)])[bounds]
        merged = sparse.csr_array((np.ones(len(found), np.float32), found, bounds), shape=(len(block), len(places)))
        merged.sum_duplicates()
        blocks.append((merged.data, merged.indices, np.diff(merged.indptr)))
    if not blocks:
        return np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64)
    data, columns_of, lengths = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return data, columns_of.astype(np.int32, copy=False), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Features:
    """What the learners of this room see of a row: a sparse vector of length 1.

    From texts: (1 + ln count) x idf, with idf = ln((1 + rows) / (1 + rows with the word)) + 1. From feature files:
    the values as they come.
    """

    vocabulary: Vocabulary | None  # None: the data comes with features
    idf: Floats  # (words,)
    columns: int

    @classmethod
    def learn(cls, train: Dataset) -> tuple[Features, Matrix]:
        """From the training rows; returns their vectors too."""
        if train.texts is None:
            assert train.features is not None
            features = cls(None, np.zeros(0, np.float32), int(train.features.shape[1]))
            return features, unit_rows(train.features)
        vocabulary, counts = Vocabulary.learn(train.texts)
        holders = np.bincount(counts.indices, minlength=len(vocabulary.words))
        idf = (np.log((1 + len(train)) / (1 + holders)) + 1).astype(np.float32)
        features = cls(vocabulary, idf, len(vocabulary.words))
        return features, features._weigh(counts)

    def of(self, rows: Rows) -> Matrix:
        """Vectors of other rows: csr (rows, columns)."""
        if self.vocabulary is not None:
            if rows.texts is None:
                raise DataError("the model was trained on texts and cannot read rows that have only features")
            return self._weigh(self.vocabulary.count(rows.texts))
        if rows.features is None:
            raise DataError("the model was trained on feature files and cannot read plain texts")
        if rows.features.shape[1] != self.columns:
            raise DataError(f"rows have {rows.features.shape[1]} features, the model was trained on {self.columns}")
        return unit_rows(rows.features)

    def _weigh(self, counts: Matrix) -> Matrix:
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        return unit_rows(counts)

    def state(self) -> State:
        settings = {"columns": self.columns, "texts": self.vocabulary is not None}
        if self.vocabulary is None:
            return State(settings, {})
        packed, offsets = pack_strings(self.vocabulary.words)
        return State(settings, {"words": packed, "word_offsets": offsets, "idf": self.idf})

    @classmethod
    def restore(cls, state: State) -> Features:
        columns = state.settings["columns"]
        if not state.settings["texts"]:
            return cls(None, np.zeros(0, np.float32), columns)
        words = unpack_strings(state.tensors["words"], state.tensors["word_offsets"])
        return cls(Vocabulary(tuple(words)), state.tensors["idf"], columns)


def unit_rows(matrix: Matrix) -> Matrix:
    """Every row scaled to length 1; rows without entries stay empty."""
    squares = np.add.reduceat(
        np.append(matrix.data.astype(np.float64) ** 2, 0.0), np.minimum(matrix.indptr[:-1], matrix.nnz)
    )
    lengths = np.sqrt(np.where(np.diff(matrix.indptr) > 0, squares, 1.0))
    lengths[lengths == 0] = 1.0
    scaled = matrix.data / np.repeat(lengths, np.diff(matrix.indptr)).astype(np.float32)
    return sparse.csr_array((scaled.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


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
    parts = tuple(tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sparse.csr_array(parts, shape=(rows, columns))
    matrix.check_format(full_check=True)
    return matrix
