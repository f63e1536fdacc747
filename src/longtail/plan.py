"""Memory and time before they are taken: the sizes of a data set, and what a recipe will need for it.

A plan is the largest of its stages, not their sum: reading, grouping and training hold different things, and large
arrays go back to the system in between. A tail method with memory or time of its own, for folds or means, adds it in
`plan_on(before, facts)`. `Recipe.plan` asks the methods in their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset
from longtail.data.labels import occurrences
from longtail.data.mapped_texts import characters_of
from longtail.memory import readable

WORKING_BYTES = 6_000_000  # scratch space for counting words, on two threads
SAMPLE_ROWS = 20_000
SAMPLE_CHARACTERS = 4_000_000
_words = re.compile(r"\w+").findall


@dataclass(frozen=True)
class DataFacts:
    """The sizes that decide cost. Words are counted on a sample of the rows, so that planning is quick."""

    rows: int
    labels: int
    positives: int  # entries of the targets
    terms: int  # different words, or feature columns
    terms_per_row: float  # different words of a row, or its non-zero features
    shared_terms: float  # words that two rows have in common, on average
    mean_terms: int  # different (label, word of a row with the label) pairs
    terms_per_label: float  # different words of a label's text
    characters: int  # of all texts; estimated where they lie in a store
    own_columns: int = 0  # columns of features that rows have besides texts
    own_per_row: float = 0.0  # non-zero features of a row, where it has texts too
    dense_columns: int = 0  # of the terms: columns that most rows have, which trees keep a weight for
    empty: float = 0.0  # share of the labels that no row has
    valid_rows: int | None = None  # None: not known, a twentieth of the rows is assumed

    @property
    def row_terms(self) -> float:
        """Non-zero entries of all rows."""
        return self.rows * self.terms_per_row

    @property
    def reading_bytes(self) -> int:
        """Peak memory while words are counted: the rows, their pieces before, their squares after."""
        return int(WORKING_BYTES + 110 * self.terms + 32 * self.row_terms)

    @property
    def read_bytes(self) -> int:
        """Memory held after that: words and rows, and small pieces that glibc does not return at once."""
        small = 8_000_000 + 17 * self.row_terms
        return int(WORKING_BYTES + 110 * self.terms + min(small, 32 * self.row_terms))

    @property
    def kept_bytes(self) -> int:
        """Memory of the words and rows alone."""
        return int(WORKING_BYTES + 70 * self.terms + 8 * self.row_terms)

    @property
    def reading_seconds(self) -> float:
        """Time to split all texts into words: about 100 million characters and a million texts a second."""
        return 1e-8 * self.characters + 1e-6 * (self.rows if self.characters else 0)

    @classmethod
    def of(cls, data: Dataset, valid_rows: int | None = None) -> DataFacts:
        """Measure the sizes of training data.

        Args:
            data: training rows.
            valid_rows: how many valid rows there are, where it is known.

        Returns:
            Its sizes.
        """
        rows, labels = len(data), data.labels
        terms, per_row, shared = _text_facts(data.texts) if data.texts is not None else _feature_facts(data.features)
        counts = occurrences(data.targets.indices, len(labels))
        # n rows of one label hold about per_row x n^growth different words, as all rows do (Heaps' law); a little
        # more, because growth is faster at the start than over all rows.
        growth = np.log(max(terms / per_row, 1.0)) / np.log(rows) if rows > 1 and per_row > 0 else 0.0
        means = 1.15 * per_row * float((counts[counts > 0] ** growth).sum())
        characters = characters_of(data.texts) if data.texts is not None else 0
        beside = data.features if data.texts is not None else None
        texts = labels.texts[:: max(len(labels) // 2000, 1)]
        return cls(
            rows=rows,
            labels=len(labels),
            positives=int(data.targets.nnz),
            terms=terms,
            terms_per_row=per_row,
            shared_terms=shared,
            mean_terms=int(min(means, data.targets.nnz * per_row, len(labels) * terms)) + 1,
            terms_per_label=sum(len(set(_words(text.lower()))) for text in texts) / max(len(texts), 1),
            characters=characters,
            own_columns=0 if beside is None else int(beside.shape[1]),
            own_per_row=0.0 if beside is None else beside.nnz / max(rows, 1),
            empty=float(np.mean(counts == 0)) if len(counts) else 0.0,
            valid_rows=valid_rows,
        )


def _text_facts(texts: Sequence[str]) -> tuple[int, float, float]:
    """Different words of all rows, different words of a row, and words that two rows share."""
    step = max(len(texts) // SAMPLE_ROWS, 1)
    holders: Counter[str] = Counter()
    sampled = characters = half = 0
    for text in texts[::step]:
        holders.update(set(_words(text.lower())))
        sampled, characters = sampled + 1, characters + len(text)
        if sampled & (sampled - 1) == 0:
            half, half_rows = len(holders), sampled  # at each power of two
        if characters > SAMPLE_CHARACTERS:
            break
    if not holders:
        return 1, 0.0, 0.0
    # Heaps' law again: the vocabulary grows as rows^growth, measured from the last power of two to the whole sample.
    growth = np.log(len(holders) / half) / np.log(sampled / half_rows) if half and sampled > half_rows else 0.7
    terms = len(holders) * (len(texts) / sampled) ** float(np.clip(growth, 0.2, 1.0))
    share = np.array(list(holders.values())) / sampled
    return int(terms), float(share.sum()), float((share**2).sum())


def _feature_facts(features: Matrix) -> tuple[int, float, float]:
    """The same of features: columns, non-zero ones of a row, and those that two rows share."""
    rows = max(features.shape[0], 1)
    share = np.bincount(features.indices, minlength=features.shape[1]) / rows
    return int(features.shape[1]), float(share.sum()), float((share**2).sum())


@dataclass(frozen=True)
class Plan:
    """What a recipe will need. `steps` names the largest pieces of memory, which do not all exist at the same time."""

    train_bytes: int  # peak memory of training, without the data
    model_bytes: int
    train_seconds: float
    predict_seconds: float  # for 1,000 rows
    steps: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return (
            f"{readable(self.train_bytes)} and {readable_seconds(self.train_seconds)} to train, "
            f"{readable(self.model_bytes)} model, {readable_seconds(self.predict_seconds)} per 1,000 predictions"
        )


def readable_seconds(seconds: float) -> str:
    """Write a time for people to read.

    Args:
        seconds: the time.

    Returns:
        Such as "0.4 s", "12 s", "3 min" or "2.5 h".
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
