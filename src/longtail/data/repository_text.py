"""Texts of the Extreme Classification Repository: `trn.json` with its targets, and one raw text a line."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.files import lines, objects
from longtail.data.rows import check_weight, without_repeats
from longtail.errors import DataError

FIELDS = {"title": ("title",), "text": ("content",), "title+text": ("title", "content")}


@dataclass(frozen=True, eq=False)
class Described:
    """The rows of a `trn.json`, `tst.json` or `lbl.json`."""

    uids: tuple[str, ...] | None  # None where not every row has one
    texts: tuple[str, ...]
    targets: Matrix | None


def read_texts(path: Path) -> tuple[str, ...]:
    """One text a line."""
    return tuple([line.removesuffix("\r") for _, line in lines(path)])


def read_described(path: Path, text: str, *, labels: int | None = None, with_targets: bool = False) -> Described:
    """One JSON object a line: `uid`, `title`, `content`, and for rows `target_ind` and `target_rel`.

    `labels` is the number of labels where it is known; else the largest `target_ind` gives it.
    """
    fields = FIELDS[text]
    uids: list[str] = []
    texts: list[str] = []
    columns, weights, starts = array("i"), array("f"), array("q", [0])
    for line, row in objects(path):
        uid = row.get("uid")
        if uid is not None:
            uids.append(str(uid))
        texts.append(_text(row, fields, path, line))
        if with_targets:
            given = row.get("target_ind")
            if type(given) is not list:
                raise DataError(f'"target_ind" must be a list of label numbers, got {given!r}', path, line)
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


def _text(row: dict[str, Any], fields: tuple[str, ...], path: Path, line: int) -> str:
    """The chosen fields; the title where those are empty or missing, so that no label stays without a word."""
    words = [row.get(field) or "" for field in fields]
    if not any(words):
        words = [row.get("title") or ""]
    if not all(type(word) is str for word in words):
        raise DataError('"title" and "content" must be strings', path, line)
    return " ".join(word for word in words if word)


def _check_columns(given: list[Any], labels: int | None, path: Path, line: int) -> None:
    limit = 2**31 - 1 if labels is None else labels
    for column in given:
        if type(column) is not int:
            raise DataError(f'"target_ind" holds {column!r}, which is not a label number', path, line)
        if not 0 <= column < limit:
            raise DataError(
                f'"target_ind" holds {column}, but labels run from 0 to {limit - 1}; do the files belong together?',
                path,
                line,
            )


def _weights(given: Any, columns: list[int], path: Path, line: int) -> list[float]:
    if given is None:
        return [1.0] * len(columns)
    if type(given) is not list or len(given) != len(columns):
        raise DataError(
            f'"target_rel" must be a list of {len(columns)} weights, one for each of "target_ind"', path, line
        )
    return [check_weight(weight, str(column), path, line) for weight, column in zip(given, columns, strict=True)]
