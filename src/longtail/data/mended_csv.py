"""The records of a CSV file that may be damaged: a bad record costs one line, not the rest of the file.

An open quote swallows lines until the next quote. So where a record is wrong, only its first line is given up, and
reading begins again on the line after it.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from longtail.data.mending import ENCODING, mender, pass_over
from longtail.errors import DataError, counted

SPAN = 1000  # lines that the record of a damaged file may have; a longer one is an open quote


def split_at_returns(numbered: Iterator[tuple[int, str]], path: Path) -> Iterator[tuple[int, str]]:
    """Ends lines at carriage returns too, as old programs of the Mac write them, where that is asked for.

    Args:
        numbered: lines that end with a line feed, perhaps after a carriage return.
        path: the file.

    Yields:
        The lines with their numbers, each return outside of quotes counted as the end of one.
    """
    at = mender()
    asked = at is not None and (at.collecting or at.remedies.encoding == "auto")
    more = 0
    for number, line in numbered:
        for place, part in enumerate(_parts(line) if asked and "\r" in line[:-1] else [line]):
            if place and at is not None:
                more += 1
                at.note("lines that end with a carriage return alone", ENCODING, path, number + more - 1)
            yield number + more, part


def _parts(line: str) -> list[str]:
    """A line cut at the returns outside of quotes."""
    parts: list[str] = []
    held: list[str] = []
    inside = False
    for piece in line.removesuffix("\r").split("\r"):
        held.append(piece)
        inside ^= piece.count('"') % 2 == 1
        if not inside:
            parts.append("\r".join(held))
            held = []
    return [*parts, "\r".join(held)] if held else parts


def mended_records(
    numbered: Iterator[tuple[int, str]], delimiter: str, path: Path, plain: bool
) -> Iterator[tuple[int, list[str]]]:
    """Reads records, the header first.

    Args:
        numbered: the lines of the file.
        delimiter: between fields.
        path: the file.
        plain: a quote is a plain letter, as in a TSV.

    Yields:
        The first line of each record with as many fields as the header, and its fields.
    """
    waiting: deque[tuple[int, str]] = deque()
    taken: list[tuple[int, str]] = []

    def text() -> Iterator[str]:
        while True:
            numbered_line = waiting.popleft() if waiting else next(numbered, None)
            if numbered_line is None or len(taken) > SPAN:
                if numbered_line is not None:
                    waiting.appendleft(numbered_line)
                return
            taken.append(numbered_line)
            yield numbered_line[1] + "\n"

    width: int | None = None
    while True:
        taken.clear()
        reader = (
            csv.reader(text(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
            if plain
            else csv.reader(text(), delimiter=delimiter, strict=True)
        )
        try:
            record = next(reader, None)
        except csv.Error as error:
            problem = DataError(
                f"not a CSV record ({error}); inside a quoted field write a quote twice", path, taken[0][0]
            )
            pass_over(problem, "lines with broken quotes", taken[0][1])
            waiting.extendleft(reversed(taken[1:]))
            continue
        if record is None:
            return
        if not record:
            continue
        if width is None:
            width = len(record)
        elif len(record) != width:
            problem = DataError(f"{counted(len(record), 'field')} where the header has {width}", path, taken[0][0])
            pass_over(problem, "rows with too many or too few fields", taken[0][1])
            waiting.extendleft(reversed(taken[1:]))
            continue
        yield taken[0][0], record
