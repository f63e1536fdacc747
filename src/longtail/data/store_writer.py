"""Writes a store block by block: documents go to the disk as they are read, and only labels stay in memory.

A reader hands its documents to a `StreamedSplit` in place of a collection in memory; beside the labels, 8 bytes a
document are kept, to find ids that occur twice. Documents that no split was given for are held out of train by the same
hash of their ids as `make_corpus` takes, so a store has the splits that `load` would have made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longtail.arrays import AnyArray, Longs, Matrix, pack_strings
from longtail.data.corpus import hashed, held_out
from longtail.data.corpus_facts import keep_private
from longtail.data.labels import LabelSet
from longtail.data.mapped_texts import MappedTexts
from longtail.data.opening import open_file
from longtail.data.store_layout import FORMAT, MATRICES, SPLITS, STORE, VERSION
from longtail.data.write import described, write_lines
from longtail.errors import DataError
from longtail.version import __version__

BLOCK = 1 << 16  # documents written at once
UNIQUE = "unique"  # salt of the hashes that find ids that occur twice
Packed = tuple[AnyArray, Longs]  # from `pack_strings`
LONG = 1 << 31  # entries from which columns and starts of a matrix are int64


@dataclass(eq=False)
class _File:
    """A file that grows, with its checksum."""

    path: Path
    size: int = 0

    def __post_init__(self) -> None:
        self._file = self.path.open("wb", buffering=1 << 20)
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, values: AnyArray) -> None:
        raw = np.ascontiguousarray(values).view(np.uint8).data if values.size else b""
        self._file.write(raw)
        self._digest.update(raw)
        self.size += values.nbytes

    def finish(self) -> dict[str, Any]:
        self._file.close()
        return {"bytes": self.size, "blake2b": self._digest.hexdigest()}


@dataclass(eq=False)
class _Split:
    """The files of a split."""

    folder: Path
    name: str
    rows: int = 0
    files: dict[str, _File] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)  # of the last string or entry of each column
    widths: dict[str, int] = field(default_factory=dict)  # columns of each matrix

    def add(
        self, ids: Packed, texts: Packed | None, matrices: dict[str, Matrix], languages: Packed | None = None
    ) -> None:
        """Add documents.

        Args:
            ids: of the documents, from `pack_strings`.
            texts: of the documents; None where there are none.
            matrices: csr (documents, columns) by name.
            languages: of the documents; None where no column has them.
        """
        for kind, strings in (("ids", ids), ("texts", texts), ("languages", languages)):
            if strings is not None:
                packed, starts = strings
                self._file(kind).add(packed)
                self._starts(kind, starts)
        for kind, matrix in matrices.items():
            self._file(kind).add(matrix.data.astype(MATRICES[kind]))
            self._file(f"{kind}.labels").add(matrix.indices.astype("<i4"))
            self._starts(kind, matrix.indptr)
            self.widths[kind] = max(self.widths.get(kind, 0), matrix.shape[1])
        self.rows += len(ids[1]) - 1

    def described(self, labels: int) -> dict[str, object]:
        """What the store says of this split; matrices over labels have all of them as columns."""
        widths = {kind: labels if kind in ("targets", "excluded") else width for kind, width in self.widths.items()}
        spoken = {"languages": True} if "languages" in self.ends else {}
        return {"rows": self.rows, "texts": "texts" in self.ends, **spoken, "matrices": widths}

    def _starts(self, kind: str, starts: Longs) -> None:
        if kind not in self.ends:
            self.ends[kind] = 0
            self._file(f"{kind}.starts").add(np.zeros(1, dtype="<i8"))
        moved = starts[1:].astype("<i8") - int(starts[0]) + self.ends[kind]
        self._file(f"{kind}.starts").add(moved)
        if len(moved):
            self.ends[kind] = int(moved[-1])

    def _file(self, kind: str) -> _File:
        name = f"{self.name}.{kind}"
        if name not in self.files:
            self.files[name] = _File(self.folder / name)
        return self.files[name]


@dataclass(frozen=True)
class HoldingOut:
    """Which documents of train are held out, as `make_corpus` does it."""

    splits: tuple[tuple[str, float, int | str], ...]  # name, share and salt

    def rows(self, split: str, ids: Sequence[str], few: bool) -> dict[str, Longs]:
        """The rows of each split.

        Args:
            split: the split that the data set has the documents in; only those of train are held out.
            ids: of the documents.
            few: they are all that there are: at least one goes and one stays.

        Returns:
            Rising row numbers by split.
        """
        rows = {split: np.arange(len(ids))}
        for name, share, salt in self.splits if split == "train" else ():
            left = [ids[row] for row in rows["train"].tolist()]
            out = held_out(left, share, salt) if few else hashed(left, salt) < np.uint64(int(share * 2**64))
            rows[name], rows["train"] = rows["train"][out], rows["train"][~out]
        return rows


@dataclass(eq=False)
class StoreWriter:
    """Writes a store into a folder."""

    folder: Path
    valid_share: float
    test_share: float | None
    seed: int
    given: frozenset[str]  # splits that the data set has
    processes: int = 1  # that read JSON lines; 0: as many as a file is worth
    count_valid: bool = False  # labels are counted on train and valid: valid was held out of train

    def __post_init__(self) -> None:
        self.splits = {name: _Split(self.folder, name) for name in SPLITS}
        self.counts = np.zeros(0, dtype=np.int64)  # training documents of each label so far
        self.counted = 0  # training documents
        self._hashes: dict[str, list[AnyArray]] = {name: [] for name in SPLITS}
        drawn: tuple[tuple[str, float, int | str], ...] = (
            ("test", self.test_share or 0.0, self.seed + 1),
            ("valid", self.valid_share, f"valid:{self.seed}"),
        )
        self.holding = HoldingOut(tuple(one for one in drawn if one[1] and one[0] not in self.given))
        self.drawn = tuple(name for name, _, _ in self.holding.splits)

    def add(
        self,
        split: str,
        ids: list[str],
        texts: Any,
        targets: Matrix,
        last: bool = True,
        languages: Sequence[str] | None = None,
        **more: Matrix,
    ) -> None:
        """Add documents of a split that was given; those of train may be held out.

        Args:
            split: train, valid or test.
            ids: of the documents.
            texts: of the documents, or None.
            targets: csr (documents, labels so far).
            last: whether they are all documents of the split.
            languages: of the documents, or None.
            **more: features and excluded pairs.
        """
        parts = {"targets": targets, **more}
        for name, rows in self.holding.rows(split, ids, few=last and not self.splits["train"].rows).items():
            own = [ids[row] for row in rows.tolist()]
            own_texts = None if texts is None else pack_strings([texts[row] for row in rows.tolist()])
            whole = len(rows) == len(ids)
            own_parts = parts if whole else {kind: one[rows] for kind, one in parts.items()}
            spoken = None if languages is None else pack_strings([languages[row] for row in rows.tolist()])
            self.put(split, name, pack_strings(own), own_texts, hashed(own, UNIQUE), own_parts, spoken)

    def put(
        self,
        given: str,
        split: str,
        ids: Packed,
        texts: Packed | None,
        hashes: AnyArray,
        parts: dict[str, Matrix],
        languages: Packed | None = None,
    ) -> None:
        """Add documents whose split is known.

        Args:
            given: the split that the data set has them in.
            split: the split that they belong to.
            ids: of the documents, from `pack_strings`.
            texts: likewise, or None.
            hashes: of their ids, by UNIQUE.
            parts: targets, features and excluded pairs.
            languages: from `pack_strings`, or None.
        """
        if split != "test" and (given == "train" or (given == "valid" and self.count_valid)):
            found = np.bincount(parts["targets"].indices, minlength=len(self.counts))
            self.counts = np.pad(self.counts, (0, len(found) - len(self.counts))) + found
            self.counted += len(hashes)
        self.splits[split].add(ids, texts, parts, languages)
        self._hashes[split].append(hashes)

    def finish(self, labels: LabelSet, facts: dict[str, Any], private: bool) -> None:
        """Write the labels and `store.json`.

        Args:
            labels: all labels, without counts.
            facts: of the data set.
            private: whether it may not be passed on.

        Raises:
            DataError: an id occurs twice.
        """
        files: dict[str, Any] = {}
        for split in self.splits.values():
            files |= {name: file.finish() for name, file in split.files.items()}
        self._check_ids()
        for split in self.splits.values():
            for kind in split.widths:
                files |= _fit(self.folder, f"{split.name}.{kind}", files, split.ends[kind])
        write_lines(self.folder / "labels.jsonl", (json.dumps(one) for one in described(labels)))
        counts = _File(self.folder / "labels.counts")
        counts.add(np.pad(self.counts, (0, len(labels) - len(self.counts))).astype("<i8"))
        files["labels.counts"] = counts.finish()
        if labels.features is not None:
            own = _Split(self.folder, "labels")
            own.add(pack_strings(()), None, {"features": labels.features})
            files |= {name: file.finish() for name, file in own.files.items()}
            files |= _fit(self.folder, "labels.features", files, own.ends["features"])
            facts = {**facts, "label_features": labels.features.shape[1]}
        with open_file(self.folder / "labels.jsonl") as file:
            raw = file.read()
        files["labels.jsonl"] = {"bytes": len(raw), "blake2b": hashlib.blake2b(raw, digest_size=16).hexdigest()}
        splits = {name: split.described(len(labels)) for name, split in self.splits.items()}
        content = {
            "format": FORMAT, "version": VERSION, "longtail": __version__, **facts, "labels": len(labels),
            "counted": self.counted, "drawn": list(self.drawn), "splits": splits, "files": dict(sorted(files.items())),
        }  # fmt: skip
        write_lines(self.folder / STORE, [json.dumps(content, indent=1)])
        if private:
            keep_private(self.folder)

    def _check_ids(self) -> None:
        everything = np.concatenate([part for parts in self._hashes.values() for part in parts] or [np.zeros(0, "u8")])
        everything.sort()
        twice = np.unique(everything[1:][everything[1:] == everything[:-1]])
        if not len(twice):
            return
        seen: dict[str, tuple[str, int]] = {}
        for name, parts in self._hashes.items():
            row = 0
            for part in parts:
                for place in np.flatnonzero(np.isin(part, twice)).tolist():
                    found = self._id(name, row + place)
                    if found in seen:
                        other, at = seen[found]
                        raise DataError(
                            f"document id {found!r} occurs twice: document {at + 1} of {other} and document "
                            f"{row + place + 1} of {name}; ids must be unique over all splits, so rename or remove one"
                        )
                    seen[found] = name, row + place
                row += len(part)

    def _id(self, split: str, row: int) -> str:
        starts = np.memmap(self.folder / f"{split}.ids.starts", "<i8", "r")
        return MappedTexts(np.memmap(self.folder / f"{split}.ids", "u1", "r"), starts)[row]


def _fit(folder: Path, name: str, files: dict[str, Any], entries: int) -> dict[str, Any]:
    """Columns and starts of a matrix in one type, as SciPy wants them: int32 starts where there are few entries."""
    kind, source, target = ("starts", "<i8", "<i4") if entries < LONG else ("labels", "<i4", "<i8")
    path = folder / f"{name}.{kind}"
    if not files[path.name]["bytes"]:
        return {}
    values = np.memmap(path, source, "r")
    again = _File(folder / f"{name}.{kind}.new")
    for begin in range(0, len(values), 1 << 20):
        again.add(values[begin : begin + (1 << 20)].astype(target))
    del values
    found = again.finish()
    again.path.replace(path)
    return {path.name: found}
