"""A hash of a data set's content: equal data has equal hashes, on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset

BATCH = 10_000  # texts encoded at a time
_known: WeakKeyDictionary[Dataset, str] = WeakKeyDictionary()


def fingerprint(data: Dataset) -> str:
    """Hash documents, targets, excluded pairs and labels. About one second for a gigabyte, once for each data set.

    Args:
        data: the data set.

    Returns:
        32 hexadecimal digits.
    """
    if data not in _known:
        digest = hashlib.blake2b(digest_size=16)
        labels = data.labels
        digest.update(f"{len(data)} {len(labels)} {labels.train_rows} {labels.propensity}".encode())
        if data.language:
            digest.update(f"language {data.language}".encode())
        if data.languages is not None:
            digest.update(b"languages")
            _add_texts(digest, data.languages)
        for texts in (data.ids, data.texts, labels.ids, labels.texts):
            _add_texts(digest, texts)
        for matrix in (data.targets, data.features, data.excluded, labels.features):
            _add_matrix(digest, matrix)
        digest.update(np.ascontiguousarray(labels.counts).data)
        _known[data] = digest.hexdigest()
    return _known[data]


def _add_texts(digest: hashlib.blake2b, texts: Sequence[str] | None) -> None:
    digest.update(b"texts" if texts is not None else b"none")
    for start in range(0, len(texts or ()), BATCH):
        part = (texts or ())[start : start + BATCH]
        digest.update("\0".join(part).encode("utf-8", "surrogatepass") + b"\0")


def _add_matrix(digest: hashlib.blake2b, matrix: Matrix | None) -> None:
    digest.update(b"matrix" if matrix is not None else b"none")
    if matrix is not None:
        for array, kind in ((matrix.indptr, np.int64), (matrix.indices, np.int64), (matrix.data, None)):
            digest.update(np.ascontiguousarray(array, dtype=kind).data)
