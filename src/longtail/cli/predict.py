"""`longtail predict`: texts in, label words out."""

from __future__ import annotations

import contextlib
import json as json_lines
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from longtail.atomic import new_file
from longtail.cli.shared import Json, progress

if TYPE_CHECKING:
    from longtail.model import Model

CHUNK = 8192  # lines read, predicted and written at a time


def predict(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    source: Annotated[str, typer.Argument(metavar="[INPUT]", help="A file, or '-' for standard input.")] = "-",
    k: Annotated[int, typer.Option("-k", min=1, help="Labels for each text.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")] = None,
    json: Json = False,
) -> None:
    """Predict the labels of texts.

    Each line of the input is a text, or a JSON object with "text" and, if wanted, "title", "id" and "exclude", the
    ids of labels that must not be predicted for it. Each line of the output is a JSON object with label words.
    """
    from longtail.store import load

    loaded = load(model)
    name = "standard input" if source == "-" else source
    with progress(), _writing(out) as file:
        between = "[\n" if json else ""
        for chunk in _chunks(_lines(source)):
            for answer in _answer(loaded, chunk, k, name):
                file.write(between + json_lines.dumps(answer, ensure_ascii=False) + ("" if json else "\n"))
                between = ",\n" if json else ""
            file.flush()
        if json:
            file.write("\n]\n" if between == ",\n" else "[]\n")


def _answer(model: Model, lines: list[tuple[int, str]], k: int, source: str) -> Iterator[dict[str, Any]]:
    """Predictions of one chunk, in the order of its lines."""
    import numpy as np
    from scipy import sparse

    from longtail.data.dataset import Rows

    fields = re.split(r"[+,]", model.text_field)
    rows = [_row(line, number, source, fields) for number, line in lines]
    banned = [_banned(row["exclude"], model, number, source) for row, (number, _) in zip(rows, lines, strict=True)]
    excluded = None
    if any(banned):
        starts = np.concatenate([[0], np.cumsum([len(labels) for labels in banned])])
        columns = np.array([label for labels in banned for label in labels], dtype=np.int32)
        marks = np.ones(len(columns), dtype=np.bool_)
        excluded = sparse.csr_array((marks, columns, starts), shape=(len(rows), len(model.labels)))
    predictions = model.predict(Rows(texts=tuple(row["text"] for row in rows)), k, excluded)
    for row, answers in zip(rows, predictions, strict=True):
        labels = [{"id": answer.id, "text": answer.text, "score": round(answer.score, 6)} for answer in answers]
        yield {"id": row["id"], "labels": labels}


def _row(line: str, number: int, source: str, fields: list[str]) -> dict[str, Any]:
    """A line as a row: a plain text, or a JSON object with the fields the model was trained on."""
    from longtail.errors import DataError

    if not line.lstrip().startswith("{"):
        return {"id": str(number), "text": line, "exclude": []}
    try:
        row = json_lines.loads(line)
    except ValueError as error:
        raise DataError(f"broken JSON ({error}); give plain texts or whole JSON objects", source, number) from None
    parts = [row[field] for field in fields if row.get(field) is not None] or [row.get("text")]
    if not all(isinstance(part, str) for part in parts):
        raise DataError(f"a JSON line needs {' or '.join(fields)} as a string", source, number)
    return {"id": str(row.get("id", number)), "text": " ".join(filter(None, parts)), "exclude": row.get("exclude", [])}


def _banned(exclude: Any, model: Model, number: int, source: str) -> list[int]:
    """Rows of the labels that must not be predicted."""
    from longtail.errors import DataError

    if not isinstance(exclude, list):
        raise DataError('"exclude" is a list of label ids', source, number)
    try:
        return sorted(set(model.labels.rows(map(str, exclude))))
    except DataError as error:
        raise DataError(f"{error} in exclude", source, number) from None


def _lines(source: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file (.gz and .xz too) or of standard input."""
    from longtail.data.files import lines
    from longtail.errors import DataError

    if source != "-":
        yield from lines(Path(source))
        return
    number = 0
    try:
        for number, line in enumerate(sys.stdin, start=1):
            yield number, line.rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError("not UTF-8 text; convert it first", "standard input", number + 1) from None


def _chunks(lines: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    chunk: list[tuple[int, str]] = []
    for numbered in lines:
        chunk.append(numbered)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


@contextlib.contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears only when it is whole."""
    if path is None:
        yield sys.stdout
        return
    with new_file(path) as file:
        yield file
