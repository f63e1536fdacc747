"""Writers: our folder layout, and the layout of the Extreme Classification Repository."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.atomic import new_folder
from longtail.data.corpus import Corpus
from longtail.data.corpus_facts import keep_private
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.progress import stage


def write_folder(
    corpus: Corpus,
    path: str | Path,
    *,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
    undivided: bool = False,
) -> Path:
    """Writes `train/valid/test/labels.jsonl.gz`, `exclude.jsonl.gz` and `corpus.json`, which `load` reads.

    The layout holds texts and vectors of documents (`train.vectors.npy`, ...), but no sparse features. The folder
    appears once it is complete.

    Args:
        corpus: the data set.
        path: the folder to write.
        overwrite: replaces a data set that longtail wrote there.
        facts: more of them for `corpus.json`, such as the licence.
        undivided: an empty valid split is not written, so that `load` holds one out of train.

    Returns:
        The folder.

    Raises:
        DataError: the layout cannot hold the data, ids are not unique, or the folder cannot be written.
    """
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    _check_ids(corpus)
    if corpus.train.texts is None:
        raise DataError(f"{corpus.name} has features but no texts; use write_repository, which keeps features")
    features = corpus.train.features
    if corpus.labels.features is not None or (features is not None and not _are_vectors(features)):
        raise DataError(
            f"{corpus.name} has sparse features beside its texts, which this layout cannot hold; use "
            "write_repository, which keeps both, or drop them in each split: dataclasses.replace(split, features=None)"
        )
    with new_data_folder(Path(path), overwrite) as folder:
        for split, dataset in splits.items():
            # Without a valid file, `load` holds it out of train again.
            if len(dataset) or (split == "valid" and not undivided):
                with stage(f"writing {split}", total=len(dataset)) as advance:
                    write_lines(folder / f"{split}.jsonl.gz", map(_json, _rows(dataset)))
                    advance(len(dataset))
                if dataset.features is not None:
                    np.save(folder / f"{split}.vectors.npy", dataset.features.toarray())
        write_lines(folder / "labels.jsonl.gz", map(_json, described(corpus.labels)))
        excluded = [entry for dataset in splits.values() for entry in _excluded(dataset)]
        if excluded:
            write_lines(folder / "exclude.jsonl.gz", map(_json, excluded))
        spoken = {} if corpus.train.languages is None else {"language_column": "language"}
        write_facts(folder, corpus, {"text": "text", "counted_on": _counted_on(corpus), **spoken, **(facts or {})})
    return Path(path)


def write_repository(
    corpus: Corpus, path: str | Path, *, overwrite: bool = False, facts: dict[str, Any] | None = None
) -> Path:
    """Writes the layout of the Extreme Classification Repository, `trn_X_Y.txt` and others, which `load` reads.

    The layout has no valid split: its documents follow those of train in `trn`. Documents have numbers instead of ids,
    and a line end in a text becomes a space. `lbl.json.gz` keeps the label ids and `corpus.json` the facts. The folder
    appears once it is complete.

    Args:
        corpus: the data set.
        path: the folder to write.
        overwrite: replaces a data set that longtail wrote there.
        facts: more of them for `corpus.json`, such as the licence.

    Returns:
        The folder.

    Raises:
        DataError: ids are not unique, or the folder cannot be written.
    """
    _check_ids(corpus)
    labels = corpus.labels
    with new_data_folder(Path(path), overwrite) as folder:
        for short, split, parts in (("trn", "train", (corpus.train, corpus.valid)), ("tst", "test", (corpus.test,))):
            given = [part for part in parts if len(part)]
            if given:
                with stage(f"writing {split}", total=None):
                    _write_split(folder, short, split, given)
        described = ({"uid": name, "title": text} for name, text in zip(labels.ids, labels.texts, strict=True))
        write_lines(folder / "lbl.json.gz", map(_json, described))
        if labels.has_texts:
            write_lines(folder / "Y.txt", map(one_line, labels.texts))
        if labels.features is not None:
            _write_matrix(folder / "Yf.txt", labels.features)
        write_facts(folder, corpus, facts or {})
    return Path(path)


def _are_vectors(features: Matrix) -> bool:
    """Whether most entries are not zero, as in vectors of an encoder."""
    return bool(2 * features.nnz > features.shape[0] * features.shape[1])


def _write_split(folder: Path, short: str, split: str, parts: Sequence[Dataset]) -> None:
    _write_matrix(folder / f"{short}_X_Y.txt", sparse.vstack([part.targets for part in parts], format="csr"))
    if parts[0].features is not None:
        _write_matrix(folder / f"{short}_X_Xf.txt", sparse.vstack([part.features for part in parts], format="csr"))
    if parts[0].texts is not None:
        write_lines(folder / f"{short}_X.txt", (one_line(text) for part in parts for text in part.texts or ()))
    pairs: list[tuple[int, int]] = []
    before = 0
    for part in parts:
        if part.excluded is not None:
            rows, columns = part.excluded.nonzero()
            pairs.extend(zip((rows + before).tolist(), columns.tolist(), strict=True))
        before += len(part)
    if pairs:
        write_lines(folder / f"filter_labels_{split}.txt", (f"{row} {column}" for row, column in pairs))


def _write_matrix(path: Path, matrix: Matrix) -> None:
    indices, values = matrix.indices.tolist(), _words(matrix.data)
    lines = (
        " ".join([f"{index}:{value}" for index, value in zip(indices[start:end], values[start:end], strict=True)])
        for start, end in pairwise(matrix.indptr.tolist())
    )
    write_lines(path, _after(f"{matrix.shape[0]} {matrix.shape[1]}", lines))


def _after(header: str, lines: Iterable[str]) -> Iterator[str]:
    yield header
    yield from lines


def _words(values: AnyArray) -> list[str]:
    """The shortest decimals that read back as the same float32."""
    different, places = np.unique(values.astype(np.float32), return_inverse=True)
    words = [_word(value) for value in different]
    return [words[place] for place in places.tolist()]


def _word(value: np.float32) -> str:
    short = str(value)
    kept = short if np.float32(float(short)) == value else repr(float(value))
    return kept.removesuffix(".0")


def _rows(dataset: Dataset) -> Iterator[dict[str, Any]]:
    names = dataset.labels.ids
    columns, soft = dataset.targets.indices.tolist(), bool((dataset.targets.data < 1).any())
    weights = [float(word) for word in _words(dataset.targets.data)] if soft else []
    bounds = pairwise(dataset.targets.indptr.tolist())
    spoken = repeat("") if dataset.languages is None else dataset.languages
    for name, text, (start, end), language in zip(dataset.ids, dataset.texts or (), bounds, spoken, strict=False):
        labels: list[str] | dict[str, float] = [names[column] for column in columns[start:end]]
        if soft and min(weights[start:end], default=1.0) < 1:
            labels = dict(zip(labels, weights[start:end], strict=True))
        more = {} if dataset.languages is None else {"language": language}
        yield {"id": name, "text": text, **more, "labels": labels}


def described(labels: LabelSet) -> Iterator[dict[str, Any]]:
    """The labels with their further names and relations, as lines of `labels.jsonl`.

    Args:
        labels: the labels.

    Yields:
        One object a label.
    """
    relations = {"broader": labels.broader, "related": labels.related}
    bounds = {kind: links.indptr.tolist() for kind, links in relations.items() if links is not None}
    for row, (name, text, names) in enumerate(zip(labels.ids, labels.texts, labels.names, strict=True)):
        found: dict[str, Any] = {"id": name, "text": text}
        if names:
            found["names"] = list(names)
        for kind, starts in bounds.items():
            links = relations[kind]
            assert links is not None
            if starts[row + 1] > starts[row]:
                found[kind] = [labels.ids[column] for column in links.indices[starts[row] : starts[row + 1]].tolist()]
        yield found


def _excluded(dataset: Dataset) -> Iterator[dict[str, Any]]:
    if dataset.excluded is None:
        return
    columns = dataset.excluded.indices.tolist()
    for name, (start, end) in zip(dataset.ids, pairwise(dataset.excluded.indptr.tolist()), strict=True):
        if end > start:
            yield {"id": name, "labels": [dataset.labels.ids[column] for column in columns[start:end]]}


def _counted_on(corpus: Corpus) -> str:
    """What the label counts come from: a valid split that was held out of train counts too."""
    both = sparse.vstack([corpus.train.targets, corpus.valid.targets], format="csr")
    return "train+valid" if len(corpus.valid) and corpus.labels.counted(both) == corpus.labels else "train"


def write_facts(folder: Path, corpus: Corpus, more: dict[str, Any]) -> None:
    """Writes `corpus.json`, and a .gitignore where the data set may not be passed on.

    Args:
        folder: the folder.
        corpus: the data set.
        more: facts beside those of the data set.
    """
    propensity = {"a": corpus.propensity.a, "b": corpus.propensity.b}
    unseen = {"held_out_labels": corpus.held_out_labels} if corpus.held_out_labels else {}
    known: dict[str, Any] = {} if corpus.table is None else {"table": corpus.table.as_json()}
    known |= {"language": corpus.language} if corpus.language else {}
    if corpus.label_language is not None and corpus.label_language != corpus.language:
        known["label_language"] = corpus.label_language
    known |= {} if corpus.licence is None else {"licence": corpus.licence}
    facts = {"name": corpus.name, "propensity": propensity, **unseen, **known, **more}
    if corpus.private:
        keep_private(folder)
    write_lines(folder / "corpus.json", [json.dumps(facts, indent=2)])


def _check_ids(corpus: Corpus) -> None:
    ids = [name for dataset in (corpus.train, corpus.valid, corpus.test) for name in dataset.ids]
    if len(set(ids)) < len(ids):
        raise DataError(f"document ids of {corpus.name} are not unique over the splits; make them unique first")
    if not all(ids) or not all(corpus.labels.ids):
        raise DataError(f"{corpus.name} has an empty document or label id; give it an id first")


def _json(value: dict[str, Any]) -> str:
    line = json.dumps(value, ensure_ascii=False)
    return line if _encodable(line) else json.dumps(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return False
    return True


def one_line(text: str) -> str:
    """A text without line ends, and without a byte order mark at its start, which readers would drop.

    Args:
        text: the text.

    Returns:
        The text on one line.
    """
    return text.lstrip("\ufeff").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines as UTF-8 and flushes them to the disk; the same lines give the same bytes.

    Args:
        path: the file; packed where its name ends with .gz.
        lines: without line ends.
    """
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                for line in lines:
                    packed.write((line + "\n").encode("utf-8", "replace"))
        else:
            for line in lines:
                raw.write((line + "\n").encode("utf-8", "replace"))
        raw.flush()
        os.fsync(raw.fileno())


def _ours(name: str) -> bool:
    """Whether one of the writers of this module, or a builder, writes files of this name."""
    folder = r"(train|valid|test|labels|exclude)\.jsonl\.gz|(train|valid|test)\.vectors\.npy|corpus\.json|\.gitignore"
    repository = r"(trn|tst)_X(_Y|_Xf)?\.txt|Yf?\.txt|lbl\.json\.gz|filter_labels_(train|test)\.txt"
    subjects = r"vocabulary\.nt|(train|valid|test)(\.tsv\.gz)?"
    parts = r"(targets|features|excluded)(\.labels|\.starts)?|(ids|texts|languages)(\.starts)?"
    store = rf"store\.json|labels\.(jsonl|counts)|(train|valid|test|labels)\.({parts})"
    return re.fullmatch(f"{folder}|{repository}|{subjects}|{store}", name) is not None


def check_place(path: Path, *, overwrite: bool) -> None:
    """Checks that a data set may be written to a folder; call it before the long work, too.

    Args:
        path: the folder.
        overwrite: a data set that longtail wrote there may be replaced.

    Raises:
        DataError: the folder may not be written or replaced.
    """
    if path.exists():
        if not overwrite:
            raise DataError("exists; choose another path, or replace it with --overwrite (overwrite=True)", path)
        names = {file.name for file in path.iterdir()} if path.is_dir() else {""}
        if names and (not names & {"corpus.json", "store.json"} or not all(map(_ours, names))):
            raise DataError("is not a data set that longtail wrote, so it is not replaced; choose another path", path)


@contextmanager
def new_data_folder(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder that becomes `path` at the end of the block, and is removed after an error.

    Args:
        path: the folder to write.
        overwrite: replaces a data set that longtail wrote there.

    Yields:
        The temporary folder.

    Raises:
        DataError: the folder may not be replaced, or cannot be written.
    """
    check_place(path, overwrite=overwrite)
    try:
        with new_folder(path) as folder:
            yield folder
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error}); check the disk and the rights", path) from None
