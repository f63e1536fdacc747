"""`load`: reads a data set of any layout as a `Corpus`."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import resources
from itertools import islice
from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.data.columns import column_names, table_kind
from longtail.data.corpus import Corpus, held_out, held_out_note, make_corpus
from longtail.data.corpus_facts import CorpusFacts, check_text_field, read_facts
from longtail.data.files import find, listing, objects
from longtail.data.folder_layout import read_folder, read_rows_file
from longtail.data.labels import Propensity
from longtail.data.mended_labels import mended
from longtail.data.mending import Remedies, mending
from longtail.data.opening import file_size, reading
from longtail.data.published import constants_note
from longtail.data.repository import is_repository, read_bag_of_words_file, read_repository
from longtail.data.repository_matrix import is_bag_of_words
from longtail.data.repository_split import find_whole, read_whole
from longtail.data.rows import Splits
from longtail.data.store_layout import is_store
from longtail.data.store_reader import read_store
from longtail.data.subjects import find_subjects, is_subject_table, read_subjects
from longtail.data.table import Columns, find_tables, read_tables
from longtail.data.table_facts import TableFacts
from longtail.data.text_language import text_language
from longtail.data.vectors import with_vectors
from longtail.data.vocabulary import VocabularyFile
from longtail.errors import DataError

__all__ = ["Columns", "Remedies", "VocabularyFile", "load"]

SHIPPED = ("wordnet",)
APART = "title/text"
LOOKED_FOR = (
    "train.jsonl, train.csv, train.tsv, train.parquet, train.xlsx, trn_X_Y.txt, trn.json, Y.trn.npz, "
    "a bag of words such as train.txt with the header 'rows features labels', and documents NAME.txt with NAME.tsv or "
    "NAME.key"
)


def load(
    path: str | Path,
    *,
    columns: Columns | None = None,
    text: str | None = None,
    valid_share: float = 0.05,
    test_share: float | None = None,
    seed: int = 0,
    propensity: Propensity | None = None,
    remedies: Remedies | None = None,
    vocabulary: VocabularyFile | None = None,
    language: str | None = None,
) -> Corpus:
    """Reads a data set: JSON lines, tables, documents with subjects, or files of the Extreme Classification Repository.

        corpus = load("wordnet")
        corpus = load("books.csv", columns=Columns(text="title,blurb", separator=";"), test_share=0.2)

    Args:
        path: a folder or a file; "wordnet" is the data set that ships with longtail.
        columns: of a table that hold texts, labels, ids and languages; default: those of `corpus.json`, or the usual
            names. Of JSON lines, the field that has the language.
        text: the fields that make the text of a document: "title", "text" or "title+text"; default: `corpus.json`.
        valid_share: of train to hold out as valid, where there is no valid split.
        test_share: of train to hold out as test, where there is no test split; None holds nothing out.
        seed: of the held-out splits.
        propensity: constants; default: those of `corpus.json`.
        remedies: what may be done about faults of the data; default: nothing, and a fault is an error.
        vocabulary: the labels, by their URIs or names; default: that of a folder of documents with subjects.
        language: of the documents, a code such as de; default: that of `corpus.json`, or each text's is guessed.

    Returns:
        The data set.

    Raises:
        DataError: there is no data set, or it cannot be read; names file and line.
        MissingExtra: it is a Parquet or Excel file, and pyarrow or openpyxl is not installed.
        WillNotFit: there is too little memory for it.
    """
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"load reads a name, a folder or a file, got {type(path).__name__}; for data in memory: "
            'longtail.corpus(frame, texts="text", labels="labels")'
        )
    if text is not None:
        check_text_field(text)
    with reading(path):
        place = place_of(path)
        if place.is_dir() and is_store(place):
            return _read_store(place, columns, text, test_share, seed, propensity, remedies, vocabulary, language)
        facts = in_language(read_facts(place) if place.is_dir() else CorpusFacts(), language)
        wanted = remedies or Remedies()
        if facts.table is not None and find_tables(place):
            wanted = facts.table.remedies(wanted)
        with mending(wanted) as mender:
            corpus = _load(place, facts, columns, text, valid_share, test_share, seed, propensity, wanted, vocabulary)
    return corpus if mender is None else replace(corpus, notes=(*corpus.notes, *mender.notes()))


def in_language(facts: CorpusFacts, language: str | None) -> CorpusFacts:
    """Facts of a data set whose documents are said to have a language.

    Args:
        facts: of `corpus.json`.
        language: a code such as de; None: that of the facts.

    Returns:
        The facts; names of labels stay in the language that they were said to have.

    Raises:
        DataError: the code is unknown.
    """
    if language is None:
        return facts
    text_language(language)
    return replace(facts, language=language, label_language=facts.named_in)


def columns_of(path: str | Path, table: TableFacts | None) -> Columns | None:
    """The columns of a table, where another was read before.

    Args:
        path: a table or a folder of tables, or other data.
        table: how the other one was read.

    Returns:
        The columns; None where `path` is no table, or nothing was read before. Rows may lack the ids of the first.
    """
    place = Path(path)
    found = find_tables(place).get("train") if place.is_dir() else place
    if table is None or found is None or not table_kind(found) or not found.is_file() or is_subject_table(found):
        return None
    with mending(table.remedies(Remedies())):
        has_ids = table.id in column_names(found)
    return Columns.of(table if has_ids else replace(table, id=None))


def has_field(path: str | Path, name: str) -> bool:
    """Looks for a field in JSON lines.

    Args:
        path: a data set of any layout.
        name: of the field.

    Returns:
        Whether the first document has it; False for other layouts, and where `corpus.json` names such a field.
    """
    place = Path(path)
    if place.is_dir() and read_facts(place).language_column is not None:
        return False
    found = find(place, "train.jsonl") if place.is_dir() else place
    if found is None or not _has_lines(found) or not found.is_file():
        return False
    return any(name in row for _, row in islice(objects(found), 1))


def _has_lines(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(".jsonl")


def _load(
    place: Path,
    facts: CorpusFacts,
    columns: Columns | None,
    text: str | None,
    valid_share: float,
    test_share: float | None,
    seed: int,
    propensity: Propensity | None,
    remedies: Remedies,
    vocabulary: VocabularyFile | None,
) -> Corpus:
    if facts.table is not None and find_tables(place):
        columns = (columns or Columns()).over(Columns.of(facts.table))
    elif facts.language_column is not None and (columns is None or columns.language is None):
        columns = replace(columns or Columns(), language=facts.language_column)
    splits = read_splits(place, columns, text or facts.text, propensity or facts.propensity)
    splits = with_vectors(splits, place) if place.is_dir() else splits
    splits = splits if remedies == Remedies() else mended(splits, remedies)
    table = facts.table if splits.table is None else splits.table.with_remedies(remedies)
    if splits.table is None and table is not None:  # the data set comes from a table, as models trained on it should
        splits = replace(
            splits, text_field=table.text_field, id_field=table.id or splits.id_field,
            language_field=table.language or splits.language_field,
        )  # fmt: skip
    found = vocabulary or (VocabularyFile.of_folder(place, facts.named_in) if splits.subjects else None)
    label_language = facts.named_in
    if found is not None:
        splits, label_language = found.over(splits)
    if len(splits.train) == 0:
        raise DataError("the train split has no examples; add some", place)
    corpus = make_corpus(
        name=facts.name or (place.resolve().name if place.is_dir() else place.name.split(".")[0]),
        train=splits.train,
        valid=splits.valid,
        test=splits.test,
        valid_share=valid_share,
        test_share=test_share,
        seed=seed,
        text_field=splits.text_field,
        id_field=splits.id_field,
        notes=splits.notes,
        language=text_language(facts.language),
    )
    corpus = _recounted(corpus) if facts.counted_on == "train+valid" else corpus
    named = (corpus.name, place.resolve().name)
    warning = constants_note(named, corpus.labels.train_rows, len(corpus.labels), corpus.propensity)
    notes = corpus.notes if warning is None else (*corpus.notes, warning)
    return replace(
        corpus, notes=notes, held_out_labels=facts.held_out_labels, table=table, label_language=label_language,
        licence=facts.licence, private=facts.private, language_field=splits.language_field,
    )  # fmt: skip


def read_splits(place: Path, columns: Columns | None, text: str | None, propensity: Propensity) -> Splits:
    """Reads the files of a data set as they are.

    Args:
        place: a folder or a file.
        columns: of a table.
        text: the fields that make the text of a document.
        propensity: constants.

    Returns:
        The splits that it has.

    Raises:
        DataError: there is no data set, or it cannot be read.
    """
    return (_read_directory if place.is_dir() else _read_file)(place, columns, text, propensity)


def _read_directory(folder: Path, columns: Columns | None, text: str | None, propensity: Propensity) -> Splits:
    rows, tables, whole = find(folder, "train.jsonl"), find_tables(folder), find_whole(folder)
    repository = is_repository(folder)
    subjects = find_subjects(folder)
    if subjects and "train" in tables and is_subject_table(tables["train"]):
        tables = {}
    found = [rows is not None, "train" in tables, repository, whole is not None, bool(subjects)]
    if sum(found) == 0:
        raise DataError(f"has no data set: looked for {LOOKED_FOR}; found {listing(folder)}", folder)
    if sum(found) > 1:
        raise DataError(f"has a train split in more than one layout; keep one of them: {listing(folder)}", folder)
    if "train" in tables:
        return read_tables(tables, columns or Columns(), text, propensity)
    language = _no_columns(columns, folder, language=rows is not None)
    if text == APART and rows is None:
        raise DataError(f"--text {APART} keeps titles apart in JSON lines and tables, not in this layout", folder)
    if subjects:
        return read_subjects(subjects, propensity)
    if whole is not None:
        return read_whole(*whole, propensity)
    if repository:
        return read_repository(folder, text or "title+text", propensity)
    return read_folder(folder, text or "title+text", propensity, language)


def _read_file(path: Path, columns: Columns | None, text: str | None, propensity: Propensity) -> Splits:
    if is_subject_table(path):
        _no_columns(columns, path)
        return read_subjects({"train": path}, propensity)
    if table_kind(path):
        return read_tables({"train": path}, columns or Columns(), text, propensity)
    language = _no_columns(columns, path, language=_has_lines(path))
    if _has_lines(path):
        return read_rows_file(path, text or "title+text", propensity, language)
    if ".txt" in path.suffixes and is_bag_of_words(path):
        return read_bag_of_words_file(path, propensity)
    raise DataError(
        "a single file must be .jsonl, .csv, .tsv, .parquet, .xlsx, or a bag of words in a .txt whose first line is "
        "'rows features labels'; for other layouts give the folder",
        path,
    )


def _no_columns(columns: Columns | None, path: Path, language: bool = False) -> str | None:
    """The field of JSON lines that has the language; an error where other columns are chosen."""
    field = columns.language if columns is not None and language else None
    if columns is not None and columns != Columns(language=field):
        only = "; JSON lines have --language-column alone" if language else ""
        raise DataError(
            f"columns can be chosen only for CSV, TSV, Parquet and Excel files{only}; leave the options out", path
        )
    return field


def _read_store(
    place: Path,
    columns: Columns | None,
    text: str | None,
    test_share: float | None,
    seed: int,
    propensity: Propensity | None,
    remedies: Remedies | None,
    vocabulary: VocabularyFile | None,
    language: str | None,
) -> Corpus:
    if columns not in (None, Columns()) or text or remedies not in (None, Remedies()) or vocabulary is not None:
        raise DataError("is a store, whose documents were read before; give columns and remedies to convert", place)
    corpus = read_store(place, propensity, language)
    if test_share is None or len(corpus.test):
        return corpus
    out = held_out(corpus.train.ids, test_share, seed + 1)
    train, test = corpus.train.take(np.flatnonzero(~out)), corpus.train.take(np.flatnonzero(out))
    labels = corpus.labels.counted(train.targets)
    note = held_out_note("test", len(test), test_share)
    return replace(
        corpus, train=train.over(labels), valid=corpus.valid.over(labels), test=test.over(labels),
        drawn=(*corpus.drawn, "test"), notes=(*corpus.notes, note),
    )  # fmt: skip


def place_of(path: str | Path) -> Path:
    """Finds a data set.

    Args:
        path: of a folder or file, or the name of a data set that ships with longtail.

    Returns:
        The folder or file.

    Raises:
        DataError: there is none.
    """
    place = Path(path)
    if place.is_dir():
        return place
    if os.path.lexists(place):
        file_size(place)  # what is neither a folder nor a file is refused here
        return place
    if str(path) in SHIPPED:
        return Path(str(resources.files("longtail") / "data" / str(path)))
    raise DataError(
        f"no such file or folder; give the path of a data set, or the name of one that ships with longtail: "
        f"{', '.join(SHIPPED)}",
        place,
    )


def _recounted(corpus: Corpus) -> Corpus:
    """Counts labels on train and valid together, for a valid split that was held out of train."""
    both = sparse.vstack([corpus.train.targets, corpus.valid.targets], format="csr")
    labels = corpus.labels.counted(both)
    return replace(
        corpus, train=corpus.train.over(labels), valid=corpus.valid.over(labels), test=corpus.test.over(labels)
    )
