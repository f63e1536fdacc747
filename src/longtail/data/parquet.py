"""Parquet files, read so that a small file cannot take much memory.

Parquet stores repeated values once: a file of a few kilobytes may hold a billion rows, or a long text a million times.
So the rows that its footer declares are believed only up to the size of the file, and the rows that are held at once
are chosen by the longest value that is stored once (a value of the dictionary of a column).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO, Any

from longtail.data.files import MemoryWatch
from longtail.data.limits import BATCH_BYTES, FREE_ROWS, MAX_COLUMNS, MAX_FOOTER, MAX_RATIO, RATIO_FROM, ROWS_PER_BYTE
from longtail.data.opening import check_room, file_size, open_file
from longtail.data.parquet_footer import ColumnChunk, read_chunks
from longtail.errors import DataError, LongtailError, MissingExtra
from longtail.progress import stage

HINT = ", which data does not; if it is right, write it as JSON lines"
ROWS = 8192  # rows held at once, where values are short


def parquet_columns(path: Path) -> list[str]:
    """Reads the column names.

    Args:
        path: the file.

    Returns:
        The names, from left to right.

    Raises:
        DataError: it is not a Parquet file.
        MissingExtra: pyarrow is not installed.
    """
    with open_file(path) as raw, _opened(raw, path) as file:
        return [str(name) for name in file.schema_arrow.names]


def parquet_records(path: Path, wanted: Sequence[str]) -> Generator[tuple[int, tuple[Any, ...]], None, None]:
    """Reads the records.

    Args:
        path: the file.
        wanted: the columns to return.

    Yields:
        The number of each record, from 1, and its values of the wanted columns.

    Raises:
        DataError: the file is damaged, or declares more than it can hold.
        MissingExtra: pyarrow is not installed.
        WillNotFit: there is too little memory for it.
    """
    columns, size = list(dict.fromkeys(wanted)), file_size(path)
    with open_file(path) as raw, _opened(raw, path) as file:
        number, done, watch = 1, 0, MemoryWatch(path)
        with stage(f"reading {path.name.split('.')[0]}", total=file.metadata.num_rows) as advance:
            try:
                chunks = _chunks(raw, file, size)
                for group in range(file.num_row_groups):
                    rows = _rows_at_once(file, group, chunks[group], columns, path)
                    # Arrow's threads do not respect LONGTAIL_THREADS, and a busy machine may refuse them. They would
                    # save little: most of the time goes into making Python objects.
                    for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
                        arrays = [_unfolded(batch.column(name)) for name in wanted]
                        unfolded = sum(array.nbytes for array in arrays)
                        check_room(2 * unfolded, path, f"{batch.num_rows} of its rows")
                        done += unfolded
                        if done > max(RATIO_FROM, MAX_RATIO * size):
                            raise DataError(f"unfolds to more than {MAX_RATIO} times its size{HINT}", path)
                        values = [array.to_pylist() for array in arrays]
                        yield from enumerate(zip(*values, strict=True), number)
                        number += batch.num_rows
                        watch.check(done)
                        advance(batch.num_rows)
            except (MemoryError, LongtailError):
                raise
            except Exception as error:
                raise _not_parquet(path, error) from None


def _unfolded(array: Any) -> Any:
    """An array of values in place of one that points into a dictionary, so that its size is known."""
    return array.dictionary_decode() if hasattr(array, "dictionary_decode") else array


def _opened(raw: IO[bytes], path: Path) -> Any:
    """The file, after a look at what its footer declares."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtra("pyarrow", "data", "reading Parquet files") from None
    size = file_size(path)
    _check_footer(raw, size, path)
    try:
        file = ParquetFile(raw)
        facts = file.metadata
        unpacked = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
    except MemoryError:
        raise
    except Exception as error:  # damaged files fail in many ways
        raise _not_parquet(path, error) from None
    if facts.num_columns > MAX_COLUMNS:
        raise DataError(f"has more than {MAX_COLUMNS:,} columns, the most that a table may have", path)
    if unpacked > max(RATIO_FROM, MAX_RATIO * size):
        raise DataError(f"unfolds to more than {MAX_RATIO} times its size{HINT}", path)
    _check_count(facts.num_rows, "rows", size, path)
    return file


def _check_footer(raw: IO[bytes], size: int, path: Path) -> None:
    """The last eight bytes are the length of the footer and a mark."""
    raw.seek(max(size - 8, 0))
    end = raw.read(8)
    raw.seek(0)
    if len(end) == 8 and int.from_bytes(end[:4], "little") > min(size, MAX_FOOTER):
        raise _not_parquet(path, ValueError(f"its footer would be longer than it, or than {MAX_FOOTER} bytes"))


def _check_count(number: int, what: str, size: int, path: Path) -> None:
    limit = max(FREE_ROWS, ROWS_PER_BYTE * size)
    if not 0 <= number <= limit:
        raise DataError(
            f"declares {number:,} {what}, and at most {limit:,} are believed of a file of {size:,} bytes; write it "
            "again, if it is right, in another format",
            path,
        )


def _chunks(raw: IO[bytes], file: Any, size: int) -> list[list[ColumnChunk]]:
    """The column chunks of each row group, as many as pyarrow sees."""
    raw.seek(max(size - 8, 0))
    length = int.from_bytes(raw.read(4), "little")
    raw.seek(max(size - 8 - length, 0))
    found = read_chunks(raw.read(length))
    if len(found) != file.num_row_groups or any(len(group) != file.metadata.num_columns for group in found):
        raise ValueError("its row groups do not have the columns of the table")
    return found


def _rows_at_once(file: Any, group: int, chunks: Sequence[ColumnChunk], columns: Sequence[str], path: Path) -> int:
    """How many rows of a row group take no more memory than BATCH_BYTES, whatever its dictionaries unfold to."""
    size = file_size(path)
    doubtful: dict[str, tuple[int, bool]] = {}  # values held at once, and whether they are in lists
    for place, chunk in enumerate(chunks):
        if chunk.path.split(".")[0] not in columns:
            continue
        _check_count(chunk.values, f"values of column {chunk.path[:80]}", size, path)
        nested = file.schema.column(place).max_repetition_level > 0
        held = chunk.values if nested else min(chunk.values, ROWS)  # one row may have all values of a list
        if chunk.has_dictionary and held * chunk.unpacked_bytes > BATCH_BYTES:
            doubtful[chunk.path] = held, nested
    rows = ROWS
    for name, longest in _longest(path, group, list(doubtful)).items():
        held, nested = doubtful[name]
        if nested and held * longest > 4 * BATCH_BYTES:
            check_room(held * longest, path, f"column {name[:80]}")
            raise DataError(
                f"column {name[:80]} may unfold to {held:,} values of up to {longest:,} bytes in a row group; write "
                "smaller row groups",
                path,
            )
        rows = max(min(rows, BATCH_BYTES // longest), 1)
    return rows


def _longest(path: Path, group: int, columns: list[str]) -> dict[str, int]:
    """Bytes of the longest value in the dictionary of each column; 1 where its values have a fixed size."""
    from pyarrow import compute, types
    from pyarrow.parquet import ParquetFile

    found = dict.fromkeys(columns, 1)
    if not columns:
        return found
    with open_file(path) as raw, ParquetFile(raw, read_dictionary=columns) as file:
        for name in columns:
            batch = next(file.iter_batches(1, row_groups=[group], columns=[name], use_threads=False), None)
            array = None if batch is None else batch.column(0)
            while array is not None and (types.is_list(array.type) or types.is_large_list(array.type)):
                array = array.values
            if array is not None and types.is_dictionary(array.type) and len(array.dictionary):
                found[name] = max(int(compute.max(compute.binary_length(array.dictionary)).as_py() or 0), 1)
    return found


def _not_parquet(path: Path, error: Exception) -> DataError:
    reason = str(error).split("\n")[0][:200]
    return DataError(f"not a whole Parquet file ({reason}); write or copy it again", path)
