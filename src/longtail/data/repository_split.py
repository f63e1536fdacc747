"""Data sets of the repository with all examples in one bag of words, and lists of row numbers for train and test.

Bibtex_data.txt          header "rows features labels"
bibtex_trSplit.txt       one column per published split, row numbers from 1
bibtex_tstSplit.txt
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.arrays import Longs
from longtail.data.dataset import Dataset
from longtail.data.files import lines, shown
from longtail.data.labels import LabelSet, Propensity
from longtail.data.limits import check_declared
from longtail.data.repository_matrix import is_bag_of_words, read_bag_of_words
from longtail.data.rows import Splits
from longtail.errors import DataError


def find_whole(folder: Path) -> tuple[Path, Path, Path] | None:
    """Finds the data file and its two lists of row numbers.

    Args:
        folder: the folder.

    Returns:
        Data, train list and test list; None where one of them is missing.
    """
    found = []
    for ending in ("_data.txt", "_trsplit.txt", "_tstsplit.txt"):
        named = [path for path in folder.iterdir() if path.name.lower().endswith(ending)]
        if len(named) != 1:
            return None
        found.append(named[0])
    return (found[0], found[1], found[2]) if is_bag_of_words(found[0]) else None


def read_whole(data: Path, train: Path, test: Path, propensity: Propensity) -> Splits:
    """Reads the first of the published splits.

    Args:
        data: the bag of words.
        train: the list of row numbers of train.
        test: the list of row numbers of test.
        propensity: the constants of the data set.

    Returns:
        The splits.

    Raises:
        DataError: a file is damaged, or a row is in both lists.
    """
    features, targets = read_bag_of_words(data)
    rows, number = targets.shape
    check_declared(number, features.shape[1], targets.nnz + features.nnz, data)
    labels = LabelSet(ids=tuple(map(str, range(number))), propensity=propensity)
    ids = tuple([f"row-{row}" for row in range(rows)])
    everything = Dataset(labels=labels, targets=targets, features=features, ids=ids)
    picked = [_rows(path, rows) for path in (train, test)]
    both = np.intersect1d(picked[0], picked[1])
    if both.size:
        raise DataError(f"row {both[0] + 1} is in {train.name} too; remove it from one of them", test)
    return Splits(
        train=everything.take(picked[0]),
        test=everything.take(picked[1]),
        notes=(f"train and test are the first column of {train.name} and {test.name}",),
    )


def _rows(path: Path, rows: int) -> Longs:
    picked: dict[int, int] = {}
    for line, text in lines(path):
        words = text.split()
        if not words:
            continue
        row = int(words[0]) if words[0].isascii() and words[0].isdigit() and len(words[0]) < 18 else 0
        if not 1 <= row <= rows:
            raise DataError(f"expected a row number from 1 to {rows}, got {shown(words[0])}", path, line)
        if row in picked:
            raise DataError(f"row {row} is already on line {picked[row]}; remove one", path, line)
        picked[row] = line
    return np.array(list(picked), dtype=np.int64) - 1
