"""`corpus`: a data set from lists, frames and data sets in memory."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.corpus import Corpus, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.frames import column, column_names, is_missing, plain_list
from longtail.data.labels import LabelSet, Propensity
from longtail.data.rows import MIN_WEIGHT, as_id, without_repeats
from longtail.data.text_language import text_language
from longtail.errors import DataError, counted

VALID_NAMES = ("valid", "validation", "dev")  # of a split in a mapping of splits


def corpus(
    data: Any = None,
    *,
    texts: Any = None,
    labels: Any = None,
    ids: Any = None,
    features: Any = None,
    label_texts: Mapping[str, str] | None = None,
    separator: str | None = None,
    valid: Any = None,
    test: Any = None,
    name: str = "memory",
    valid_share: float = 0.05,
    test_share: float | None = None,
    seed: int = 0,
    propensity: Propensity | None = None,
    language: str | None = None,
    languages: Any = None,
) -> Corpus:
    """Make a data set from what is in memory.

        longtail.corpus(texts=["a tabby", "a saw"], labels=[["cats"], ["tools", "steel"]])
        longtail.corpus(frame, texts=["title", "abstract"], labels="subjects")           # pandas or polars
        longtail.corpus(datasets.load_dataset("..."), texts="text", labels="labels")     # Hugging Face

    Args:
        data: a frame, a data set, or a dict of columns; or a mapping of splits (train, valid or validation, test) to
            such. Without it, the other arguments hold the values themselves.
        texts: of the documents; with `data`, the name of a column, or a list of names, whose texts are joined.
        labels: of each document: a list of label ids, a dict of weights in (0, 1] by id, or one id; or a matrix
            (documents, labels). With `data`, the name of a column; a list of names: columns of 0 and 1, one a label.
        ids: of the documents; with `data`, the name of a column; default: their numbers.
        features: (documents, features), sparse or dense, beside texts or instead of them; not with `data`.
        label_texts: texts by label id, in the order of the labels. Labels without one are added at the end.
        separator: between the labels of a cell that is one string; default: such a string is one label.
        valid: the valid split, as `data`; or, without `data`, a dict with texts, labels, ids and features, or a pair of
            texts and labels. Default: held out of train.
        test: the same for the test split. Default: none.
        name: of the data set.
        valid_share: of train to hold out as valid, where there is no valid split; 0: no valid split.
        test_share: of train to hold out as test, where there is no test split.
        seed: of the held-out splits.
        propensity: constants of the data set.
        language: of the texts, a code such as de, for stems, lemmas and compounds; default: each text's is guessed.
        languages: the code of each text's own language; with `data`, the name of a column. Where it is "" or None,
            `language` counts.

    Returns:
        The data set.

    Raises:
        DataError: texts, labels or columns are missing or do not match; names the split and the document.
    """
    given = {"train": data, "valid": valid, "test": test}
    if isinstance(data, Mapping) and "train" in data and column_names(data["train"]) is not None:
        found = next((data[one] for one in VALID_NAMES if one in data), None)
        given = {
            "train": data["train"],
            "valid": found if valid is None else valid,
            "test": data.get("test") if test is None else test,
        }
    index = _Index(dict.fromkeys(map(str, label_texts or ())))
    splits: dict[str, _Documents] = {}
    for split, one in given.items():
        if split != "train" and one is None:
            continue
        if data is None:
            raw = one
            if split == "train":
                raw = {"texts": texts, "labels": labels, "ids": ids, "features": features, "languages": languages}
            splits[split] = _from_values(split, raw, index, separator)
        else:
            splits[split] = _from_table(split, one, texts, labels, ids, index, separator)
            if languages is not None:
                splits[split].languages = _codes(column(one, languages, "languages"))
    label_set, notes = index.label_set(label_texts, propensity or Propensity())
    _check_ids(splits)
    built = {split: documents.dataset(label_set) for split, documents in splits.items()}
    made = make_corpus(
        name=name,
        train=built["train"],
        valid=built.get("valid"),
        test=built.get("test"),
        valid_share=valid_share,
        test_share=test_share,
        seed=seed,
        notes=notes,
        language=text_language(language),
    )
    field = languages if data is not None and isinstance(languages, str) else None
    return replace(made, label_language=made.language or None, language_field=field)


@dataclass(eq=False)
class _Index:
    """Label ids in the order in which they are seen, those of `label_texts` first."""

    known: dict[str, Any]
    row_of: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.row_of = {label: row for row, label in enumerate(self.known)}

    def label_set(
        self, label_texts: Mapping[str, str] | None, propensity: Propensity
    ) -> tuple[LabelSet, tuple[str, ...]]:
        if label_texts is None:  # their names are all there is to read
            return LabelSet(ids=tuple(self.row_of), texts=tuple(self.row_of), propensity=propensity), ()
        texts = {str(label): text for label, text in label_texts.items()}
        wrong = next((label for label, text in texts.items() if not isinstance(text, str)), None)
        if wrong is not None:
            raise DataError(f"label_texts: the text of {wrong!r} is not a string but {type(texts[wrong]).__name__}")
        without = len(self.row_of) - len(self.known)
        notes = (f"{counted(without, 'label has', 'labels have')} no text in label_texts",) if without else ()
        found = tuple(texts.get(label, "") for label in self.row_of)
        return LabelSet(ids=tuple(self.row_of), texts=found, propensity=propensity), notes


@dataclass(eq=False)
class _Documents:
    """The documents of a split; the labels are complete only when every split was read."""

    ids: tuple[str, ...]
    texts: tuple[str, ...] | None
    features: Any
    columns: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("f"))
    starts: array[int] = field(default_factory=lambda: array("q", [0]))
    languages: list[str] | None = None

    def dataset(self, labels: LabelSet) -> Dataset:
        targets: Matrix = sparse.csr_array(
            (np.array(self.weights), np.array(self.columns, dtype=np.int32), np.array(self.starts)),
            shape=(len(self.ids), len(labels)),
        )
        return Dataset(
            labels=labels, targets=without_repeats(targets), ids=self.ids, texts=self.texts, features=self.features,
            languages=self.languages,
        )  # fmt: skip


def _from_values(split: str, raw: Any, index: _Index, separator: str | None) -> _Documents:
    """A split given as lists and arrays."""
    if isinstance(raw, tuple) and len(raw) == 2:
        raw = {"texts": raw[0], "labels": raw[1]}
    if not isinstance(raw, Mapping):
        raise DataError(
            f"{split}: give a pair of texts and labels, or a dict with them, got {type(raw).__name__}; a frame goes "
            "with a frame for train: corpus(frame, texts=..., labels=..., valid=...)"
        )
    known = ("texts", "labels", "ids", "features", "languages")
    unknown = set(raw) - {*known}
    if unknown:
        raise DataError(f"{split}: unknown entry {sorted(map(str, unknown))[0]!r}; it has {', '.join(known)}")
    texts, labels, features = raw.get("texts"), raw.get("labels"), raw.get("features")
    if isinstance(texts, str):
        raise DataError(f"{split}: texts is one string; give a list of them, or a frame: corpus(frame, texts=...)")
    if texts is None and features is None:
        raise DataError(f"{split}: give texts or features")
    if labels is None:
        raise DataError(f"{split}: give labels, a list for each document; an empty list where there are none")
    read = None if texts is None else tuple(_text(split, row, one) for row, one in enumerate(plain_list(texts)))
    number = len(read) if read is not None else int(features.shape[0]) if features is not None else 0
    documents = _filled(split, number, read, features, raw.get("ids"), labels, index, separator)
    documents.languages = None if raw.get("languages") is None else _codes(plain_list(raw["languages"]))
    return documents


def _codes(given: Sequence[Any]) -> list[str]:
    """Codes of languages; "" for a missing one."""
    return ["" if is_missing(one) else str(one) for one in given]


def _from_table(
    split: str, table: Any, texts: Any, labels: Any, ids: Any, index: _Index, separator: str | None
) -> _Documents:
    """A split given as a table, with the names of its columns."""
    names = column_names(table)
    if names is None:
        if hasattr(table, "collect"):
            raise DataError(f"{split}: {type(table).__name__} holds no rows yet; give its .collect()")
        raise DataError(
            f"{split}: {type(table).__name__} is no table; give a pandas or polars frame, a Hugging Face data set, a "
            "dict of lists, or texts=[...] and labels=[...] without it"
        )
    for what, value in (("texts", texts), ("labels", labels)):
        if not value or not (isinstance(value, str) or all(isinstance(one, str) for one in value)):
            raise DataError(f"{split}: {what} must name a column: {', '.join(names)}")
    wanted = [texts] if isinstance(texts, str) else list(texts)
    cells = [column(table, one, "texts") for one in wanted]
    joined = tuple(_joined(split, row, parts) for row, parts in enumerate(zip(*cells, strict=True)))
    found: Any
    if isinstance(labels, str):
        found = column(table, labels, "labels")
    else:
        marks = zip(*(column(table, one, "labels") for one in labels), strict=True)
        found = [_marked(split, row, labels, one) for row, one in enumerate(marks)]
    return _filled(
        split, len(joined), joined, None, None if ids is None else column(table, ids, "ids"), found, index, separator
    )


def _filled(
    split: str,
    number: int,
    texts: tuple[str, ...] | None,
    features: Any,
    ids: Any,
    labels: Any,
    index: _Index,
    separator: str | None,
) -> _Documents:
    """The documents with their labels, which the index learns."""
    own = [f"{split}-{row}" for row in range(number)] if ids is None else [_id(split, one) for one in plain_list(ids)]
    if len(own) != number:
        raise DataError(f"{split}: {number} documents and {len(own)} ids do not match")
    documents = _Documents(tuple(own), texts, features)
    cells = _cells(split, labels, index)
    if len(cells) != number:
        raise DataError(f"{split}: {number} documents and labels of {len(cells)} do not match")
    for row, cell in enumerate(cells):
        for label, weight in _weighted(split, row, cell, separator):
            documents.columns.append(index.row_of.setdefault(label, len(index.row_of)))
            documents.weights.append(weight)
        documents.starts.append(len(documents.columns))
    return documents


def _cells(split: str, labels: Any, index: _Index) -> Sequence[Any]:
    """The labels of each document. The columns of a matrix are the labels of `label_texts`, or numbers."""
    shape: tuple[int, ...] = getattr(labels, "shape", ())
    names = column_names(labels)
    if len(shape) != 2:
        return plain_list(labels)
    matrix = sparse.csr_array(labels if sparse.issparse(labels) else np.asarray(labels))
    known = names or list(index.known) or [str(number) for number in range(shape[1])]
    if len(known) != shape[1]:
        raise DataError(
            f"{split}: labels have {counted(shape[1], 'column')}, "
            f"and label_texts {counted(len(known), 'label')}; give as many"
        )
    for label in known:  # columns without an entry are labels too
        index.row_of.setdefault(label, len(index.row_of))
    bounds = matrix.indptr
    return [
        {known[column]: weight for column, weight in zip(matrix.indices[a:b], matrix.data[a:b].tolist(), strict=True)}
        for a, b in pairwise(bounds)
    ]


def _weighted(split: str, row: int, cell: Any, separator: str | None) -> list[tuple[str, float]]:
    """Label ids and weights of a document."""
    if is_missing(cell):
        return []
    if isinstance(cell, Mapping):
        pairs = list(cell.items())
    elif isinstance(cell, str):
        words = [cell] if separator is None else [word.strip() for word in cell.split(separator)]
        pairs = [(word, 1.0) for word in words if word]
    elif isinstance(cell, list | tuple | set | frozenset | np.ndarray) or hasattr(cell, "to_list"):
        members = sorted(cell) if isinstance(cell, set | frozenset) else plain_list(cell)
        pairs = [(member, 1.0) for member in members]
    else:
        pairs = [(cell, 1.0)]  # one number as a class
    found = []
    for label, weight in pairs:
        name = as_id(label.item() if isinstance(label, np.generic) else label)
        if name is None:
            raise DataError(
                f"{split}, document {row + 1}: label {label!r} is not a label id; ids are non-empty strings"
            )
        weight = weight.item() if isinstance(weight, np.generic) else weight
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not MIN_WEIGHT < weight <= 1:
            raise DataError(f"{split}, document {row + 1}: weight {weight!r} of label {name!r} does not lie in (0, 1]")
        found.append((name, float(weight)))
    return found


def _text(split: str, row: int, value: Any) -> str:
    if is_missing(value):
        return ""
    if not isinstance(value, str):
        raise DataError(f"{split}, document {row + 1}: the text is not a string but {type(value).__name__}")
    return value


def _joined(split: str, row: int, parts: tuple[Any, ...]) -> str:
    return " ".join(text for text in (_text(split, row, part) for part in parts) if text)


def _marked(split: str, row: int, names: Sequence[str], marks: tuple[Any, ...]) -> dict[str, float]:
    """The labels of a document from columns of 0 and 1."""
    found = {}
    for name, mark in zip(names, marks, strict=True):
        if is_missing(mark) or mark in (0, False):
            continue
        if not isinstance(mark, int | float):
            raise DataError(f"{split}, document {row + 1}: column {name!r} of labels has {mark!r}; give 0 or 1")
        found[name] = 1.0 if mark is True else float(mark)
    return found


def _id(split: str, value: Any) -> str:
    found = as_id(value)
    if found is None:
        raise DataError(f"{split}: id {value!r} is neither a non-empty string nor a whole number")
    return found


def _check_ids(splits: Mapping[str, _Documents]) -> None:
    """Ids are unique over all splits: two documents of one id would be held out together."""
    seen: dict[str, str] = {}
    for split, documents in splits.items():
        for name in documents.ids:
            if name in seen:
                raise DataError(f"{split}: document id {name!r} is already in {seen[name]}; ids must be unique")
            seen[name] = split
