"""The bucket of each label in each repetition."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from longtail.arrays import Ints, Longs

PRIME = 2**31 - 1  # above every label's number
Hashing = Literal["random", "balanced"]


def bucket_number(labels: int, buckets: int | None) -> int:
    """Resolve the number of buckets.

    Args:
        labels: number of labels.
        buckets: the setting; None: the power of 2 from four times the square root of the labels on.

    Returns:
        At least 2 and, beyond that, no more than there are labels.
    """
    wanted = buckets or 2 ** math.ceil(math.log2(4 * math.sqrt(max(labels, 1))))
    return max(min(wanted, labels), 2)


def bucket_tables(counts: Longs, repetitions: int, buckets: int, hashing: Hashing, seed: int) -> Ints:
    """Draw the tables.

    Args:
        counts: (labels,) training counts.
        repetitions: tables to draw.
        buckets: of each table.
        hashing: `random`: a universal hash (a·label + b mod p) mod buckets of each repetition. `balanced`: labels
            sorted by count are cut into runs of as many labels as there are buckets, and each run gets every bucket
            once; so buckets hold as many labels as each other, and frequent ones never share a bucket while there
            are others.
        seed: of the draw.

    Returns:
        (repetitions, labels) int32, the bucket of each label.
    """
    labels, rng = len(counts), np.random.default_rng([seed, repetitions, buckets])
    tables = np.empty((repetitions, labels), dtype=np.int32)
    if hashing == "random":
        numbers = np.arange(labels, dtype=np.int64)
        for table in tables:
            factor, offset = int(rng.integers(1, PRIME)), int(rng.integers(0, PRIME))
            table[:] = (factor * numbers + offset) % PRIME % buckets  # below 2**62
        return tables
    order = np.argsort(-counts, kind="stable")
    runs = -(-labels // buckets)
    for table in tables:
        dealt = rng.permuted(np.tile(np.arange(buckets, dtype=np.int32), (runs, 1)), axis=1)
        table[order] = dealt.ravel()[:labels]
    return tables


def output_counts(counts: Longs, tables: Ints, buckets: int) -> Longs:
    """Count the training rows of buckets: a row with two labels of a bucket counts twice.

    Args:
        counts: (labels,) training counts.
        tables: (repetitions, labels).
        buckets: of each table.

    Returns:
        (repetitions x buckets,).
    """
    found = [np.bincount(table, weights=counts, minlength=buckets) for table in tables]
    return np.concatenate(found).astype(np.int64)
