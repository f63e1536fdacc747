"""Predictions as a table: the columns of the input, then the labels, their scores and why the model is unsure."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

LABELS, SCORES, UNSURE = "predicted_labels", "predicted_scores", "unsure"
SEPARATOR = "|"


class PredictionTable:
    """Writes answers as CSV. A table as input passes its own columns through, ids among them."""

    def __init__(self, file: TextIO, source: str) -> None:
        from longtail.data.columns import column_names, records, table_kind

        self._writer = csv.writer(file, lineterminator="\n")
        self._given: Iterator[tuple[int, tuple[Any, ...]]] | None = None
        names = ["id"]
        path = Path(source)
        if source != "-" and table_kind(path):
            names = column_names(path)
            self._given = records(path, names, names)  # in step with the answers
        self._writer.writerow([*names, LABELS, SCORES, UNSURE])

    def write(self, answer: dict[str, Any]) -> None:
        """Writes a line.

        Args:
            answer: of one document, as `answer_lines` gives it.
        """
        cells = [answer["id"]] if self._given is None else next(self._given)[1]
        labels = SEPARATOR.join(_quoted(label["id"]) for label in answer["labels"])
        scores = SEPARATOR.join(repr(label["score"]) for label in answer["labels"])
        self._writer.writerow([*cells, labels, scores, answer.get("unsure", "")])


def _quoted(label: str) -> str:
    """A label as a list in a cell has it: in quotes where it has the separator or a quote in it."""
    return '"' + label.replace('"', '""') + '"' if SEPARATOR in label or '"' in label else label
