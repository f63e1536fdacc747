"""The layouts of the Extreme Classification Repository, under all their usual names.

    train.txt, eurlex_train.txt           bag of words with labels, header "rows features labels"
    trn_X_Y.txt, trn_X_Xf.txt             targets and features, header "rows columns"; also Y.trn.npz, X.trn.npz
    trn.json, lbl.json                    uid, title, content, target_ind, target_rel, one object per line
    trn_X.txt, Y.txt                      one raw text per line, beside the targets or under raw/
    Yf.txt, lbl_X_Xf.txt                  features of the labels
    filter_labels_train.txt               excluded pairs; also trn_filter_labels.txt

All files of a split are joined: it may have both texts and features. Row numbers and label numbers count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.dataset import Dataset
from longtail.data.files import find
from longtail.data.labels import LabelSet, Propensity
from longtail.data.limits import check_declared
from longtail.data.repository_matrix import (
    is_bag_of_words,
    read_bag_of_words,
    read_features,
    read_pairs,
    read_targets,
)
from longtail.data.repository_text import Described, read_described, read_texts
from longtail.data.rows import Splits
from longtail.errors import DataError, counted

SHORT = {"train": ("trn", "train"), "valid": ("val", "valid"), "test": ("tst", "test")}
TARGETS = ("{}_X_Y.txt", "{}_X_Y.npz", "Y.{}.npz", "{}_lbl_mat.txt")
FEATURES = ("{}_X_Xf.txt", "{}_X_Xf.npz", "X.{}.npz", "{}_ft_mat.txt")
TEXTS = ("{}_X.txt", "X.{}.txt", "{}_raw_texts.txt")
EXCLUDED = ("filter_labels_{}.txt", "{}_filter_labels.txt")
LABEL_FEATURES = ("Yf.txt", "lbl_X_Xf.txt", "Yf.npz", "lbl_X_Xf.npz")


@dataclass(frozen=True)
class _Files:
    """The files of one split; None where one is missing."""

    bag_of_words: Path | None = None
    targets: Path | None = None
    features: Path | None = None
    described: Path | None = None
    texts: Path | None = None
    excluded: Path | None = None

    @property
    def source(self) -> Path | None:
        """The file that has the targets."""
        return self.targets or self.bag_of_words or self.described


@dataclass(frozen=True, eq=False)
class _SplitPart:
    """The content of one split."""

    files: _Files
    targets: Matrix
    features: Matrix | None
    texts: tuple[str, ...] | None
    uids: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class _LabelFiles:
    """The content of the files on labels."""

    described: Described | None = None
    texts: tuple[str, ...] | None = None
    features: Matrix | None = None
    sizes: tuple[tuple[Path, int], ...] = ()  # how many labels each file has


def is_repository(folder: Path) -> bool:
    """Whether a folder has a train split in one of these layouts.

    Args:
        folder: the folder.

    Returns:
        True where it has one.
    """
    return _files(folder, "train").source is not None


def read_repository(folder: Path, text: str, propensity: Propensity) -> Splits:
    """Reads a folder of the repository.

    Args:
        folder: the folder.
        text: the fields of JSON objects that make the text: "title", "text" or "title+text".
        propensity: the constants of the data set.

    Returns:
        The splits.

    Raises:
        DataError: a file is missing or wrong, or files do not fit together.
    """
    files = {split: _files(folder, split) for split in SHORT}
    for split, found in files.items():
        if found.source is None and (found.features or found.texts):
            wanted = ", ".join([*_names(TARGETS, split), f"{SHORT[split][0]}.json"])
            raise DataError(f"there are no targets beside it; looked for {wanted}", found.features or found.texts)
    label_files = _read_labels(folder, text)
    known = label_files.sizes[0][1] if label_files.sizes else None
    parts = {split: _read_part(found, text, known) for split, found in files.items() if found.source}
    number = max(part.targets.shape[1] for part in parts.values())
    sized = [(part.files.source, part.targets.shape[1]) for part in parts.values() if not _guessed(part, known)]
    entries = sum(part.targets.nnz + (0 if part.features is None else part.features.nnz) for part in parts.values())
    widest = max((part.features.shape[1] for part in parts.values() if part.features is not None), default=0)
    backed = any(count == number for _, count in label_files.sizes)  # a file has a line for each label
    check_declared(0 if backed else number, widest, entries, parts["train"].files.source)
    _agree("labels", [*sized, *label_files.sizes])
    widths = [(part.files.features or part.files.bag_of_words, part.features) for part in parts.values()]
    widths.append((find(folder, *LABEL_FEATURES), label_files.features))
    _agree("features", [(path, matrix.shape[1]) for path, matrix in widths if matrix is not None])
    _same_kinds(parts)
    labels, notes = _label_set(number, label_files, propensity)
    ids, more = _row_ids(parts)
    datasets = {split: _dataset(part, labels, ids[split]) for split, part in parts.items()}
    return Splits(
        train=datasets["train"],
        valid=datasets.get("valid"),
        test=datasets.get("test"),
        text_field=text if any(part.files.described for part in parts.values()) else "text",
        notes=(*notes, *more),
    )


def read_bag_of_words_file(path: Path, propensity: Propensity) -> Splits:
    """Reads a single bag-of-words file as the train split.

    Args:
        path: the file.
        propensity: the constants of the data set.

    Returns:
        The train split.
    """
    part = _read_part(_Files(bag_of_words=path), "text", None)
    assert part.features is not None
    check_declared(part.targets.shape[1], part.features.shape[1], part.targets.nnz + part.features.nnz, path)
    labels, _ = _label_set(part.targets.shape[1], _LabelFiles(), propensity)
    return Splits(train=_dataset(part, labels, _row_ids({"train": part})[0]["train"]))


def _names(patterns: Iterable[str], split: str) -> list[str]:
    return [pattern.format(short) for short in SHORT[split] for pattern in patterns]


def _find_text(folder: Path, names: Sequence[str]) -> Path | None:
    """Raw texts are beside the matrices or under raw/."""
    return find(folder, *names, *(f"raw/{name}" for name in names))


def _files(folder: Path, split: str) -> _Files:
    targets = find(folder, *_names(TARGETS, split))
    return _Files(
        bag_of_words=None if targets else _find_bag_of_words(folder, split),
        targets=targets,
        features=find(folder, *_names(FEATURES, split)),
        described=_find_text(folder, _names(("{}.json",), split)),
        texts=_find_text(folder, _names(TEXTS, split)),
        excluded=find(folder, *_names(EXCLUDED, split)),
    )


def _find_bag_of_words(folder: Path, split: str) -> Path | None:
    """A file named like `eurlex_train.txt` whose first line is the header of a bag of words."""
    ending = re.compile(rf"(.*[_.-])?({'|'.join(SHORT[split])})\.txt(\.gz|\.xz)?", re.IGNORECASE)
    named = sorted(path for path in folder.iterdir() if ending.fullmatch(path.name) and not path.is_dir())
    found = [path for path in named if is_bag_of_words(path)]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise DataError(f"{both} are both here and may differ; keep one of them", folder)
    return found[0] if found else None


def _read_labels(folder: Path, text: str) -> _LabelFiles:
    described_path = _find_text(folder, ["lbl.json"])
    texts_path = _find_text(folder, ["Y.txt"])
    features_path = find(folder, *LABEL_FEATURES)
    described = read_described(described_path, text) if described_path else None
    features = read_features(features_path) if features_path else None
    texts = read_texts(texts_path) if texts_path else None
    sizes: list[tuple[Path, int]] = []
    if described_path and described is not None:
        sizes.append((described_path, len(described.texts)))
    if features_path and features is not None:
        sizes.append((features_path, features.shape[0]))
    if texts_path and texts is not None:
        texts = _cut(texts, sizes[0][1]) if sizes else texts
        sizes.append((texts_path, len(texts)))
    return _LabelFiles(described, texts, features, tuple(sizes))


def _read_part(files: _Files, text: str, labels: int | None) -> _SplitPart:
    features = targets = described = texts = None
    counts: list[tuple[Path | None, int]] = []
    if files.bag_of_words:
        features, targets = read_bag_of_words(files.bag_of_words)
        counts.append((files.bag_of_words, features.shape[0]))
    if files.targets:
        targets = read_targets(files.targets)
        counts.append((files.targets, targets.shape[0]))
    if files.features:
        features = read_features(files.features)
        counts.append((files.features, features.shape[0]))
    if files.described:
        described = read_described(files.described, text, labels=labels, with_targets=targets is None)
        targets = described.targets if targets is None else targets
        texts = described.texts
        counts.append((files.described, len(texts)))
    elif files.texts:
        texts = _cut(read_texts(files.texts), counts[0][1])
        counts.append((files.texts, len(texts)))
    _agree("rows", counts)
    if features is None and texts is None:
        raise DataError("there are no texts or features beside the targets; add them", files.source)
    return _SplitPart(files, targets, features, texts, described.uids if described else None)


def _cut(texts: tuple[str, ...], rows: int) -> tuple[str, ...]:
    """The texts without surplus blank lines at the end."""
    end = len(texts)
    while end > rows and not texts[end - 1].strip():
        end -= 1
    return texts[:end]


def _guessed(part: _SplitPart, known: int | None) -> bool:
    """Whether the number of labels is only the largest one in the JSON objects."""
    return part.files.source == part.files.described and known is None


def _agree(what: str, counts: Sequence[tuple[Path | None, int]]) -> None:
    for path, count in counts[1:]:
        first, expected = counts[0]
        if count != expected and first is not None:
            raise DataError(
                f"has {counted(count, what.removesuffix('s'), what)}, but {first.name} has {expected}; "
                "check that the files belong together",
                path,
            )


def _same_kinds(parts: dict[str, _SplitPart]) -> None:
    """Checks that all splits have texts, or none has; the same for features."""
    train = parts["train"]
    for split, part in parts.items():
        for what, patterns in (("texts", TEXTS), ("features", FEATURES)):
            train_has, split_has = getattr(train, what) is not None, getattr(part, what) is not None
            if train_has != split_has:
                missing, other = (split, "train") if train_has else ("train", split)
                wanted = " or ".join(_names(patterns, missing))
                raise DataError(f"{other} has {what} but {missing} has none; add {wanted}", part.files.source)


def _label_set(number: int, files: _LabelFiles, propensity: Propensity) -> tuple[LabelSet, list[str]]:
    ids: Sequence[str] | None = files.described.uids if files.described else None
    notes = []
    if ids is not None and (len(set(ids)) < len(ids) or not all(ids)):
        ids = None
        notes.append("the uids of lbl.json are not unique: labels get their numbers as ids")
    texts = files.described.texts if files.described else files.texts
    labels = LabelSet(
        ids=tuple(ids) if ids is not None else tuple(map(str, range(number))),
        texts=texts or (),
        features=files.features,
        propensity=propensity,
    )
    return labels, notes


def _row_ids(parts: dict[str, _SplitPart]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The uids of documents where they are unique, else the name of the split and the number of the row."""
    ids: dict[str, tuple[str, ...]] = {}
    notes = []
    for split, part in parts.items():
        uids = part.uids
        if uids is not None and (len(set(uids)) < len(uids) or not all(uids)):
            notes.append(
                f"the uids of {split} are not unique: its documents get the ids {split}-0, {split}-1 and so on"
            )
            uids = None
        rows = part.targets.shape[0]
        ids[split] = uids if uids is not None else tuple([f"{split}-{row}" for row in range(rows)])
    if len(set().union(*ids.values())) < sum(map(len, ids.values())):
        notes.append(f"{' and '.join(ids)} share uids: ids of documents start with the name of their split")
        ids = {split: tuple([f"{split}-{name}" for name in names]) for split, names in ids.items()}
    return ids, notes


def _dataset(part: _SplitPart, labels: LabelSet, ids: tuple[str, ...]) -> Dataset:
    targets = part.targets
    shape = (targets.shape[0], len(labels))
    if targets.shape != shape:  # another split has a larger label number
        targets = sparse.csr_array((targets.data, targets.indices, targets.indptr), shape=shape)
    excluded = read_pairs(part.files.excluded, shape) if part.files.excluded else None
    return Dataset(labels=labels, targets=targets, ids=ids, texts=part.texts, features=part.features, excluded=excluded)
