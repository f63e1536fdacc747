"""Pretrained word vectors: a text file with one word per line, or an array with a file of its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from longtail.arrays import Floats
from longtail.data.files import chunks, lines
from longtail.data.numpy_files import read_array
from longtail.errors import DataError


def read_vectors(path: str | Path, known: Mapping[str, int], dimension: int, init: Floats) -> tuple[Floats, int]:
    """Replace the initial vectors of known words by those of a file.

    A text file has a word and its numbers on each line, as GloVe's; a first line of two numbers is skipped. A .npy file
    has one vector per row, and a file of the same name that ends in .txt or .vocab has the words, one per line. Vectors
    are scaled to the mean norm of `init`, so that words in the file weigh no more than others.

    Args:
        path: of the file.
        known: row of each known word.
        dimension: of the vectors.
        init: (words, dimension) initial vectors.

    Returns:
        Vectors (words, dimension), and the number of words that the file has.

    Raises:
        DataError: the file has another dimension, something else than numbers, or no words beside an array.
    """
    file = Path(path)
    found = _from_array(file, known, dimension) if file.suffix == ".npy" else _from_text(file, known, dimension)
    result = init.copy()
    if found:
        rows = np.fromiter(found, np.int64, len(found))
        given = np.stack([found[row] for row in rows.tolist()])
        mean = float(np.linalg.norm(init, axis=1).mean())
        result[rows] = given * (mean / max(float(np.linalg.norm(given, axis=1).mean()), 1e-9))
    return result, len(found)


def _from_text(file: Path, known: Mapping[str, int], dimension: int) -> dict[int, Floats]:
    found: dict[int, Floats] = {}
    for number, line in _lines(file):
        word, _, rest = line.rstrip().partition(" ")
        if number == 1 and len(rest.split()) == 1:
            continue
        row = known.get(word.lower())
        if row is None or row in found:
            continue
        try:
            vector = np.array(rest.split(), dtype=np.float32)
        except ValueError:
            raise DataError(f"the vector of {word!r} holds something that is not a number", file, number) from None
        _check(len(vector), dimension, file, number)
        found[row] = vector
    return found


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; published files hold words cut in the middle of a letter, so what is not UTF-8 is replaced."""
    for first, piece in chunks(file):
        yield from enumerate(piece.decode("utf-8", "replace").removesuffix("\n").split("\n"), first)


def _from_array(file: Path, known: Mapping[str, int], dimension: int) -> dict[int, Floats]:
    vectors = read_array(file, mapped=True)
    word_file = next((name for end in (".txt", ".vocab") if (name := file.with_suffix(end)).is_file()), None)
    if word_file is None:
        raise DataError(
            f"word vectors without words: put the words, one per line, into {file.with_suffix('.txt').name} beside it",
            file,
        )
    words = [line.removesuffix("\r") for _, line in lines(word_file)]
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiub" or len(words) != len(vectors):
        raise DataError(f"{len(words):,} words for vectors of shape {vectors.shape}; each word needs one", file)
    _check(vectors.shape[1], dimension, file, None)
    rows = {known[word.lower()]: place for place, word in reversed(list(enumerate(words))) if word.lower() in known}
    return {row: np.asarray(vectors[place], dtype=np.float32) for row, place in rows.items()}


def _check(given: int, dimension: int, file: Path, line: int | None) -> None:
    if given != dimension:
        raise DataError(
            f"word vectors of {given} numbers, but the net has dimension={dimension}: set dimension={given} in the "
            "recipe, or use another file",
            file,
            line,
        )
