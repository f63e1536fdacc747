"""Documents with subjects, in the forms of Annif and Maui: folders of files, or tables without a header.

    train/NAME.txt     the text of a document, such as a whole book
    train/NAME.tsv     its subjects: <uri>, a tab, the name of the subject
    train/NAME.key     or their names alone, one a line
    train.tsv          or all documents in one file: text, a tab, <uri> <uri>

`valid` (or `validate`) and `test` likewise; without such folders, the documents of the folder itself are train. Each
file may be compressed (.gz, .xz). What the vocabulary makes of the subjects is in `vocabulary.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from longtail.data.files import COMPRESSED, chunks, document_text, lines
from longtail.data.labels import Propensity
from longtail.data.mending import pass_over
from longtail.data.rows import Gathered, LabelIndex, Splits, check_ids
from longtail.errors import DataError, counted
from longtail.progress import stage

SPLITS = {"train": ("train",), "valid": ("valid", "validate", "validation"), "test": ("test",)}
TEXT, SUBJECTS, NAMES = ".txt", ".tsv", ".key"
LOOKED_AT = 20  # lines that tell a table without a header
URN = "urn:longtail:"  # begins URIs that are made of ids that are none
_URIS = re.compile(r"(?:<[^<>\s]+>\s*)*")


def find_subjects(folder: Path) -> dict[str, Path]:
    """Finds documents with subjects.

    Args:
        folder: the folder.

    Returns:
        A folder or a table by "train", "valid" and "test"; nothing where train is none of them.

    Raises:
        DataError: a split is there as a folder and as a table, or several times.
    """
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        for name in names:
            if has_documents(folder / name):
                found[split] = folder / name
            tables = [folder / f"{name}.tsv{ending}" for ending in COMPRESSED]
            for table in (one for one in tables if one.is_file() and is_subject_table(one)):
                if split in found:
                    raise DataError(f"{found[split].name} and {table.name} are both here; keep one of them", folder)
                found[split] = table
    if not found and has_documents(folder):
        return {"train": folder}
    return found if "train" in found else {}


def documents_of(folder: Path) -> list[Path]:
    """The files NAME.txt of a folder, packed ones too.

    Args:
        folder: the folder.

    Returns:
        The files, in the order of their names.

    Raises:
        DataError: two files have the same name, one of them packed.
    """
    found = sorted(path for ending in COMPRESSED for path in folder.glob(f"*{TEXT}{ending}") if path.is_file())
    names = [name_of(path) for path in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{twice}{TEXT} is here twice, packed and plain, and they may differ; keep one", folder)
    return found


def name_of(document: Path) -> str:
    """The NAME of a document.

    Args:
        document: NAME.txt, NAME.txt.gz or NAME.txt.xz.

    Returns:
        The name.
    """
    return document.name.removesuffix(".gz").removesuffix(".xz").removesuffix(TEXT)


def id_of(uri: str) -> str:
    """The label id that a URI stands for: itself, but for those that `write_subjects` made of other ids.

    Args:
        uri: perhaps in angle brackets.

    Returns:
        The id.
    """
    bare = uri.removeprefix("<").removesuffix(">")
    return unquote(bare.removeprefix(URN)) if bare.startswith(URN) else bare


def has_documents(folder: Path) -> bool:
    """Whether a folder has documents with subjects: a NAME.txt with NAME.tsv or NAME.key.

    Args:
        folder: it need not exist.

    Returns:
        Whether it has one.
    """
    if not folder.is_dir():
        return False
    names = {name_of(path) for ending in COMPRESSED for path in folder.glob(f"*{TEXT}{ending}")}
    return any(
        (folder / f"{name}{kind}{ending}").is_file()
        for name in names
        for kind in (SUBJECTS, NAMES)
        for ending in COMPRESSED
    )


def is_subject_table(path: Path) -> bool:
    """Whether a file is a table without a header: two columns, the second of which has URIs in angle brackets.

    Args:
        path: the file.

    Returns:
        Whether it is one; False for other names than .tsv.
    """
    if not path.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(".tsv"):
        return False
    try:
        begun = next(chunks(path, quiet=True), (1, b""))[1]
    except DataError:
        return False  # the reader of tables says what is wrong
    # Only the first lines are decoded, however large the piece is.
    first = [line.decode("utf-8", "replace").rstrip("\r\n").split("\t") for line in islice(BytesIO(begun), LOOKED_AT)]
    for row in first:  # the first document with subjects decides: no header has a URI in angle brackets
        if row != [""] and (len(row) != 2 or row[1].strip()):
            return len(row) == 2 and _URIS.fullmatch(row[1].strip()) is not None
    return False


def subject_rows(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Reads a table without a header.

    Args:
        path: the file.

    Yields:
        The line of each document, its text and its URIs.

    Raises:
        DataError: a line has not two columns, or something else than URIs in the second.
    """
    for number, line in lines(path):
        fields = line.removesuffix("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != 2 or not _URIS.fullmatch(fields[1].strip()):
            error = DataError("expected text<TAB><uri> <uri> ..., the form of this file's first lines", path, number)
            pass_over(error, "lines that are not text, tab and URIs", line)
            continue
        yield number, fields[0], [id_of(word) for word in fields[1].split()]


def read_subjects(paths: dict[str, Path], propensity: Propensity) -> Splits:
    """Reads documents with subjects.

    Args:
        paths: a folder or a table by "train", "valid" and "test".
        propensity: the constants of the data set.

    Returns:
        The splits. Label ids are URIs, or names where only names are given.

    Raises:
        DataError: a file cannot be read.
    """
    labels = LabelIndex()
    notes: list[str] = []
    gathered: dict[str, Gathered] = {}
    for split, path in paths.items():
        gathered[split] = part = Gathered(path, labels)
        if path.is_dir():
            notes += _read_documents(path, part)
            continue
        for row, (line, text, uris) in enumerate(subject_rows(path), 1):
            part.add(line, f"{split}-{row}", text, uris)
    notes += _apart(gathered)
    check_ids(list(gathered.values()))
    label_set = labels.label_set(propensity)
    found = {split: part.dataset(label_set) for split, part in gathered.items()}
    return Splits(
        train=found["train"],
        valid=found.get("valid"),
        test=found.get("test"),
        subjects=True,
        notes=tuple(notes),
    )


def _apart(gathered: dict[str, Gathered]) -> list[str]:
    """A name in several folders stands for different documents: in later splits its id begins with the split."""
    seen: set[str] = set()
    notes = []
    for split, part in gathered.items():
        again = [row for row, name in enumerate(part.ids) if name in seen]
        for row in again:
            part.ids[row] = f"{split}/{part.ids[row]}"
        if again:
            notes.append(
                f"{counted(len(again), f'document of {part.path.name} has', f'documents of {part.path.name} have')} "
                f"the name of one in another folder: their ids begin "
                f"with {split}/, such as {part.ids[again[0]]!r}"
            )
        seen.update(part.ids)
    return notes


def _read_documents(folder: Path, part: Gathered) -> list[str]:
    files = documents_of(folder)
    without = []
    with stage(f"reading {folder.name}", total=len(files)) as advance:
        for number, file in enumerate(files, 1):
            name = name_of(file)
            own = _subjects_of(folder, name, part.labels)
            if own is None:
                without.append(name)
            part.add(number, unquote(name), document_text(file), own or [])
            advance(1)
    if not without:
        return []
    more = ", …" if len(without) > 5 else ""
    documents = counted(len(without), f"document of {folder.name} has", f"documents of {folder.name} have")
    return [f"{documents} no NAME{SUBJECTS} or NAME{NAMES}, so no labels: {', '.join(without[:5])}{more}"]


def _subjects_of(folder: Path, name: str, labels: LabelIndex) -> list[str] | None:
    """The subjects of a document; None where it has no file of them."""
    for kind in (SUBJECTS, NAMES):
        for ending in COMPRESSED:
            path = folder / f"{name}{kind}{ending}"
            if not path.is_file():
                continue
            found: dict[str, str] = {}
            for line in document_text(path).split("\n"):
                first, _, rest = line.strip().partition("\t")
                if first:
                    found[id_of(first.strip()) if kind == SUBJECTS else first] = rest
            for subject, text in found.items():
                if text.strip() and subject not in labels.row_of:
                    labels.define(subject, text.strip(), 0)
            return list(found)
    return None
