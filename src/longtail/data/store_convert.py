"""Writes a data set of any layout as a store.

JSON lines and tables are written while they are read, in memory that does not grow with the documents beyond 8 bytes
each; large files of JSON lines are read by several processes, in pieces. Other layouts, and data that is mended or has
vectors, excluded pairs, languages of documents or a vocabulary, are read whole first.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.columns import table_kind
from longtail.data.corpus import Corpus, held_out_note
from longtail.data.corpus_facts import CorpusFacts, read_facts
from longtail.data.dataset import Dataset
from longtail.data.files import find
from longtail.data.fingerprint import fingerprint
from longtail.data.labels import Propensity
from longtail.data.opening import reading
from longtail.data.published import constants_note
from longtail.data.read import Columns, Remedies, VocabularyFile, in_language, load, place_of, read_splits
from longtail.data.rows import gathering_by
from longtail.data.store_layout import SPLITS, is_store
from longtail.data.store_streaming import streamed
from longtail.data.store_writer import BLOCK, StoreWriter
from longtail.data.subjects import is_subject_table
from longtail.data.table import find_tables
from longtail.data.text_language import text_language
from longtail.data.write import described, new_data_folder
from longtail.errors import DataError
from longtail.progress import stage


def write_store(
    source: str | Path,
    target: str | Path,
    *,
    columns: Columns | None = None,
    text: str | None = None,
    valid_share: float = 0.05,
    test_share: float | None = None,
    seed: int = 0,
    propensity: Propensity | None = None,
    remedies: Remedies | None = None,
    vocabulary: VocabularyFile | None = None,
    overwrite: bool = False,
    processes: int = 1,
    language: str | None = None,
) -> Path:
    """Write a store, which `load` maps into memory.

        write_store("clicks", "clicks-store")
        corpus = load("clicks-store")

    Args:
        source: a folder or a file, or the name of a data set that ships with longtail.
        target: the folder to write.
        columns: see `load`; this and the next seven.
        text: see `load`.
        valid_share: see `load`.
        test_share: see `load`.
        seed: see `load`.
        propensity: see `load`.
        remedies: see `load`.
        vocabulary: see `load`.
        overwrite: replaces a data set that longtail wrote there.
        processes: that read JSON lines; 0: one a core, where a file is worth it. A script that asks for more than one
            must guard its main part by `if __name__ == "__main__"`.
        language: see `load`.

    Returns:
        The folder.

    Raises:
        DataError: the data cannot be read, an id occurs twice, or the folder cannot be written.
    """
    place = place_of(source)
    if place.is_dir() and is_store(place):
        raise DataError("is a store already; copy the folder", place)
    with new_data_folder(Path(target), overwrite) as folder:
        spoken = columns is not None and columns.language is not None
        plain = remedies in (None, Remedies()) and vocabulary is None and not spoken
        if plain and (given := _streams(place)) is not None:
            writer = StoreWriter(folder, valid_share, test_share, seed, given, processes)
            with reading(place):
                _stream(place, writer, columns, text, propensity, language)
        else:
            corpus = load(
                source, columns=columns, text=text, valid_share=valid_share, test_share=test_share, seed=seed,
                propensity=propensity, remedies=remedies, vocabulary=vocabulary, language=language,
            )  # fmt: skip
            _write(corpus, StoreWriter(folder, 0.0, None, seed, frozenset(SPLITS)))
    return Path(target)


def stored(corpus: Corpus, folder: Path) -> Path:
    """Leave a data set where jobs on other machines read it.

    Args:
        corpus: the data; no split has rows that tail methods added.
        folder: all machines see it under the same path.

    Returns:
        A store in the folder. Its name is a checksum of the data, so one that is there is the same.

    Raises:
        DataError: the folder cannot be written.
    """
    digest = hashlib.blake2b(f"{corpus.name}\n{corpus.held_out_labels}".encode(), digest_size=8)
    for split in SPLITS:
        digest.update(fingerprint(getattr(corpus, split)).encode())
    for label in described(corpus.labels):
        digest.update(json.dumps(label).encode())
    place = folder.resolve() / f"data-{digest.hexdigest()}"
    if not is_store(place):
        with new_data_folder(place, overwrite=False) as temporary:
            _write(corpus, StoreWriter(temporary, 0.0, None, 0, frozenset(SPLITS)))
    return place


def _streams(place: Path) -> frozenset[str] | None:
    """The splits of a data set that is written while it is read; None for one that is read whole."""
    if place.is_dir():
        facts = read_facts(place)
        if facts.language_column is not None or (facts.table is not None and facts.table.language is not None):
            return None
    else:
        lines = place.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(".jsonl")
        table = table_kind(place) and not is_subject_table(place)
        return frozenset({"train"}) if lines or table else None
    if find(place, "exclude.jsonl") or any(place.glob("*.vectors.npy")):
        return None
    tables = find_tables(place)
    if "train" in tables:
        return None if is_subject_table(tables["train"]) else frozenset(tables) & frozenset(SPLITS)
    found = frozenset(split for split in SPLITS if find(place, f"{split}.jsonl"))
    return found if "train" in found else None


def _stream(
    place: Path, writer: StoreWriter, columns: Columns | None, text: str | None, propensity: Propensity | None,
    language: str | None,
) -> None:  # fmt: skip
    facts = in_language(read_facts(place) if place.is_dir() else CorpusFacts(), language)
    if facts.table is not None and columns in (None, Columns()) and find_tables(place):
        columns = Columns.of(facts.table)
    writer.count_valid = facts.counted_on == "train+valid"
    with gathering_by(streamed(writer)):
        splits = read_splits(place, columns, text or facts.text, propensity or facts.propensity)
    labels = splits.train.labels
    if not writer.counted:
        raise DataError("the train split has no examples; add some", place)
    table = facts.table if splits.table is None else splits.table
    if splits.table is None and table is not None:
        text_field, id_field = table.text_field, table.id or splits.id_field
    else:
        text_field, id_field = splits.text_field, splits.id_field
    name = facts.name or (place.resolve().name if place.is_dir() else place.name.split(".")[0])
    notes = list(splits.notes)
    shares = {"test": writer.test_share, "valid": writer.valid_share}
    for split in writer.drawn:
        rows = writer.splits[split].rows
        notes.append(held_out_note(split, rows, shares[split] or 0.0))
    warning = constants_note((name, place.resolve().name), writer.counted, len(labels), labels.propensity)
    writer.finish(
        labels,
        _facts(name, labels.propensity, text_field, id_field, [*notes, *([warning] if warning else [])])
        | ({} if table is None else {"table": table.as_json()})
        | _spoken(text_language(facts.language), facts.named_in)
        | {"held_out_labels": facts.held_out_labels, "licence": facts.licence},
        facts.private,
    )


def _write(corpus: Corpus, writer: StoreWriter) -> None:
    for split in SPLITS:
        data: Dataset = getattr(corpus, split)
        with stage(f"writing {split}", total=len(data)) as advance:
            for begin in range(0, len(data), BLOCK):
                rows = slice(begin, begin + BLOCK)
                more = {"features": data.features, "excluded": data.excluded}
                given = {kind: matrix[rows] for kind, matrix in more.items() if matrix is not None}
                texts = None if data.texts is None else data.texts[rows]
                languages = None if data.languages is None else data.languages[rows]
                writer.add(split, list(data.ids[rows]), texts, data.targets[rows], languages=languages, **given)
                advance(min(BLOCK, len(data) - begin))
    labels = corpus.labels
    writer.counts, writer.counted, writer.drawn = np.array(labels.counts), labels.train_rows, corpus.drawn
    writer.finish(
        labels,
        _facts(corpus.name, labels.propensity, corpus.text_field, corpus.id_field, list(corpus.notes))
        | ({} if corpus.table is None else {"table": corpus.table.as_json()})
        | _spoken(corpus.language, corpus.label_language)
        | ({} if corpus.language_field is None else {"language_field": corpus.language_field})
        | {"held_out_labels": corpus.held_out_labels, "licence": corpus.licence},
        corpus.private,
    )


def _spoken(language: str, label_language: str | None) -> dict[str, Any]:
    return {"language": language or None, "label_language": label_language}


def _facts(name: str, propensity: Propensity, text_field: str, id_field: str, notes: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "propensity": {"a": propensity.a, "b": propensity.b},
        "text_field": text_field,
        "id_field": id_field,
        "notes": notes,
    }
