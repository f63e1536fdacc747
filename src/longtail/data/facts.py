"""The facts of a data set, in `corpus.json` beside its files: they travel with the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.data.files import find, whole_object
from longtail.data.labels import Propensity
from longtail.errors import DataError, did_you_mean

TEXT_FIELDS = ("title", "text", "title+text")
COUNTED_ON = ("train", "train+valid")


@dataclass(frozen=True)
class Facts:
    """What `corpus.json` says; a missing fact is None or its default."""

    name: str | None = None
    propensity: Propensity = field(default_factory=Propensity)
    text: str | None = None  # which fields of a row make its text
    counted_on: str = "train"  # "train+valid" where valid was held out of the training rows as given


def check_text_field(text: str, path: Path | None = None) -> str:
    if text not in TEXT_FIELDS:
        choice = ", ".join(repr(field) for field in TEXT_FIELDS)
        raise DataError(f"text must be one of {choice}, got {text!r}{did_you_mean(text, TEXT_FIELDS)}", path)
    return text


def read_facts(folder: Path) -> Facts:
    """The facts of the data set in this folder; without a `corpus.json`, the defaults."""
    path = find(folder, "corpus.json")
    if path is None:
        return Facts()
    given = whole_object(path)
    name, text = given.get("name"), given.get("text")
    if name is not None and not isinstance(name, str):
        raise DataError(f'"name" must be a string, got {name!r}', path)
    if text is not None:
        check_text_field(str(text), path)
    counted_on = given.get("counted_on", "train")
    if counted_on not in COUNTED_ON:
        raise DataError(f'"counted_on" must be "train" or "train+valid", got {counted_on!r}', path)
    return Facts(name, _propensity(given.get("propensity"), path), text, counted_on)


def _propensity(given: Any, path: Path) -> Propensity:
    if given is None:
        return Propensity()
    if isinstance(given, dict) and set(given) == {"a", "b"}:
        a, b = given["a"], given["b"]
        if type(a) in (int, float) and type(b) in (int, float):
            try:
                return Propensity(float(a), float(b))
            except (DataError, OverflowError) as error:
                raise DataError(f"{error}; mend the file", path) from None
    raise DataError(f'"propensity" must look like {{"a": 0.55, "b": 1.5}}, got {given!r}', path)
