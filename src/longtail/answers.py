"""Lines of a file answered by a model: what `longtail predict` reads and writes, here and in jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray
from longtail.data.columns import column_names, few, records, table_kind
from longtail.data.dataset import Rows
from longtail.data.files import document_text
from longtail.data.files import lines as file_lines
from longtail.data.mending import pass_over
from longtail.data.rows import as_id
from longtail.data.subjects import documents_of, is_subject_table, name_of, subject_rows
from longtail.data.text_language import LanguageCells
from longtail.errors import DataError, did_you_mean
from longtail.progress import note

if TYPE_CHECKING:
    from longtail.model import Model

APART = "title/text"  # a title on a line of its own
CHUNK = 8192  # lines read, predicted and written at a time


def lines_of(path: Path, model: Model) -> Iterator[tuple[int, str]]:
    """Read the lines of a file (.gz and .xz too), the records of a table, or the documents of a folder.

    Args:
        path: the file; or a folder, whose files NAME.txt are a document each.
        model: says which columns of a table are wanted.

    Yields:
        The number of each line and the line, without its end; records and documents as JSON.

    Raises:
        DataError: the file cannot be read or has none of the columns of training, or the folder has no document.
    """
    if path.is_dir():
        yield from _documents(path)
        return
    if is_subject_table(path):
        for number, text, _ in subject_rows(path):
            yield number, json.dumps({"text": text})
        return
    if table_kind(path):
        required = [] if model.table is None else list(model.table.text)
        yield from _records(path, _fields(model), model.id_field, required, model.language_field)
        return
    for number, line in file_lines(path):
        yield number, line.removesuffix("\r")


def answer_lines(
    model: Model,
    lines: list[tuple[int, str]],
    k: int,
    threshold: float | None,
    dial: float,
    source: str,
    why: bool = False,
    language: str = "",
) -> Iterator[dict[str, Any]]:
    """Predict the labels of some lines.

    Args:
        model: the model.
        lines: numbered lines: plain texts, or JSON objects with the fields that the model was trained on.
        k: most labels of a line.
        threshold: labels that score less are left out.
        dial: see `Model.predict`.
        source: what an error names.
        why: say of each label who proposed it.
        language: the code of texts that tell none themselves.

    Yields:
        One JSON object a line, in the order of the lines: its id, its labels, best first, and "unsure" with the
        reason where the model knows too little of the text.

    Raises:
        DataError: a line is broken; the file and the line are named.
    """
    k = max(min(k, len(model.labels)), 1)  # empty places would cost memory, too
    apart = model.text_field == APART if model.table is None else model.table.title_apart
    rows, read = [], []
    for number, line in lines:
        try:
            rows.append(_row(line, number, source, _fields(model), apart, model.language_field))
            read.append((number, line))
        except DataError as error:
            pass_over(error, "lines that cannot be read", line)
    lines = read
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
    languages = None
    if model.language_field is not None:
        told = _languages(rows, lines, model.language_field, source)
        languages = tuple(code or language for code in told)
    asked = Rows(texts=texts, features=_vectors(rows, lines, source), ids=ids, languages=languages)
    predictions = model.predict(asked, k, excluded, dial)
    unsure = model.unsure(asked, None if dial else predictions)
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
        if unsure[number] is not None:
            answered["unsure"] = unsure[number]
        if reasons is not None:
            given = (one for one, label in zip(reasons[number], predictions.indices[number], strict=True) if label >= 0)
            for label, reason in zip(labels, given, strict=True):
                label["why"] = reason.as_json()
            if not labels:
                answered["why"] = "no label fits, or the model knows no word of the text"
        yield answered


def _fields(model: Model) -> list[str]:
    """The fields that made the text in training: the whole name first, since a column's name may have + or , in it."""
    parts = re.split(r"[+,/]", model.text_field) if model.table is None else model.table.text
    return list(dict.fromkeys([model.text_field, *parts]))


def _present(fields: list[str], names: Collection[str]) -> list[str]:
    """The fields that a JSON object or a table has; "text" where it has none of them."""
    if fields[0] in names:
        return fields[:1]
    return [field for field in fields if field in names] or [field for field in ("text",) if field in names]


def _row(
    line: str, number: int, source: str, fields: list[str], apart: bool, language_field: str | None
) -> dict[str, Any]:
    """Reads a line: a plain text, or a JSON object with the fields that the model was trained on."""
    if not line.lstrip().startswith("{"):
        return {"id": str(number), "text": line, "exclude": [], "vector": None, "language": None}
    try:
        row = json.loads(line)
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
    text = " ".join(filter(None, parts))
    if apart and fields[1] in row:  # the first line is the title, even where it is empty
        rest = [row[field] for field in present if field != fields[1]]
        text = " ".join((row[fields[1]] or "").split()) + "\n" + " ".join(filter(None, rest))
    language = None if language_field is None else row.get(language_field)
    return {"id": name, "text": text, "exclude": exclude, "vector": row.get("vector"), "language": language}


def _languages(rows: list[dict[str, Any]], lines: list[tuple[int, str]], field: str, source: str) -> tuple[str, ...]:
    """The codes of the languages of documents; "" where one is to be guessed. Unknown codes are named in a note."""
    cells = LanguageCells()
    codes = [cells.code(row["language"], Path(source), number) for row, (number, _) in zip(rows, lines, strict=True)]
    if cells.unknown:
        note(cells.notes(field)[-1])
    return tuple(codes)


def _vectors(rows: list[dict[str, Any]], lines: list[tuple[int, str]], source: str) -> AnyArray | None:
    """(rows, numbers) the vectors; None where the lines have none."""
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
    if not isinstance(exclude, list):
        raise DataError(f'"exclude" must be a list of label ids, got {exclude!r}', source, number)
    try:
        return sorted(set(model.labels.rows(map(str, exclude))))
    except DataError as error:
        raise DataError(f'{error} in "exclude"; remove it, the model cannot predict it', source, number) from None


def _documents(folder: Path) -> Iterator[tuple[int, str]]:
    """Each NAME.txt of a folder as one document with the id NAME, in the order of names."""
    files = documents_of(folder)
    if not files:
        raise DataError("has no file NAME.txt, each of which would be a document; give a folder of such files", folder)
    for number, file in enumerate(files, start=1):
        yield number, json.dumps({"id": unquote(name_of(file)), "text": document_text(file)})


def _records(
    path: Path, fields: list[str], id_field: str, required: list[str], language: str | None
) -> Iterator[tuple[int, str]]:
    """The records of a table as JSON; it must have all text columns of training where those are known."""
    names = column_names(path)
    present = required or _present(fields, names)
    more = [] if language is None or language in present else [language]
    if lacking := [name for name in [*required, *more] if name not in names]:
        near = did_you_mean(lacking[0], names)
        raise DataError(
            f"there is no column {', '.join(map(repr, lacking))}, which the model was trained on{near or ';'} the "
            f"columns are {few(names)}; add or rename it, or train on the columns that there are",
            path,
        )
    if not present:
        wanted = " or ".join(map(repr, fields[1:] or fields))
        raise DataError(
            f"there is no column {wanted}, which the model was trained on; the columns are {few(names)}; if "
            "each line is a text, name the file .txt",
            path,
        )
    named = next((name for name in (id_field, "id") if name in names), None)
    for line, record in records(path, names, [*present, *more, *([named] if named else [])]):
        cells = [None if value is None or value == "" else str(value) for value in record]
        row = {name: cell for name, cell in zip([*present, *more], cells, strict=False) if cell is not None}
        if named and cells[-1] is not None:
            row["id"] = cells[-1]
        yield line, json.dumps({present[0]: "", **row})


def in_chunks(lines: Iterator[tuple[int, str]], size: int) -> Iterator[list[tuple[int, str]]]:
    """Group lines.

    Args:
        lines: numbered lines.
        size: of a chunk.

    Yields:
        The chunks, the last of them perhaps shorter.
    """
    chunk: list[tuple[int, str]] = []
    for numbered in lines:
        chunk.append(numbered)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
