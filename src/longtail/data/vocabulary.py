"""A vocabulary as the labels of a data set: in SKOS, or as a table of URI and name without a header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from longtail.data.files import lines, shown
from longtail.data.labels import LabelSet, Propensity
from longtail.data.mended_labels import folded, named, over
from longtail.data.rows import Splits
from longtail.data.skos import FORMATS, read_skos
from longtail.data.subjects import id_of
from longtail.errors import DataError, counted

STEMS = ("vocabulary", "vocab", "subjects", "skos", "thesaurus")
TABLE = ".tsv"
UNKNOWN = "und"  # a language that is not known, as a code


@dataclass(frozen=True)
class VocabularyFile:
    """A file of concepts, the language of their names, and what is left out of it.

    Raises:
        DataError: the name of the file is of no known format.
    """

    path: Path
    language: str | None = None  # a code such as de; None: the language with most names
    exclude_types: tuple[str, ...] = ()  # URIs
    exclude_schemes: tuple[str, ...] = ()
    exclude_collections: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if _suffix(self.path) not in (*FORMATS, TABLE):
            raise DataError(f"is no vocabulary by its name; names end with {', '.join(FORMATS)} or {TABLE}", self.path)

    @classmethod
    def of_folder(cls, folder: Path, language: str | None = None) -> VocabularyFile | None:
        """Finds the vocabulary of a folder.

        Args:
            folder: of documents with subjects; a file has none.
            language: of the names.

        Returns:
            The vocabulary; None where there is none.

        Raises:
            DataError: there are several.
        """
        if not folder.is_dir():
            return None
        files = [path for path in sorted(folder.iterdir()) if path.is_file()]
        usual = [path for path in files if path.stem.lower() in STEMS and _suffix(path) in (*FORMATS, TABLE)]
        found = usual or [path for path in files if _suffix(path) in FORMATS and _suffix(path) != ".xml"]
        if len(found) > 1:
            both = ", ".join(path.name for path in found)
            raise DataError(f"has several vocabularies ({both}); name one with --vocabulary", folder)
        return cls(found[0], language) if found else None

    def labels(self, propensity: Propensity) -> tuple[LabelSet, str | None, tuple[str, ...], dict[str, str]]:
        """Reads the vocabulary.

        Args:
            propensity: the constants of the data set.

        Returns:
            The labels, the language of their names, notes, and other words that stand for an id: notations, and URIs of
            deprecated concepts that have a successor.

        Raises:
            DataError: the file cannot be read.
        """
        if _suffix(self.path) == TABLE:
            if self.exclude_types or self.exclude_schemes or self.exclude_collections:
                raise DataError("has no types, schemes or collections; leave such options out", self.path)
            return _of_table(self.path, propensity), self.language, (), {}
        found = read_skos(
            self.path,
            self.language or "",
            exclude_types=self.exclude_types,
            exclude_schemes=self.exclude_schemes,
            exclude_collections=self.exclude_collections,
        )
        left = ", ".join(f"{number:,} {reason}" for reason, number in found.left_out.items())
        said = f"{self.path.name}: {counted(len(found.concepts), 'concept')} with names in {found.language!r}"
        if found.named_otherwise:
            said += f", {found.named_otherwise:,} of them without one, named in another language"
        labels = found.label_set(propensity)
        notes = (f"{said}{'; left out: ' + left if left else ''}",)
        notations: dict[str, list[str]] = {}
        for concept in found.concepts:
            if concept.notation:
                notations.setdefault(concept.notation, []).append(id_of(concept.uri))
        aliases = {notation: uris[0] for notation, uris in notations.items() if len(uris) == 1}
        aliases |= {id_of(old): id_of(new) for old, new in found.replaced.items()}
        return replace(labels, ids=tuple(map(id_of, labels.ids))), found.language, notes, aliases

    def over(self, splits: Splits) -> tuple[Splits, str | None]:
        """A data set over the labels of the vocabulary; they are matched by URI, name, further name, or notation.

        Args:
            splits: what a reader found.

        Returns:
            The splits, and the language of the names. Labels that the vocabulary does not have are left out, and the
            notes say which.

        Raises:
            DataError: the vocabulary has none of the labels.
        """
        own = splits.train.labels
        labels, language, notes, aliases = self.labels(own.propensity)
        column_of, otherwise = _matched(own.ids, labels, aliases)
        if otherwise:
            pairs = [f"{own.ids[row]} = {labels.word(int(column_of[row]))}" for row in otherwise]
            notes += (
                f"{counted(len(pairs), 'label')} found by a further name, a notation or a successor: {named(pairs)}",
            )
        unknown = np.flatnonzero(column_of < 0).tolist()
        if len(own) and len(unknown) == len(own):
            raise DataError(
                f"has none of the {len(own):,} labels of the data, such as {shown(own.ids[0])}; give the vocabulary "
                "that the documents were indexed with",
                self.path,
            )
        note = ""
        if unknown:
            note = f"left out {counted(len(unknown), 'label')} that {self.path.name} does not have: "
            note += named([own.ids[row] for row in unknown])
        found = over(splits, labels, column_of, note)
        return replace(found, notes=(*notes, *found.notes)), None if language == UNKNOWN else language


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _matched(
    ids: Sequence[str], labels: LabelSet, aliases: dict[str, str]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[int]]:
    """(ids,) the row of each label in the vocabulary, -1 for none; and the places found by something else than an id or
    the text. A further name counts where only one label has it."""
    by_name: dict[str, int] = {}
    for row, text in enumerate(labels.texts):
        by_name.setdefault(text, row)
    for row, text in enumerate(labels.texts):
        by_name.setdefault(folded(text), row)
    owners: dict[str, set[int]] = {}
    for row, names in enumerate(labels.names):
        for name in names:
            owners.setdefault(folded(name), set()).add(row)
    further = {name: rows.pop() for name, rows in owners.items() if len(rows) == 1}
    further |= {folded(alias): labels.row_of[uri] for alias, uri in aliases.items()}
    found = np.full(len(ids), -1, dtype=np.int64)
    otherwise = []
    for place, name in enumerate(ids):
        row = labels.row_of.get(id_of(name), by_name.get(name, by_name.get(folded(name), -1)))
        if row < 0:
            row = further.get(folded(id_of(name)), -1)
            otherwise += [place] if row >= 0 else []
        found[place] = row
    return found, otherwise


def _of_table(path: Path, propensity: Propensity) -> LabelSet:
    ids: dict[str, str] = {}
    for number, line in lines(path):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        uri = id_of(fields[0])
        if len(fields) < 2 or not uri or not fields[1]:
            raise DataError("expected <uri><TAB>name; correct the line", path, number)
        if uri in ids:
            raise DataError(f"{shown(uri)} occurs twice; remove one", path, number)
        ids[uri] = fields[1]
    if not ids:
        raise DataError("has no line <uri><TAB>name; add some", path)
    return LabelSet(ids=tuple(ids), texts=tuple(ids.values()), propensity=propensity)
