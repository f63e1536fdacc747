""" "See also" references as labels, as in LF-WikiSeeAlso-320K: which pages should this page refer to?

Pages come from an XML dump of a wiki, or from the manual pages of a system, whose SEE ALSO sections are such a graph.
A row's text leaves the section out, which would name the labels. The script of the published set is not public; this
follows its files: self and reciprocal pairs are excluded, without which encoders look ten points better or worse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.builders.article_graph import resolve
from longtail.data.builders.buckets import buckets_for, distribute, read_bucket, unpacked_size
from longtail.data.builders.keys import keys_of, open_table
from longtail.data.builders.manpages import ManReader, find_manpages
from longtail.data.builders.output import BuildFacts, Built, as_line, assemble, check_out, packed, row_line, sizes
from longtail.data.builders.requirements import MANUAL_PAGES, WIKIPEDIA, Licence, log_licence, need_files, need_space
from longtail.data.builders.stored_ids import StoredIds
from longtail.data.builders.wiki_dump import DumpJoiner, DumpReader, dump_pieces
from longtail.data.builders.work import Work, remember, remembered
from longtail.data.labels import Propensity
from longtail.data.worker_pool import processes_for
from longtail.errors import DataError

SPLITS = ("train", "test")


@dataclass(frozen=True)
class SeeAlsoSettings:
    """Settings of `build_seealso`."""

    section: str = "See also"  # its heading
    words: int = 200  # of a row's text
    label_words: int = 0  # of a label's text, behind its title
    least: int = 1  # train rows of a label
    test: float = 0.2  # share of the rows
    seed: int = 0


def build_seealso(
    source: Path,
    out: Path,
    settings: SeeAlsoSettings,
    *,
    manpages: bool = False,
    propensity: Propensity,
    overwrite: bool = False,
    command: str = "",
    processes: int | None = None,
) -> Built:
    """Builds a data set of pages and the pages they refer to.

    Args:
        source: the XML dump, or the folder of manual pages (with man1, man2, ...).
        out: the folder to write.
        settings: how to build.
        manpages: whether the source is such a folder.
        propensity: constants to write.
        overwrite: replaces a data set that longtail wrote.
        command: that builds it again, for `corpus.json`.
        processes: how many work at once; None: as many as pay.

    Returns:
        The counts of the set.

    Raises:
        DataError: something is missing, or the source is damaged.
    """
    if not 0 < settings.test < 1:
        raise DataError(f"--test must be between 0 and 1, got {settings.test:g}")
    batches = find_manpages(source) if manpages else []
    if not manpages:
        need_files([source], "the dump")
    licence: Licence = MANUAL_PAGES if manpages else WIKIPEDIA
    check_out(out, overwrite)
    inputs = [source] if not manpages else [path for batch in batches for path, _ in batch]
    size = unpacked_size(inputs)
    need_space(out, size if settings.label_words else size // 2)
    buckets, workers = buckets_for(size), processes or processes_for(size)
    settled = asdict(settings) | {"builder": "seealso.3"}
    log_licence(licence)
    with Work.begin(out, settled, inputs, workers) as work:

        def read(folder: Path) -> None:
            if manpages:
                found = distribute(batches, ManReader(buckets, settings.words), folder, work.workers)
            else:
                reader = DumpReader(buckets, settings.words, settings.label_words, settings.section)
                joiner = DumpJoiner(reader, source)
                found = distribute(dump_pieces(source), reader, folder, work.workers, joiner)
                joiner.end()
            remember(folder, "notes", found.check(found.counts["lines"], "pages"))
            remember(folder, "counts", found.counts)

        pages = work.once("pages", read)
        graph = work.once(
            "graph", partial(resolve, pages, settings.test, settings.seed, settings.least, source)
        )  # fmt: skip
        made = work.each("lines", buckets, partial(_lines, pages, graph))
        totals = np.sum([np.load(part / "sizes.npy") for part in made.iterdir()], axis=0).tolist()
        facts = remembered(graph, "facts")
        counts = sizes(totals[0], totals[2], facts["labels"], totals[1], totals[3])
        if not counts["train"] or not counts["test"]:
            raise DataError("leaves no train or no test examples; it is too small", source)
        parts: dict[str, Sequence[Path]] = {
            name: [part / name for part in sorted(made.iterdir())] for name in (*SPLITS, "labels", "exclude")
        }
        name = "manpages-seealso" if manpages else f"{source.name.split('-pages')[0].split('.')[0]}-seealso"
        assemble(out, parts, BuildFacts(name, propensity, licence, source.name or str(source), command))
        notes = [*remembered(pages, "notes"), *_notes(remembered(pages, "counts"), facts)]
    return Built(out, counts, None if manpages else "LF-WikiSeeAlso-320K", tuple(notes))


def _notes(counts: dict[str, int], facts: dict[str, Any]) -> list[str]:
    return [
        f"{counts['articles']:,} pages and {counts['redirects']:,} redirects; {facts['lost']:,} of "
        f"{facts['references']:,} references lead to no page",
        f"excluded: {facts['own']:,} pages as their own label, and {facts['reciprocal']:,} test positives that train "
        "has backwards",
    ]


class _Rows:
    """Finds the labels of a page in sorted (page, label) pairs."""

    def __init__(self, graph: Path, name: str) -> None:
        self.pairs = np.load(graph / f"{name}.npy", mmap_mode="r")
        self.rows = self.pairs[:, 0]
        self.labels = open_table(graph, "labels")
        self.titles = StoredIds.open(graph)

    def of(self, keys: Any) -> list[list[str]]:
        """The ids of the labels of each page."""
        starts = np.searchsorted(self.rows, keys, side="left").tolist()
        ends = np.searchsorted(self.rows, keys, side="right").tolist()
        found = []
        for start, end in zip(starts, ends, strict=True):
            if end > start:
                numbers = self.labels.numbers(np.ascontiguousarray(self.pairs[start:end, 1]))
                found.append(self.titles.of(numbers.tolist()))
            else:
                found.append([])
        return found


def _lines(pages: Path, graph: Path, bucket: int, path: Path) -> None:
    """The pages of a bucket as rows, labels and excluded pairs; their ids are the titles."""
    known: dict[str, tuple[str, str]] = {}  # the first page of a title counts
    for line in read_bucket(pages, "pages", bucket):
        title, label, text = json.loads(line)
        known.setdefault(title, (label, text))
    titles = sorted(known)
    keys = keys_of([title.encode() for title in titles])
    labels = open_table(graph, "labels").numbers(keys).tolist()
    found: dict[str, list[str]] = {name: [] for name in (*SPLITS, "labels", "exclude")}
    excluded = _Rows(graph, "excluded").of(keys)
    pairs = dict.fromkeys(SPLITS, 0)
    for split in SPLITS:
        for title, given, banned in zip(titles, _Rows(graph, split).of(keys), excluded, strict=True):
            if given:
                found[split].append(row_line(title, known[title][1], given))
                pairs[split] += len(given)
                if banned:
                    found["exclude"].append(as_line({"id": title, "labels": banned}))
    for title, number in zip(titles, labels, strict=True):
        if number >= 0:
            found["labels"].append(as_line({"id": title, "text": known[title][0]}))
    path.mkdir()
    for name, lines in found.items():
        (path / name).write_bytes(packed(lines))
    numbers = [count for split in SPLITS for count in (len(found[split]), pairs[split])]
    np.save(path / "sizes.npy", np.array(numbers, dtype=np.int64))
