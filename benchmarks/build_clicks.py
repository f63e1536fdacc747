"""Claim: a click log of ORCAS's size is built in minutes and bounded memory.

    python benchmarks/build_clicks.py [CLICKS]     # default 200,000; ORCAS has 18,823,602

Generates a log in ORCAS's format and a file of documents with short bodies, builds it on two cores, and prints minutes,
clicks a second, peak memory over all processes, and the counts of the set.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np

from shared.building import BATCH, measured_build, phrases, vocabulary
from shared.command import parser_for


def write_log(path: Path, clicks: int) -> int:
    """1.8 clicks a query, 13 a document on average, unevenly; returns the number of documents."""
    rng = np.random.default_rng(0)
    words = vocabulary(max(2_000, min(300_000, clicks // 25)))
    documents = max(10, clicks // 13)
    asked = phrases(clicks, words, 2, 5, 0)
    query, number = b"", 0
    with gzip.open(path, "wb", compresslevel=1) as file:
        for start in range(0, clicks, BATCH):
            size = min(BATCH, clicks - start)
            clicked = (documents * rng.random(size) ** 2).astype(np.int64).tolist()
            fresh = (rng.random(size) < 10.4 / 18.8).tolist()
            batch = []
            for document, new in zip(clicked, fresh, strict=True):
                if new or not query:
                    query, number = next(asked), number + 1
                batch.append(
                    b"%d\t%s\tD%d\thttps://www.site%d.org/page_%d.html\n"
                    % (number, query, document, document % 977, document)
                )
            file.write(b"".join(batch))
    return documents


def write_titles(path: Path, documents: int) -> None:
    titles = phrases(documents, vocabulary(50_000, 7), 3, 9, 1)
    with gzip.open(path, "wb", compresslevel=1) as file:
        for start in range(0, documents, BATCH):
            numbers = range(start, min(documents, start + BATCH))
            file.write(
                b"".join(
                    [b"D%d\thttps://x.org/%d\t%s\t%s\n" % (one, one, next(titles), b"body " * 20) for one in numbers]
                )
            )


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("clicks", type=int, nargs="?", default=200_000, help="lines of the log")
    clicks = parser.parse_args().clicks
    with tempfile.TemporaryDirectory() as folder:
        log, titles = Path(folder) / "orcas.tsv.gz", Path(folder) / "msmarco-docs.tsv.gz"
        documents = write_log(log, clicks)
        write_titles(titles, int(documents * 2.2))  # MS MARCO has more documents than were clicked
        arguments = ["clicks", str(log), "--titles", str(titles), "--out", f"{folder}/orcas", "--accept-licence"]
        measured_build(arguments, clicks, "clicks")


if __name__ == "__main__":
    main()
