"""How a table was read, so that other tables can be read the same way: by `corpus.json`, or by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from longtail.data.files import shown
from longtail.data.mending import Remedies
from longtail.errors import DataError, LongtailError

SHAPES = ("list", "columns", "one-hot", "pairs")


@dataclass(frozen=True)
class TableFacts:
    """The columns of a table, and what was done about its faults."""

    text: tuple[str, ...]  # columns, joined with a space
    labels: str  # a column, or several as --label-column takes them
    id: str | None = None
    separator: str = "|"  # between the labels of a cell
    shape: str = "list"
    encoding: str = "utf-8"
    fold_labels: bool = False
    ignore_labels: tuple[str, ...] = ()
    title_apart: bool = False  # the first text column is a line of its own
    language: str | None = None  # the column that has the language of each document

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON values, without those that have their default."""
        given = asdict(self)
        default = asdict(TableFacts(self.text, self.labels))
        kept = {name: value for name, value in given.items() if name in ("text", "labels") or value != default[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    @classmethod
    def of_json(cls, given: Any, path: Path) -> TableFacts:
        """Reads the facts.

        Args:
            given: any JSON value.
            path: the file that it stands in, for the message.

        Returns:
            The facts.

        Raises:
            DataError: they are not as `as_json` writes them.
        """
        if not isinstance(given, Mapping) or not {"text", "labels"} <= set(given) <= set(cls.__dataclass_fields__):
            known = ", ".join(cls.__dataclass_fields__)
            raise DataError(f'"table" must be an object with text, labels and perhaps others of {known}', path)
        kinds = {"text": _strings, "ignore_labels": _strings, "fold_labels": _flag, "title_apart": _flag}
        for name, wanted in kinds.items():
            if name in given and not wanted(given[name]):
                raise DataError(f'"table": "{name}" has a wrong value: {shown(given[name])}', path)
        for name in ("labels", "separator", "shape", "encoding"):
            if name in given and not (isinstance(given[name], str) and given[name]):
                raise DataError(f'"table": "{name}" must be a string, got {shown(given[name])}', path)
        for name in ("id", "language"):
            if given.get(name) is not None and not isinstance(given[name], str):
                raise DataError(f'"table": "{name}" must be a string, got {shown(given[name])}', path)
        lists = {name: tuple(given[name]) for name in ("text", "ignore_labels") if name in given}
        found = cls(**{**given, **lists})
        if not found.text or found.shape not in SHAPES:
            raise DataError(f'"table": "text" names columns and "shape" is one of {", ".join(SHAPES)}', path)
        try:
            found.remedies(Remedies())
        except LongtailError as error:
            raise DataError(f'"table": {error}', path) from None
        return found

    @property
    def text_field(self) -> str:
        """The columns as one name."""
        return self.text[0] + "/" + "+".join(self.text[1:]) if self.title_apart else "+".join(self.text)

    def joined(self, cells: Sequence[Any]) -> str:
        """The text of a record.

        Args:
            cells: of the text columns; None for an empty one.

        Returns:
            The text.
        """
        words = ["" if cell is None else str(cell) for cell in cells]
        if self.title_apart:
            return " ".join(words[0].split()) + "\n" + " ".join(filter(None, words[1:]))
        return " ".join(filter(None, words))

    def remedies(self, given: Remedies) -> Remedies:
        """The remedies of the first table where others are not asked for.

        Args:
            given: what is asked for.

        Returns:
            What is to be done.
        """
        encoding = self.encoding if given.encoding == "utf-8" else given.encoding
        ignored = given.ignore_labels or self.ignore_labels
        return replace(
            given, encoding=encoding, fold_labels=given.fold_labels or self.fold_labels, ignore_labels=ignored
        )

    def with_remedies(self, given: Remedies) -> TableFacts:
        """The same columns with what was done about faults.

        Args:
            given: what was done.

        Returns:
            New facts.
        """
        return replace(
            self, encoding=given.encoding, fold_labels=given.fold_labels, ignore_labels=tuple(given.ignore_labels)
        )


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)
