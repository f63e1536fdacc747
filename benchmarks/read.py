"""Claim: a bag-of-words file is read several times faster than by a plain parser, with the same values.

    python benchmarks/read.py [DATA ...] [--rows 100000] [--features 50]

DATA is any data set that `load` knows; loading each is timed too. Then a generated file in the format of the Extreme
Classification Repository is read by longtail and by a parser that splits every token in Python. Prints seconds, rows
per second and the ratio, each the best of three. Exits with an error where the parsers disagree.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import longtail
from shared.command import parser_for
from shared.timing import best_of

COLUMNS, LABELS, LABELS_A_ROW = 200_000, 10_000, 4


def write_bag(path: Path, rows: int, features: int) -> None:
    """Random rows as the repository writes them: sorted columns, six decimals."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(f"{rows} {COLUMNS} {LABELS}\n")
        for _ in range(rows):
            labels = ",".join(map(str, rng.integers(0, LABELS, LABELS_A_ROW).tolist()))
            columns = np.unique(rng.integers(0, COLUMNS, features)).tolist()
            values = rng.uniform(0.01, 1, len(columns)).tolist()
            words = " ".join([f"{column}:{value:.6f}" for column, value in zip(columns, values, strict=True)])
            file.write(f"{labels} {words}\n")


def plain(path: Path) -> tuple[int, float, int]:
    """Token by token in Python, as one would write it; entries, sum of the values, sum of the labels."""
    indices: list[int] = []
    values: list[float] = []
    labels: list[int] = []
    with path.open() as file:
        next(file)
        for line in file:
            head, *words = line.split()
            labels.extend({int(label) for label in head.split(",")})
            for word in words:
                index, value = word.split(":")
                indices.append(int(index))
                values.append(float(value))
    return len(indices), float(np.array(values, np.float32).sum(dtype=np.float64)), sum(labels)


def ours(path: Path) -> tuple[int, float, int]:
    from longtail.data.repository_matrix import read_bag_of_words

    features, targets = read_bag_of_words(path)
    return features.nnz, float(features.data.sum(dtype=np.float64)), int(targets.indices.sum(dtype=np.int64))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="*", help="names or folders of data sets")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the generated file")
    parser.add_argument("--features", type=int, default=50, help="features of a row")
    given = parser.parse_args()
    for data in given.data:
        seconds, _, corpus = best_of(partial(longtail.load, data))
        rows = len(corpus.train) + len(corpus.valid) + len(corpus.test)
        print(f"{corpus.name}: {rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} rows/s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_bag(path, given.rows, given.features)
        megabytes = path.stat().st_size / 1e6
        fast, _, found = best_of(partial(ours, path))
        slow, _, expected = best_of(partial(plain, path))
    if not np.allclose(found, expected, rtol=1e-9):
        raise SystemExit(f"the parsers disagree: {found} and {expected}")
    print(f"bag of words, {given.rows:,} rows, {megabytes:.0f} MB, {found[0]:,} features")
    print(f"  longtail {fast:.2f} s, {given.rows / fast:,.0f} rows/s, {megabytes / fast:.0f} MB/s")
    print(f"  plain    {slow:.2f} s, {given.rows / slow:,.0f} rows/s")
    print(f"ratio {slow / fast:.1f}")


if __name__ == "__main__":
    main()
