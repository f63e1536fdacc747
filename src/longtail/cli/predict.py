"""`longtail predict`: reads texts, writes their labels."""

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
from longtail.cli.shared import Dial, as_json, progress, ready_to_write, say

if TYPE_CHECKING:
    from longtail.arrays import AnyArray
    from longtail.model import Model
    from longtail.seams import Explanation

CHUNK = 8192  # lines read, predicted and written at a time


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder that train wrote.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="File of texts, or a CSV, TSV or Parquet file with the columns of training; -: standard input.",
        ),
    ] = "-",
    k: Annotated[int, typer.Option("-k", metavar="NUMBER", min=1, help="Most labels of a text.")] = 5,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Leave out labels that score less; evaluate --choose-threshold finds one."),
    ] = None,
    dial: Dial = 0.0,
    database: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="PostgreSQL database to search, which longtail index has loaded."),
    ] = None,
    table: Annotated[str, typer.Option(metavar="NAME", help="Table of the database.")] = "longtail_labels",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default: standard output.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say of each label who proposed it, its frequency and its record.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON list instead of one object per line.")] = False,
) -> None:
    """Predict the labels of texts.

    Each line of the input (also .gz or .xz) is a text, or a JSON object with "text" and, optionally, "title", "id",
    "exclude" (ids of labels that must not be predicted for it) and "vector" (for models that were trained on vectors).
    Each line of the output is a JSON object with the labels of one text, best first.
    """
    from longtail.errors import DataError
    from longtail.store import load

    if threshold is not None and not math.isfinite(threshold):
        raise DataError(f"--threshold must be a score such as 0.5, got {threshold}")
    if out is not None:
        ready_to_write(out)
        if source != "-" and out.exists() and Path(source).exists() and out.samefile(source):
            raise DataError("is the input file, which would be lost; give another name to --out", out)
    loaded = load(model)
    loaded.check_dial(dial, "--dial")
    if database is not None:
        from longtail.export.database import searching
        from longtail.search.database import VectorTable

        loaded = searching(loaded, VectorTable(database, table))
    name = "standard input" if source == "-" else source
    typed = source == "-" and sys.stdin.isatty()
    if typed:
        say("type or paste texts, one per line; end with Ctrl-D")
    # Progress bars would break into the output on the same screen.
    quiet = typed or (out is None and sys.stdout.isatty())
    with nullcontext() if quiet else progress(), _writing(out) as file:
        between = "[\n" if json else ""
        for chunk in _chunks(_lines(source, loaded), 1 if typed else CHUNK):
            for answer in _answer(loaded, chunk, k, threshold, dial, name, why):
                file.write(between + as_json(answer) + ("" if json else "\n"))
                between = ",\n" if json else ""
            file.flush()
        if json:
            file.write("\n]\n" if between == ",\n" else "[]\n")


def _answer(
    model: Model,
    lines: list[tuple[int, str]],
    k: int,
    threshold: float | None,
    dial: float,
    source: str,
    why: bool = False,
) -> Iterator[dict[str, Any]]:
    """Predictions of one chunk, in the order of its lines."""
    import numpy as np
    from scipy import sparse

    from longtail.data.dataset import Rows

    k = max(min(k, len(model.labels)), 1)  # empty places would cost memory, too
    rows = [_row(line, number, source, _fields(model)) for number, line in lines]
    excluded_rows = [
        _excluded(row["exclude"], model, number, source) for row, (number, _) in zip(rows, lines, strict=True)
    ]
    excluded = None
    if any(excluded_rows):
        starts = np.concatenate([[0], np.cumsum([len(labels) for labels in excluded_rows])])
        columns = np.array([label for labels in excluded_rows for label in labels], dtype=np.int32)
        marks = np.ones(len(columns), dtype=np.bool_)
        excluded = sparse.csr_array((marks, columns, starts), shape=(len(rows), len(model.labels)))
    texts, ids = tuple(row["text"] for row in rows), tuple(row["id"] for row in rows)
    asked = Rows(texts=texts, features=_vectors(rows, lines, source), ids=ids)
    predictions = model.predict(asked, k, excluded, dial)
    if threshold is not None:
        predictions = predictions.above(threshold)
    reasons = model.explain(asked, predictions) if why else None
    for number, (row, answers) in enumerate(zip(rows, predictions, strict=True)):
        # The shortest decimal that is this float32: rounding more would make ties and change the ranking.
        labels: list[dict[str, Any]] = [
            {"id": answer.id, "text": answer.text, "score": float(str(np.float32(answer.score)))} for answer in answers
        ]
        # Scores stay probabilities: "dial" tells readers that the order of the list is the ranking.
        answered: dict[str, Any] = {"id": row["id"], **({"dial": dial} if dial else {}), "labels": labels}
        if reasons is not None:
            given = (one for one, label in zip(reasons[number], predictions.indices[number], strict=True) if label >= 0)
            for label, reason in zip(labels, given, strict=True):
                label["why"] = _reason(reason)
            if not labels:
                answered["why"] = "no label fits, or the model knows no word of the text"
        yield answered


def _reason(reason: Explanation) -> dict[str, Any]:
    """An explanation as JSON, without what the model does not know."""
    found: dict[str, Any] = {}
    if reason.votes:
        found["members"] = [
            {"member": vote.member, "place": vote.place, "score": vote.score}
            if vote.place is not None
            else {"member": vote.member, "place": None}
            for vote in reason.votes
        ]
    if reason.train_rows is not None:
        found["training_examples"] = reason.train_rows
    if reason.proposed is not None:
        found["proposed"], found["right"] = reason.proposed, reason.right
    if reason.neighbours:
        found["nearest"] = [
            {"id": one.id, "text": one.text, "similarity": round(one.similarity, 4)} for one in reason.neighbours
        ]
    return found


def _fields(model: Model) -> list[str]:
    """The fields that made the text in training: the whole name first, since a column's name may have + or , in it."""
    return list(dict.fromkeys([model.text_field, *re.split(r"[+,]", model.text_field)]))


def _present(fields: list[str], names: Collection[str]) -> list[str]:
    """The fields that a JSON object or a table has; "text" where it has none of them."""
    if fields[0] in names:
        return fields[:1]
    return [field for field in fields if field in names] or [field for field in ("text",) if field in names]


def _row(line: str, number: int, source: str, fields: list[str]) -> dict[str, Any]:
    """Reads a line: a plain text, or a JSON object with the fields that the model was trained on."""
    from longtail.data.rows import as_id
    from longtail.errors import DataError

    if not line.lstrip().startswith("{"):
        return {"id": str(number), "text": line, "exclude": [], "vector": None}
    try:
        row = json_lines.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"broken JSON ({error}); give plain texts or whole JSON objects", source, number) from None
    present = _present(fields, row)
    parts = [row[field] for field in present if row[field] is not None]
    if not present or not all(isinstance(part, str) for part in parts):
        wanted = " or ".join(f'"{field}"' for field in fields[1:] or fields)
        raise DataError(f"the JSON object needs {wanted} as a string: the model was trained on it", source, number)
    name = str(number) if row.get("id") is None else as_id(row["id"])
    if name is None:
        raise DataError(f'"id" must be a non-empty string, got {row["id"]!r}', source, number)
    exclude = [] if row.get("exclude") is None else row["exclude"]
    return {"id": name, "text": " ".join(filter(None, parts)), "exclude": exclude, "vector": row.get("vector")}


def _vectors(rows: list[dict[str, Any]], lines: list[tuple[int, str]], source: str) -> AnyArray | None:
    """(rows, numbers) the vectors; None where the lines have none."""
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
            raise DataError(
                f'"vector" has {len(vector)} numbers, others have {width}; make all with one encoder', source, number
            )
    return np.array(given, dtype=np.float32)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) in (int, float) and abs(one) < 3e38 for one in value)


def _excluded(exclude: Any, model: Model, number: int, source: str) -> list[int]:
    """Rows of the labels that must not be predicted."""
    from longtail.errors import DataError

    if not isinstance(exclude, list):
        raise DataError(f'"exclude" must be a list of label ids, got {exclude!r}', source, number)
    try:
        return sorted(set(model.labels.rows(map(str, exclude))))
    except DataError as error:
        raise DataError(f'{error} in "exclude"; remove it, the model cannot predict it', source, number) from None


def _lines(source: str, model: Model) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file (.gz and .xz too) or of standard input, without line ends; lines of a table as JSON."""
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
    present = _present(fields, names)
    if not present:
        lacking = " or ".join(map(repr, fields[1:] or fields))
        raise DataError(
            f"there is no column {lacking}, which the model was trained on; the columns are {', '.join(names)}; if "
            "each line is a text, name the file .txt",
            path,
        )
    named = next((name for name in (id_field, "id") if name in names), None)
    for line, record in records(path, names, [*present, *([named] if named else [])]):
        cells = [None if value is None or value == "" else str(value) for value in record]
        row = {name: cell for name, cell in zip(present, cells, strict=False) if cell is not None}
        if named and cells[-1] is not None:
            row["id"] = cells[-1]
        yield line, json_lines.dumps({present[0]: "", **row})


def _standard_input() -> Iterator[tuple[int, str]]:
    from longtail.data.limits import MAX_LINE
    from longtail.errors import DataError

    stream, number = sys.stdin.buffer, 0  # bytes, so that the encoding of the locale plays no role
    while raw := stream.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE:
            raise DataError(
                f"the line is longer than {MAX_LINE} bytes, the most that a line may have; split it",
                "standard input",
                number,
            )
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
    """Standard output, or a file that appears once it is complete."""
    from longtail.errors import DataError, what_to_do

    if path is None:
        yield sys.stdout
        return
    try:
        with new_file(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error}); {what_to_do(error)}", path) from None
