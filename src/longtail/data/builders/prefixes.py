"""Query completion from a query log, as LF-AOL-270K was made (LEVER, appendix B.3.1).

A document is the beginning of a query; its labels are the endings that complete it, each beginning with a word. The
published set was drawn without a seed, so it cannot be rebuilt to the row: its counts are printed beside the achieved.
What differs from the published notebook, unless `as_published`:

- queries that begin or end with a space after cleaning are stripped, not lost;
- prefixes that end with a space are stripped, so that "cheap nike" and "cheap nike " are one row;
- a row gets the suffixes of all queries that begin with it; the notebook's loop did this for the shortest prefix only;
- of queries with the same test prefix all count; in the notebook the last one overwrote the others.

Soft targets add up all queries with the prefix, also `as_published`; the notebook kept the last one's count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.builders.buckets import buckets_for, distribute, pieces_of, unpacked_size
from longtail.data.builders.keys import KeyTable, open_table
from longtail.data.builders.output import BuildFacts, Built, as_line, assemble, check_out, packed, row_line, sizes
from longtail.data.builders.prefix_kernels import draw_ends, list_entries
from longtail.data.builders.prefix_log import TEST_DAYS, TRAIN_DAYS, LogReader, Queries, add_up_queries
from longtail.data.builders.requirements import AOL, log_licence, need_files, need_licence, need_space
from longtail.data.builders.suffix_counts import (
    add_up_suffixes,
    keep_most,
    list_suffix_counts,
    listed,
    load_bucket,
    rows_of_suffixes,
    save_by_bucket,
)
from longtail.data.builders.work import Work, remember, remembered
from longtail.data.labels import Propensity
from longtail.data.worker_pool import processes_for
from longtail.errors import DataError

TRAIN, TEST = 0, 1
SPLITS = ("train", "test")
SLICE = 100_000  # queries whose entries are listed at once
OWN, COMPLETE, SHORTEST = range(3)  # which prefixes of a query get its suffixes


@dataclass(frozen=True)
class PrefixSettings:
    """Settings of `build_prefixes`."""

    suffixes: int = 10_000_000  # the most frequent that may be labels
    labels: str = "test"  # which are: those of the test split, as published, or those with `least` rows of train
    least: int = 2
    counts: bool = False  # soft targets: how often the query was asked, over the most often of its row
    as_published: bool = False
    train_days: tuple[str, str] = TRAIN_DAYS
    test_days: tuple[str, str] = TEST_DAYS
    seed: int = 0


def build_prefixes(
    logs: Sequence[Path],
    out: Path,
    settings: PrefixSettings,
    *,
    propensity: Propensity,
    accepted: bool = False,
    overwrite: bool = False,
    command: str = "",
    processes: int | None = None,
) -> Built:
    """Builds a data set of query completion.

    Args:
        logs: the log files, plain or compressed.
        out: the folder to write.
        settings: how to build.
        propensity: constants to write.
        accepted: whether a person accepted the licence of the log.
        overwrite: replaces a data set that longtail wrote.
        command: that builds it again, for `corpus.json`.
        processes: how many work at once; None: as many as pay.

    Returns:
        The counts of the set.

    Raises:
        DataError: something is missing, or the log is damaged or has no queries.
    """
    if settings.labels not in SPLITS:
        raise DataError(f"labels are those of 'test', as published, or of 'train', got {settings.labels!r}")
    _check_days(settings.train_days, settings.test_days)
    paths = sorted(logs)
    need_files(paths, "the query log")
    need_licence(AOL, accepted)
    check_out(out, overwrite)
    size = unpacked_size(paths)
    need_space(out, 7 * size)  # most of it pairs of prefixes and suffixes, before and after they are added up
    buckets = buckets_for(size)
    workers = processes or processes_for(size)
    log_licence(AOL)
    with Work.begin(out, asdict(settings) | {"builder": "prefixes.1"}, paths, workers) as work:
        notes = _Stages(work, settings, buckets).run(paths)
        labels = remembered(work.folder / "labels", "facts")["labels"]
        train, test = (_totals(work, split) for split in SPLITS)
        counts = sizes(train[0], test[0], labels, train[1], test[1])
        counts["log lines"] = remembered(work.folder / "log", "counts")["lines"]
        counts["train queries"] = _asked(work.folder / "queries")[TRAIN]
        counts["suffixes kept"] = remembered(work.folder / "kept-suffixes", "facts")["suffixes"]
        if not counts["train"] or not counts["test"]:
            raise DataError("the log leaves no train or no test examples; it is too small", paths[0])
        facts = BuildFacts("aol-prefixes", propensity, AOL, ", ".join(path.name for path in paths), command)
        parts: dict[str, Sequence[Path]] = {
            split: [part / "rows" for part in sorted((work.folder / f"{split}-lines").iterdir())] for split in SPLITS
        }
        assemble(out, {**parts, "labels": [work.folder / "label-lines" / "labels"]}, facts)
    return Built(out, counts, "LF-AOL-270K", tuple(notes))


def _check_days(train: tuple[str, str], test: tuple[str, str]) -> None:
    """The splits may not share a day: test would hold queries of train."""
    for name, (first, behind) in (("train", train), ("test", test)):
        if first >= behind:
            raise DataError(f"--{name}-days: {behind} is the first day behind the split, so it must be after {first}")
    if train[0] < test[1] and test[0] < train[1]:
        raise DataError(
            f"--train-days {','.join(train)} and --test-days {','.join(test)} share days; the second day of each is "
            "the first one behind it"
        )


def _asked(queries: Path) -> tuple[int, int]:
    """How many different queries train and test have."""
    train, test = sum((np.load(part / "counts.npy") > 0).sum(axis=0) for part in queries.iterdir())
    return int(train), int(test)


def _totals(work: Work, split: str) -> tuple[int, int]:
    """Rows and positives of a split."""
    rows, pairs = np.sum([np.load(part / "sizes.npy") for part in (work.folder / f"{split}-lines").iterdir()], axis=0)
    return int(rows), int(pairs)


@dataclass(frozen=True)
class _Stages:
    """The stages, each of which finds what the ones before left on the disk."""

    work: Work
    settings: PrefixSettings
    buckets: int

    def run(self, paths: Sequence[Path]) -> list[str]:
        """All stages; returns notes."""
        work, given, buckets = self.work, self.settings, self.buckets
        reader = LogReader(buckets, given.train_days, given.test_days, given.as_published)

        def read(folder: Path) -> None:
            found = distribute(pieces_of(paths), reader, folder, work.workers, reader.joined())
            remember(folder, "notes", found.check(found.counts["lines"]))
            remember(folder, "counts", found.counts)

        log = work.once("log", read)
        queries = work.each("queries", buckets, partial(add_up_queries, log))
        for split, number in zip(SPLITS, _asked(queries), strict=True):
            if not number:
                first, behind = given.train_days if split == "train" else given.test_days
                raise DataError(
                    f"no query of the log is from {first} until before {behind}: {split} would be empty; check the "
                    f"files and --{split}-days",
                    paths[0],
                )
        work.drop("log")
        suffixes = work.each("suffixes", buckets, partial(list_suffix_counts, queries, buckets))
        totals = work.each("suffix-counts", buckets, partial(add_up_suffixes, suffixes))
        work.drop("suffixes")
        work.once("kept-suffixes", partial(keep_most, totals, buckets, given.suffixes))
        work.drop("suffix-counts")
        notes = list(remembered(log, "notes"))
        self._entries(TRAIN, queries, work.folder / "kept-suffixes", SHORTEST if given.as_published else COMPLETE)
        work.once("train-suffixes", partial(_seen_suffixes, work.folder / "train-rows", work.folder / "kept-suffixes"))
        self._entries(TEST, queries, work.folder / "train-suffixes", OWN if given.as_published else COMPLETE)
        work.once("labels", partial(_choose_labels, work.folder, given))
        texts = work.each("label-texts", buckets, partial(_label_texts, queries, work.folder / "labels"))
        work.once("label-lines", partial(_label_lines, texts))
        for split in SPLITS:
            work.each(f"{split}-lines", buckets, partial(_lines, work.folder, split, given.counts))
        return notes

    def _entries(self, split: int, queries: Path, suffixes: Path, completion: int) -> None:
        """Draws the prefixes of a split and lists their suffixes."""
        name, work, given = SPLITS[split], self.work, self.settings
        strip = not given.as_published
        drawn = work.each(f"{name}-draws", self.buckets, partial(_draw, queries, suffixes, split, given.seed, strip))
        rows = work.once(f"{name}-prefixes", partial(_prefix_table, drawn, completion == OWN))
        entries = work.each(
            f"{name}-entries",
            self.buckets,
            partial(_list, queries, suffixes, drawn, rows, split, completion, strip, self.buckets),
        )
        banned = work.folder / "train-prefixes" if split == TEST else None
        work.each(f"{name}-rows", self.buckets, partial(_gather, entries, banned))
        work.drop(f"{name}-entries")
        work.each(f"{name}-texts", self.buckets, partial(_texts, queries, drawn, split, self.buckets))


def _draw(queries: Path, suffixes: Path, split: int, seed: int, strip: bool, bucket: int, path: Path) -> None:
    """Where each query of a split is cut."""
    asked = Queries.read(queries, bucket).of(split)
    drawn, prefixes = np.empty(len(asked.starts), np.int64), np.empty(len(asked.starts), np.uint64)
    salt = np.uint64((seed * 2 + split) & (2**63 - 1))
    table = open_table(suffixes, "table").table
    draw_ends(asked.buffer, asked.starts, asked.ends, table, salt, strip, drawn, prefixes)
    path.mkdir()
    np.save(path / "drawn.npy", drawn)
    np.save(path / "prefixes.npy", prefixes)


def _prefix_table(drawn: Path, last_wins: bool, folder: Path) -> None:
    """A table of the prefixes of a split, and, where the last query overwrites others, which query that is."""
    parts = [np.load(part / "prefixes.npy") for part in sorted(drawn.iterdir())]
    prefixes = np.concatenate(parts)
    if last_wins:
        rows = np.flatnonzero(prefixes)[::-1]
        _, last = np.unique(prefixes[rows], return_index=True)
        wins = np.zeros(len(prefixes), dtype=np.bool_)
        wins[rows[last]] = True
        np.save(folder / "wins.npy", wins)
        np.save(folder / "starts.npy", np.cumsum([0, *map(len, parts)]))
    KeyTable.of(np.unique(prefixes[prefixes != 0])).save(folder, "table")


def _list(
    queries: Path,
    suffixes: Path,
    drawn: Path,
    rows: Path,
    split: int,
    completion: int,
    strip: bool,
    buckets: int,
    bucket: int,
    path: Path,
) -> None:
    """(prefix, suffix, count) of a bucket's queries, by the bucket of the prefix."""
    asked = Queries.read(queries, bucket).of(split)
    lengths = np.load(drawn / f"{bucket:03}" / "drawn.npy")
    if completion == OWN:
        starts = np.load(rows / "starts.npy")
        lengths = np.where(np.load(rows / "wins.npy")[starts[bucket] : starts[bucket + 1]], lengths, 0)
    known, table = open_table(suffixes, "table").table, open_table(rows, "table").table
    counts = np.ascontiguousarray(asked.counts[:, split])
    path.mkdir()
    for start in range(0, max(1, len(lengths)), SLICE):
        part = slice(start, start + SLICE)
        given = (asked.buffer, asked.starts[part], asked.ends[part], counts[part], lengths[part])
        number = list_entries(*given, known, table, completion, strip, np.empty((0, 3), np.uint64))
        entries = np.empty((number, 3), np.uint64)
        if number:
            list_entries(*given, known, table, completion, strip, entries)
        save_by_bucket(path, entries[:, 0], entries, buckets)


def _texts(queries: Path, drawn: Path, split: int, buckets: int, bucket: int, path: Path) -> None:
    """The different prefixes of a bucket's queries with their keys, by the bucket of the prefix."""
    asked = Queries.read(queries, bucket).of(split)
    lengths, prefixes = (np.load(drawn / f"{bucket:03}" / f"{name}.npy") for name in ("drawn", "prefixes"))
    path.mkdir()
    kept = np.flatnonzero(lengths)
    _, first = np.unique(prefixes[kept], return_index=True)
    kept = kept[first]
    places = ((prefixes[kept] >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)
    text = asked.buffer.tobytes()
    for bucket in range(buckets):
        rows = kept[places == bucket]
        spans = zip(asked.starts[rows].tolist(), lengths[rows].tolist(), strict=True)
        (path / f"texts-{bucket:03}").write_bytes(b"\n".join([text[start : start + size] for start, size in spans]))
        np.save(path / f"keys-{bucket:03}.npy", prefixes[rows])


def _gather(entries: Path, banned: Path | None, bucket: int, path: Path) -> None:
    """Equal (prefix, suffix) entries added up, sorted; without the prefixes of train where test is gathered."""
    pairs = load_bucket(entries, bucket, 3)
    if banned is not None:
        pairs = pairs[~open_table(banned, "table").has(np.ascontiguousarray(pairs[:, 0]))]
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs = pairs[order]
    new = np.ones(len(pairs), dtype=np.bool_)
    new[1:] = (pairs[1:, 0] != pairs[:-1, 0]) | (pairs[1:, 1] != pairs[:-1, 1])
    first = np.flatnonzero(new)
    counts = np.add.reduceat(pairs[:, 2], first) if len(first) else pairs[:, 2]
    pairs = pairs[first]
    path.mkdir()
    np.save(path / "pairs.npy", pairs[:, :2])
    np.save(path / "counts.npy", counts.astype(np.int64))
    suffixes, rows = np.unique(pairs[:, 1], return_counts=True)
    np.save(path / "suffixes.npy", np.stack([suffixes, rows.astype(np.uint64)], axis=1))


def _seen_suffixes(rows: Path, kept: Path, folder: Path) -> None:
    KeyTable.of(rows_of_suffixes(rows, kept)[0]).save(folder, "table")


def _choose_labels(work: Path, given: PrefixSettings, folder: Path) -> None:
    """The labels, the most frequent first."""
    keys, rows = rows_of_suffixes(work / "train-rows", work / "kept-suffixes")
    if given.labels == "test":
        tested, _ = rows_of_suffixes(work / "test-rows", work / "kept-suffixes")
        kept = np.isin(keys, tested, assume_unique=True)
    else:
        kept = rows >= given.least
    keys, rows = keys[kept], rows[kept]
    keys = keys[np.lexsort((keys, -rows))]
    KeyTable.of(keys).save(folder, "table")
    remember(folder, "facts", {"labels": len(keys)})


def _label_texts(queries: Path, labels: Path, bucket: int, path: Path) -> None:
    """Numbers and texts of the labels that are suffixes of a bucket's queries."""
    asked = Queries.read(queries, bucket).of(TRAIN)
    keys, _, begin, rows = listed(asked)
    numbers = open_table(labels, "table").numbers(keys)
    found = np.flatnonzero(numbers >= 0)
    different, first = np.unique(numbers[found], return_index=True)
    places = found[first]
    text = asked.buffer.tobytes()
    spans = zip(begin[places].tolist(), asked.ends[rows[places]].tolist(), strict=True)
    path.mkdir()
    (path / "texts").write_bytes(b"\n".join([text[start:end] for start, end in spans]))
    np.save(path / "numbers.npy", different)


def _label_lines(texts: Path, folder: Path) -> None:
    known: dict[int, bytes] = {}
    for part in sorted(texts.iterdir()):
        numbers = np.load(part / "numbers.npy").tolist()
        lines = (part / "texts").read_bytes().split(b"\n")
        known.update(zip(numbers, lines[: len(numbers)], strict=True))
    written = (as_line({"id": str(number), "text": known[number].decode()}) for number in range(len(known)))
    (folder / "labels").write_bytes(packed(written))


def _lines(work: Path, split: str, soft: bool, bucket: int, path: Path) -> None:
    """The rows of a bucket as lines."""
    pairs = np.load(work / f"{split}-rows" / f"{bucket:03}" / "pairs.npy")
    counts = np.load(work / f"{split}-rows" / f"{bucket:03}" / "counts.npy")
    numbers = open_table(work / "labels", "table").numbers(np.ascontiguousarray(pairs[:, 1]))
    kept = np.flatnonzero(numbers >= 0)
    prefixes, numbers, counts = pairs[kept, 0], numbers[kept], counts[kept]
    first = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1]])) if len(kept) else kept
    bounds = [*first.tolist(), len(kept)]
    texts = _texts_of(work / f"{split}-texts", bucket)
    lines = []
    for row, (start, end) in enumerate(pairwise(bounds)):
        key = int(prefixes[first[row]])
        asked = counts[start:end]
        weights: Any = (asked / asked.max()).round(6).clip(1e-6).tolist() if soft else None
        lines.append(row_line(f"{key:016x}", texts[key].decode(), [str(one) for one in numbers[start:end]], weights))
    path.mkdir()
    (path / "rows").write_bytes(packed(lines))
    np.save(path / "sizes.npy", np.array([len(lines), len(kept)], dtype=np.int64))


def _texts_of(folder: Path, bucket: int) -> dict[int, bytes]:
    texts: dict[int, bytes] = {}
    for part in sorted(folder.iterdir()):
        keys = np.load(part / f"keys-{bucket:03}.npy").tolist()
        lines = (part / f"texts-{bucket:03}").read_bytes().split(b"\n")
        texts.update(zip(keys, lines[: len(keys)], strict=True))
    return texts
