"""Vectors of rows that somebody else made, such as an encoder's: `train.vectors.npy` beside `train.jsonl`.

A NumPy array a split, one line of numbers a row, in the order of the rows. They become the features of rows that
have texts; the setting `vectors` of a learner says how much they count beside the words.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from longtail.arrays import AnyArray
from longtail.data.dataset import Dataset
from longtail.data.rows import Splits
from longtail.errors import DataError


def with_vectors(splits: Splits, folder: Path) -> Splits:
    """The same splits with the vectors that stand in their folder, if any do."""
    given = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    paths = {split: folder / f"{split}.vectors.npy" for split in given}
    if not any(path.is_file() for path in paths.values()):
        return splits
    found = {split: _joined(data, paths[split]) for split, data in given.items() if data is not None}
    widths = {split: data.features.shape[1] for split, data in found.items() if data.features is not None}
    for split, width in widths.items():
        if width != widths["train"]:
            raise DataError(
                f"vectors of {width} numbers, those of train have {widths['train']}; use one encoder", paths[split]
            )
    return replace(splits, train=found["train"], valid=found.get("valid"), test=found.get("test"))


def _joined(data: Dataset, path: Path) -> Dataset:
    if data.features is not None:
        raise DataError("the rows have features already; remove the vectors, or the features", path)
    vectors = _read(path)
    if len(vectors) != len(data):
        raise DataError(f"{len(vectors)} vectors for {len(data)} rows; give each row one, in the rows' order", path)
    try:
        return replace(data, features=vectors)
    except DataError as error:
        raise DataError(str(error), path) from None


def _read(path: Path) -> AnyArray:
    try:
        vectors = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataError("is missing: a split has vectors, so each that is there needs them", path) from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"no NumPy array of numbers ({error}); write it with numpy.save", path) from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind not in "fiub":
        raise DataError("must hold one array of numbers with a line for each row; write it with numpy.save", path)
    return vectors
