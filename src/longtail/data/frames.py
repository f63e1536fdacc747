"""Columns of whatever holds a table: a pandas or polars frame, a Hugging Face data set, a dict of lists.

By duck typing: none of these packages is imported, and none need be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longtail.errors import DataError, did_you_mean


def column_names(table: Any) -> list[str] | None:
    """Find the names of a table's columns.

    Args:
        table: any object.

    Returns:
        The names; None where it is no table.
    """
    if isinstance(table, Mapping) and not hasattr(table, "shape"):  # a sparse matrix may be a mapping too
        lists = all(isinstance(one, list | tuple | np.ndarray) or is_column(one) for one in table.values())
        return [str(name) for name in table] if table and lists else None
    own = _own_names(table)
    return None if own is None else [str(name) for name in own]


def _own_names(table: Any) -> list[Any] | None:
    """The columns as the table itself names them."""
    names = getattr(table, "column_names", None)  # Hugging Face; Arrow
    if isinstance(names, list):
        return names
    shape = getattr(table, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and hasattr(table, "columns"):  # pandas, polars
        return list(table.columns)
    return None


def is_column(values: Any) -> bool:
    """Tell whether an object is a column of a frame, rather than an array or a list.

    Args:
        values: any object.

    Returns:
        Whether it is a pandas or polars series, or the like.
    """
    return not isinstance(values, np.ndarray) and (hasattr(values, "to_list") or hasattr(values, "to_pylist"))


def plain_list(values: Any) -> list[Any]:
    """The values of a column as Python values.

    Args:
        values: a column of a frame, an array or a list.

    Returns:
        A list; numbers of NumPy become Python's.
    """
    for name in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and polars; NumPy
        if hasattr(values, name):
            return list(getattr(values, name)())
    return list(values)


def column(table: Any, name: str, what: str) -> list[Any]:
    """One column of a table.

    Args:
        table: whatever has `column_names`.
        name: of the column.
        what: it is wanted for, for the message.

    Returns:
        Its values, one a row.

    Raises:
        DataError: there is no such column.
    """
    names = column_names(table) or []
    if name not in names:
        raise DataError(
            f"no column {name!r} for {what}{did_you_mean(name, names) or ';'} the columns are {', '.join(names)}"
        )
    key = next((own for own in _own_names(table) or () if str(own) == name), name)  # pandas numbers nameless columns
    values = plain_list(table[key])
    words = class_names(table, name)
    if words is None:
        return values
    return [_as_words(value, words) for value in values]


def class_names(table: Any, name: str) -> Sequence[str] | None:
    """The names behind the numbers of a Hugging Face `ClassLabel` column, or of a list of them.

    Args:
        table: any table.
        name: of the column.

    Returns:
        The names; None where the column has none.
    """
    features = getattr(table, "features", None)
    feature = features.get(name) if isinstance(features, Mapping) else None
    for one in (feature, getattr(feature, "feature", None), *(feature if isinstance(feature, list) else ())):
        if isinstance(getattr(one, "names", None), list):
            return list(one.names)
    return None


def is_missing(value: Any) -> bool:
    """Tell whether a cell is empty: None, NaN, or the missing value of pandas.

    Args:
        value: of a cell.

    Returns:
        Whether nothing is there.
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _as_words(value: Any, words: Sequence[str]) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [words[int(one)] for one in value]
    return value if is_missing(value) else words[int(value)]
