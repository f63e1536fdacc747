"""Documents on their way into a store, block by block, and JSON lines read by several processes.

Each process makes columns of a piece of the file, and one writes them. A process numbers the labels of its piece; the
writer knows all labels and numbers them anew, in the order of the file. A piece that is not as it should be, or names a
label that the labels file lacks, is read once more by the writer, which names the line. So the store is the one that a
single process writes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Ints, Matrix, pack_strings
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.data.files import chunks, lines_in, objects_in
from longtail.data.folder_layout import add_documents
from longtail.data.labels import LabelSet
from longtail.data.opening import file_size
from longtail.data.rows import Gathered, LabelIndex, without_repeats
from longtail.data.store_writer import BLOCK, UNIQUE, HoldingOut, Packed, StoreWriter
from longtail.data.worker_pool import Workers, processes_for
from longtail.errors import LongtailError


@dataclass(eq=False)
class StreamedSplit(Gathered):
    """A collection of documents that goes to the disk block by block. To its reader it looks empty afterwards."""

    writer: StoreWriter | None = None
    split: str = "train"

    def add(
        self, line: int, name: str, text: str, labels: list[Any] | dict[str, Any], language: str | None = None
    ) -> None:
        """See `Gathered.add`. Data with languages of documents is not streamed."""
        super().add(line, name, text, labels)
        if len(self.ids) == BLOCK:
            self.flush(last=False)

    def take_lines(self, text: str) -> bool:
        """See `Gathered.take_lines`: several processes, where the file is worth it."""
        assert self.writer is not None
        processes = self.writer.processes or processes_for(file_size(self.path))
        if processes == 1:
            return False
        read_pieces(self, text, self.writer, processes)
        return True

    def flush(self, last: bool) -> None:
        """Write what is here.

        Args:
            last: whether nothing follows.
        """
        assert self.writer is not None
        if self.ids:
            targets = sparse.csr_array(
                (np.array(self.weights), np.array(self.columns), np.array(self.starts)),
                shape=(len(self.ids), len(self.labels.texts)),
            )
            self.writer.add(self.split, self.ids, self.texts, without_repeats(targets), last)
        self.ids, self.texts, self.lines = [], [], array("q")
        self.columns, self.weights, self.starts = array("i"), array("f"), array("q", [0])

    def dataset(self, labels: LabelSet, excluded: Matrix | None = None) -> Dataset:
        """See `Gathered.dataset`: the documents are on the disk."""
        self.flush(last=True)
        return super().dataset(labels, excluded)


def streamed(writer: StoreWriter) -> Any:
    """What readers make for each split, for `gathering_by`.

    Args:
        writer: takes the documents.

    Returns:
        A function of file, labels and split.
    """

    def make(path: Path, labels: LabelIndex, split: str) -> StreamedSplit:
        return StreamedSplit(path, labels, writer=writer, split=split)

    return make


class _Piece(NamedTuple):
    """A piece of a file, for a process."""

    piece: bytes
    first: int  # number of its first line
    path: Path
    split: str
    text: str
    holding: HoldingOut


class _PieceRows(NamedTuple):
    """The documents of a piece that belong to one split."""

    ids: Packed
    texts: Packed
    hashes: AnyArray
    weights: AnyArray
    columns: Ints  # numbers of labels in the piece
    starts: AnyArray


def read_pieces(part: StreamedSplit, text: str, writer: StoreWriter, processes: int) -> None:
    """Read a file of JSON lines.

    Args:
        part: the split, with all labels so far.
        text: the fields that make the text of a document.
        writer: takes the documents.
        processes: how many read.

    Raises:
        DataError: a line is wrong.
        ProcessLost: a process died.
    """
    waiting: deque[_Piece] = deque()

    def tasks() -> Iterator[_Piece]:
        for first, piece in chunks(part.path):
            waiting.append(_Piece(piece, first, part.path, part.split, text, writer.holding))
            yield waiting[-1]

    row_of, texts = part.labels.row_of, part.labels.texts
    with Workers(processes) as workers:
        for found in workers.in_order(_columns_of, tasks()):
            task = waiting.popleft()
            names, parts = found or ([], {})
            if found is None or (part.labels.source is not None and any(name not in row_of for name in names)):
                add_documents(part, objects_in(lines_in(task.piece, part.path, task.first), part.path), text)
                part.flush(last=False)
                continue
            for name in names:
                if name not in row_of:
                    row_of[name] = len(texts)
                    texts.append(name)
            renumbered = np.array([row_of[name] for name in names], dtype=np.int32)
            for split, one in parts.items():
                targets = sparse.csr_array(
                    (one.weights, renumbered[one.columns], one.starts), shape=(len(one.starts) - 1, len(texts))
                )
                writer.put(part.split, split, one.ids, one.texts, one.hashes, {"targets": without_repeats(targets)})


def _columns_of(task: _Piece) -> tuple[list[str], dict[str, _PieceRows]] | None:
    """The labels of a piece and its documents by split; None where something is wrong with it."""
    labels = LabelIndex()
    found = Gathered(task.path, labels)
    try:
        add_documents(found, objects_in(lines_in(task.piece, task.path, task.first), task.path), task.text)
    except LongtailError:
        return None
    targets = sparse.csr_array(
        (np.array(found.weights), np.array(found.columns), np.array(found.starts)),
        shape=(len(found.ids), len(labels.texts)),
    )
    parts = {}
    for split, rows in task.holding.rows(task.split, found.ids, few=False).items():
        ids, texts = ([strings[row] for row in rows.tolist()] for strings in (found.ids, found.texts))
        own = targets[rows]
        parts[split] = _PieceRows(
            pack_strings(ids), pack_strings(texts), hashed(ids, UNIQUE), own.data, own.indices, own.indptr
        )
    return list(labels.row_of), parts
