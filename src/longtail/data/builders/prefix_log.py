"""The raw query log: its lines as normalised queries, counted by split.

A log is tab-separated with a header: AnonID, Query, QueryTime, ItemRank, ClickURL. The last two may be empty or
missing. The number of the person is compared with that of the line before and then dropped: it is never written.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.arrays import Bytes, Longs
from longtail.data.builders.buckets import FilePiece, Found, bucket_of, by_bucket, check_kind, each_line, read_bucket
from longtail.errors import counted

TRAIN_DAYS = ("2006-03-01", "2006-05-18")  # from the first day to before the second
TEST_DAYS = ("2006-05-25", "2006-06-01")
MIN_LETTERS = 3  # of a query
NOT_A_WORD = re.compile(rb"[^A-Za-z0-9]+")
TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")


@dataclass(frozen=True)
class LogReader:
    """Reads pieces of a log. The first query of a piece is returned apart: it may repeat the last one before."""

    buckets: int
    train_days: tuple[str, str] = TRAIN_DAYS
    test_days: tuple[str, str] = TEST_DAYS
    as_published: bool = False  # queries that begin or end with a space are lost, as in the published notebook

    def __call__(self, piece: FilePiece) -> Found:
        """The queries of a piece, by bucket."""
        found, times = Found(), Counter[tuple[int, bytes]]()
        before: tuple[bytes, bytes] | None = None  # person and query of the last query kept
        raw_before: list[bytes] = []
        first: tuple[tuple[bytes, bytes], int, bytes] | None = None
        days = tuple(day.encode() for pair in (self.train_days, self.test_days) for day in pair)
        check_kind(piece)
        for number, line in each_line(piece):
            if number == 1 and line.startswith(b"AnonID\t"):
                continue
            found.counts["lines"] += 1
            fields = line.split(b"\t")
            if len(fields) not in (3, 5):
                found.damaged(piece, number, f"{counted(len(fields), 'column')} instead of 5")
                continue
            if fields[:2] == raw_before:
                continue  # the same person repeats the query: a second click, or the next page
            if not TIME.match(fields[2]):
                shown = fields[2][:30].decode("utf-8", "backslashreplace")
                found.damaged(piece, number, f"the time is {shown!r}, not like 2006-03-01 07:17:12")
                continue
            raw_before = fields[:2]
            query = normalised(fields[1])
            here = (fields[0], query)
            if len(query) < MIN_LETTERS or here == before:
                continue
            day = fields[2][:10]
            split = 0 if days[0] <= day < days[1] else 1 if days[2] <= day < days[3] else -1
            words = NOT_A_WORD.sub(b" ", query)
            if not self.as_published:
                words = words.strip()
            elif words != words.strip():
                words = b""
            kept = words if split >= 0 else b""
            if before is None:
                first = (here, split, kept)
            elif kept:
                times[split, kept] += 1
            before = here
        found.outputs = by_bucket("queries", self._lines(times))
        found.more = (first, before)
        return found

    def _lines(self, times: Counter[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for (split, query), number in times.items():
            counts = (number, 0) if split == 0 else (0, number)
            yield bucket_of(query, self.buckets), b"%s\t%d\t%d" % (query, *counts)

    def joined(self) -> Joiner:
        """What puts the pieces together."""
        return Joiner(self)


@dataclass
class Joiner:
    """Adds the first query of each piece, unless it repeats the last one of the piece before."""

    reader: LogReader
    before: tuple[bytes, bytes] | None = None

    def __call__(self, found: Found) -> None:
        """Completes the outputs of one piece."""
        first, last = found.more
        found.more = None
        if first is None:
            return
        here, split, kept = first
        if here != self.before:
            found.counts["queries"] += 1
            if kept:
                for name, line in by_bucket("queries", self.reader._lines(Counter({(split, kept): 1}))).items():
                    found.outputs[name] = line + found.outputs.get(name, b"")
        self.before = last


def normalised(query: bytes) -> bytes:
    """NFKC, then ASCII (other characters are dropped), lower case, single spaces.

    Args:
        query: as it is in the log; bytes that are not UTF-8 are dropped.

    Returns:
        The query.
    """
    if not query.isascii():
        text = unicodedata.normalize("NFKC", query.decode("utf-8", "replace"))
        query = text.encode("ascii", "ignore")
    return b" ".join(query.lower().split())


def add_up_queries(queries_folder: Path, bucket: int, path: Path) -> None:
    """Adds up the counts of each query of a bucket.

    Args:
        queries_folder: of the buckets that `LogReader` filled.
        bucket: the number of one.
        path: folder to write: `queries` (lines, sorted) and `counts.npy` (queries, 2), train and test.
    """
    totals: dict[bytes, list[int]] = {}
    for line in read_bucket(queries_folder, "queries", bucket):
        query, train, test = line.split(b"\t")
        known = totals.get(query)
        if known is None:
            totals[query] = [int(train), int(test)]
        else:
            known[0] += int(train)
            known[1] += int(test)
    queries = sorted(totals)
    path.mkdir()
    (path / "queries").write_bytes(b"\n".join(queries))
    np.save(path / "counts.npy", np.array([totals[query] for query in queries], dtype=np.int64).reshape(-1, 2))


@dataclass(frozen=True, eq=False)
class Queries:
    """Different queries of one bucket."""

    buffer: Bytes
    starts: Longs
    ends: Longs
    counts: Longs  # (queries, 2) train and test

    @classmethod
    def read(cls, folder: Path, bucket: int) -> Queries:
        """Reads a bucket that `add_up_queries` wrote.

        Args:
            folder: of all buckets.
            bucket: the number of one.

        Returns:
            The queries.
        """
        data = (folder / f"{bucket:03}" / "queries").read_bytes()
        buffer = np.frombuffer(data, dtype=np.uint8)
        counts = np.load(folder / f"{bucket:03}" / "counts.npy")
        breaks = np.flatnonzero(buffer == 10).astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), breaks + 1])[: len(counts)]
        return cls(buffer, starts, np.append(breaks, len(buffer)).astype(np.int64)[: len(counts)], counts)

    def of(self, split: int) -> Queries:
        """The queries of one split.

        Args:
            split: 0 is train, 1 is test.

        Returns:
            Those with a count there.
        """
        kept = np.flatnonzero(self.counts[:, split] > 0)
        return Queries(self.buffer, self.starts[kept], self.ends[kept], self.counts[kept])
