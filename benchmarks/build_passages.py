"""Claim: a collection of MS MARCO's size is built in minutes and bounded memory.

    python benchmarks/build_passages.py [PASSAGES]     # default 88,000; MS MARCO has 8,841,823

Generates a collection, queries and judgements in MS MARCO's format, builds it on two cores, and prints minutes,
passages a second, peak memory over all processes, and the counts of the set.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from shared.building import BATCH, measured_build, phrases, vocabulary
from shared.command import parser_for

PARTS = 8  # phrases of seven words in a passage: 56 words, as in MS MARCO


def write_collection(folder: Path, passages: int) -> None:
    rng = np.random.default_rng(0)
    words = vocabulary(200_000)
    pool = list(phrases(200_000, words, 7, 7, 0))
    with (folder / "collection.tsv").open("wb") as file:
        for start in range(0, passages, BATCH):
            size = min(BATCH, passages - start)
            drawn = rng.integers(0, len(pool), (size, PARTS)).tolist()
            file.write(
                b"".join(
                    [
                        b"%d\t%s\n" % (start + row, b" ".join([pool[one] for one in parts]))
                        for row, parts in enumerate(drawn)
                    ]
                )
            )
    train = max(50, passages * 502_939 // 8_841_823)
    for split, queries, first in (("train", train * 808_731 // 502_939, 0), ("dev", train // 5, 2_000_000)):
        asked = phrases(queries, words, 3, 9, 1)
        with (folder / f"queries.{split}.tsv").open("wb") as file:
            file.writelines(b"%d\t%s\n" % (first + number, next(asked)) for number in range(queries))
        judged = train if split == "train" else max(10, train // 72)
        with (folder / f"qrels.{split}.tsv").open("wb") as file:
            answers = rng.integers(0, passages, judged).tolist()
            file.writelines(b"%d\t0\t%d\t1\n" % (first + number, one) for number, one in enumerate(answers))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("passages", type=int, nargs="?", default=88_000, help="passages of the collection")
    parser.add_argument("--labels", default="all", help="'all' passages, or 'seen'")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_collection(Path(folder), given.passages)
        arguments = ["passages", folder, "--labels", given.labels, "--out", f"{folder}/built", "--accept-licence"]
        measured_build(arguments, given.passages, "passages")


if __name__ == "__main__":
    main()
