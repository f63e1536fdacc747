"""Reads a store: texts, ids and matrices stay in their files, and the system reads the pages that are used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.corpus import Corpus
from longtail.data.corpus_facts import is_private
from longtail.data.dataset import Dataset, first_wrong
from longtail.data.files import shown, whole_object
from longtail.data.folder_layout import read_labels
from longtail.data.labels import LabelSet, Propensity
from longtail.data.mapped_texts import MappedTexts
from longtail.data.opening import file_size, open_file
from longtail.data.store_layout import FORMAT, MATRICES, SPLITS, STORE, VERSION
from longtail.data.table_facts import TableFacts
from longtail.data.text_language import text_language
from longtail.errors import DataError
from longtail.progress import stage

READ = 1 << 22  # bytes hashed at once


def read_store(folder: Path, propensity: Propensity | None = None, language: str | None = None) -> Corpus:
    """Map a store.

    Sizes, numbers of labels and order are checked; the checksums are not, since that reads every byte: see
    `verify_store`, which `longtail check` calls.

    Args:
        folder: of the store.
        propensity: constants; None: those of the store.
        language: of the documents, a code such as de; None: that of the store.

    Returns:
        The data set, with the splits that the store was written with.

    Raises:
        DataError: a file is missing, cut or damaged.
    """
    store = _Store.opened(folder)
    if language is not None:
        store.facts["language"] = text_language(language)
    return store.corpus(propensity)


def verify_store(folder: Path) -> int:
    """Compare every file with its checksum.

    Args:
        folder: of the store.

    Returns:
        Bytes that were read.

    Raises:
        DataError: a file has changed.
    """
    store = _Store.opened(folder)
    files = store.facts["files"]
    total = sum(int(one["bytes"]) for one in files.values())
    with stage("comparing checksums", total=total) as advance:
        for name, one in files.items():
            digest = hashlib.blake2b(digest_size=16)
            with open_file(folder / name) as file:
                while piece := file.read(READ):
                    digest.update(piece)
                    advance(len(piece))
            if digest.hexdigest() != one["blake2b"]:
                raise DataError("has changed since it was written; convert the data again", folder / name)
    return total


def _check_facts(facts: dict[str, Any]) -> None:
    """Raise a ValueError, TypeError, KeyError or AttributeError where a fact has a wrong type or range."""
    for split in SPLITS:
        part = facts["splits"][split]
        right = _is_count(part["rows"], 2**48) and type(part["texts"]) is type(part.get("languages", False)) is bool
        if not right or not all(_is_count(width, 2**31) for width in part["matrices"].values()):
            raise ValueError(split)
    counts = [facts["labels"], facts["counted"], facts.get("held_out_labels", 0), facts.get("label_features") or 0]
    if not all(_is_count(one, 2**62) for one in counts):
        raise ValueError("labels")
    for name in ("name", "text_field", "id_field", "language_field", "language", "label_language", "licence"):
        if type(facts.get(name) or "") is not str:
            raise ValueError(name)
    try:
        text_language(facts.get("language"))
    except DataError:
        raise ValueError("language") from None
    for name in ("drawn", "notes"):
        if type(facts.get(name, [])) is not list or not all(type(one) is str for one in facts.get(name, [])):
            raise ValueError(name)
    for name, value in (facts.get("propensity") or {}).items():
        if name not in ("a", "b") or type(value) not in (int, float):
            raise ValueError("propensity")


def _is_count(value: Any, below: int) -> bool:
    return type(value) is int and 0 <= value < below


class _Store:
    """A folder and the content of its `store.json`."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts

    @classmethod
    def opened(cls, folder: Path) -> _Store:
        """Read `store.json` and compare the sizes of all files."""
        path = folder / STORE
        facts = whole_object(path)
        if facts.get("format") != FORMAT or facts.get("version") != VERSION:
            raise DataError(f"is no store of version {VERSION}; convert the data again with this release", path)
        try:
            for name, one in facts["files"].items():
                if Path(name).name != name:
                    raise DataError(f"names a file elsewhere: {shown(name)}", path)
                size = file_size(folder / name)
                if size != one["bytes"]:
                    raise DataError(f"has {size:,} bytes and not {one['bytes']:,}; convert again", folder / name)
                if type(one["blake2b"]) is not str:
                    raise ValueError(f"no checksum of {shown(name)}")
            _check_facts(facts)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(f"is damaged ({error}); convert the data again", path) from None
        return cls(folder, facts)

    def corpus(self, propensity: Propensity | None) -> Corpus:
        facts = self.facts
        own = facts.get("propensity") or {}
        labels = self._labels(propensity or Propensity(**own))
        with stage("checking the store", total=len(SPLITS)) as advance:
            found = {}
            for split in SPLITS:
                found[split] = self._split(split, labels)
                advance(1)
        table = facts.get("table")
        return Corpus(
            name=str(facts.get("name") or self.folder.name),
            train=found["train"],
            valid=found["valid"],
            test=found["test"],
            text_field=str(facts.get("text_field", "text")),
            id_field=str(facts.get("id_field", "id")),
            language_field=facts.get("language_field"),
            table=None if table is None else TableFacts.of_json(table, self.folder / STORE),
            label_language=facts.get("label_language"),
            licence=facts.get("licence"),
            private=is_private(self.folder),
            drawn=tuple(facts.get("drawn", ())),
            held_out_labels=int(facts.get("held_out_labels", 0)),
            notes=tuple(facts.get("notes", ())),
        )

    def _labels(self, propensity: Propensity) -> LabelSet:
        counts = np.array(self._array("labels.counts", "<i8"))
        found = read_labels(self.folder / "labels.jsonl").label_set(propensity)
        if len(found) != self.facts["labels"] or len(counts) != len(found):
            raise DataError(f"has {len(found):,} labels and not {self.facts['labels']:,}", self.folder / "labels.jsonl")
        columns = self.facts.get("label_features")
        features = None if columns is None else self._matrix("labels", "features", len(found), columns)
        return LabelSet(
            ids=found.ids, texts=found.texts, counts=counts, train_rows=self.facts["counted"], features=features,
            propensity=propensity, names=found.names, broader=found.broader, related=found.related,
        )  # fmt: skip

    def _split(self, split: str, labels: LabelSet) -> Dataset:
        part = self.facts["splits"][split]
        rows, widths = part["rows"], part["matrices"]
        if rows == 0:
            train = self.facts["splits"]["train"]
            own = train["matrices"].get("features")
            return Dataset(
                labels=labels,
                targets=sparse.csr_array((0, len(labels)), dtype=np.float32),
                ids=(),
                texts=() if train["texts"] else None,
                features=None if own is None else sparse.csr_array((0, own), dtype=np.float32),
                language=self.facts.get("language") or "",
                languages=() if train.get("languages") else None,
            )
        matrices = {kind: self._matrix(split, kind, rows, widths[kind]) for kind in MATRICES if kind in widths}
        if widths.get("targets") != len(labels):
            raise DataError(f"{split} has targets for {widths.get('targets')} labels of {len(labels)}", self.folder)
        return Dataset(
            labels=labels,
            ids=self._strings(split, "ids", rows),
            texts=self._strings(split, "texts", rows) if part["texts"] else None,
            language=self.facts.get("language") or "",
            languages=self._strings(split, "languages", rows) if part.get("languages") else None,
            **matrices,
        )

    def _array(self, name: str, kind: str) -> AnyArray:
        if name not in self.facts["files"]:
            raise DataError(f"names no {name}; convert the data again", self.folder / STORE)
        size = self.facts["files"][name]["bytes"]
        if size % np.dtype(kind).itemsize:
            raise DataError("is cut inside a number; convert the data again", self.folder / name)
        if size == 0:
            return np.zeros(0, dtype=kind)
        return np.asarray(np.memmap(self.folder / name, kind, "r"))

    def _starts(self, name: str, kind: str, rows: int, total: int) -> AnyArray:
        starts = self._array(name, kind)
        wrong = len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != total
        if wrong or first_wrong(starts[1:], _rising(starts)) is not None:
            raise DataError("does not fit what it points into; convert the data again", self.folder / name)
        return starts

    def _strings(self, split: str, kind: str, rows: int) -> MappedTexts:
        packed = self._array(f"{split}.{kind}", "|u1")
        return MappedTexts(packed, self._starts(f"{split}.{kind}.starts", "<i8", rows, len(packed)))

    def _matrix(self, split: str, kind: str, rows: int, columns: Any) -> Matrix:
        if type(columns) is not int or not 0 <= columns < 2**31:
            raise DataError(f"{split}.{kind} has {shown(columns)} columns; convert the data again", self.folder / STORE)
        name = f"{split}.{kind}"
        data = self._array(name, MATRICES[kind])
        wide = "<i4" if len(data) < 2**31 else "<i8"
        held = self._array(f"{name}.labels", wide)
        starts = self._starts(f"{name}.starts", wide, rows, len(data))
        if len(held) != len(data) or first_wrong(held, lambda part: (part >= 0) & (part < columns)) is not None:
            raise DataError("names columns that are not there; convert the data again", self.folder / f"{name}.labels")
        matrix = sparse.csr_array((0, columns), dtype=data.dtype)
        # Assigned, not passed: the constructor would copy the arrays to try a smaller type.
        matrix._shape = (rows, columns)
        matrix.data, matrix.indices, matrix.indptr = data, held, starts
        return matrix


def _rising(starts: AnyArray) -> Any:
    """A function that marks the starts which are at least as large as the start before. It is given part after part."""
    before = [starts[:1]]

    def right(part: AnyArray) -> AnyArray:
        marks: AnyArray = part >= np.concatenate([before[0], part[:-1]])
        before[0] = part[-1:]
        return marks

    return right
