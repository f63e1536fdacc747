"""`longtail predict`: texts in, label words out."""

from __future__ import annotations

import json as json_lines
import math
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from longtail.atomic import new_file
from longtail.cli.shared import as_json, progress, ready_to_write, say

if TYPE_CHECKING:
    from longtail.arrays import AnyArray
    from longtail.model import Model

CHUNK = 8192  # lines read, predicted and written at a time


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder, as train writes it.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="File of texts, or a CSV, TSV or Parquet file with the columns of training; - is standard input.",
        ),
    ] = "-",
    k: Annotated[int, typer.Option("-k", metavar="NUMBER", min=1, help="Labels for each text.")] = 5,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Leave out labels that score less; evaluate --choose-threshold finds one."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="PostgreSQL database to find labels in, as longtail index loaded it."),
    ] = None,
    table: Annotated[str, typer.Option(metavar="NAME", help="Table of the database.")] = "longtail_labels",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default: standard output.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON list instead of an object a line.")] = False,
) -> None:
    """Predict the labels of texts, as words.

    Each line of the input (also .gz or .xz) is a text, or a JSON object with "text" and, if wanted, "title", "id",
    "exclude", the ids of labels that must not be predicted for it, and "vector", for models that were trained on
    vectors. Each line of the output is a JSON object with the labels of that line, best first.
    """
    from longtail.errors import DataError
    from longtail.store import load

    if threshold is not None and not math.isfinite(threshold):
        raise DataError(f"--threshold is a score such as 0.5, got {threshold}")
    if out is not None:
        ready_to_write(out)
        if source != "-" and out.exists() and Path(source).exists() and out.samefile(source):
            raise DataError("is the input too, and would be lost; give another name to --out", out)
    loaded = load(model)
    if database is not None:
        from longtail.export.database import searching
        from longtail.search.database import Table

        loaded = searching(loaded, Table(database, table))
    name = "standard input" if source == "-" else source
    typed = source == "-" and sys.stdin.isatty()
    if typed:
        say("type or paste texts, one a line; end with Ctrl-D")
    # Bars and lines do not go together on one screen.
    quiet = typed or (out is None and sys.stdout.isatty())
    with nullcontext() if quiet else progress(), _writing(out) as file:
        between = "[\n" if json else ""
        for chunk in _chunks(_lines(source, loaded), 1 if typed else CHUNK):
            for answer in _answer(loaded, chunk, k, threshold, name):
                file.write(between + as_json(answer) + ("" if json else "\n"))
                between = ",\n" if json else ""
            file.flush()
        if json:
            file.write("\n]\n" if between == ",\n" else "[]\n")


def _answer(
    model: Model, lines: list[tuple[int, str]], k: int, threshold: float | None, source: str
) -> Iterator[dict[str, Any]]:
    """Predictions of one chunk, in the order of its lines."""
    import numpy as np
    from scipy import sparse

    from longtail.data.dataset import Rows

    k = max(min(k, len(model.labels)), 1)  # places that no label can fill cost memory all the same
    rows = [_row(line, number, source, _fields(model)) for number, line in lines]
    banned = [_banned(row["exclude"], model, number, source) for row, (number, _) in zip(rows, lines, strict=True)]
    excluded = None
    if any(banned):
        starts = np.concatenate([[0], np.cumsum([len(labels) for labels in banned])])
        columns = np.array([label for labels in banned for label in labels], dtype=np.int32)
        marks = np.ones(len(columns), dtype=np.bool_)
        excluded = sparse.csr_array((marks, columns, starts), shape=(len(rows), len(model.labels)))
    texts = tuple(row["text"] for row in rows)
    predictions = model.predict(Rows(texts=texts, features=_vectors(rows, lines, source)), k, excluded)
    if threshold is not None:
        predictions = predictions.above(threshold)
    for row, answers in zip(rows, predictions, strict=True):
        # The shortest number that is this float32: rounding would make ties, and change the ranking.
        labels = [
            {"id": answer.id, "text": answer.text, "score": float(str(np.float32(answer.score)))} for answer in answers
        ]
        yield {"id": row["id"], "labels": labels}


def _fields(model: Model) -> list[str]:
    """What a row's text was made of in training. A column's own name may hold what parts the names of several."""
    return list(dict.fromkeys([model.text_field, *re.split(r"[+,]", model.text_field)]))


def _there(fields: list[str], names: Collection[str]) -> list[str]:
    """Those of the fields that a row or a table has; `text` will do where it has none."""
    if fields[0] in names:
        return fields[:1]
    return [field for field in fields if field in names] or [field for field in ("text",) if field in names]


def _row(line: str, number: int, source: str, fields: list[str]) -> dict[str, Any]:
    """A line as a row: a plain text, or a JSON object with the fields the model was trained on."""
    from longtail.data.rows import as_id
    from longtail.errors import DataError

    if not line.lstrip().startswith("{"):
        return {"id": str(number), "text": line, "exclude": [], "vector": None}
    try:
        row = json_lines.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"broken JSON ({error}); give plain texts or whole JSON objects", source, number) from None
    there = _there(fields, row)
    parts = [row[field] for field in there if row[field] is not None]
    if not there or not all(isinstance(part, str) for part in parts):
        wanted = " or ".join(f'"{field}"' for field in fields[1:] or fields)
        raise DataError(f"the JSON object needs {wanted} as a string: the model was trained on it", source, number)
    name = str(number) if row.get("id") is None else as_id(row["id"])
    if name is None:
        raise DataError(f'"id" must be a string that is not empty, got {row["id"]!r}', source, number)
    exclude = [] if row.get("exclude") is None else row["exclude"]
    return {"id": name, "text": " ".join(filter(None, parts)), "exclude": exclude, "vector": row.get("vector")}


def _vectors(rows: list[dict[str, Any]], lines: list[tuple[int, str]], source: str) -> AnyArray | None:
    """The rows' vectors (rows, numbers), where they have them."""
    import numpy as np

    from longtail.errors import DataError

    given = [row["vector"] for row in rows]
    if all(vector is None for vector in given):
        return None
    width = next((len(vector) for vector in given if _is_vector(vector)), 0)
    for vector, (number, _) in zip(given, lines, strict=True):
        if not _is_vector(vector):
            raise DataError(f'"vector" must be a list of finite numbers, got {str(vector)[:40]}', source, number)
        if len(vector) != width:
            raise DataError(f'"vector" has {len(vector)} numbers, others have {width}; use one encoder', source, number)
    return np.array(given, dtype=np.float32)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) in (int, float) and abs(one) < 3e38 for one in value)


def _banned(exclude: Any, model: Model, number: int, source: str) -> list[int]:
    """Rows of the labels that must not be predicted."""
    from longtail.errors import DataError

    if not isinstance(exclude, list):
        raise DataError(f'"exclude" must be a list of label ids, got {exclude!r}', source, number)
    try:
        return sorted(set(model.labels.rows(map(str, exclude))))
    except DataError as error:
        raise DataError(f'{error} in "exclude"; remove it, the model cannot predict it', source, number) from None


def _lines(source: str, model: Model) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file (.gz and .xz too) or of standard input, without their line ends; those of a table as
    JSON objects."""
    from longtail.data.columns import table_kind
    from longtail.data.files import lines

    if source != "-" and table_kind(Path(source)):
        yield from _records(Path(source), _fields(model), model.id_field)
        return
    for number, line in lines(Path(source)) if source != "-" else _standard_input():
        yield number, line.removesuffix("\r")


def _records(path: Path, fields: list[str], id_field: str) -> Iterator[tuple[int, str]]:
    from longtail.data.columns import column_names, records
    from longtail.errors import DataError

    names = column_names(path)
    there = _there(fields, names)
    if not there:
        lacking = " or ".join(map(repr, fields[1:] or fields))
        raise DataError(
            f"no column {lacking}, which the model was trained on; the columns are {', '.join(names)}; if each line is "
            "a text, call the file .txt",
            path,
        )
    named = next((name for name in (id_field, "id") if name in names), None)
    for line, record in records(path, names, [*there, *([named] if named else [])]):
        cells = [None if value is None or value == "" else str(value) for value in record]
        row = {name: cell for name, cell in zip(there, cells, strict=False) if cell is not None}
        if named and cells[-1] is not None:
            row["id"] = cells[-1]
        yield line, json_lines.dumps({there[0]: "", **row})


def _standard_input() -> Iterator[tuple[int, str]]:
    from longtail.errors import DataError

    for number, raw in enumerate(sys.stdin.buffer, start=1):  # bytes: the locale has no say in what a text is
        try:
            line = raw.removesuffix(b"\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            wrong = (
                f"byte 0x{raw[error.start]:02x} is not UTF-8; convert the text, for example: iconv -f latin1 -t utf-8"
            )
            raise DataError(wrong, "standard input", number) from None
        yield number, line


def _chunks(lines: Iterator[tuple[int, str]], size: int) -> Iterator[list[tuple[int, str]]]:
    chunk: list[tuple[int, str]] = []
    for numbered in lines:
        chunk.append(numbered)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears only when it is whole."""
    from longtail.errors import DataError

    if path is None:
        yield sys.stdout
        return
    try:
        with new_file(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error}); check the disk and the rights", path) from None
