"""Texts of the Extreme Classification Repository: `trn.json` with its targets, and files with one text per line."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.files import lines, objects, shown
from longtail.data.limits import INDEX_LIMIT
from longtail.data.rows import check_weight, without_repeats
from longtail.errors import DataError

FIELDS = {"title": ("title",), "text": ("content",), "title+text": ("title", "content")}


@dataclass(frozen=True, eq=False)
class Described:
    """The objects of a `trn.json`, `tst.json` or `lbl.json`."""

    uids: tuple[str, ...] | None  # None where not every object has one
    texts: tuple[str, ...]
    targets: Matrix | None


def read_texts(path: Path) -> tuple[str, ...]:
    """Reads a file with one text per line.

    Args:
        path: the file.

    Returns:
        The texts.
    """
    return tuple([line.removesuffix("\r") for _, line in lines(path)])


def read_described(path: Path, text: str, *, labels: int | None = None, with_targets: bool = False) -> Described:
    """Reads JSON objects with `uid`, `title`, `content` and, for documents, `target_ind` and `target_rel`.

    Args:
        path: the file, one object per line.
        text: the fields that make the text: "title", "text" or "title+text".
        labels: the number of labels; None takes it from the largest `target_ind`.
        with_targets: reads the targets, too.

    Returns:
        Texts, and uids and targets where there are any.

    Raises:
        DataError: a line is wrong.
    """
    fields = FIELDS[text]
    uids: list[str] = []
    texts: list[str] = []
    columns, weights, starts = array("i"), array("f"), array("q", [0])
    for line, row in objects(path):
        uid = row.get("uid")
        if uid is not None:
            uids.append(_uid(uid, path, line))
        texts.append(_text(row, fields, path, line))
        if with_targets:
            given = row.get("target_ind")
            if type(given) is not list:
                raise DataError(f'"target_ind" must be a list of label numbers, got {shown(given)}', path, line)
            _check_columns(given, labels, path, line)
            columns.extend(given)
            weights.extend(_weights(row.get("target_rel"), given, path, line))
            starts.append(len(columns))
    targets = None
    if with_targets:
        number = labels if labels is not None else max(columns, default=-1) + 1
        parts = np.array(weights), np.array(columns), np.array(starts)
        targets = without_repeats(sparse.csr_array(parts, shape=(len(texts), number)))
    return Described(tuple(uids) if len(uids) == len(texts) else None, tuple(texts), targets)


def _uid(uid: Any, path: Path, line: int) -> str:
    if type(uid) in (list, dict):
        raise DataError(f'"uid" must be a string or a number, got {shown(uid)}', path, line)
    return str(uid)


def _text(row: dict[str, Any], fields: tuple[str, ...], path: Path, line: int) -> str:
    """The chosen fields; the title where those are empty or missing, so that labels have a text."""
    words = [row.get(field) or "" for field in fields]
    if not any(words):
        words = [row.get("title") or ""]
    if not all(type(word) is str for word in words):
        raise DataError('"title" and "content" must be strings', path, line)
    return " ".join(word for word in words if word)


def _check_columns(given: list[Any], labels: int | None, path: Path, line: int) -> None:
    limit = INDEX_LIMIT if labels is None else labels
    for column in given:
        if type(column) is not int:
            raise DataError(f'"target_ind" has {shown(column)}, which is not a label number; correct it', path, line)
        if not 0 <= column < limit:
            raise DataError(
                f'"target_ind" has {shown(column)}, but labels run from 0 to {limit - 1}; check that the files fit',
                path,
                line,
            )


def _weights(given: Any, columns: list[int], path: Path, line: int) -> list[float]:
    if given is None:
        return [1.0] * len(columns)
    if type(given) is not list or len(given) != len(columns):
        raise DataError(f'"target_rel" must be a list of {len(columns)} weights, one for each "target_ind"', path, line)
    return [check_weight(weight, str(column), path, line) for weight, column in zip(given, columns, strict=True)]
