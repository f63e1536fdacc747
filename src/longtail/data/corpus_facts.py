"""The facts of a data set, in `corpus.json` beside its files, so that they go wherever the data goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.data.files import find, shown, whole_object
from longtail.data.labels import Propensity
from longtail.data.opening import open_file
from longtail.data.table_facts import TableFacts
from longtail.data.text_language import text_language
from longtail.errors import DataError, did_you_mean

TEXT_FIELDS = ("title", "text", "title+text", "title/text")  # the last: the title on a line of its own
COUNTED_ON = ("train", "train+valid")
IGNORED = ".gitignore"


@dataclass(frozen=True)
class CorpusFacts:
    """The content of `corpus.json`; a missing fact is None or its default."""

    name: str | None = None
    propensity: Propensity = field(default_factory=Propensity)
    text: str | None = None  # the fields of a document that make its text
    counted_on: str = "train"  # "train+valid" where valid was held out of train and labels are counted on both
    held_out_labels: int = 0  # labels that lost their training rows on purpose
    table: TableFacts | None = None  # how the table was read that the data set comes from
    language: str | None = None  # of the texts and label names: a code such as de
    language_column: str | None = None  # the field of JSON lines that has the language of each document
    label_language: str | None = None  # of the label names alone, where it is another or that of texts is not known
    licence: str | None = None  # of the data
    private: bool = False  # a .gitignore beside it keeps it out of repositories

    @property
    def named_in(self) -> str | None:
        """The language of label names."""
        return self.label_language or self.language


def check_text_field(text: str, path: Path | None = None) -> str:
    """Checks the fields that make the text of a document.

    Args:
        text: one of TEXT_FIELDS.
        path: the file that names it, for the message.

    Returns:
        The same string.

    Raises:
        DataError: it is another one.
    """
    if text not in TEXT_FIELDS:
        choice = ", ".join(repr(field) for field in TEXT_FIELDS)
        raise DataError(f"text must be one of {choice}, got {shown(text)}{did_you_mean(text, TEXT_FIELDS)}", path)
    return text


def read_facts(folder: Path) -> CorpusFacts:
    """Reads `corpus.json`.

    Args:
        folder: of the data set.

    Returns:
        Its facts; the defaults where there is no such file.

    Raises:
        DataError: the file is damaged or has a wrong value.
    """
    path = find(folder, "corpus.json")
    if path is None:
        return CorpusFacts(private=is_private(folder))
    given = whole_object(path)
    name, text = given.get("name"), given.get("text")
    if name is not None and not isinstance(name, str):
        raise DataError(f'"name" must be a string, got {shown(name)}', path)
    if text is not None:
        check_text_field(text if isinstance(text, str) else shown(text), path)
    counted_on = given.get("counted_on", "train")
    if not isinstance(counted_on, str) or counted_on not in COUNTED_ON:
        raise DataError(f'"counted_on" must be "train" or "train+valid", got {shown(counted_on)}', path)
    unseen = given.get("held_out_labels", 0)
    if type(unseen) is not int or unseen < 0:
        raise DataError(f'"held_out_labels" must be a number of labels, got {shown(unseen)}', path)
    table = given.get("table")
    for key in ("language", "label_language"):
        if not isinstance(given.get(key, ""), str | None):
            raise DataError(f'"{key}" must be a code such as "de", got {shown(given[key])}', path)
    if not isinstance(given.get("language_column", ""), str | None):
        raise DataError(f'"language_column" must name a field, got {shown(given["language_column"])}', path)
    try:
        text_language(given.get("language"))
    except DataError as error:
        raise DataError(f'{error}; the language of label names alone is "label_language"', path) from None
    licence = given.get("licence")
    if licence is not None and not isinstance(licence, str):
        raise DataError(f'"licence" must be a string, got {shown(licence)}', path)
    return CorpusFacts(
        name,
        _propensity(given.get("propensity"), path),
        text,
        counted_on,
        unseen,
        None if table is None else TableFacts.of_json(table, path),
        given.get("language"),
        given.get("language_column"),
        given.get("label_language"),
        licence,
        is_private(folder),
    )


def is_private(folder: Path) -> bool:
    """Whether a data set may not be passed on, not by `git add` either.

    Args:
        folder: of the data set.

    Returns:
        True where a .gitignore in it names all files.
    """
    path = folder / IGNORED
    if not path.is_file():
        return False
    with open_file(path) as file:
        return file.read(1 << 10).split() == [b"*"]


def keep_private(folder: Path) -> None:
    """Writes a .gitignore that names all files.

    Args:
        folder: of a data set that may not be passed on.
    """
    (folder / IGNORED).write_text("*\n")


def _propensity(given: Any, path: Path) -> Propensity:
    if given is None:
        return Propensity()
    if isinstance(given, dict) and set(given) == {"a", "b"}:
        a, b = given["a"], given["b"]
        if type(a) in (int, float) and type(b) in (int, float):
            try:
                return Propensity(float(a), float(b))
            except (DataError, OverflowError) as error:
                raise DataError(f"{error}; correct the file", path) from None
    raise DataError(f'"propensity" must look like {{"a": 0.55, "b": 1.5}}, got {shown(given)}', path)
