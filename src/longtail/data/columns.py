"""The records of CSV, TSV and Parquet files, one at a time, as far as the wanted columns go."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from longtail.data.files import lines
from longtail.errors import DataError, MissingExtra
from longtail.progress import stage

Records: TypeAlias = Generator[tuple[int, tuple[Any, ...]], None, None]  # close it, or read it to its end
ENDINGS = (".csv", ".tsv", ".parquet")
DELIMITERS = (",", ";", "\t", "|")  # of a CSV; the first of those that stand in its header as often


def table_kind(path: Path) -> str | None:
    """The ending that names the format, without .gz or .xz; None for another file."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((ending for ending in ENDINGS if name.endswith(ending)), None)


def column_names(path: Path) -> list[str]:
    """The names in the header."""
    if table_kind(path) == ".parquet":
        with _parquet(path) as file:
            return [str(name) for name in file.schema_arrow.names]
    for _, header in _records(path):
        return [name.strip() for name in header]
    raise DataError("the file is empty; the first line names the columns", path)


def records(path: Path, names: Sequence[str], wanted: Sequence[str]) -> Records:
    """The wanted columns of each record, with its first line (in Parquet: the record's number, from 1)."""
    if table_kind(path) == ".parquet":
        yield from _parquet_records(path, wanted)
        return
    places = [names.index(name) for name in wanted]
    pick = itemgetter(*places) if len(places) > 1 else lambda record: (record[places[0]],)
    with closing(_records(path)) as found:
        next(found, None)  # the header
        for line, record in found:
            if len(record) != len(names):
                raise DataError(
                    f"{len(record)} fields where the header has {len(names)}; put quotes around fields that "
                    "hold the delimiter",
                    path,
                    line,
                )
            yield line, pick(record)


def _records(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """All records of a CSV or TSV file, the header first; a quoted field of a CSV may hold line ends."""
    numbered = lines(path)
    first = next(numbered, (1, ""))[1]
    tab = table_kind(path) == ".tsv"
    delimiter = "\t" if tab else _delimiter(first)

    def text() -> Iterator[str]:
        yield first + "\n"
        for _, line in numbered:
            yield line + "\n"

    limit = csv.field_size_limit(2**31 - 1)  # whole books are texts too
    # Tabs need no quotes, so a quote in a TSV is a letter, unless a pair of them holds the whole field.
    plain = csv.reader(text(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    reader = plain if tab else csv.reader(text(), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for record in reader:
            if record:
                yield begin, [_unquoted(field) for field in record] if tab else record
            begin = reader.line_num + 1
    except csv.Error as error:
        if "universal-newline" in str(error):
            raise DataError(
                "a bare carriage return stands where no field is quoted; end lines with line feeds",
                path,
                begin,
            ) from None
        raise DataError(
            f"not a {'TSV' if tab else 'CSV'} record ({error}); inside a quoted field a quote is written twice",
            path,
            begin,
        ) from None
    finally:
        csv.field_size_limit(limit)


def _delimiter(header: str) -> str:
    """What stands most often between the names of a CSV's header; spreadsheets take what the language suggests."""
    names = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=names.count)


def _unquoted(field: str) -> str:
    if len(field) >= 2 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field


def _parquet(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtra("pyarrow", "data", "reading Parquet files") from None
    try:
        return ParquetFile(path)
    except FileNotFoundError:
        raise DataError("no such file; check the path", path) from None
    except Exception as error:  # damaged files fail in many ways
        raise _not_parquet(path, error) from None


def _parquet_records(path: Path, wanted: Sequence[str]) -> Records:
    with _parquet(path) as file:
        number = 1
        with stage(f"reading {path.name.split('.')[0]}", total=file.metadata.num_rows) as advance:
            # Arrow's own threads know nothing of LONGTAIL_THREADS, and a busy machine may refuse them; most of the time
            # goes into making Python's objects anyway.
            columns = list(dict.fromkeys(wanted))
            try:
                for batch in file.iter_batches(8192, columns=columns, use_threads=False):
                    values = [batch.column(name).to_pylist() for name in wanted]
                    yield from enumerate(zip(*values, strict=True), number)
                    number += batch.num_rows
                    advance(batch.num_rows)
            except Exception as error:
                raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> DataError:
    reason = str(error).split("\n")[0]
    return DataError(f"not a whole Parquet file ({reason}); write or copy it again", path)
