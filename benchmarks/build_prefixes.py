"""Claim: a query log of AOL's size is built in minutes, with 10 million suffixes in at most 3 GB.

    python benchmarks/build_prefixes.py [LINES]     # default 200,000; AOL has about 20,000,000 queries

Generates a log in AOL's format with made-up words, builds it on two cores, and prints minutes, lines a second, peak
memory over all processes, and the counts of the set.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np

from shared.building import BATCH, measured_build, phrases, vocabulary
from shared.command import parser_for


def write_log(path: Path, lines: int, seed: int) -> None:
    """Every query at a random time of the three months, by one of 658,086 persons."""
    rng = np.random.default_rng(seed)
    words = vocabulary(max(2_000, min(400_000, lines // 25)))
    days = [f"2006-{month:02}-{day:02}".encode() for month in (3, 4, 5) for day in range(1, 31)]
    asked = phrases(lines, words, 1, 5, seed)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n")
        for start in range(0, lines, BATCH):
            size = min(BATCH, lines - start)
            persons, when = rng.integers(1, 658_087, size).tolist(), rng.integers(0, len(days), size).tolist()
            batch = [
                b"%d\t%s\t%s 07:17:12\t\t\n" % (person, next(asked), days[day])
                for person, day in zip(persons, when, strict=True)
            ]
            file.write(b"".join(batch))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("lines", type=int, nargs="?", default=200_000, help="lines of the log")
    parser.add_argument("--files", type=int, default=10, help="files of the log")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(given.files):
            paths.append(Path(folder) / f"user-ct-test-collection-{number + 1:02}.txt.gz")
            write_log(paths[-1], given.lines // given.files, number)
        arguments = ["prefixes", *map(str, paths), "--out", f"{folder}/aol", "--accept-licence"]
        measured_build(arguments, given.lines, "lines")


if __name__ == "__main__":
    main()
