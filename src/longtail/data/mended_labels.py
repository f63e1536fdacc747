"""Remedies that act on what was read: twins of labels folded, words that are no labels and rare labels left out,
duplicate rows dropped. Each adds a note of what it changed."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.data.mending import Remedies
from longtail.data.rows import Splits
from longtail.errors import counted

# Missing values as people and programs write them, in some languages of Europe.
MISSING = (
    "n/a, na, n.a., #n/a, #value!, #ref!, none, (none), null, nil, nan, nat, unknown, undefined, missing, tbd, todo, "
    "not available, not applicable, no subject, no label, k.a., k. a., keine, keine angabe, unbekannt, entfällt, "
    "aucun, inconnu, ninguno, desconocido, s/d, nessuno, sconosciuto, geen, onbekend, okänd, tuntematon, desconhecido"
)
NO_LABELS = frozenset(MISSING.split(", "))
SHOWN = 5  # twins and labels that a note names
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "\u00ad": None})


def folded(label: str) -> str:
    """A label without case, with single spaces, in one Unicode form, with plain quotes and dashes.

    Args:
        label: the label.

    Returns:
        What twins have in common.
    """
    plain = unicodedata.normalize("NFKC", label).translate(_PLAIN).casefold()
    return " ".join(unicodedata.normalize("NFC", plain).split())


def likely_no_labels(labels: LabelSet) -> list[str]:
    """Labels that look like a missing value.

    Args:
        labels: the labels.

    Returns:
        Their ids.
    """
    return [label for label in labels.ids if folded(label) in NO_LABELS or not any(map(str.isalnum, label))]


def twins(ids: Sequence[str]) -> list[list[int]]:
    """Labels that differ only in case, spaces or Unicode form.

    Args:
        ids: of the labels.

    Returns:
        Their rows, twins together, in the order of the first of them.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for row, label in enumerate(ids):
        groups[folded(label)].append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def mended(splits: Splits, remedies: Remedies) -> Splits:
    """Applies the remedies for labels and duplicate rows.

    Args:
        splits: what a reader found.
        remedies: what was asked for.

    Returns:
        The splits; their notes say what was done.
    """
    if remedies.drop_duplicates:
        splits = _without_copies(splits)
    if remedies.fold_labels:
        splits = _folded(splits)
    labels = splits.train.labels
    if remedies.ignore_labels:
        unwanted = {folded(word) for word in remedies.ignore_labels}
        gone = [row for row, label in enumerate(labels.ids) if folded(label) in unwanted]
        splits = _without(splits, np.array(gone, dtype=np.int64), "ignored as no labels")
    if remedies.min_count > 1:
        counts = np.bincount(splits.train.targets.indices, minlength=len(splits.train.labels))
        few = np.flatnonzero(counts < remedies.min_count)
        splits = _without(
            splits, few, f"left out, because they have fewer than {counted(remedies.min_count, 'training example')}"
        )
    return splits


def _every(splits: Splits) -> dict[str, Dataset]:
    given = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    return {name: data for name, data in given.items() if data is not None}


def _with(splits: Splits, found: dict[str, Dataset], notes: tuple[str, ...]) -> Splits:
    return replace(splits, train=found["train"], valid=found.get("valid"), test=found.get("test"), notes=notes)


def named(words: Sequence[str]) -> str:
    """Some words for a note.

    Args:
        words: all of them.

    Returns:
        The first few.
    """
    return ", ".join(repr(word) for word in words[:SHOWN]) + (", …" if len(words) > SHOWN else "")


def _without_copies(splits: Splits) -> Splits:
    """Within each split: a row of test that stands in train is a leak, which `check` names, not a copy."""
    found: dict[str, Dataset] = {}
    notes = list(splits.notes)
    for name, data in _every(splits).items():
        if data.texts is None:
            found[name] = data
            continue
        starts, columns = data.targets.indptr.tolist(), data.targets.indices
        seen: set[tuple[str, bytes]] = set()
        kept: list[int] = []
        copies: list[int] = []
        for row, text in enumerate(data.texts):
            key = text, columns[starts[row] : starts[row + 1]].tobytes()
            (copies if key in seen else kept).append(row)
            seen.add(key)
        if copies:
            notes.append(
                f"left out {counted(len(copies), 'row')} of {name} with the text and labels of an earlier row: "
                f"{named([data.ids[row] for row in copies])}"
            )
        found[name] = data.take(kept) if copies else data
    return _with(splits, found, tuple(notes))


def _folded(splits: Splits) -> Splits:
    labels = splits.train.labels
    groups = twins(labels.ids)
    if not groups:
        return splits
    everywhere = np.zeros(len(labels), dtype=np.int64)  # rows of any split with each label
    for data in _every(splits).values():
        everywhere += np.bincount(data.targets.indices, minlength=len(labels))
    target = np.arange(len(labels))
    pairs = []
    for rows in groups:
        best = max(rows, key=lambda row: (int(everywhere[row]), -row))  # the commonest spelling stays
        target[rows] = best
        pairs.append(" = ".join(repr(labels.ids[row]) for row in [best, *(row for row in rows if row != best)]))
    kept = np.unique(target)
    note = f"folded {counted(len(labels) - len(kept), 'spelling')} into {counted(len(groups), 'label')}: "
    note += ", ".join(pairs[:SHOWN])
    note += ", …" if len(pairs) > SHOWN else ""
    column_of = np.searchsorted(kept, target)
    return over(splits, labels.take(kept), column_of, note)


def _without(splits: Splits, gone: Longs, why: str) -> Splits:
    labels = splits.train.labels
    if not len(gone):
        return splits
    kept = np.setdiff1d(np.arange(len(labels)), gone)
    column_of = np.full(len(labels), -1, dtype=np.int64)
    column_of[kept] = np.arange(len(kept))
    entries = sum(int(np.isin(data.targets.indices, gone).sum()) for data in _every(splits).values())
    before = sum(int((np.diff(data.targets.indptr) == 0).sum()) for data in _every(splits).values())
    mended = over(splits, labels.take(kept), column_of, "")
    after = sum(int((np.diff(data.targets.indptr) == 0).sum()) for data in _every(mended).values())
    note = f"labels {why}: {len(gone):,} ({named([labels.ids[row] for row in gone.tolist()])}), "
    note += counted(entries, "entry", "entries")
    note += f"; {counted(after - before, 'row has', 'rows have')} no label left" if after > before else ""
    return replace(mended, notes=(*splits.notes, note))


def over(splits: Splits, labels: LabelSet, column_of: Longs, note: str) -> Splits:
    """The splits over other labels.

    Args:
        splits: what a reader found.
        labels: the new labels.
        column_of: (old labels,) the new column of each, -1 for none.
        note: what was done; "" says nothing.

    Returns:
        The splits.
    """

    def moved(matrix: Matrix) -> Matrix:
        kept = column_of[matrix.indices] >= 0
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[kept]
        columns, values = column_of[matrix.indices[kept]], matrix.data[kept]
        order = np.lexsort((-values.astype(np.float32), columns, rows))  # of twins in one row the larger weight counts
        rows, columns, values = rows[order], columns[order], values[order]
        first = np.ones(len(rows), dtype=np.bool_)
        first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        return sparse.csr_array((values[first], (rows[first], columns[first])), shape=(matrix.shape[0], len(labels)))

    found = {
        name: replace(
            data,
            labels=labels,
            targets=moved(data.targets),
            excluded=None if data.excluded is None else moved(data.excluded),
        )
        for name, data in _every(splits).items()
    }
    return _with(splits, found, (*splits.notes, note) if note else splits.notes)
