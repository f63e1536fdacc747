"""Passage retrieval as extreme classification: queries are documents, passages are labels.

MS MARCO has 8.8 million passages, of which a training query judges one in seventeen: nearly all labels are zero-shot.
`labels="all"` keeps them, for methods that know a label by its text; `labels="seen"` keeps passages with a judgement.
Reads MS MARCO's files, BEIR folders (corpus.jsonl, queries.jsonl, qrels/), or the files given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from longtail.data.builders.buckets import FilePiece, Found, distribute, pieces_of, text_lines, unpacked_size
from longtail.data.builders.judgements import Judgements, read_judgements
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
from longtail.data.builders.work import Work, remember, remembered
from longtail.data.corpus import hashed
from longtail.data.files import find, lines, listing, objects, shown
from longtail.data.labels import Propensity
from longtail.data.rows import as_id
from longtail.data.worker_pool import Workers, processes_for
from longtail.errors import DataError, counted

ROWS = 50_000  # rows of a gzip member
CHOICES = ("all", "seen")


@dataclass(frozen=True)
class PassageFiles:
    """The files of a retrieval collection."""

    collection: Path  # lines `id <tab> text`, or JSON with _id, title and text
    queries: tuple[Path, ...]
    train: Path | None  # judgements; None: a share of those of test
    test: Path
    licence: Licence
    valid: Path | None = None

    @property
    def all(self) -> list[Path]:
        """All files."""
        judged = [path for path in (self.train, self.valid, self.test) if path is not None]
        return [self.collection, *self.queries, *judged]


def find_files(folder: Path) -> PassageFiles:
    """Finds the files of MS MARCO or of a BEIR set.

    Args:
        folder: with collection.tsv, queries.train.tsv, queries.dev.tsv, qrels.train.tsv and qrels.dev.tsv (where there
            is a qrels.dev.small.tsv, that one); or with corpus.jsonl, queries.jsonl and qrels/ with train.tsv, dev.tsv
            and test.tsv, or some of them. Where there are all three, dev is valid; else dev stands for the missing one.

    Returns:
        The files.

    Raises:
        DataError: some are missing.
    """
    if not folder.is_dir():
        raise DataError("no such folder; give the folder of a collection, or its files by options", folder)
    beir = find(folder, "corpus.jsonl") is not None or find(folder, "queries.jsonl") is not None
    train = valid = None
    if beir:
        train, dev, test = (find(folder, f"qrels/{split}.tsv") for split in ("train", "dev", "test"))
        if train is not None and test is not None:
            valid = dev
        elif train is None and test is not None:
            train = dev
        found = [find(folder, "corpus.jsonl"), find(folder, "queries.jsonl"), test or dev or train]
        train = None if train == found[2] else train
        wanted = ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"]
    else:
        small = find(folder, "qrels.dev.small.tsv")
        found = [find(folder, "collection.tsv"), find(folder, "queries.train.tsv"), find(folder, "qrels.train.tsv")]
        found.append(small or find(folder, "qrels.dev.tsv"))
        found.append(find(folder, "queries.dev.tsv") or (find(folder, "queries.dev.small.tsv") if small else None))
        wanted = ["collection.tsv", "queries.train.tsv", "qrels.train.tsv", "qrels.dev.tsv", "queries.dev.tsv"]
    missing = [name for name, path in zip(wanted, found, strict=True) if path is None]
    if missing:
        packed_files = "; unpack what is packed first: tar xf FILE" if any(folder.glob("*.tar*")) else ""
        raise DataError(f"has no {', no '.join(missing)}; found {listing(folder)}{packed_files}", folder)
    there = [path for path in found if path is not None]
    if beir:
        licence = MS_MARCO if "marco" in folder.resolve().name.lower() else UNKNOWN
        return PassageFiles(there[0], (there[1],), train, there[2], licence, valid)
    collection, queries, train, test, *more = there
    return PassageFiles(collection, (queries, *more), train, test, MS_MARCO)


def build_passages(
    files: PassageFiles,
    out: Path,
    *,
    labels: str = "all",
    test: float | None = None,
    counts: bool = False,
    seed: int = 0,
    propensity: Propensity,
    accepted: bool = False,
    overwrite: bool = False,
    command: str = "",
    processes: int | None = None,
) -> Built:
    """Builds a data set of queries and the passages that answer them.

    Args:
        files: of the collection.
        out: the folder to write.
        labels: "all" passages, or those "seen" in a judgement of train or test.
        test: share of the judged queries that become test, where `files` has no judgements of train.
        counts: soft targets: relevance over the highest relevance of the query.
        seed: of that split.
        propensity: constants to write.
        accepted: whether a person accepted the licence of the collection.
        overwrite: replaces a data set that longtail wrote.
        command: that builds it again, for `corpus.json`.
        processes: how many work at once; None: as many as pay.

    Returns:
        The counts of the set.

    Raises:
        DataError: something is missing, or a file is damaged.
    """
    if labels not in CHOICES:
        raise DataError(f"labels are 'all' or 'seen', got {labels!r}")
    _check_share(files, test)
    need_files(files.all, "the collection")
    need_licence(files.licence, accepted)
    check_out(out, overwrite)
    size = unpacked_size([files.collection])
    need_space(out, size + size // 8 if labels == "all" else size // 4)  # the labels twice, packed to half
    workers = processes or processes_for(size)
    chosen = {"labels": labels, "counts": counts, "test": test, "seed": seed, "builder": "passages.2"}
    log_licence(files.licence)
    with Work.begin(out, chosen, files.all, workers) as work:
        judged, notes = _judged(files, test, seed)
        work.once("judged", partial(_judged_table, judged))
        read = partial(_read_collection, files.collection, work.folder / "judged", labels, work.workers)
        collection = work.once("collection", read)
        rows = work.once("rows", partial(_rows, files, judged, collection, counts))
        facts, made = remembered(collection, "facts"), remembered(rows, "facts")
        number, pairs = made["rows"], made["pairs"]
        totals = sizes(number["train"], number["test"], facts["labels"], pairs["train"], pairs["test"])
        totals |= {"valid": number["valid"]} if "valid" in number else {}
        totals["labels with a training example"] = made["seen"]
        totals |= {f"{split} judgements": sum(map(len, found.values())) for split, found in judged.items()}
        parts: dict[str, Sequence[Path]] = {split: [rows / split] for split in judged}
        parts["labels"] = [collection / "labels"]
        name = "msmarco-passages" if files.licence is MS_MARCO else out.name
        name += "-seen" if labels == "seen" else ""
        source = ", ".join(path.name for path in files.all)
        assemble(out, parts, BuildFacts(name, propensity, files.licence, source, command))
    published = "MS MARCO" if files.licence is MS_MARCO and labels == "all" else None
    return Built(out, totals, published, (*notes, *facts["notes"], *made["notes"]))


def _check_share(files: PassageFiles, test: float | None) -> None:
    if files.train is None and test is None:
        raise DataError(
            "has all judgements, and none are of train; to make a seeded share of its queries test and the others "
            "train: --test 0.2",
            files.test,
        )
    if files.train is None and files.valid is not None:
        raise DataError("--valid-qrels needs --train-qrels", files.valid)
    if files.train is not None and test is not None:
        raise DataError("--test is for collections without judgements of train; here they are", files.train)
    if test is not None and not 0 < test < 1:
        raise DataError(f"--test must be between 0 and 1, got {test:g}")


def _judged(files: PassageFiles, share: float | None, seed: int) -> tuple[dict[str, Judgements], list[str]]:
    """The judgements of train, perhaps valid, and test; a query belongs to the last of them that has it."""
    found: dict[str, Judgements] = {}
    notes = []
    for split, path in (("train", files.train), ("valid", files.valid), ("test", files.test)):
        if path is None:
            continue
        found[split], others = read_judgements(path)
        if others:
            notes.append(f"{counted(others, 'judgement is', 'judgements are')} not relevant and left out: {path.name}")
        for before in (one for one in found if one != split):
            both = found[before].keys() & found[split].keys()
            for query in both:
                del found[before][query]
            if both:
                notes.append(
                    f"{counted(len(both), 'query', 'queries')} with judgements in {before} and {split} "
                    f"{'counts' if len(both) == 1 else 'count'} as {split}"
                )
    if share is not None:
        queries = list(found["test"])
        drawn = (hashed(queries, seed) < np.uint64(int(share * 2**64))).tolist()
        parts: dict[bool, Judgements] = {False: {}, True: {}}
        for query, in_test in zip(queries, drawn, strict=True):
            parts[in_test][query] = found["test"][query]
        found = {"train": parts[False], "test": parts[True]}
        notes.append(
            f"{len(parts[True]):,} of {len(queries):,} judged queries were drawn as test, the others are train"
        )
    return found, notes


def _passages(judged: dict[str, Judgements]) -> list[str]:
    """The different passages of all judgements, in order."""
    return list(dict.fromkeys(name for split in judged.values() for found in split.values() for name in found))


def _judged_table(judged: dict[str, Judgements], folder: Path) -> None:
    KeyTable.of(keys_of([name.encode() for name in _passages(judged)])).save(folder, "table")


def _read_collection(path: Path, judged: Path, labels: str, workers: Workers, folder: Path) -> None:
    """Writes the labels, and remembers which judged passages there are and that ids are unique."""
    there: list[bytes] = []

    def seen(found: Found) -> None:
        there.append(found.more)

    work = partial(_read_piece, judged, labels == "seen", _is_json(path))
    total = distribute(pieces_of([path]), work, folder, workers, seen)
    notes = total.check(total.counts["lines"])
    keys = np.frombuffer(b"".join(there), dtype=np.uint64)
    if len(np.unique(keys)) < len(keys):
        raise DataError(f"{len(keys) - len(np.unique(keys)):,} passages have the id of another; ids must differ", path)
    if not (folder / "labels").exists():
        raise DataError("no judged passage is in the collection; check that the files belong together", path)
    np.save(folder / "keys.npy", keys)
    remember(folder, "facts", {"labels": total.counts["labels"], "notes": notes})


def _read_piece(judged: Path, only_seen: bool, is_json: bool, piece: FilePiece) -> Found:
    """Labels of a piece as a gzip member; `more` has the keys of the ids."""
    found = Found()
    names, texts = [], []
    for name, text in _json_passages(piece, found) if is_json else _plain_passages(piece, found):
        names.append(name)
        texts.append(text)
    keys = keys_of([name.encode() for name in names])
    found.more = keys.tobytes()
    wanted = open_table(judged, "table").has(keys).tolist() if only_seen else [True] * len(names)
    kept = [(name, text) for name, text, want in zip(names, texts, wanted, strict=True) if want]
    found.counts["labels"] = len(kept)
    if kept:
        found.outputs["labels"] = packed(as_line({"id": name, "text": text}) for name, text in kept)
    return found


def _plain_passages(piece: FilePiece, found: Found) -> Iterator[tuple[str, str]]:
    for number, line in text_lines(piece, found):
        name, mark, text = line.decode().partition("\t")
        if not mark or not name:
            found.damaged(piece, number, "1 column instead of 2: id, passage")
            continue
        yield name, " ".join(text.split())


def _json_passages(piece: FilePiece, found: Found) -> Iterator[tuple[str, str]]:
    for number, line in text_lines(piece, found):
        try:
            value = json.loads(line)
            name, parts = as_id(value["_id"]), (value.get("title") or "", value.get("text") or "")
            if name is None:
                raise ValueError("no id")
            name.encode()  # half a character is no id
            text = " ".join(" ".join(parts).split())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            found.damaged(piece, number, 'not a JSON object with "_id" and "text"')
            continue
        yield name, text


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").removesuffix(".xz").endswith(".jsonl")


def _query_texts(paths: Sequence[Path]) -> Iterator[tuple[str, str, Path, int]]:
    for path in paths:
        if _is_json(path):
            for number, value in objects(path):
                name, text = as_id(value.get("_id")), value.get("text") or ""
                if name is None or not isinstance(text, str):
                    raise DataError('the query has no "_id" or no "text"', path, number)
                yield name, text, path, number
            continue
        for number, line in lines(path):
            name, mark, text = line.rstrip("\r").partition("\t")
            if line.strip():
                if not mark or not name:
                    raise DataError("1 column instead of 2: id, query", path, number)
                yield name, " ".join(text.split()), path, number


def _rows(files: PassageFiles, judged: dict[str, Judgements], collection: Path, soft: bool, folder: Path) -> None:
    """The judged queries as rows, in the order of the files of queries."""
    known = KeyTable.of(np.load(collection / "keys.npy"))
    passages = _passages(judged)
    there = known.has(keys_of([name.encode() for name in passages])).tolist()
    missing = {name for name, found in zip(passages, there, strict=True) if not found}
    waiting: dict[str, list[str]] = {split: [] for split in judged}
    rows, pairs = dict.fromkeys(judged, 0), dict.fromkeys(judged, 0)
    seen: set[str] = set()
    done: set[str] = set()

    def flush(split: str) -> None:
        with (folder / split).open("ab") as file:
            file.write(packed(waiting[split]))
        waiting[split].clear()

    for name, text, path, number in _query_texts(files.queries):
        for split, found in judged.items():
            if name not in found:
                continue
            if name in done:
                raise DataError(f"the query {shown(name)} is there twice; ids must differ", path, number)
            done.add(name)
            relevant = {one: value for one, value in found[name].items() if one not in missing}
            if not relevant:
                continue
            most = max(relevant.values())
            weights = [value / most for value in relevant.values()] if soft else None
            waiting[split].append(row_line(f"q{name}", text, list(relevant), weights))
            rows[split] += 1
            pairs[split] += len(relevant)
            if split == "train":
                seen.update(relevant)
            if len(waiting[split]) == ROWS:
                flush(split)
    for split in judged:
        flush(split)
        if not rows[split] and split != "valid":
            raise DataError(f"no query with a {split} judgement is there; check the files", files.queries[0])
    notes = _notes(judged, done, missing)
    remember(folder, "facts", {"rows": rows, "pairs": pairs, "seen": len(seen), "notes": notes})


def _notes(judged: dict[str, Judgements], done: set[str], missing: Iterable[str]) -> list[str]:
    notes = []
    lost = sum(query not in done for found in judged.values() for query in found)
    if lost:
        notes.append(
            f"{counted(lost, 'judged query has', 'judged queries have')} no text in the files of queries: left out"
        )
    gone = len(list(missing))
    if gone:
        notes.append(
            f"{counted(gone, 'judged passage is', 'judged passages are')} not in the collection: "
            "such judgements were left out"
        )
    return notes
