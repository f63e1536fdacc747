"""Markdown tables, the measures and frequency bins in their columns, and results stored as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

KS = (1, 3, 5)
BINS = ("1", "2", "3", "4", "5", "zero-shot")  # of labels by training frequency, the most frequent first


def at_ks(*names: str) -> list[str]:
    """`at_ks("P", "PSP")` is P@1, P@3, P@5, PSP@1, PSP@3, PSP@5."""
    return [f"{name}@{k}" for name in names for k in KS]


MEASURES = at_ks("P", "PSP", "C")


def row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def header(columns: Sequence[str], words: int = 1) -> str:
    """The first two lines of a table: the first `words` columns are aligned left, the others right."""
    return f"{row(columns)}\n{row(['---'] * words + ['--:'] * (len(columns) - words))}"


def table(columns: Sequence[str], rows: Iterable[Iterable[object]], words: int = 1) -> str:
    return "\n".join([header(columns, words), *map(row, rows)])


def cells(values: Any, names: Iterable[str], digits: int = 1) -> list[str]:
    """The values of these names with so many decimals; an empty cell where a mapping lacks the name."""
    return [
        "" if isinstance(values, Mapping) and values.get(name) is None else f"{values[name]:.{digits}f}"
        for name in names
    ]


def read_lines(path: Path | None) -> list[dict[str, Any]]:
    """The JSON lines of a file; none where there is no file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_lines(path: Path, *lines: Mapping[str, Any]) -> None:
    """Write results the moment they are there: an interrupted benchmark continues after them."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
