"""Excel workbooks (.xlsx): the first sheet as a table, with cells as text."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtail.data.files import MemoryWatch
from longtail.data.limits import EXCEL_COLUMNS, EXCEL_ROWS, MAX_RATIO, RATIO_FROM
from longtail.data.opening import file_size, open_file
from longtail.errors import DataError, LongtailError, MissingExtra
from longtail.progress import stage


def excel_columns(path: Path) -> list[str]:
    """Reads the column names: the first row of the first sheet.

    Args:
        path: the file.

    Returns:
        The names, from left to right.

    Raises:
        DataError: it is not an Excel file, or its first row is empty.
        MissingExtra: openpyxl is not installed.
    """
    with _rows(path, EXCEL_COLUMNS) as rows:
        names = ["" if cell is None else _word(cell).strip() for cell in next(rows, ())]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise DataError("the first row of the first sheet is empty; it must name the columns", path)
    return names


def excel_records(
    path: Path, names: Sequence[str], wanted: Sequence[str]
) -> Generator[tuple[int, tuple[Any, ...]], None, None]:
    """Reads the records.

    Args:
        path: the file.
        names: its columns.
        wanted: the columns to return.

    Yields:
        The row of each record in the sheet, and its values of the wanted columns: strings, or None for an empty cell.

    Raises:
        DataError: the file is damaged.
        MissingExtra: openpyxl is not installed.
        WillNotFit: there is too little memory for it.
    """
    everything = list(wanted) == list(names)  # some may have the same name
    places = list(range(len(names))) if everything else [names.index(name) for name in wanted]
    watch, read = MemoryWatch(path), 0
    with _rows(path, len(names)) as rows, stage(f"reading {path.name.split('.')[0]}", total=None):
        next(rows, None)
        for number, row in enumerate(rows, 2):
            if number > EXCEL_ROWS:
                raise DataError(f"has more than {EXCEL_ROWS:,} rows, the most that a sheet may have", path, number)
            cells = tuple(
                _word(row[place]) if place < len(row) and row[place] is not None else None for place in places
            )
            if all(cell is None for cell in row):
                continue
            read += sum(len(cell) for cell in cells if cell)
            watch.check(read)
            yield number, cells


def _word(cell: Any) -> str:
    """A cell as text: whole numbers without a point, dates as ISO writes them."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)


@contextmanager
def _rows(path: Path, columns: int) -> Iterator[Iterator[tuple[Any, ...]]]:
    """A cell names its own row and column, and openpyxl makes room for all before it: both have limits here."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingExtra("openpyxl", "data", "reading Excel files") from None
    with open_file(path) as raw:
        try:
            with zipfile.ZipFile(raw) as archive:
                unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > max(RATIO_FROM, MAX_RATIO * file_size(path)):
                raise DataError(f"unpacks to more than {MAX_RATIO} times its size; if it is right, write a CSV", path)
            raw.seek(0)
            book = load_workbook(raw, read_only=True, data_only=True)
            try:
                if not book.worksheets:
                    raise DataError("the workbook has no sheet with cells; add one", path)
                yield book.worksheets[0].iter_rows(max_row=EXCEL_ROWS + 1, max_col=columns, values_only=True)
            finally:
                book.close()
        except (MemoryError, LongtailError, GeneratorExit):
            raise
        except Exception as error:  # damaged files fail in many ways
            reason = (str(error) or type(error).__name__).split("\n")[0][:200]
            raise DataError(f"not a whole Excel file ({reason}); write or copy it again, or as CSV", path) from None
