"""Generated data of any size with a long tail: `zipf_data` makes rows of words and their labels.

Ranks of labels and of common words are drawn by Zipf's law with exponent 1. Fifty labels share a topic and its words; a
label also has a word of its own, which half of its rows hold. The labels of a row are drawn independently, so a row
belongs to several branches of a tree.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from longtail import Dataset, LabelSet
from longtail.arrays import Longs, Matrix

COMMON = 30_000  # words that belong to no label
TOPIC, TOPIC_WORDS = 50, 20  # labels that share a topic, and its words
COMMON_A_ROW = 8
MOST_LABELS = 5  # of a row: 1 to 5, each as likely


def zipf_data(rows: int, labels: int, test: int, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Training rows, and `test` rows of the same kind."""
    rng = np.random.default_rng(seed)
    every = rows + test
    owner = np.repeat(np.arange(every), rng.integers(1, MOST_LABELS + 1, every))
    label = rng.permutation(labels)[_zipf(rng, len(owner), labels)]
    topical = COMMON + label // TOPIC * TOPIC_WORDS
    first_own = COMMON + -(-labels // TOPIC) * TOPIC_WORDS
    named = rng.random(len(owner)) < 0.5
    words = [
        _zipf(rng, every * COMMON_A_ROW, COMMON),
        topical + rng.integers(0, TOPIC_WORDS, len(owner)),
        topical + rng.integers(0, TOPIC_WORDS, len(owner)),
        first_own + label[named],
    ]
    columns = first_own + labels
    holders = [np.repeat(np.arange(every), COMMON_A_ROW), owner, owner, owner[named]]
    features = _matrix(np.concatenate(holders), np.concatenate(words), (every, columns))
    held = np.bincount(features.indices, minlength=columns)
    features.data = (np.log((1 + every) / (1 + held)) + 1).astype(np.float32)[features.indices]
    targets = _matrix(owner, label, (every, labels))
    names = LabelSet(ids=tuple(map(str, range(labels)))).counted(targets[:rows])

    def part(first: int, last: int) -> Dataset:
        ids = tuple(map(str, range(first, last)))
        return Dataset(labels=names, targets=targets[first:last], ids=ids, features=features[first:last])

    return part(0, rows), part(rows, every)


def _zipf(rng: np.random.Generator, number: int, most: int) -> Longs:
    """ProcessGroup 0..most-1: the probability of rank r is close to a constant / (r + 1)."""
    drawn: npt.NDArray[np.float64] = np.exp(rng.random(number) * np.log(most + 1))
    return np.minimum(drawn.astype(np.int64) - 1, most - 1)


def _matrix(rows: Longs, columns: Longs, shape: tuple[int, int]) -> Matrix:
    """Ones at these places, duplicates once."""
    keys = np.sort(rows * shape[1] + columns)
    keys = keys[np.append(True, keys[1:] != keys[:-1])]
    starts = np.searchsorted(keys, np.arange(shape[0] + 1) * shape[1])
    held = (keys % shape[1]).astype(np.int32)
    return sparse.csr_array((np.ones(len(keys), dtype=np.float32), held, starts.astype(np.int32)), shape=shape)
