"""Sparse matrices of the Extreme Classification Repository: text files with a header, and `.npz`.

    rows columns            a matrix: `trn_X_Xf.txt`, `trn_X_Y.txt`, `Yf.txt`
    3:0.5 17:1
                            an empty line is an empty row
    rows features labels    a bag of words with its labels
    4,8 3:0.5 17:1

Indices count from 0. A megabyte of lines is parsed at a time. Where that fails, the same lines are read again one by
one, so that the error names the first wrong line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Longs, Matrix
from longtail.data.files import chunks, decoded, shown
from longtail.data.limits import INDEX_LIMIT, MAX_DIGITS
from longtail.data.numpy_files import read_arrays
from longtail.data.opening import check_room
from longtail.data.repository_numbers import COLON, COMMA, NEWLINE, numbers
from longtail.data.rows import MIN_WEIGHT, pairs, without_repeats
from longtail.data.sparse_files import sparse_matrix
from longtail.errors import DataError, counted
from longtail.progress import stage

TOO_LARGE = 2.0**128 - 2.0**103  # this and more rounds to infinity in float32


@dataclass(frozen=True, eq=False)
class _FilePart:
    """Some lines of a file: how many labels and features each line has, and all of them in flat arrays."""

    label_counts: AnyArray
    labels: AnyArray
    counts: AnyArray
    indices: AnyArray
    values: AnyArray


@dataclass(eq=False)
class _MatrixEntries:
    """A CSR matrix that grows part by part."""

    counts: list[AnyArray] = field(default_factory=list)
    indices: list[AnyArray] = field(default_factory=list)
    values: list[AnyArray] = field(default_factory=list)

    def matrix(self, rows: int, columns: int, path: Path) -> Matrix:
        """The matrix (rows, columns) of all parts."""
        entries = sum(map(len, self.indices))
        check_room(20 * entries + 16 * rows, path, f"a matrix of {entries:,} entries")
        counts = _joined(self.counts, np.int64)[:rows]  # without surplus blank lines at the end
        starts = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        parts = (_joined(self.values, np.float32), _joined(self.indices, np.int32), starts)
        return sparse.csr_array(parts, shape=(rows, columns))


def read_features(path: Path) -> Matrix:
    """Reads a feature matrix, text or `.npz`.

    Args:
        path: the file.

    Returns:
        csr float32 (rows, features), all values finite.

    Raises:
        DataError: the file is damaged or has a value that is not finite.
    """
    if path.suffix == ".npz":
        return _read_npz(path, "feature", _wrong_feature)
    matrix = _read_text(path, 2, _wrong_feature)[1]
    matrix.eliminate_zeros()
    return matrix


def read_targets(path: Path) -> Matrix:
    """Reads a target matrix, text or `.npz`.

    Args:
        path: the file.

    Returns:
        csr float32 (rows, labels), all weights in (0, 1].

    Raises:
        DataError: the file is damaged or has a weight outside (0, 1].
    """
    if path.suffix == ".npz":
        return without_repeats(_read_npz(path, "label", _wrong_weight))
    return without_repeats(_read_text(path, 2, _wrong_weight)[1])


def read_bag_of_words(path: Path) -> tuple[Matrix, Matrix]:
    """Reads a bag of words with its labels.

    Args:
        path: the file.

    Returns:
        Features (rows, features) and targets (rows, labels), csr float32 each.

    Raises:
        DataError: the file is damaged.
    """
    targets, features = _read_text(path, 3, _wrong_feature)
    features.eliminate_zeros()
    assert targets is not None
    return features, without_repeats(targets)


def is_bag_of_words(path: Path) -> bool:
    """Whether the first line of a file is a header of three numbers.

    Args:
        path: the file.

    Returns:
        True where it is.
    """
    first = next(chunks(path), (1, b""))[1].split(b"\n", 1)[0].split()
    return len(first) == 3 and all(word.isdigit() for word in first)


def _wrong_feature(value: float) -> str | None:
    good = abs(value) < TOO_LARGE  # False for NaN
    return None if good else "is not a finite number that float32 can hold; remove or replace it"


def _wrong_weight(value: float) -> str | None:
    return None if MIN_WEIGHT < value <= 1 else "does not lie in (0, 1]; rescale or remove it"


_Wrong = Callable[[float], str | None]


def _read_text(path: Path, numbers_in_header: int, wrong: _Wrong) -> tuple[Matrix | None, Matrix]:
    """The label matrix (where the header has three numbers) and the `index:value` matrix."""
    pieces = _pieces(path)
    header = _header(next(pieces, (1, b""))[1], numbers_in_header, path)
    rows, columns, labels = header[0], header[1], header[2] if numbers_in_header == 3 else 0
    targets, features, seen = _MatrixEntries(), _MatrixEntries(), 0
    for first, piece in pieces:
        part = _fast(piece, columns, labels, wrong) or _slow(piece, columns, labels, wrong, path, first)
        targets.counts.append(part.label_counts)
        targets.indices.append(part.labels)
        targets.values.append(np.ones(len(part.labels), dtype=np.float32))
        features.counts.append(part.counts)
        features.indices.append(part.indices.astype(np.int32))
        features.values.append(part.values.astype(np.float32))
        past = np.flatnonzero((part.label_counts + part.counts)[max(rows - seen, 0) :])
        seen += len(part.counts)
        if past.size:
            line = first + max(rows - (seen - len(part.counts)), 0) + int(past[0])
            raise DataError(f"the header says {counted(rows, 'row')}, but more follow; correct the header", path, line)
    if seen < rows:
        raise DataError(
            f"the header says {counted(rows, 'row')}, but there are {seen}; copy the file again or correct the header",
            path,
        )
    return (
        targets.matrix(rows, labels, path) if numbers_in_header == 3 else None,
        features.matrix(rows, columns, path),
    )


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """The header line alone, then pieces of whole lines, each ending with a line feed."""
    for first, piece in chunks(path):
        if not piece.endswith(b"\n"):
            piece += b"\n"
        if first == 1:
            cut = piece.index(b"\n") + 1
            yield 1, piece[:cut]
            if cut < len(piece):
                yield 2, piece[cut:]
        else:
            yield first, piece


def _header(line: bytes, expected: int, path: Path) -> list[int]:
    words = line.split()
    if len(words) != expected or not all(word.isdigit() for word in words):
        names = "rows columns" if expected == 2 else "rows features labels"
        got = decoded(line, path, 1).strip()[:60]
        raise DataError(f"the first line must be the header '{names}', got {got!r}", path, 1)
    if any(len(word) > 18 or int(word) > INDEX_LIMIT for word in words):
        raise DataError(f"the header names more than {INDEX_LIMIT} rows or columns", path, 1)
    return [int(word) for word in words]


def _fast(piece: bytes, columns: int, labels: int, wrong: _Wrong) -> _FilePart | None:
    """Parses all lines at once; None where any of them is not as it should be."""
    found = numbers(piece)
    if found is None:
        return None
    index = found.after == COLON
    comma = found.after == COMMA
    value = np.zeros_like(index)
    value[1:] = index[:-1]
    label = ~(index | value)
    if (
        (index & value).any()
        or (comma & ~label).any()
        or (~found.whole & ~value).any()
        or np.count_nonzero(index) != np.count_nonzero(found.text == COLON)
        or np.count_nonzero(comma) != np.count_nonzero(found.text == COMMA)
    ):
        return None
    ends = np.searchsorted(found.starts, np.flatnonzero(found.text == NEWLINE))  # numbers up to the end of each line
    index_ends, value_ends, label_ends, comma_ends = (_up_to(mark, ends) for mark in (index, value, label, comma))
    counts, label_counts = _steps(index_ends), _steps(label_ends)
    line_starts = np.append(0, ends)[:-1]
    if (
        (index_ends != value_ends).any()
        or (_steps(comma_ends) != np.maximum(label_counts - 1, 0)).any()
        or (_up_to(label, line_starts + label_counts) != label_ends).any()  # labels come first in a line
    ):
        return None
    indices, values, names = found.values[index], found.values[value], found.values[label]
    if indices.max(initial=-1) >= columns or names.max(initial=-1) >= labels:
        return None
    if values.size and (wrong(values.min()) or wrong(values.max()) or np.isnan(values).any()):
        return None
    return _FilePart(label_counts, names.astype(np.int32), counts, indices, values)


def _up_to(mark: AnyArray, ends: Longs) -> Longs:
    """How many marks come before each of these places."""
    total = np.zeros(mark.size + 1, dtype=np.int64)
    np.cumsum(mark, out=total[1:])
    return np.asarray(total[ends])


def _steps(ends: Longs) -> Longs:
    return np.diff(ends, prepend=0)


def _slow(piece: bytes, columns: int, labels: int, wrong: _Wrong, path: Path, first: int) -> _FilePart:
    """Parses line by line; the error names the first wrong line."""
    label_counts: list[int] = []
    names: list[int] = []
    counts: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for line, text in enumerate(decoded(piece, path, first).removesuffix("\n").split("\n"), first):
        words = text.split()
        before = len(names), len(indices)
        if labels and words and ":" not in words[0]:
            names.extend(_index(word, labels, "label", path, line) for word in words.pop(0).split(","))
        for word in words:
            left, colon, right = word.partition(":")
            if not colon:
                raise DataError(f"expected index:value, got {shown(word)}", path, line)
            indices.append(_index(left, columns, "column", path, line))
            values.append(_value(right, wrong, path, line))
        label_counts.append(len(names) - before[0])
        counts.append(len(indices) - before[1])
    return _FilePart(*(np.array(part) for part in (label_counts, names, counts, indices, values)))


def _index(word: str, limit: int, what: str, path: Path, line: int) -> int:
    if not (word.isascii() and word.isdigit()):
        raise DataError(f"expected a {what} number, got {shown(word)}", path, line)
    if len(word) > 18 or int(word) >= limit:
        number = word[:40]
        raise DataError(f"{what} {number} is out of range: the header gives {limit}, and they count from 0", path, line)
    return int(word)


def _value(word: str, wrong: _Wrong, path: Path, line: int) -> float:
    if len(word) > MAX_DIGITS:
        raise DataError(f"a number of more than {MAX_DIGITS} digits; round it", path, line)
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    reason = wrong(value)
    if reason is not None:
        raise DataError(f"value {shown(word)} {reason}", path, line)
    return value


def _joined(parts: list[AnyArray], dtype: type) -> AnyArray:
    return np.concatenate([np.zeros(0, dtype=dtype), *parts], dtype=dtype, casting="unsafe")


def _read_npz(path: Path, what: str, wrong: _Wrong) -> Matrix:
    """Reads a SciPy sparse matrix; nothing in the file is unpickled or run."""
    try:
        with stage(f"reading {path.name.removesuffix('.npz')}", total=None):
            matrix = sparse_matrix(read_arrays(path))
            matrix.eliminate_zeros()
    except (ValueError, KeyError, OverflowError) as error:
        reason = f"it has no array {error}" if isinstance(error, KeyError) else str(error).split("\n")[0]
        raise DataError(
            f"not a sparse matrix as scipy.sparse.save_npz writes it ({reason}); save it again", path
        ) from None
    data: Doubles = matrix.data.astype(np.float64)
    if data.size and (wrong(data.min()) or wrong(data.max()) or np.isnan(data).any()):
        bad = next(place for place, value in enumerate(data.tolist()) if wrong(value))
        row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        raise DataError(
            f"row {row} has value {data[bad]:g} for {what} {matrix.indices[bad]}, which {wrong(data[bad])}", path
        )
    return matrix.astype(np.float32)


def read_pairs(path: Path, shape: tuple[int, int]) -> Matrix:
    """Reads excluded pairs from two columns of whole numbers: row, label.

    Args:
        path: the file.
        shape: (rows, labels) of the split.

    Returns:
        csr bool (rows, labels)

    Raises:
        DataError: a line is wrong, or a number is out of range.
    """
    rows, columns = [], []
    for first, piece in chunks(path):
        part = _fast_pairs(piece if piece.endswith(b"\n") else piece + b"\n", shape)
        if part is None:
            part = _slow_pairs(piece, shape, path, first)
        rows.append(part[:, 0])
        columns.append(part[:, 1])
    return pairs(_joined(rows, np.int64), _joined(columns, np.int64), shape)


def _fast_pairs(piece: bytes, shape: tuple[int, int]) -> AnyArray | None:
    found = numbers(piece)
    if found is None or not found.whole.all() or b":" in piece or b"," in piece:
        return None
    ends = np.searchsorted(found.starts, np.flatnonzero(found.text == NEWLINE))
    if not np.isin(_steps(ends), (0, 2)).all():
        return None
    table = found.values.reshape(-1, 2)
    return None if (table >= shape).any() else table


def _slow_pairs(piece: bytes, shape: tuple[int, int], path: Path, first: int) -> AnyArray:
    found: list[list[int]] = []
    for line, text in enumerate(decoded(piece, path, first).split("\n"), first):
        words = text.split()
        if not words:
            continue
        if len(words) != 2:
            raise DataError(f"expected two numbers, row and label, got {text.strip()[:60]!r}", path, line)
        limits = zip(words, shape, ("row", "label"), strict=True)
        found.append([_index(word, limit, what, path, line) for word, limit, what in limits])
    return np.array(found, dtype=np.int64).reshape(-1, 2)
