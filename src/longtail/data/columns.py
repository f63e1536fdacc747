"""The records of CSV, TSV, Parquet and Excel files, one at a time, with only the wanted columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from longtail.data.excel import excel_columns, excel_records
from longtail.data.files import lines
from longtail.data.limits import MAX_COLUMNS, MAX_FIELD
from longtail.data.mended_csv import mended_records, split_at_returns
from longtail.data.mending import mender, pass_over
from longtail.data.parquet import parquet_columns, parquet_records
from longtail.errors import DataError, counted

Records: TypeAlias = Generator[tuple[int, tuple[Any, ...]], None, None]  # close it, or read it to its end
ENDINGS = (".csv", ".tsv", ".parquet", ".xlsx")
DELIMITERS = (",", ";", "\t", "|")  # of a CSV; the one that occurs most in its header, the first of equals


def table_kind(path: Path) -> str | None:
    """The format of a table, by its name.

    Args:
        path: the file; .gz and .xz are ignored.

    Returns:
        ".csv", ".tsv", ".parquet" or ".xlsx"; None for another file.
    """
    name = path.name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((ending for ending in ENDINGS if name.endswith(ending)), None)


def few(names: Sequence[str], most: int = 30) -> str:
    """Column names for an error message.

    Args:
        names: of the columns.
        most: how many to name.

    Returns:
        Their names, separated by commas.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:80] for name in names[:most]) + more


def column_names(path: Path) -> list[str]:
    """Reads the column names of a table.

    Args:
        path: the file.

    Returns:
        The names, from left to right.

    Raises:
        DataError: the file is empty, or not a table.
        MissingExtra: it is a Parquet or Excel file, and pyarrow or openpyxl is not installed.
    """
    if table_kind(path) == ".parquet":
        return parquet_columns(path)
    if table_kind(path) == ".xlsx":
        return excel_columns(path)
    for _, header in _records(path):
        return [name.strip() for name in header]
    raise DataError("the file is empty; its first line must name the columns", path)


def records(path: Path, names: Sequence[str], wanted: Sequence[str]) -> Records:
    """Reads the records of a table.

    Args:
        path: the file.
        names: its columns.
        wanted: the columns to return.

    Yields:
        The first line of each record (of a Parquet file: its number, from 1) and its values of the wanted columns.

    Raises:
        DataError: a record is damaged or has too many or too few fields.
        MissingExtra: it is a Parquet or Excel file, and pyarrow or openpyxl is not installed.
    """
    if table_kind(path) == ".parquet":
        yield from parquet_records(path, wanted)
        return
    if table_kind(path) == ".xlsx":
        yield from excel_records(path, names, wanted)
        return
    everything = list(wanted) == list(names)  # some may have the same name
    places = list(range(len(names))) if everything else [names.index(name) for name in wanted]
    pick = itemgetter(*places) if len(places) > 1 else lambda record: (record[places[0]],)
    with closing(_records(path)) as found:
        _, header = next(found, (0, []))
        for line, record in found:
            if len(record) != len(names):
                raise DataError(
                    f"{counted(len(record), 'field')} where the header has {len(names)}; put quotes around fields that "
                    "have the delimiter in them, or leave such rows out: --skip-bad-rows FILE",
                    path,
                    line,
                )
            if record == header:  # as where files were put one behind the other
                again = DataError("has the header again; take the line out", path, line)
                pass_over(again, "rows that repeat the header", record)
                continue
            yield line, pick(record)


def _records(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """All records of a CSV or TSV file, the header first; a quoted field of a CSV may have line ends in it."""
    numbered = lines(path) if mender() is None else split_at_returns(lines(path), path)
    begin, first = next(numbered, (1, ""))
    tab = table_kind(path) == ".tsv"
    delimiter = "\t" if tab else _delimiter(first)
    if named := re.fullmatch(r"sep=(.)\r?", first):  # Excel's own first line of a CSV
        delimiter = named[1]
        begin, first = next(numbered, (2, ""))
    if first.count(delimiter) >= MAX_COLUMNS:
        raise DataError(f"has more than {MAX_COLUMNS:,} columns, the most that a table may have", path, 1)

    def text() -> Iterator[str]:
        yield first + "\n"
        for _, line in numbered:
            yield line + "\n"

    limit = csv.field_size_limit(MAX_FIELD)
    # In a TSV a quote is a plain letter, because fields need none; only a pair around the whole field is removed.
    plain = csv.reader(text(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    reader = plain if tab else csv.reader(text(), delimiter=delimiter, strict=True)
    start = begin
    try:
        if mender() is not None:
            for start, record in mended_records(chain([(begin, first)], numbered), delimiter, path, tab):
                yield start, [_unquoted(field) for field in record] if tab else record
            return
        for record in reader:
            if record:
                yield start, [_unquoted(field) for field in record] if tab else record
            start = reader.line_num + begin
    except csv.Error as error:
        if "new-line character" in str(error):  # the rest of the message differs between versions of Python
            raise DataError(
                "a bare carriage return in a field without quotes; pass --encoding auto, or end lines with line feeds",
                path,
                start,
            ) from None
        if "field larger than" in str(error):
            raise DataError(
                f"a field is longer than {MAX_FIELD:,} characters, the most that a field may have; close a quote that "
                "is open, or split the text",
                path,
                start,
            ) from None
        raise DataError(
            f"not a {'TSV' if tab else 'CSV'} record ({error}); inside a quoted field write a quote twice",
            path,
            start,
        ) from None
    finally:
        csv.field_size_limit(limit)


def _delimiter(header: str) -> str:
    """The delimiter that occurs most in the header: spreadsheets use different ones in different countries."""
    names = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=names.count)


def _unquoted(field: str) -> str:
    if len(field) >= 2 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field
