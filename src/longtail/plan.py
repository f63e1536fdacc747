"""Memory and time before they are taken: the facts of a data set and what a recipe will make of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from longtail.data.dataset import Dataset
from longtail.memory import readable

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Facts:
    """The sizes that decide cost. Taken from a sample of the rows, so that planning is quick."""

    rows: int
    labels: int
    positives: int  # entries of the targets
    terms_per_row: float  # different words of a row, or its non-zero features
    terms: int  # different words or features in all
    terms_per_label: float  # different words of a label's text
    text_bytes: int

    @classmethod
    def of(cls, data: Dataset, sample: int = 2000) -> Facts:
        rows = len(data)
        picked = np.unique(np.linspace(0, max(rows - 1, 0), min(sample, rows)).astype(np.int64)).tolist()
        if data.texts is not None:
            seen: set[str] = set()
            half = total = size = 0
            for position, row in enumerate(picked):
                words = set(_WORD.findall(data.texts[row].lower()))
                total += len(words)
                size += len(data.texts[row])
                seen |= words
                if position == len(picked) // 2:
                    half = len(seen)
            # Heaps' law: the vocabulary grows as rows^beta; beta from the two halves of the sample.
            growth = np.log2(len(seen) / half) if half and len(picked) > 3 else 1.0
            grown = len(seen) * (rows / max(len(picked), 1)) ** float(np.clip(growth, 0.3, 1.0))
            terms, per_row = int(grown), total / max(len(picked), 1)
            text_bytes = int(size / max(len(picked), 1) * rows)
        else:
            assert data.features is not None
            terms, per_row, text_bytes = int(data.features.shape[1]), data.features.nnz / max(rows, 1), 0
        label_texts = data.labels.texts[: 50 * sample : 50] if len(data.labels) > sample else data.labels.texts
        words_of_labels = sum(len(set(_WORD.findall(text.lower()))) for text in label_texts)
        return cls(
            rows=rows,
            labels=len(data.labels),
            positives=int(data.targets.nnz),
            terms_per_row=per_row,
            terms=max(terms, 1),
            terms_per_label=words_of_labels / max(len(label_texts), 1),
            text_bytes=text_bytes,
        )


@dataclass(frozen=True)
class Plan:
    """What a recipe will need. `steps` are the largest holdings, which do not all exist at once."""

    train_bytes: int  # most memory held while training, the data not counted
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
    """Seconds as people say them: 0.4 s, 12 s, 3 min, 2.5 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
