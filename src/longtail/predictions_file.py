"""Predictions on disk, one JSON object a line: `{"id": row id, "labels": [{"id": label id, "score": 0.9}, ...]}`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.files import objects
from longtail.errors import DataError, did_you_mean
from longtail.predictions import Predictions


def read_predictions(path: Path, data: Dataset) -> Predictions:
    """The predictions of the rows of `data`, matched by row id; every row must be there once.

    A label may also be a bare id; then the order in the list is the ranking.
    """
    row_of = {name: row for row, name in enumerate(data.ids)}
    found: list[tuple[list[int], list[float]] | None] = [None] * len(data)
    for line, entry in objects(path):
        row = row_of.get(str(entry.get("id")))
        if row is None:
            raise DataError(f"row id {entry.get('id')!r} is not a row of this split", path, line)
        if found[row] is not None:
            raise DataError(f"row id {entry.get('id')!r} stands twice", path, line)
        found[row] = _entries(entry.get("labels"), data, path, line)
    missing = sum(entry is None for entry in found)
    if missing:
        first = data.ids[next(row for row, entry in enumerate(found) if entry is None)]
        raise DataError(f"{missing:,} rows of the split have no predictions, the first is {first!r}", path)
    whole = [entry for entry in found if entry is not None]
    places = max((len(labels) for labels, _ in whole), default=0)
    indices = np.full((len(data), max(places, 1)), -1, dtype=np.int32)
    scores = np.zeros((len(data), max(places, 1)), dtype=np.float32)
    for row, (labels, given) in enumerate(whole):
        indices[row, : len(labels)] = labels
        scores[row, : len(labels)] = given
    return Predictions(data.labels, indices, scores).sorted()


def _entries(given: Any, data: Dataset, path: Path, line: int) -> tuple[list[int], list[float]]:
    if not isinstance(given, list):
        raise DataError('"labels" must be a list of label ids or of {"id", "score"}', path, line)
    labels, scores = [], []
    for place, entry in enumerate(given):
        name, score = (entry.get("id"), entry.get("score")) if isinstance(entry, dict) else (entry, None)
        label = data.labels.row_of.get(str(name))
        if label is None:
            raise DataError(f"unknown label id {name!r}{did_you_mean(str(name), data.labels.ids[:50000])}", path, line)
        score = 1 - place / len(given) if score is None else score
        if not isinstance(score, int | float) or not np.isfinite(score):
            raise DataError(f"score {score!r} of label {name!r} is not a finite number", path, line)
        labels.append(label)
        scores.append(float(score))
    return labels, scores
