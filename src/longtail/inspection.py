"""What a data set is like and what is wrong with it, before anything is trained on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from longtail.arrays import AnyArray, Bools
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.mended_labels import likely_no_labels, twins
from longtail.errors import counted
from longtail.metrics import BANDS, bands, pos80

LEAK_IS_AN_ERROR = 0.5  # more than this share of the test examples in train
NAMED = "test examples name all of their labels, two or more, in their text: are the labels part of it?"
CHANCE = 0.1  # of the documents may do so: in library records 3% do
_WORD = re.compile(r"\w+")
_known_concerns: WeakKeyDictionary[Corpus, tuple[Concern, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Inspection:
    """Facts for a table, warnings worth a look, errors that make results meaningless."""

    facts: dict[str, Any]
    bands: dict[str, dict[str, float]]  # share of labels and of training positives, in percent
    warnings: tuple[str, ...]
    errors: tuple[str, ...]


def inspect(corpus: Corpus) -> Inspection:
    """Measure a data set and search it for problems.

    Args:
        corpus: the data set.

    Returns:
        Facts, warnings and errors.
    """
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    labels = corpus.labels
    anywhere = np.zeros(len(labels), dtype=np.int64)  # rows of any split with each label
    for data in splits.values():
        anywhere += np.bincount(data.targets.indices, minlength=len(labels))
    band = bands(labels)
    positives = max(int(labels.counts.sum()), 1)
    facts: dict[str, Any] = {f"{name} examples": len(data) for name, data in splits.items()}
    facts |= {
        "labels": len(labels),
        "labels per example": _summary(np.diff(corpus.train.targets.indptr)),
        "examples per label": _summary(labels.counts),
        "Pos-80%": round(pos80(labels), 1),
        "zero-shot labels": int(((labels.counts == 0) & (anywhere > 0)).sum()),
        "labels without an example": int((anywhere == 0).sum()),
        "labels without text": len(labels.without_text),
        "soft targets": int(sum((data.targets.data < 1).sum() for data in splits.values())),
        "excluded pairs": sum(0 if data.excluded is None else int(data.excluded.nnz) for data in splits.values()),
        "propensity": str(corpus.propensity),
        "text": corpus.text_field if corpus.train.texts is not None else "none, features only",
    }
    if corpus.train.texts is not None:
        facts["words per example"] = _summary(np.array([len(text.split()) for text in corpus.train.texts]))
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
        errors.append("no example of any split has a label: check the labels field or column")
    elif corpus.train.targets.nnz == 0:
        errors.append("no example of train has a label: check the labels field or column")
    keys = {name: _keys(data) for name, data in splits.items()}
    for name, data in splits.items():
        empty = [row for row, key in enumerate(keys[name]) if not key]
        if empty and len(empty) == len(data):
            errors.append(f"every example of {name} is empty: check the text field or column")
        elif empty:
            warnings.append(f"empty examples of {name}: {_which(empty, data)}; nothing can be predicted for them")
        bare = np.flatnonzero(np.diff(data.targets.indptr) == 0).tolist()
        if bare and len(corpus.labels):
            warnings.append(
                f"examples of {name} without a label: {_which(bare, data)}; each counts as one without a hit"
            )
        banned = data.excluded
        if banned is not None:
            both = int(banned.multiply(data.targets).nnz)
            if both:
                warnings.append(f"labels of {name} examples that are excluded for that example: {both:,}; never a hit")
    first: dict[Any, int] = {}
    copies = [row for row, key in enumerate(keys["train"]) if key and first.setdefault(key, row) != row]
    if copies:
        warnings.append(f"examples of train that repeat an earlier one of train: {_which(copies, corpus.train)}")
    for name in ("valid", "test"):
        leaked = _leaked(keys[name], first)
        if leaked:
            message = f"examples of {name} that are in train too: {_which(leaked, splits[name])}; they measure memory"
            is_error = name == "test" and len(leaked) > LEAK_IS_AN_ERROR * len(splits[name])
            (errors if is_error else warnings).append(message)
    if 0 < facts["labels without text"] < facts["labels"]:
        warnings.append(f"labels without text: {facts['labels without text']:,}; their ids are shown instead")
    elif facts["labels without text"]:
        warnings.append("no label has a text: methods that read label texts cannot be used, ids are shown instead")
    if facts["labels without an example"]:
        warnings.append(f"labels without an example in any split: {facts['labels without an example']:,}")
    if facts["zero-shot labels"]:
        warnings.append(
            f"zero-shot labels, which no training example has: {facts['zero-shot labels']:,}; only methods that read "
            "label texts can find them"
        )
    if corpus.labels.mostly_unseen:
        unseen = int((corpus.labels.counts == 0).sum())
        warnings.append(
            f"{unseen / facts['labels']:.0%} of the labels have no training example: PSP, coverage and frequency bins "
            "say little here; look at recall and MRR, and take methods that read label texts"
        )
    alike = twins(corpus.labels.ids)
    if alike:
        ids = corpus.labels.ids
        pairs = [" = ".join(repr(ids[row]) for row in rows) for rows in alike[:5]]
        warnings.append(
            f"labels that differ only in case, spaces or Unicode form: {sum(map(len, alike)):,}, such as "
            f"{', '.join(pairs)}; --fold-labels joins them"
        )
    missing = likely_no_labels(corpus.labels)
    if missing:
        rows = {label: int(corpus.labels.counts[corpus.labels.row_of[label]]) for label in missing[:10]}
        named = ", ".join(f"{label!r} ({counted(count, 'example')})" for label, count in rows.items())
        warnings.append(f"labels that look like missing values: {named}; --ignore-labels leaves them out")
    texts = Counter(text.strip().lower() for text in corpus.labels.texts if text.strip())
    shared = sum(number for number in texts.values() if number > 1)
    if shared and not alike:
        warnings.append(f"labels that share their text with another label: {shared:,}")
    return warnings, errors


def _which(rows: list[int], data: Dataset) -> str:
    """How many rows, and the id of the first."""
    return f"{len(rows):,} of {len(data):,} ({len(rows) / len(data):.1%}), the first is {data.ids[rows[0]]!r}"


def _leaked(keys: list[Any], known: Container[Any]) -> list[int]:
    """The rows whose key is known; empty rows do not count."""
    return [row for row, key in enumerate(keys) if key and key in known]


@dataclass(frozen=True, eq=False)
class Concern:
    """Something about the data that makes figures look better or worse than they are."""

    message: str
    rows: Bools  # (test rows,) the rows that it touches


def concerns(corpus: Corpus) -> tuple[Concern, ...]:
    """Search the test rows for what spoils measures: rows of train, labels in the text, twins of labels, empty texts.

    Args:
        corpus: the data set.

    Returns:
        What was found.
    """
    if corpus not in _known_concerns:
        _known_concerns[corpus] = _search(corpus)
    return _known_concerns[corpus]


def _search(corpus: Corpus) -> tuple[Concern, ...]:
    test, labels = corpus.test, corpus.labels
    keys, known = _keys(test), set(_keys(corpus.train))
    found = [
        (
            "test examples are in train too: what they measure is memory",
            [bool(key) and key in known for key in keys],
        ),
        ("test examples are empty: nothing can be predicted for them", [not key for key in keys]),
        (NAMED, _naming(test)),
    ]
    texts = [" ".join(text.lower().split()) for text in labels.texts]
    often = Counter(text for text in texts if text)
    twin = np.array([often[text] > 1 for text in texts], dtype=np.bool_)
    row_of = np.repeat(np.arange(len(test)), np.diff(test.targets.indptr))
    with_twin = np.zeros(len(test), dtype=np.bool_)
    with_twin[row_of[twin[test.targets.indices]]] = True
    pairs = int(twin.sum())
    such = counted(pairs, "such label")
    message = f"test examples have a label whose text another has too ({such}): no text tells them apart"
    found.append((message, with_twin.tolist()))
    return tuple(
        Concern(f"{sum(rows):,} of {len(test):,} {message}", np.array(rows, dtype=np.bool_))
        for message, rows in found
        # Some documents name their labels in any data set.
        if sum(rows) > (CHANCE * len(test) if message == NAMED else 0)
    )


def _naming(data: Dataset) -> list[bool]:
    """The rows with two labels or more whose texts, each of three letters or more, all stand in the row's text."""
    if data.texts is None:
        return [False] * len(data)
    words = [" ".join(_WORD.findall(text.lower())) for text in data.labels.texts]
    starts, columns = data.targets.indptr.tolist(), data.targets.indices.tolist()
    named = []
    for text, begin, end in zip(data.texts, starts, starts[1:], strict=False):
        true = [words[label] for label in columns[begin:end]]
        if len(true) < 2 or min(map(len, true)) < 3:
            named.append(False)
            continue
        plain = f" {' '.join(_WORD.findall(text.lower()))} "
        named.append(all(f" {word} " in plain for word in true))
    return named


def _keys(data: Dataset) -> list[Any]:
    """One key for each row: equal rows have equal keys, an empty row has an empty key."""
    if data.texts is not None:
        return [" ".join(text.lower().split()) for text in data.texts]
    features = data.features
    assert features is not None
    starts = features.indptr.tolist()
    return [
        "" if begin == end else (features.indices[begin:end].tobytes(), features.data[begin:end].tobytes())
        for begin, end in pairwise(starts)
    ]


def _summary(numbers: AnyArray) -> str:
    """Mean, median and largest."""
    if len(numbers) == 0:
        return "none"
    return f"mean {numbers.mean():.2f}, median {np.median(numbers):.0f}, most {numbers.max():,}"
