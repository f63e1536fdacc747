"""Predictions on disk, one JSON object a line: `{"id": row id, "labels": [{"id": label id, "score": 0.9}, ...]}`.

Answers of other tools may also be a TREC run, one line a label: `row Q0 label rank score name`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.files import lines, objects, shown
from longtail.data.labels import LabelSet
from longtail.data.opening import check_room, reading
from longtail.data.rows import as_id
from longtail.errors import DataError, counted, did_you_mean
from longtail.predictions import Predictions

MADE_UP_ID = re.compile(r"(train|valid|test)-\d+")  # of a row in a table without a column of ids
LARGEST = float(np.finfo(np.float32).max)


def read_predictions(path: Path, data: Dataset) -> Predictions:
    """Read predictions of the rows of a split, matched by row id; every row must be there once.

    A label may also be a bare id; then the order in the list is the ranking. Equal scores keep the order of the list
    too, since it is the ranking of the program that wrote it. So does a line with "dial" above 0, whose scores are
    probabilities that rank nothing.

    Args:
        path: a file of one JSON object a line.
        data: the split.

    Returns:
        Predictions in the order of the rows of `data`.

    Raises:
        DataError: a row or label is unknown, a row is missing or there twice, or a score is no finite number.
    """
    with reading(path):
        return _read(path, data)


def _read(path: Path, data: Dataset) -> Predictions:
    row_of = {name: row for row, name in enumerate(data.ids)}
    found: list[tuple[list[int], list[float]] | None] = [None] * len(data)
    for line, entry in objects(path):
        name = as_id(entry.get("id"))
        if name is None:
            raise DataError('the line has no "id"; give the id of an example', path, line)
        row, who = row_of.get(name), shown(name)
        if row is None:
            if MADE_UP_ID.fullmatch(data.ids[0]) and not MADE_UP_ID.fullmatch(name):
                raise DataError(
                    f"id {who} is not an example of this split: its examples have no ids of their own and are called "
                    f"{data.ids[0]!r} and so on; give the data a column of ids, name it by "
                    "--id-column, and predict again",
                    path,
                    line,
                )
            near = did_you_mean(name, islice(row_of, 50_000))
            raise DataError(
                f"id {who} is not an example of this split{near or ';'} check --split, or remove the line",
                path,
                line,
            )
        if found[row] is not None:
            raise DataError(f"id {who} stands twice; remove one of the lines", path, line)
        found[row] = _ranked(entry.get("labels"), data.labels, path, line, by_score=not entry.get("dial"))
    whole = [entry for entry in found if entry is not None]
    if len(whole) < len(found):
        first = data.ids[found.index(None)]
        raise DataError(
            f"{len(found) - len(whole):,} of {len(found):,} examples of the split have no predictions, the first is "
            f"{first!r}; add a line for each",
            path,
        )
    places = max((len(labels) for labels, _ in whole), default=0)
    check_room(8 * len(data) * max(places, 1), path, f"a table of {places:,} labels for each row")
    indices = np.full((len(data), max(places, 1)), -1, dtype=np.int32)
    scores = np.zeros((len(data), max(places, 1)), dtype=np.float32)
    for row, (labels, given) in enumerate(whole):
        indices[row, : len(labels)] = labels
        scores[row, : len(labels)] = given
    return Predictions(data.labels, indices, scores)


def _ranked(
    given: Any, labels: LabelSet, path: Path, line: int, by_score: bool = True, skip_unknown: bool = False
) -> tuple[list[int], list[float]]:
    """Label rows and scores, best first. Sorted before they become float32, which would make close scores equal."""
    if not isinstance(given, list):
        raise DataError('"labels" must be a list of label ids or of {"id", "score"}', path, line)
    entries, scored = [], 0
    for place, entry in enumerate(given):
        name, score = (entry.get("id"), entry.get("score")) if isinstance(entry, dict) else (entry, None)
        label = _label(name, labels, path, line, skip_unknown)
        # Without scores the ranks replace them: above 1, so that they cannot pass for probabilities.
        entries.append((label, 1.0 + len(given) - place if score is None else _number(score, name, path, line)))
        scored += score is not None
    if 0 < scored < len(given):
        raise DataError(f"{scored} of {len(given)} labels have a score; give all of them one, or none", path, line)
    entries = [entry for entry in entries if entry[0] >= 0]
    if by_score:
        entries.sort(key=lambda entry: -entry[1])
    return [label for label, _ in entries], [min(max(score, -LARGEST), LARGEST) for _, score in entries]


@dataclass(frozen=True)
class RowAnswer:
    """What a file says of one row."""

    id: str
    line: int  # of the file
    labels: list[int]  # label rows, best first
    scores: list[float]


def is_run(path: Path) -> bool:
    """Tell a TREC run from JSON lines. A run has no line for a row that it has no label for.

    Args:
        path: the file; also .gz or .xz.

    Returns:
        Whether it is a run; an empty file is none.
    """
    first = next((line for _, line in lines(path) if line.strip()), "{")
    return not first.lstrip().startswith("{")


def read_answers(path: Path, labels: LabelSet, skip_unknown: bool = False) -> Iterator[RowAnswer]:
    """Read the answers of another tool, whichever rows they are of.

    Args:
        path: a file of one JSON object a line, as `longtail predict` writes it, or a TREC run; also .gz or .xz.
        labels: of the data set.
        skip_unknown: leave labels out that the label set does not have, as where a part of the labels is fitted alone.

    Yields:
        The answer of each row, in the order of the file.

    Raises:
        DataError: a label is unknown, a row is there twice, or a line cannot be read.
    """
    seen: set[str] = set()
    for answer in _run(path, labels, skip_unknown) if is_run(path) else _objects(path, labels, skip_unknown):
        if answer.id in seen:
            raise DataError(f"id {shown(answer.id)} stands twice; remove one of the two", path, answer.line)
        seen.add(answer.id)
        yield answer


def _objects(path: Path, labels: LabelSet, skip_unknown: bool) -> Iterator[RowAnswer]:
    for line, entry in objects(path):
        name = as_id(entry.get("id"))
        if name is None:
            raise DataError('the line has no "id"; give the id of an example', path, line)
        ranked = _ranked(entry.get("labels"), labels, path, line, not entry.get("dial"), skip_unknown)
        yield RowAnswer(name, line, *ranked)


def _run(path: Path, labels: LabelSet, skip_unknown: bool) -> Iterator[RowAnswer]:
    """The rows of a TREC run. The lines of a row stand together; the scores decide, as in trec_eval."""
    name, begins, entries, seen = "", 0, list[tuple[int, float]](), set[int]()
    for line, text in lines(path):
        if not text.strip():
            continue
        fields = text.split()
        if len(fields) != 6:
            raise DataError(
                f"{counted(len(fields), 'field')} "
                f"where a TREC run has six (row Q0 label rank score name), and no JSON object "
                "either; give one of the two forms",
                path,
                line,
            )
        if fields[0] != name and entries:
            yield _row_of_run(name, begins, entries)
            entries = []
        if not entries:
            name, begins, seen = fields[0], line, set()
        try:
            score = float(fields[4])
        except ValueError:
            raise DataError(f"score {shown(fields[4])} is not a number; mend it", path, line) from None
        label = _label(fields[2], labels, path, line, skip_unknown)
        if label >= 0 and label in seen:
            raise DataError(
                f"label id {shown(fields[2])} stands twice for row {shown(name)}; remove one line", path, line
            )
        seen.add(label)
        entries.append((label, _number(score, fields[2], path, line)))
    if entries:
        yield _row_of_run(name, begins, entries)


def _row_of_run(name: str, line: int, entries: list[tuple[int, float]]) -> RowAnswer:
    entries = sorted((entry for entry in entries if entry[0] >= 0), key=lambda entry: -entry[1])
    return RowAnswer(name, line, [label for label, _ in entries], [score for _, score in entries])


def _label(name: Any, labels: LabelSet, path: Path, line: int, skip_unknown: bool) -> int:
    """The row of a label; -1 for an unknown one that may be left out."""
    label = labels.row_of.get(as_id(name) or "", -1)
    if label < 0 and not skip_unknown:
        near = did_you_mean(as_id(name) or "", labels.ids[:50_000])
        raise DataError(f"unknown label id {shown(name)}{near or ';'} give ids of this data set's labels", path, line)
    return label


def _number(score: Any, label: Any, path: Path, line: int) -> float:
    try:
        if type(score) in (int, float) and math.isfinite(score):
            return float(score)
    except OverflowError:  # a whole number of 400 digits
        pass
    raise DataError(f"score {shown(score)} of label {shown(label)} is not a finite number; mend it", path, line)
