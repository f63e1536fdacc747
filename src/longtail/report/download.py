"""A figure's data as a CSV file, inside the page: a link with a data address, so it works without a script."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from urllib.parse import quote

from longtail.drawing.markup import Safe, tag
from longtail.drawing.words import clean

Cell = str | float | int | None


def csv_link(name: str, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Safe:
    """The link under a figure that saves the data behind it.

    Args:
        name: of the file, without its ending.
        header: names of the columns.
        rows: cells; NaN and None become empty.

    Returns:
        A link.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    address = f"data:text/csv;charset=utf-8,{quote(text.getvalue())}"
    return tag("a", "CSV", download=f"{name}.csv", href=address, class_="csv", aria_label=f"Save the data of {name}")


def _cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, str):
        text = clean(value)
        return f"'{text}" if text[:1] in "=+-@" else text  # a spreadsheet must not run it
    return repr(round(value, 6)) if isinstance(value, float) else str(value)
