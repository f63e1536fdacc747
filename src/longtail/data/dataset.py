"""Documents with soft targets over one label set. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Ints, Matrix
from longtail.data.labels import LabelSet
from longtail.data.mapped_texts import as_strings, joined, taken
from longtail.data.text_language import text_language
from longtail.errors import DataError

GIVEN = "given"
CHECKED = 1 << 20  # values looked at together


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """What a model sees of documents: texts, features, or both. An array of vectors is taken as features.

    Raises:
        DataError: neither is given, they do not match, or a text is not a string.
    """

    texts: Sequence[str] | None = None
    features: Matrix | None = None  # (rows, features)
    ids: Sequence[str] | None = None  # for models that know rows by name
    languages: Sequence[str] | None = None  # of the texts, codes such as de; "": that one is guessed

    def __post_init__(self) -> None:
        if self.texts is None and self.features is None:
            raise DataError("Rows needs texts or features; give one of them")
        if isinstance(self.features, np.ndarray):
            object.__setattr__(self, "features", dense_rows(self.features, "features"))
        if self.texts is not None:
            object.__setattr__(self, "texts", as_strings(self.texts))
            given = self.texts if isinstance(self.texts, tuple) else ()  # those of a file are strings
            wrong = next((row for row, text in enumerate(given) if not isinstance(text, str)), None)
            if wrong is not None:
                raise DataError(f"text {wrong + 1} is not a string but {type(self.texts[wrong]).__name__}")
            if self.features is not None and self.features.shape[0] != len(self.texts):
                raise DataError(f"{len(self.texts)} texts and {self.features.shape[0]} rows of features do not match")
        if self.ids is not None and len(self.ids) != len(self):
            raise DataError(f"{len(self.ids)} ids for {len(self)} rows; give one each, or none")
        if self.languages is not None:
            object.__setattr__(self, "languages", _languages(self.languages, len(self)))

    def __repr__(self) -> str:
        return f"Rows({len(self):,} rows{_kinds(self.texts, self.features)})"

    def __len__(self) -> int:
        if self.texts is not None:
            return len(self.texts)
        assert self.features is not None
        return int(self.features.shape[0])

    def __getitem__(self, part: slice) -> Rows:
        given = (self.texts, self.ids, self.languages)
        texts, ids, languages = (None if strings is None else strings[part] for strings in given)
        features = None if self.features is None else self.features[part]
        return Rows(texts=texts, features=features, ids=ids, languages=languages)

    def take(self, rows: AnyArray) -> Rows:
        """Only these rows.

        Args:
            rows: (rows taken,) row numbers.

        Returns:
            The rows, in this order.
        """
        given = (self.texts, self.ids, self.languages)
        texts, ids, languages = (None if strings is None else taken(strings, rows) for strings in given)
        features = None if self.features is None else self.features[rows]
        return Rows(texts=texts, features=features, ids=ids, languages=languages)


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Texts and/or features with soft targets in (0, 1]. Features are sparse; an array of vectors is taken too.

    `excluded` marks (row, label) pairs that must never be predicted, such as an item for itself. `origins` holds where
    each row came from: 0 is the data as given; a tail method added the others, and `origin_names` has its name.

    Raises:
        DataError: parts do not match, a target lies outside (0, 1], a feature is not finite, or the language unknown.
    """

    labels: LabelSet
    targets: Matrix  # csr float32 (rows, labels), entries in (0, 1]
    ids: Sequence[str]  # a tuple, or strings that lie in a file
    texts: Sequence[str] | None = None
    features: Matrix | None = None  # csr float32 (rows, features)
    excluded: Matrix | None = None  # csr bool (rows, labels)
    origins: Ints | None = None  # (rows,)
    origin_names: tuple[str, ...] = (GIVEN,)
    language: str = ""  # of the texts, a code such as de; "": each text's is guessed by those who need it
    languages: Sequence[str] | None = None  # of each text, where a column told it; "" has the language above

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("ids", as_strings(self.ids))
        put("language", text_language(self.language))
        rows, labels = len(self.ids), len(self.labels)
        put("targets", _frozen(self.targets, "targets", (rows, labels)))
        data = self.targets.data
        bad = first_wrong(data, lambda part: (part > 0) & (part <= 1))  # NaN is wrong too
        if bad is not None:
            row = int(np.searchsorted(self.targets.indptr, bad, side="right")) - 1
            label = self.labels.ids[int(self.targets.indices[bad])]
            raise DataError(
                f"document {self.ids[row]!r} has weight {data[bad]:g} for label {label!r}; weights must lie in (0, 1]"
            )
        if self.texts is not None:
            put("texts", as_strings(self.texts))
            if len(self.texts or ()) != rows:
                raise DataError(f"{rows} ids but {len(self.texts or ())} texts; give as many of both")
        if self.languages is not None:
            put("languages", _languages(self.languages, rows))
        if self.features is not None:
            dense = isinstance(self.features, np.ndarray)
            given = dense_rows(self.features, "features") if dense else self.features
            put("features", _frozen(given, "features", (rows, None)))
            bad = first_wrong(self.features.data, np.isfinite)
            if bad is not None:
                row = int(np.searchsorted(self.features.indptr, bad, side="right")) - 1
                raise DataError(f"document {self.ids[row]!r} has a feature that is not a finite number; replace it")
        if self.texts is None and self.features is None:
            raise DataError("a data set needs texts or features; give one of them")
        if self.excluded is not None:
            excluded = _frozen(self.excluded, "excluded pairs", (rows, labels), dtype=np.bool_)
            put("excluded", excluded if excluded.nnz else None)
        origins = np.zeros(rows, np.int32) if self.origins is None else np.array(self.origins, np.int32)
        if len(origins) != rows or (rows and not 0 <= origins.min() <= origins.max() < len(self.origin_names)):
            raise DataError("row origins do not match the rows and origin names")
        origins.setflags(write=False)
        put("origins", origins)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """Sizes, because nobody wants to print a million texts."""
        kinds = _kinds(self.texts, self.features)
        return f"Dataset({len(self):,} rows{kinds}, {self.targets.nnz:,} targets, {len(self.labels):,} labels)"

    @property
    def rows(self) -> Rows:
        """The documents without their targets: what `predict` may see."""
        return Rows(texts=self.texts, features=self.features, ids=self.ids, languages=self.languages)

    def take(self, rows: AnyArray | Sequence[int]) -> Dataset:
        """Only these rows.

        Args:
            rows: row numbers, in the order wanted, or a mask (rows,) bool.

        Returns:
            A new data set over the same labels.
        """
        given = np.asarray(rows)
        index = np.flatnonzero(given) if given.dtype == bool else given.astype(np.int64)
        assert self.origins is not None
        return replace(
            self,
            ids=taken(self.ids, index),
            texts=None if self.texts is None else taken(self.texts, index),
            targets=self.targets[index],
            features=None if self.features is None else self.features[index],
            excluded=None if self.excluded is None else self.excluded[index],
            origins=self.origins[index],
            languages=None if self.languages is None else taken(self.languages, index),
        )

    def with_rows(
        self,
        *,
        targets: Matrix,
        origin: str,
        texts: Sequence[str] | None = None,
        features: Matrix | None = None,
        ids: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> Dataset:
        """A new data set with rows added at the end.

        Args:
            targets: (rows added, labels) in (0, 1].
            origin: the name of what added them.
            texts: of the rows added, where the data has texts.
            features: (rows added, features), where the data has features.
            ids: of the rows added; default: the origin and a number.
            languages: of the texts added, where the data has them.

        Returns:
            The new data set.

        Raises:
            DataError: the rows added do not fit the data.
        """
        number, width = targets.shape
        if width != len(self.labels):
            raise DataError(f"{origin} adds targets over {width} labels to data over {len(self.labels)}")
        if features is not None and self.features is not None and features.shape[1] != self.features.shape[1]:
            raise DataError(f"{origin} adds rows of {features.shape[1]} features to data with {self.features.shape[1]}")
        if (texts is None) != (self.texts is None) or (features is None) != (self.features is None):
            raise DataError(f"{origin} must add the same kinds of input (texts, features) that the data has")
        names = self.origin_names if origin in self.origin_names else (*self.origin_names, origin)
        new_ids = tuple(ids) if ids is not None else tuple(f"{origin}:{row}" for row in range(number))
        added = np.full(number, names.index(origin), dtype=np.int32)
        assert self.origins is not None
        return replace(
            self,
            ids=joined(self.ids, new_ids),
            texts=None if self.texts is None else joined(self.texts, () if texts is None else texts),
            targets=sparse.vstack([self.targets, targets], format="csr"),
            features=None if features is None else sparse.vstack([self.features, features], format="csr"),
            excluded=None
            if self.excluded is None
            else sparse.vstack(
                [self.excluded, sparse.csr_array((number, len(self.labels)), dtype=np.bool_)], format="csr"
            ),
            origins=np.concatenate([self.origins, added]),
            origin_names=names,
            languages=None if self.languages is None else joined(self.languages, languages or ("",) * number),
        )

    def with_entries(self, entries: Matrix) -> Dataset:
        """A new data set with more soft targets; where both have an entry, the larger one counts.

        Args:
            entries: (rows, labels) in (0, 1].

        Returns:
            The new data set.

        Raises:
            DataError: the shapes differ.
        """
        if entries.shape != self.targets.shape:
            raise DataError(f"entries of shape {entries.shape} do not fit targets of shape {self.targets.shape}")
        return replace(self, targets=self.targets.maximum(sparse.csr_array(entries, dtype=np.float32)))

    def over(self, labels: LabelSet) -> Dataset:
        """The same data over a label set with the same ids, but other counts or texts.

        Args:
            labels: the new label set.

        Returns:
            The new data set.

        Raises:
            DataError: the ids differ.
        """
        if labels.ids != self.labels.ids:
            raise DataError("the new label set has other ids; it must have the same ids in the same order")
        return replace(self, labels=labels)


def dense_rows(array: AnyArray, name: str) -> Matrix:
    """A dense array as a CSR matrix that stores every entry: looking for zeros would take many times its memory.

    Args:
        array: (rows, columns) of numbers.
        name: of the array, for the message.

    Returns:
        csr float32 (rows, columns)

    Raises:
        DataError: the array has another shape or no numbers.
    """
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise DataError(f"{name} must be numbers in rows and columns, got {array.dtype} of shape {array.shape}")
    rows, columns = array.shape
    held = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(rows + 1, dtype=np.int64) * columns
    starts = starts.astype(np.int32) if starts[-1] < 2**31 else starts
    return sparse.csr_array((array.astype(np.float32).ravel(), held, starts), shape=array.shape)


def _frozen(matrix: Matrix, name: str, shape: tuple[int, int | None], dtype: type = np.float32) -> Matrix:
    """A canonical, read-only CSR array of the expected shape."""
    result = sparse.csr_array(matrix, dtype=dtype)
    if result.shape[0] != shape[0] or (shape[1] is not None and result.shape[1] != shape[1]):
        wanted = f"{shape[0]} x {'any' if shape[1] is None else shape[1]}"
        raise DataError(f"{name} are {result.shape[0]} x {result.shape[1]}, expected {wanted}")
    if dtype is np.bool_ and not result.data.all():
        result = result.copy()
        result.eliminate_zeros()  # a stored False does not exclude
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    for name_of_part in ("data", "indices", "indptr"):
        view = getattr(result, name_of_part).view()  # the caller's own arrays stay writable
        view.setflags(write=False)
        setattr(result, name_of_part, view)
    return result


def _languages(given: Sequence[str], rows: int) -> Sequence[str]:
    """Codes of languages as they are stored: one a row, each string once."""
    if len(given) != rows:
        raise DataError(f"{len(given)} languages for {rows} rows; give one each, or none")
    if not isinstance(given, list | tuple):  # in a file, where they were checked when they were written
        return given
    codes = {one: text_language(one) for one in set(given)}
    return tuple(codes[one] for one in given)


def first_wrong(values: AnyArray, right: Callable[[AnyArray], Bools]) -> int | None:
    """Finds a value that fails a test, without marks for all values in memory at once.

    Args:
        values: (values,).
        right: marks the values that pass.

    Returns:
        The place of the first that fails; None where all pass.
    """
    for begin in range(0, len(values), CHECKED):
        passed = right(values[begin : begin + CHECKED])
        if not passed.all():
            return begin + int(np.argmin(passed))
    return None


def _kinds(texts: object, features: object) -> str:
    return ("" if texts is None else " with texts") + ("" if features is None else " with features")
