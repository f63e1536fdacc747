"""Vectors of documents from an encoder outside longtail: `train.vectors.npy` beside `train.jsonl`.

One NumPy array per split, one row per document, in the order of the documents. They become the features of documents
that have texts; the setting `feature_weight` of a learner sets how much they count beside the words.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from longtail.arrays import AnyArray
from longtail.data.dataset import Dataset
from longtail.data.numpy_files import read_array
from longtail.data.rows import Splits
from longtail.errors import DataError, counted


def with_vectors(splits: Splits, folder: Path) -> Splits:
    """Adds the vectors of a folder to its splits, where it has any.

    Args:
        splits: the splits.
        folder: the folder that they were read from.

    Returns:
        The splits with vectors as features.

    Raises:
        DataError: vectors are missing, damaged, or do not match the documents.
    """
    given = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    paths = {split: folder / f"{split}.vectors.npy" for split in given}
    if not any(os.path.lexists(path) for path in paths.values()):
        return splits
    found = {split: _joined(data, paths[split]) for split, data in given.items() if data is not None}
    widths = {split: data.features.shape[1] for split, data in found.items() if data.features is not None}
    for split, width in widths.items():
        if width != widths["train"]:
            raise DataError(
                f"has vectors of {width} numbers, but those of train have {widths['train']}; make all with one encoder",
                paths[split],
            )
    return replace(splits, train=found["train"], valid=found.get("valid"), test=found.get("test"))


def _joined(data: Dataset, path: Path) -> Dataset:
    if data.features is not None:
        raise DataError("the documents have features already; remove the vectors or the features", path)
    vectors = _read(path)
    if len(vectors) != len(data):
        raise DataError(
            f"has {counted(len(vectors), 'vector')} for {counted(len(data), 'document')}; "
            "give each document one, in the same order",
            path,
        )
    try:
        return replace(data, features=vectors)
    except DataError as error:
        raise DataError(str(error), path) from None


def _read(path: Path) -> AnyArray:
    if not os.path.lexists(path):
        raise DataError("is missing; where one split has vectors, all must have them", path)
    vectors = read_array(path, copies=3)  # as read, as float32, and their columns
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiub":
        raise DataError("must be one array of numbers with a row per document; write it with numpy.save", path)
    return vectors
