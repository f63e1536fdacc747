"""How often each suffix of the train queries was asked, and which ones are frequent enough to be labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.arrays import AnyArray, Longs
from longtail.data.builders.keys import Keys, KeyTable, added_up, open_table
from longtail.data.builders.prefix_kernels import count_suffixes, list_suffixes
from longtail.data.builders.prefix_log import Queries
from longtail.data.builders.work import remember

TRAIN = 0


def list_suffix_counts(queries: Path, buckets: int, bucket: int, path: Path) -> None:
    """Keys and counts of the suffixes of a bucket's train queries, by the bucket of the key.

    Args:
        queries: the folder of all buckets of queries.
        buckets: how many there are.
        bucket: the number of one.
        path: folder to write.
    """
    keys, counts, _, _ = listed(Queries.read(queries, bucket).of(TRAIN))
    keys, counts = added_up(keys, counts)
    path.mkdir()
    save_by_bucket(path, keys, np.stack([keys, counts.astype(np.uint64)], axis=1), buckets)


def listed(asked: Queries) -> tuple[Keys, Longs, Longs, Longs]:
    """All suffixes of train queries.

    Args:
        asked: the queries.

    Returns:
        Key, count of the query, beginning in the buffer, and query of each suffix.
    """
    number = count_suffixes(asked.buffer, asked.starts, asked.ends)
    keys = np.empty(number, np.uint64)
    numbers, begin, rows = (np.empty(number, np.int64) for _ in range(3))
    counts = np.ascontiguousarray(asked.counts[:, TRAIN])
    list_suffixes(asked.buffer, asked.starts, asked.ends, counts, keys, numbers, begin, rows)
    return keys, numbers, begin, rows


def save_by_bucket(path: Path, keys: Keys, entries: AnyArray, buckets: int) -> None:
    """Appends entries to the files of their keys' buckets.

    Args:
        path: folder of the files.
        keys: (entries,)
        entries: (entries, numbers) uint64.
        buckets: how many there are.
    """
    places = ((keys >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        with (path / f"{bucket:03}").open("ab") as file:
            file.write(np.ascontiguousarray(entries[order[bounds[bucket] : bounds[bucket + 1]]]).tobytes())


def load_bucket(folder: Path, bucket: int, width: int) -> AnyArray:
    """The entries of a bucket that all tasks of a stage found.

    Args:
        folder: of the stage.
        bucket: the number of one.
        width: numbers of an entry.

    Returns:
        (entries, width) uint64
    """
    parts = [np.fromfile(part / f"{bucket:03}", dtype=np.uint64) for part in sorted(folder.iterdir())]
    return np.concatenate(parts).reshape(-1, width)


def add_up_suffixes(suffixes: Path, bucket: int, path: Path) -> None:
    """Adds up the counts of each suffix.

    Args:
        suffixes: the folder that `list_suffix_counts` filled.
        bucket: the number of a bucket.
        path: NumPy file to write: (suffixes, 2) keys and counts.
    """
    entries = load_bucket(suffixes, bucket, 2)
    keys, counts = added_up(np.ascontiguousarray(entries[:, 0]), entries[:, 1].astype(np.int64))
    with path.open("wb") as file:
        np.save(file, np.stack([keys, counts.astype(np.uint64)], axis=1))


def keep_most(totals: Path, buckets: int, most: int, folder: Path) -> None:
    """Writes a table of the most frequent suffixes; of equally frequent ones at the border, those with small keys.

    Args:
        totals: the folder that `add_up_suffixes` filled.
        buckets: how many there are.
        most: suffixes to keep.
        folder: to write into.
    """
    frequent: dict[int, int] = {}  # suffixes that were asked so often
    for bucket in range(buckets):
        counts, numbers = np.unique(np.load(totals / f"{bucket:03}")[:, 1], return_counts=True)
        for count, number in zip(counts.tolist(), numbers.tolist(), strict=True):
            frequent[count] = frequent.get(count, 0) + number
    least, above = 0, 0  # the count at the border, and how many suffixes have more
    for count in sorted(frequent, reverse=True):
        if above + frequent[count] > most:
            least = count
            break
        above += frequent[count]
    kept, ties = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for bucket in range(buckets):
        part = np.load(totals / f"{bucket:03}")
        kept.append(part[part[:, 1] > least, 0])
        if least:
            ties.append(part[part[:, 1] == least, 0])
    border = np.concatenate(ties)
    del ties
    if 0 < most - above < len(border):
        border.partition(most - above - 1)
    keys = np.concatenate([border[: most - above], *kept])
    del border, kept
    KeyTable.of(keys).save(folder, "table")
    np.save(folder / "keys.npy", keys)
    remember(folder, "facts", {"suffixes": len(keys)})


def rows_of_suffixes(rows: Path, kept: Path) -> tuple[Keys, Longs]:
    """How many rows each kept suffix has.

    Args:
        rows: the folder of a split's rows, with `suffixes.npy` in each bucket: keys and rows.
        kept: the folder that `keep_most` filled.

    Returns:
        The keys of the suffixes that have rows, and how many; in the order of `keep_most`.
    """
    table = open_table(kept, "table")
    totals = np.zeros(len(np.load(kept / "keys.npy", mmap_mode="r")), dtype=np.int64)
    for part in sorted(rows.iterdir()):
        found = np.load(part / "suffixes.npy")
        totals[table.numbers(np.ascontiguousarray(found[:, 0]))] += found[:, 1].astype(np.int64)
    used = np.flatnonzero(totals)
    return np.load(kept / "keys.npy", mmap_mode="r")[used], totals[used]
