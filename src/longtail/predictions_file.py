"""Predictions on disk, one JSON object a line: `{"id": row id, "labels": [{"id": label id, "score": 0.9}, ...]}`."""

from __future__ import annotations

import math
import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.files import objects
from longtail.data.rows import as_id
from longtail.errors import DataError, did_you_mean
from longtail.predictions import Predictions

MADE_UP = re.compile(r"(train|valid|test)-\d+")  # ids of rows in a table without a column of them
LARGEST = float(np.finfo(np.float32).max)


def read_predictions(path: Path, data: Dataset) -> Predictions:
    """The predictions of the rows of `data`, matched by row id; every row must be there once.

    A label may also be a bare id; then the order in the list is the ranking. Equal scores keep the order of the
    list too: it is the ranking of whoever wrote it.
    """
    row_of = {name: row for row, name in enumerate(data.ids)}
    found: list[tuple[list[int], list[float]] | None] = [None] * len(data)
    for line, entry in objects(path):
        name = as_id(entry.get("id"))
        if name is None:
            raise DataError('the line has no "id"; give the id of a row', path, line)
        row = row_of.get(name)
        if row is None:
            if MADE_UP.fullmatch(data.ids[0]) and not MADE_UP.fullmatch(name):
                raise DataError(
                    f"row id {name!r} is not a row of this split: its rows have no ids of their own and are called "
                    f"{data.ids[0]!r} and so on; give the data a column of ids, name it by "
                    "--id-column, and predict again",
                    path,
                    line,
                )
            near = did_you_mean(name, islice(row_of, 50_000))
            raise DataError(
                f"row id {name!r} is not a row of this split{near or ';'} check --split, or remove the line", path, line
            )
        if found[row] is not None:
            raise DataError(f"row id {name!r} stands twice; remove one of the lines", path, line)
        found[row] = _ranked(entry.get("labels"), data, path, line)
    whole = [entry for entry in found if entry is not None]
    if len(whole) < len(found):
        first = data.ids[found.index(None)]
        raise DataError(
            f"{len(found) - len(whole):,} of {len(found):,} rows of the split have no predictions, the first is "
            f"{first!r}; add a line for each",
            path,
        )
    places = max((len(labels) for labels, _ in whole), default=0)
    indices = np.full((len(data), max(places, 1)), -1, dtype=np.int32)
    scores = np.zeros((len(data), max(places, 1)), dtype=np.float32)
    for row, (labels, given) in enumerate(whole):
        indices[row, : len(labels)] = labels
        scores[row, : len(labels)] = given
    return Predictions(data.labels, indices, scores)


def _ranked(given: Any, data: Dataset, path: Path, line: int) -> tuple[list[int], list[float]]:
    """Label rows and scores, best first. Sorted as they were written: float32 would make ties of close scores."""
    if not isinstance(given, list):
        raise DataError('"labels" must be a list of label ids or of {"id", "score"}', path, line)
    entries, scored = [], 0
    for place, entry in enumerate(given):
        name, score = (entry.get("id"), entry.get("score")) if isinstance(entry, dict) else (entry, None)
        label = data.labels.row_of.get(as_id(name) or "")
        if label is None:
            near = did_you_mean(str(name), data.labels.ids[:50_000])
            raise DataError(f"unknown label id {name!r}{near or ';'} give ids of this data set's labels", path, line)
        # Places stand in for scores that are not given: above 1, so that nobody takes them for chances.
        entries.append((label, 1.0 + len(given) - place if score is None else _number(score, name, path, line)))
        scored += score is not None
    if 0 < scored < len(given):
        raise DataError(f"{scored} of {len(given)} labels have a score; give all of them one, or none", path, line)
    entries.sort(key=lambda entry: -entry[1])
    return [label for label, _ in entries], [min(max(score, -LARGEST), LARGEST) for _, score in entries]


def _number(score: Any, label: Any, path: Path, line: int) -> float:
    try:
        if type(score) in (int, float) and math.isfinite(score):
            return float(score)
    except OverflowError:  # a whole number of 400 digits
        pass
    raise DataError(f"score {score!r} of label {label!r} is not a finite number; mend it", path, line)
