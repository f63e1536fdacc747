"""The folder layout: `train/valid/test.jsonl`, `labels.jsonl`, `exclude.jsonl` and `corpus.json`.

    train.jsonl    {"id": "7", "title": "...", "text": "...", "labels": ["a", "b"]}    or {"a": 1, "b": 0.4}
    labels.jsonl   {"id": "a", "text": "words for a"}                                  optional; perhaps also
                   "names": [further names], "broader": [label ids], "related": [label ids]
    exclude.jsonl  {"id": "7", "labels": ["c"]}            optional: never predicted for document 7
                   perhaps also "language": "de", where corpus.json has "language_column": "language"
    corpus.json    {"name": "...", "propensity": {"a": 0.55, "b": 1.5}, "text": "title+text"}    optional

Each may be compressed (.gz, .xz). Without `labels.jsonl` the labels are collected from the splits in order
of appearance and each label's text is its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from longtail.data.corpus_facts import check_text_field
from longtail.data.files import COMPRESSED, find, objects, shown
from longtail.data.labels import Propensity
from longtail.data.mending import pass_over
from longtail.data.rows import Gathered, LabelIndex, Splits, as_id, check_ids, gather, pairs
from longtail.data.text_language import LanguageCells
from longtail.errors import DataError

SPLITS = ("train", "valid", "test")


def read_folder(folder: Path, text: str, propensity: Propensity, language: str | None = None) -> Splits:
    """Reads the folder layout.

    Args:
        folder: the folder.
        text: the fields that make the text of a document: "title", "text" or "title+text".
        propensity: the constants of the data set.
        language: the field that has the language of a document; None: no field has it.

    Returns:
        The splits.

    Raises:
        DataError: a file is missing or a line is wrong.
    """
    check_text_field(text)
    paths = {split: find(folder, f"{split}.jsonl") for split in SPLITS}
    if paths["train"] is None:
        raise DataError("has no train.jsonl, train.jsonl.gz or train.jsonl.xz; add one", folder)
    labels = read_labels(find(folder, "labels.jsonl"))
    spoken = LanguageField(language)
    gathered = {
        split: _read_split(path, labels, text, split, spoken) for split, path in paths.items() if path is not None
    }
    check_ids(list(gathered.values()))
    excluded = _read_excluded(find(folder, "exclude.jsonl"), gathered, labels)
    label_set = labels.label_set(propensity)
    found = {
        split: part.dataset(
            label_set, pairs(*excluded[split], (len(part.ids), len(label_set))) if excluded[split][0] else None
        )
        for split, part in gathered.items()
    }
    return Splits(
        train=found["train"],
        valid=found.get("valid"),
        test=found.get("test"),
        text_field=text,
        language_field=language,
        notes=spoken.notes(folder),
    )


def read_rows_file(path: Path, text: str, propensity: Propensity, language: str | None = None) -> Splits:
    """Reads one file as the train split. Files beside it are not read; give the folder for that.

    Args:
        path: the file of JSON lines.
        text: the fields that make the text of a document: "title", "text" or "title+text".
        propensity: the constants of the data set.
        language: the field that has the language of a document; None: no field has it.

    Returns:
        The train split.

    Raises:
        DataError: a line is wrong.
    """
    labels, spoken = LabelIndex(), LanguageField(language)
    gathered = _read_split(path, labels, check_text_field(text), "train", spoken)
    check_ids([gathered])
    beside = [name for ending in COMPRESSED if (path.parent / (name := f"labels.jsonl{ending}")).is_file()]
    notes = [f"only {path.name} was read: give its folder to use {beside[0]} too"] if beside else []
    train = gathered.dataset(labels.label_set(propensity))
    return Splits(train=train, text_field=text, language_field=language, notes=(*notes, *spoken.notes(path)))


def _text_of(text: str) -> Callable[[dict[str, Any]], str]:
    """The function that makes the text of a JSON object.

    It raises KeyError for a missing field and TypeError for one that is not a string.
    """

    def one(row: dict[str, Any]) -> str:
        value = row[text]
        return "" if value is None else "" + value

    def both(row: dict[str, Any]) -> str:
        title = row.get("title") or ""
        body = (row.get("text") if title else row["text"]) or ""
        joined: str = title + " " + body if title and body else title + body
        return joined

    def apart(row: dict[str, Any]) -> str:
        """The first line is the title, even where it is empty: see `title_weight`."""
        title = row.get("title") or ""
        body = (row.get("text") if title else row["text"]) or ""
        return " ".join(title.split()) + "\n" + body

    return {"title+text": both, "title/text": apart}.get(text, one)


class LanguageField:
    """The field of JSON lines that has the language of a document, and what stood in it."""

    def __init__(self, name: str | None) -> None:
        """`name`: of the field; None where no field has it."""
        self.name, self.cells, self.seen = name, LanguageCells(), False

    def of(self, row: dict[str, Any], path: Path, line: int) -> str | None:
        """The language of a document: its code, or ""; None where no field has it."""
        if self.name is None:
            return None
        self.seen = self.seen or self.name in row
        return self.cells.code(row.get(self.name), path, line)

    def notes(self, path: Path) -> tuple[str, ...]:
        """What was found, for people; an error where no document has the field."""
        if self.name is None:
            return ()
        if not self.seen:
            raise DataError(
                f'no document has the field "{self.name}", which is to have its language; name another', path
            )
        return tuple(self.cells.notes(self.name))


def _read_split(path: Path, labels: LabelIndex, text: str, split: str, spoken: LanguageField) -> Gathered:
    gathered = gather(path, labels, split)
    if spoken.name is not None or not gathered.take_lines(text):
        add_documents(gathered, objects(path), text, None if spoken.name is None else spoken)
    return gathered


def add_documents(
    gathered: Gathered,
    numbered: Iterable[tuple[int, dict[str, Any]]],
    text: str,
    spoken: LanguageField | None = None,
) -> None:
    """Adds documents to a collection.

    Args:
        gathered: the collection.
        numbered: the line of each document, and its object.
        text: the fields that make its text.
        spoken: the field that has its language.

    Raises:
        DataError: a document is wrong.
    """
    add, path, text_of = gathered.add, gathered.path, _text_of(text)
    language = None
    for line, row in numbered:
        try:
            try:
                name, given, text = row["id"], row["labels"], text_of(row)
            except KeyError as error:
                raise DataError(_missing(error.args[0]), path, line) from None
            except TypeError:
                raise DataError('"title" and "text" must be strings; correct them', path, line) from None
            if type(name) is not str or not name:
                name = _id(name, path, line)
            if type(given) is not list and type(given) is not dict:
                wanted = '"labels" must be a list of label ids or an object of weights'
                raise DataError(f"{wanted}, got {shown(given)}", path, line)
            if spoken is not None:
                language = spoken.of(row, path, line)
            add(line, name, text, given, language)
        except DataError as error:
            pass_over(error, "rows whose id, text or labels cannot be read", row)


def _missing(key: str) -> str:
    remedy = {
        "id": "give each document its own id",
        "labels": 'write "labels": [] for a document without labels',
        "title": "add it, or read other fields (--text text)",
        "text": "add it, or read other fields (--text title)",
    }[key]
    return f'the document has no "{key}"; {remedy}'


def _id(value: Any, path: Path, line: int) -> str:
    name = as_id(value)
    if name is None:
        raise DataError(f'"id" must be a non-empty string, got {shown(value)}', path, line)
    return name


def read_labels(path: Path | None) -> LabelIndex:
    """Reads `labels.jsonl`.

    Args:
        path: the file; None where there is none.

    Returns:
        The labels.

    Raises:
        DataError: a line is wrong.
    """
    labels = LabelIndex(source=path)
    if path is None:
        return labels
    for line, row in objects(path):
        if "id" not in row:
            raise DataError('the label has no "id"; give each label its own id', path, line)
        name, text = _id(row["id"], path, line), row.get("text")
        if text is not None and type(text) is not str:
            raise DataError(f'"text" of label {shown(name)} must be a string, got {shown(text)}', path, line)
        labels.define(name, text or "", line)
        for kind in ("names", "broader", "related"):
            if kind in row:
                labels.describe(kind, name, _strings(row[kind], kind, path, line))
    return labels


def _strings(given: Any, kind: str, path: Path, line: int) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        raise DataError(f'"{kind}" must be a list of strings that are not empty, got {shown(given)}', path, line)
    return given


def _read_excluded(
    path: Path | None, gathered: dict[str, Gathered], labels: LabelIndex
) -> dict[str, tuple[list[int], list[int]]]:
    """Rows and columns of the excluded pairs of each split."""
    found: dict[str, tuple[list[int], list[int]]] = {split: ([], []) for split in gathered}
    if path is None:
        return found
    place = {name: (split, row) for split, part in gathered.items() for row, name in enumerate(part.ids)}
    for line, entry in objects(path):
        given = entry.get("labels")
        if "id" not in entry or type(given) is not list:
            raise DataError('expected {"id": document id, "labels": [label ids never predicted for it]}', path, line)
        name = _id(entry["id"], path, line)
        if name not in place:
            raise DataError(f"no split has a document with the id {shown(name)}; remove the line", path, line)
        split, row = place[name]
        columns = [labels.column(label, path, line) for label in given]
        found[split][0].extend([row] * len(columns))
        found[split][1].extend(columns)
    return found
