"""Query to document from a click log: ORCAS, or any log with a query, an item and, perhaps, clicks.

How ORCAS-800K was made is not published. What its counts allow: documents with a few clicks and a title, queries that
keep one of them, a quarter of the queries as test. This builder does that, with a seed; its set is not ORCAS-800K, and
its counts stand beside the published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from longtail.data.builders.buckets import (
    FilePiece,
    Found,
    bucket_of,
    buckets_for,
    by_bucket,
    check_kind,
    distribute,
    lines_of,
    pieces_of,
    read_bucket,
    text_lines,
    unpacked_size,
)
from longtail.data.builders.click_titles import find_titles, url_words
from longtail.data.builders.keys import KeyTable, keys_of, open_table
from longtail.data.builders.output import BuildFacts, Built, as_line, assemble, check_out, packed, row_line, sizes
from longtail.data.builders.requirements import (
    MS_MARCO,
    UNKNOWN,
    Licence,
    log_licence,
    need_files,
    need_licence,
    need_space,
)
from longtail.data.builders.stored_ids import StoredIds
from longtail.data.builders.work import Work, remember, remembered
from longtail.data.corpus import hashed
from longtail.data.files import chunks
from longtail.data.labels import Propensity
from longtail.data.limits import MAX_COUNT
from longtail.data.worker_pool import Workers, processes_for
from longtail.errors import DataError, counted

COLUMNS = {2: "query,item", 3: "query,item,clicks", 4: "id,query,item,url"}  # by how many there are; 4 is ORCAS
KNOWN = ("id", "query", "item", "url", "clicks", "-")


@dataclass(frozen=True)
class ClickSettings:
    """Settings of `build_clicks`."""

    least: int = 3  # clicks of a document that becomes a label
    test: float = 0.26  # share of the queries
    columns: str = ""  # names of the columns; "" goes by their number
    counts: bool = False  # soft targets: clicks over the most clicks of the query
    seed: int = 0


def build_clicks(
    log: Path,
    out: Path,
    settings: ClickSettings,
    *,
    titles: Path | None = None,
    lookup: Path | None = None,
    propensity: Propensity,
    accepted: bool = False,
    overwrite: bool = False,
    command: str = "",
    processes: int | None = None,
) -> Built:
    """Builds a data set of queries and the documents that were clicked for them.

    Args:
        log: tab-separated, plain or compressed; a first line whose query is "query" is a header.
        out: the folder to write.
        settings: how to build.
        titles: tab-separated file with the texts of documents: id and title, or id, URL, title and body.
        lookup: tab-separated file of MS MARCO: id, offset in the TREC file, offset in `titles`, which is not
            compressed then; titles are read from there, without the bodies between them.
        propensity: constants to write.
        accepted: whether a person accepted the licence of the log.
        overwrite: replaces a data set that longtail wrote.
        command: that builds it again, for `corpus.json`.
        processes: how many work at once; None: as many as pay.

    Returns:
        The counts of the set.

    Raises:
        DataError: something is missing, or a file is damaged.
    """
    inputs = [path for path in (log, titles, lookup) if path is not None]
    need_files(inputs, "the click log and its titles")
    columns = check_columns(log, settings.columns)
    licence = licence_of(log, columns)
    need_licence(licence, accepted)
    if not 0 < settings.test < 1:
        raise DataError(f"--test must be between 0 and 1, got {settings.test:g}")
    if lookup is not None and (titles is None or titles.suffix in (".gz", ".xz")):
        raise DataError("offsets need --titles, unpacked: a place in a compressed file cannot be found", lookup)
    check_out(out, overwrite)
    size = unpacked_size([log])
    need_space(out, 3 * size)
    buckets, workers = buckets_for(size), processes or processes_for(size)
    kept = asdict(settings) | {"columns": columns, "builder": "clicks.2"}
    log_licence(licence)
    with Work.begin(out, kept, inputs, workers) as work:
        read = work.once("log", partial(_read_log, log, columns, buckets, work.workers))
        documents = work.each("documents", buckets, partial(_documents, read, settings.least))
        work.once("document-table", partial(_document_table, documents))
        found = work.once(
            "titles", partial(find_titles, work.folder, titles, lookup, _offsets(documents), work.workers)
        )
        rows = work.each("rows", buckets, partial(_rows, read, work.folder, settings))
        work.drop("log")
        work.once("labels", partial(_labels, work.folder, rows))
        for split in ("train", "test"):
            work.each(f"{split}-lines", buckets, partial(_lines, work.folder, split, settings.counts))
        work.each("label-lines", buckets, partial(_label_lines, work.folder, titles is not None))
        facts = remembered(work.folder / "labels", "facts")
        totals = [
            np.sum([np.load(part / "sizes.npy") for part in (work.folder / f"{split}-lines").iterdir()], axis=0)
            for split in ("train", "test")
        ]
        counts = sizes(int(totals[0][0]), int(totals[1][0]), facts["labels"], int(totals[0][1]), int(totals[1][1]))
        counts["log lines"] = remembered(read, "counts")["lines"]
        counts["log queries"] = int(sum(np.load(part / "queries.npy") for part in rows.iterdir()))
        if not counts["train"]:
            raise DataError(f"no document has {counted(settings.least, 'click')} and a train query; lower --least", log)
        parts: dict[str, Sequence[Path]] = {
            split: [part / "rows" for part in sorted((work.folder / f"{split}-lines").iterdir())]
            for split in ("train", "test")
        }
        parts["labels"] = sorted((work.folder / "label-lines").iterdir())
        build_facts = BuildFacts(
            "orcas" if licence is MS_MARCO else out.name, propensity, licence,
            ", ".join(path.name for path in inputs), command,
        )  # fmt: skip
        assemble(out, parts, build_facts)
        notes = [*remembered(read, "notes"), *remembered(found, "notes")]
    return Built(out, counts, "ORCAS-800K" if licence is MS_MARCO else None, tuple(notes))


def check_columns(log: Path, given: str) -> str:
    """The names of a log's columns.

    Args:
        log: the file.
        given: names, separated by commas; "" goes by their number on the first line.

    Returns:
        The names, separated by commas.

    Raises:
        DataError: the log has other columns, or names are wrong.
    """
    _, piece = next(chunks(log), (1, b""))
    if not piece:
        raise DataError("is empty", log)
    check_kind(FilePiece(log, 1, piece))
    first = piece.split(b"\n", 1)[0]
    number = first.count(b"\t") + 1
    if not given:
        _check_is_log(log, first)
        if number not in COLUMNS:
            raise DataError(
                f"the first line has {counted(number, 'column')}, separated by tabs; "
                f"2 (query, item), 3 (query, item, clicks) and "
                "4 (ORCAS: id, query, item, url) are known, others need --columns, such as --columns -,query,item",
                log,
                1,
            )
        return COLUMNS[number]
    names = given.split(",")
    unknown = [name for name in names if name not in KNOWN]
    if unknown or names.count("query") != 1 or names.count("item") != 1:
        raise DataError(f"--columns takes query, item and perhaps id, url, clicks and - in order, got {given!r}")
    if len(names) != number:
        raise DataError(f"has {counted(number, 'column')}, but --columns names {len(names)}", log, 1)
    return given


def _check_is_log(log: Path, first: bytes) -> None:
    """Refuses the other files of ORCAS, by their first line: they have as many columns, and other things in them."""
    fields = first.split(b"\t")
    words = fields if len(fields) > 1 else first.split()  # judgements are separated by tabs or by spaces
    what = ""
    if len(words) == 4 and words[1] == b"0" and words[3].strip().isdigit():
        what = "judgements, with numbers of queries"
    elif len(fields) == 2 and fields[0].isdigit() and log.name.startswith("orcas"):
        what = "queries without clicks"
    if what:
        raise DataError(f"these are {what}; give orcas.tsv.gz, which has queries and clicks", log, 1)


def licence_of(log: Path, columns: str) -> Licence:
    """The licence that a log comes with.

    Args:
        log: the file.
        columns: names.

    Returns:
        MS MARCO's for ORCAS, which is known by its columns or name.
    """
    return MS_MARCO if columns == COLUMNS[4] or log.name.startswith("orcas") else UNKNOWN


def _read_log(log: Path, columns: str, buckets: int, workers: Workers, folder: Path) -> None:
    found = distribute(pieces_of([log]), partial(_read_piece, columns, buckets), folder, workers)
    remember(folder, "notes", found.check(found.counts["lines"]))
    remember(folder, "counts", found.counts)


def _read_piece(columns: str, buckets: int, piece: FilePiece) -> Found:
    """Clicks by query, and documents by id."""
    names = columns.split(",")
    place = {name: names.index(name) for name in ("query", "item")}
    url, clicks = (names.index(name) if name in names else -1 for name in ("url", "clicks"))
    found = Found()
    clicked: list[tuple[int, bytes]] = []
    documents: dict[bytes, int] = {}
    urls: dict[bytes, bytes] = {}
    for number, line in text_lines(piece, found):
        fields = line.split(b"\t")
        if len(fields) != len(names):
            found.damaged(piece, number, f"{counted(len(fields), 'column')} instead of {len(names)}")
            continue
        query, item = b" ".join(fields[place["query"]].split()), fields[place["item"]].strip()
        if number == 1 and query.lower() == b"query":
            found.counts["lines"] -= 1  # a header: names of columns, not a click
            continue
        if not query or not item:
            found.damaged(piece, number, "the query or the item is empty")
            continue
        times = 1
        if clicks >= 0:
            if not fields[clicks].isdigit() or len(fields[clicks]) > MAX_COUNT or int(fields[clicks]) == 0:
                shown = fields[clicks][:30].decode("utf-8", "backslashreplace")
                found.damaged(piece, number, f"clicks are {shown!r}, not a number above 0")
                continue
            times = int(fields[clicks])
        clicked.append((bucket_of(query, buckets), b"%s\t%s\t%d" % (query, item, times)))
        documents[item] = documents.get(item, 0) + times
        urls.setdefault(item, fields[url] if url >= 0 else b"")
    lines = [
        (bucket_of(item, buckets), b"%s\t%d\t%s" % (item, number, urls[item])) for item, number in documents.items()
    ]
    found.outputs = by_bucket("clicks", clicked) | by_bucket("documents", lines)
    return found


def _documents(read: Path, least: int, bucket: int, path: Path) -> None:
    """The documents of a bucket with enough clicks: id, clicks and URL, sorted by id."""
    totals: dict[bytes, int] = {}
    urls: dict[bytes, bytes] = {}
    for line in read_bucket(read, "documents", bucket):
        item, clicks, url = line.split(b"\t")
        totals[item] = totals.get(item, 0) + int(clicks)
        urls.setdefault(item, url)
    kept = sorted(item for item, clicks in totals.items() if clicks >= least)
    path.write_bytes(b"".join([b"%s\t%d\t%s\n" % (item, totals[item], urls[item]) for item in kept]))


def _ids(documents: Path) -> list[bytes]:
    return [line.split(b"\t")[0] for part in sorted(documents.iterdir()) for line in lines_of(part)]


def _offsets(documents: Path) -> list[int]:
    """The number of the first document of each bucket."""
    offsets: list[int] = np.cumsum(
        [0, *(part.read_bytes().count(b"\n") for part in sorted(documents.iterdir()))]
    ).tolist()
    return offsets


def _document_table(documents: Path, folder: Path) -> None:
    ids = _ids(documents)
    KeyTable.of(keys_of(ids)).save(folder, "table")
    StoredIds.save(folder, ids)


def _rows(read: Path, work: Path, settings: ClickSettings, bucket: int, path: Path) -> None:
    """The queries of a bucket with their documents' numbers, and how many train queries each document has."""
    lines = [line.split(b"\t") for line in read_bucket(read, "clicks", bucket)]
    table = open_table(work / "document-table", "table")
    numbers = table.numbers(keys_of([item for _, item, _ in lines])).tolist()
    clicked: dict[bytes, dict[int, int]] = {}
    for (query, _, times), number in zip(lines, numbers, strict=True):
        if number >= 0:
            known = clicked.setdefault(query, {})
            known[number] = known.get(number, 0) + int(times)
    queries = sorted(clicked)
    places = hashed([query.decode() for query in queries], settings.seed)
    test = places < np.uint64(int(settings.test * 2**64))
    counted: list[int] = []
    made = []
    for query, in_test in zip(queries, test.tolist(), strict=True):
        pairs = sorted(clicked[query].items())
        if not in_test:
            counted.extend(number for number, _ in pairs)
        written = b" ".join([b"%d:%d" % pair for pair in pairs])
        made.append(b"%d\t%s\t%s\n" % (in_test, query, written))
    path.mkdir()
    (path / "rows").write_bytes(b"".join(made))
    different, rows = np.unique(np.array(counted, dtype=np.int64), return_counts=True)
    np.save(path / "counts.npy", np.stack([different, rows]))
    np.save(path / "queries.npy", np.int64(len({query for query, _, _ in lines})))


def _labels(work: Path, rows: Path, folder: Path) -> None:
    """Which documents have a train query: they are the labels."""
    counts = np.zeros(_offsets(work / "documents")[-1], dtype=np.int64)
    for part in rows.iterdir():
        different, number = np.load(part / "counts.npy")
        counts[different] += number
    np.save(folder / "counts.npy", counts)
    remember(folder, "facts", {"labels": int((counts > 0).sum())})


def _lines(work: Path, split: str, soft: bool, bucket: int, path: Path) -> None:
    """The rows of a bucket and split as lines; a label has the id of its document."""
    ids = StoredIds.open(work / "document-table")
    counts = np.load(work / "labels" / "counts.npy", mmap_mode="r")
    wanted = b"1" if split == "test" else b"0"
    texts: list[str] = []
    found: list[tuple[list[str], list[float] | None]] = []
    for line in lines_of(work / "rows" / f"{bucket:03}" / "rows"):
        side, query, written = line.split(b"\t")
        if side != wanted:
            continue
        entries = [tuple(map(int, pair.split(b":"))) for pair in written.split()]
        entries = [(number, times) for number, times in entries if counts[number]]
        if entries:
            most = max(times for _, times in entries)
            weights = [max(times / most, 1e-6) for _, times in entries] if soft else None
            texts.append(query.decode())
            found.append((ids.of(number for number, _ in entries), weights))
    path.mkdir()
    names = hashed(texts).tolist()  # ids that depend on the query alone
    rows = zip(names, texts, found, strict=True)
    (path / "rows").write_bytes(packed(row_line(f"{name:016x}", text, *given) for name, text, given in rows))
    np.save(path / "sizes.npy", np.array([len(texts), sum(len(labels) for labels, _ in found)], dtype=np.int64))


def _label_lines(work: Path, titled: bool, bucket: int, path: Path) -> None:
    """The labels of a bucket: their titles, else the words of their URLs, else their ids."""
    counts = np.load(work / "labels" / "counts.npy", mmap_mode="r")
    first = _offsets(work / "documents")[bucket]
    titles: dict[int, bytes] = {}
    for line in read_bucket(work / "titles", "titles", bucket):
        written, title = line.split(b"\t", 1)
        titles[int(written)] = title
    lines = []
    for number, line in enumerate(lines_of(work / "documents" / f"{bucket:03}"), first):
        if counts[number]:
            item, _, url = line.split(b"\t")
            text = titles.get(number, b"").decode("utf-8", "replace") or url_words(url.decode()) or item.decode()
            lines.append(as_line({"id": item.decode(), "text": text}))
    path.write_bytes(packed(lines))
