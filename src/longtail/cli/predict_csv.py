"""Predictions as a table: the columns of the input, then the labels, their scores and why the model is unsure."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from longtail.data.labels import LabelSet

LABELS, NAMES, SCORES, UNSURE = "predicted_labels", "predicted_names", "predicted_scores", "unsure"
SEPARATOR = "|"


class PredictionTable:
    """Writes answers as CSV. A table as input passes its own columns through, ids among them.

    Labels whose texts are other than their ids, such as concepts with URIs, are named in a column of their own.
    """

    def __init__(self, file: TextIO, source: str, labels: LabelSet) -> None:
        from longtail.data.columns import column_names, records, table_kind
        from longtail.data.subjects import is_subject_table

        self._writer = csv.writer(file, lineterminator="\n")
        self._given: Iterator[tuple[int, tuple[Any, ...]]] | None = None
        names = ["id"]
        path = Path(source)
        if source != "-" and table_kind(path) and not is_subject_table(path):
            names = column_names(path)
            self._given = records(path, names, names)  # in step with the answers
        self._named = any(text not in ("", name) for name, text in zip(labels.ids, labels.texts, strict=True))
        self._writer.writerow([*names, LABELS, *([NAMES] if self._named else []), SCORES, UNSURE])

    def write(self, answer: dict[str, Any]) -> None:
        """Writes a line.

        Args:
            answer: of one document, as `answer_lines` gives it.
        """
        cells = [answer["id"]] if self._given is None else next(self._given)[1]
        fields = ["id", "text"] if self._named else ["id"]
        labels = [SEPARATOR.join(_quoted(label[field]) for label in answer["labels"]) for field in fields]
        scores = SEPARATOR.join(repr(label["score"]) for label in answer["labels"])
        self._writer.writerow([*cells, *labels, scores, answer.get("unsure", "")])


def _quoted(label: str) -> str:
    """A label as a list in a cell has it: in quotes where it has the separator or a quote in it."""
    return '"' + label.replace('"', '""') + '"' if SEPARATOR in label or '"' in label else label
