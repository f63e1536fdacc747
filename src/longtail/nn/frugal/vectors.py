"""Word vectors that somebody else has learned: a text file with a word a line, or an array with its words beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from longtail.arrays import Floats
from longtail.errors import DataError


def read_vectors(path: str | Path, known: Mapping[str, int], dimension: int, begin: Floats) -> tuple[Floats, int]:
    """`begin` (words, dimension) with the rows of known words replaced by those of the file, and how many were found.

    A text file has a word and its numbers on each line, as GloVe's; a first line of two numbers is skipped. A .npy file
    has a vector a row, and a file of the same name that ends in .txt or .vocab has the words, one a line. Vectors are
    brought to the mean length of those in `begin`, so that found words are no louder than others.
    """
    file = Path(path)
    found = _from_array(file, known, dimension) if file.suffix == ".npy" else _from_text(file, known, dimension)
    result = begin.copy()
    if found:
        rows = np.fromiter(found, np.int64, len(found))
        given = np.stack([found[row] for row in rows.tolist()])
        mean = float(np.linalg.norm(begin, axis=1).mean())
        result[rows] = given * (mean / max(float(np.linalg.norm(given, axis=1).mean()), 1e-9))
    return result, len(found)


def _from_text(file: Path, known: Mapping[str, int], dimension: int) -> dict[int, Floats]:
    found: dict[int, Floats] = {}
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            word, _, rest = line.rstrip().partition(" ")
            if number == 1 and len(rest.split()) == 1:
                continue
            row = known.get(word.lower())
            if row is None or row in found:
                continue
            try:
                vector = np.array(rest.split(), dtype=np.float32)
            except ValueError:
                raise DataError(f"the vector of {word!r} is not made of numbers", file, number) from None
            _check(len(vector), dimension, file, number)
            found[row] = vector
    return found


def _from_array(file: Path, known: Mapping[str, int], dimension: int) -> dict[int, Floats]:
    vectors = np.load(file, mmap_mode="r", allow_pickle=False)
    beside = next((name for end in (".txt", ".vocab") if (name := file.with_suffix(end)).is_file()), None)
    if beside is None:
        raise DataError("word vectors without words: put them beside it, one a line, in a file ending in .txt", file)
    words = beside.read_text("utf-8").splitlines()
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise DataError(f"{len(words):,} words for vectors of shape {vectors.shape}; each word needs one", file)
    _check(vectors.shape[1], dimension, file, None)
    rows = {known[word.lower()]: place for place, word in reversed(list(enumerate(words))) if word.lower() in known}
    return {row: np.asarray(vectors[place], dtype=np.float32) for row, place in rows.items()}


def _check(given: int, dimension: int, file: Path, line: int | None) -> None:
    if given != dimension:
        raise DataError(
            f"word vectors of {given} numbers where {dimension} are wanted: say dimension={given} in the recipe, or "
            "give another file",
            file,
            line,
        )
