"""The declarative files of the papers' tables, read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from longtail.errors import DataError, did_you_mean
from longtail.reproduction.table_rows import TableRow, check_keys, read_rows

FOLDER = Path(str(resources.files("longtail") / "reproduction" / "tables"))
PAPER_FILE = "paper.toml"
NEEDS = ("texts", "label texts", "GPU", "long text")
MEASURE = re.compile(r"(P|nDCG|PSP|PSnDCG|R|C|F1|MRR|macroF1|macroP|macroR)@([1-9][0-9]*)")
IN_BIN = re.compile(r"(P|R|C)@5 in bin ([1-5])")  # part of P@5, recall, coverage; of equi-volume bins, 1 is the head
PAIRS = "PPL"  # training pairs a label, soft targets among them
COSTS = {"hours": ("train_seconds", 3600), "GB": ("model_bytes", 10**9)}  # of a result: field, divisor
PAPER_KEYS = {"title", "names", "not_implemented"}
TABLE_KEYS = {"title", "columns", "needs", "notes", "rows", "sweeps", "published", "published_effects"}
Figures = tuple[float | None, ...]  # one a column; None where the paper has none


@dataclass(frozen=True)
class PaperTable:
    """A numbered table or figure of a paper."""

    paper: str
    name: str  # the number in the paper, such as 3, 2.4 or fig2; a word for a control of ours
    title: str
    columns: tuple[str, ...]  # measures, over all labels or in a frequency bin
    rows: tuple[TableRow, ...]
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    published: Mapping[str, Mapping[str, Figures]] | None = None  # by data set and row
    published_effects: Mapping[str, Mapping[str, Figures]] | None = None  # as printed, against the row's control

    @property
    def heading(self) -> str:
        """Such as "Table 3", "Figure 2" or "Control: density"."""
        if self.name.startswith("fig"):
            return f"Figure {self.name[3:]}"
        return f"Table {self.name}" if self.name[0].isdigit() else f"Control: {self.name}"

    @property
    def ready(self) -> tuple[TableRow, ...]:
        """The rows that can be trained here."""
        return tuple(row for row in self.rows if not row.missing())

    def effects_of(self, row: TableRow) -> dict[str, Figures]:
        """Look up or compute the published effects of a row against its control.

        Args:
            row: of this table.

        Returns:
            By data set, one figure a column; None where a figure is not published.
        """
        own = row.published_as or row.name
        found = {name: rows[own] for name, rows in (self.published_effects or {}).items() if own in rows}
        for name, rows in (self.published or {}).items():
            if name not in found and row.control in rows and own in rows:
                pairs = zip(rows[own], rows[row.control], strict=True)
                found[name] = tuple(None if a is None or b is None else round(a - b, 4) for a, b in pairs)
        return found


@dataclass(frozen=True)
class Publication:
    """A paper with its tables."""

    name: str
    title: str
    names: tuple[str, ...]  # other names it may be called by
    tables: tuple[PaperTable, ...]
    not_implemented: tuple[str, ...]  # what of it cannot be run, and why

    def table(self, name: str) -> PaperTable:
        """Find a table.

        Args:
            name: its number, such as 3; of a figure fig2.

        Returns:
            The table.

        Raises:
            DataError: there is no such table.
        """
        wanted = name.lower().removeprefix("table").replace("figure", "fig").strip()
        for one in self.tables:
            if one.name == wanted:
                return one
        known = [one.name for one in self.tables]
        raise DataError(
            f"{self.name} has no table {name!r} here{did_you_mean(wanted, known)} (tables: {', '.join(known)}; what is "
            f"left out and why: longtail reproduce {self.name})"
        )


@cache
def papers() -> tuple[Publication, ...]:
    """Every paper that ships with longtail.

    Returns:
        The papers with their tables.
    """
    return tuple(read_paper(folder) for folder in sorted(FOLDER.iterdir()) if (folder / PAPER_FILE).is_file())


def find_paper(name: str) -> Publication:
    """Find a paper by one of its names.

    Args:
        name: such as taug or ranknet.

    Returns:
        The paper.

    Raises:
        DataError: no paper has this name.
    """
    for one in papers():
        if name.lower() in (one.name, *one.names):
            return one
    known = [word for one in papers() for word in (one.name, *one.names)]
    raise DataError(f"no paper is called {name!r}{did_you_mean(name, known)} (papers: {', '.join(known)})")


def read_paper(folder: Path) -> Publication:
    """Read a paper and its tables.

    Args:
        folder: with `paper.toml` and one file a table.

    Returns:
        The paper.
    """
    about = _toml(folder / PAPER_FILE, PAPER_KEYS, {"title"})
    files = sorted((file for file in folder.glob("*.toml") if file.name != PAPER_FILE), key=_order)
    return Publication(
        name=folder.name,
        title=about["title"],
        names=tuple(about.get("names", ())),
        tables=tuple(read_table(file) for file in files),
        not_implemented=tuple(about.get("not_implemented", ())),
    )


def read_table(file: Path) -> PaperTable:
    """Read a table.

    Args:
        file: TOML.

    Returns:
        The table.

    Raises:
        DataError: the file has an unknown key, a recipe that cannot be parsed, or a figure that is no number.
    """
    read = _toml(file, TABLE_KEYS, {"title", "columns"})
    columns = tuple(read["columns"])
    for column in map(str, columns):
        if not (column in (PAIRS, *COSTS) or MEASURE.fullmatch(column) or IN_BIN.fullmatch(column)):
            raise DataError(f"column {column!r} is no measure such as P@1, PSP@5, 'R@5 in bin 1' or hours", file)
    for need in read.get("needs", ()):
        if need not in NEEDS:
            raise DataError(f"unknown need {need!r} (needs: {', '.join(NEEDS)})", file)
    rows = read_rows(read, file)
    if not rows:
        raise DataError("lacks 'rows' or 'sweeps'", file)
    names = [row.name for row in rows]
    figures = {key: _figures(read.get(key, {}), names, columns, file) for key in ("published", "published_effects")}
    return PaperTable(
        paper=file.parent.name,
        name=file.stem,
        title=read["title"],
        columns=columns,
        rows=rows,
        needs=tuple(read.get("needs", ())),
        notes=tuple(read.get("notes", ())),
        **figures,
    )


def _figures(
    read: Mapping[str, Any], names: list[str], columns: tuple[str, ...], file: Path
) -> dict[str, dict[str, Figures]]:
    found: dict[str, dict[str, Figures]] = {}
    for data, rows in read.items():
        for name, values in rows.items():
            if name not in names:
                raise DataError(f"figures of {name!r} on {data}, which is no row{did_you_mean(name, names)}", file)
            if len(values) != len(columns):
                raise DataError(f"{name!r} on {data} has {len(values)} figures for {len(columns)} columns", file)
            for value in values:
                if value != "-" and (isinstance(value, bool) or not isinstance(value, int | float)):
                    raise DataError(f"figure {value!r} of {name!r} on {data} is no number and not '-'", file)
            found.setdefault(data, {})[name] = tuple(None if one == "-" else float(one) for one in values)
    return found


def _toml(file: Path, known: set[str], wanted: set[str]) -> dict[str, Any]:
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read as TOML ({error})", file) from None
    check_keys(read, known, wanted, file)
    return read


def _order(file: Path) -> tuple[int, list[int], str]:
    """Tables by number, then figures, then controls of ours."""
    kind = 0 if file.stem[0].isdigit() else 1 if file.stem.startswith("fig") else 2
    return kind, [int(number) for number in re.findall(r"\d+", file.stem)], file.stem
