"""What a data set is like and what is wrong with it, before anything is trained on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from longtail.arrays import AnyArray
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.metrics import BANDS, bands, pos80

LEAK_IS_AN_ERROR = 0.5  # more than this share of the test rows in train


@dataclass(frozen=True)
class Inspection:
    """Facts for a table, warnings worth a look, errors that make results meaningless."""

    facts: dict[str, Any]
    bands: dict[str, dict[str, float]]  # share of labels and of training positives, in percent
    warnings: tuple[str, ...]
    errors: tuple[str, ...]


def inspect(corpus: Corpus) -> Inspection:
    """Look at every row and label once."""
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    labels = corpus.labels
    anywhere = np.zeros(len(labels), dtype=np.int64)  # rows of any split with each label
    for data in splits.values():
        anywhere += np.bincount(data.targets.indices, minlength=len(labels))
    band = bands(labels)
    positives = max(int(labels.counts.sum()), 1)
    facts: dict[str, Any] = {f"{name} rows": len(data) for name, data in splits.items()}
    facts |= {
        "labels": len(labels),
        "labels per row": _spread(np.diff(corpus.train.targets.indptr)),
        "rows per label": _spread(labels.counts),
        "Pos-80%": round(pos80(labels), 1),
        "zero-shot labels": int(((labels.counts == 0) & (anywhere > 0)).sum()),
        "labels without an example": int((anywhere == 0).sum()),
        "labels without text": sum(not text.strip() for text in labels.texts),
        "soft targets": int(sum((data.targets.data < 1).sum() for data in splits.values())),
        "excluded pairs": sum(0 if data.excluded is None else int(data.excluded.nnz) for data in splits.values()),
        "propensity": str(corpus.propensity),
        "text": corpus.text_field if corpus.train.texts is not None else "none, features only",
    }
    if corpus.train.texts is not None:
        facts["words per row"] = _spread(np.array([len(text.split()) for text in corpus.train.texts]))
    if corpus.train.features is not None:
        facts["features"] = int(corpus.train.features.shape[1])
    shares = {
        name: {
            "labels": round(100 * int((band == number).sum()) / max(len(labels), 1), 1),
            "positives": round(100 * float(labels.counts[band == number].sum()) / positives, 1),
        }
        for number, name in enumerate(BANDS)
    }
    warnings, errors = _problems(corpus, splits, facts)
    return Inspection(facts, shares, tuple(warnings), tuple(errors))


def _problems(corpus: Corpus, splits: dict[str, Dataset], facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    errors: list[str] = []
    if len(corpus.labels) == 0:
        errors.append("no row of any split has a label: check the labels field or column")
    elif corpus.train.targets.nnz == 0:
        errors.append("no row of train has a label: check the labels field or column")
    keys = {name: _keys(data) for name, data in splits.items()}
    for name, data in splits.items():
        empty = [row for row, key in enumerate(keys[name]) if not key]
        if empty and len(empty) == len(data):
            errors.append(f"every row of {name} is empty: check the text field or column")
        elif empty:
            warnings.append(f"empty rows of {name}: {_which(empty, data)}; nothing can be predicted for them")
        bare = np.flatnonzero(np.diff(data.targets.indptr) == 0).tolist()
        if bare and len(corpus.labels):
            warnings.append(f"rows of {name} without a label: {_which(bare, data)}; they count as rows without a hit")
        banned = data.excluded
        if banned is not None:
            both = int(banned.multiply(data.targets).nnz)
            if both:
                warnings.append(f"labels of {name} rows that are excluded for the same row: {both:,}; never a hit")
    first: dict[Any, int] = {}
    copies = [row for row, key in enumerate(keys["train"]) if key and first.setdefault(key, row) != row]
    if copies:
        warnings.append(f"rows of train that repeat an earlier row of train: {_which(copies, corpus.train)}")
    for name in ("valid", "test"):
        leaked = _leaked(keys[name], first)
        if leaked:
            say = f"rows of {name} that also stand in train: {_which(leaked, splits[name])}; they measure memory"
            grave = name == "test" and len(leaked) > LEAK_IS_AN_ERROR * len(splits[name])
            (errors if grave else warnings).append(say)
    if 0 < facts["labels without text"] < facts["labels"]:
        warnings.append(f"labels without text: {facts['labels without text']:,}; their ids are shown instead")
    elif facts["labels without text"]:
        warnings.append("no label has a text: methods that read label texts cannot be used, ids are shown instead")
    if facts["labels without an example"]:
        warnings.append(f"labels without an example in any split: {facts['labels without an example']:,}")
    if facts["zero-shot labels"]:
        warnings.append(
            f"zero-shot labels, which no training row has: {facts['zero-shot labels']:,}; only methods that read label "
            "texts can find them"
        )
    texts = Counter(text.strip().lower() for text in corpus.labels.texts if text.strip())
    twins = sum(number for number in texts.values() if number > 1)
    if twins:
        warnings.append(f"labels that share their text with another label: {twins:,}")
    return warnings, errors


def _which(rows: list[int], data: Dataset) -> str:
    """How many rows, and one of them to look at."""
    return f"{len(rows):,} of {len(data):,} ({len(rows) / len(data):.1%}), the first is {data.ids[rows[0]]!r}"


def _leaked(keys: list[Any], known: Container[Any]) -> list[int]:
    """The rows that are known; an empty one says nothing."""
    return [row for row, key in enumerate(keys) if key and key in known]


def told_of_leaks(corpus: Corpus) -> Corpus:
    """With a note where many test rows stand in train too."""
    leaked = len(_leaked(_keys(corpus.test), set(_keys(corpus.train))))
    if leaked <= LEAK_IS_AN_ERROR * len(corpus.test):
        return corpus
    said = f"{leaked:,} of {len(corpus.test):,} test rows also stand in train: what they measure is memory"
    return replace(corpus, notes=(*corpus.notes, said))


def _keys(data: Dataset) -> list[Any]:
    """One key a row: equal keys are equal rows, an empty key is an empty row."""
    if data.texts is not None:
        return [" ".join(text.lower().split()) for text in data.texts]
    features = data.features
    assert features is not None
    starts = features.indptr.tolist()
    return [
        "" if begin == end else (features.indices[begin:end].tobytes(), features.data[begin:end].tobytes())
        for begin, end in pairwise(starts)
    ]


def _spread(numbers: AnyArray) -> str:
    """Mean, median and largest."""
    if len(numbers) == 0:
        return "none"
    return f"mean {numbers.mean():.2f}, median {np.median(numbers):.0f}, most {numbers.max():,}"
