"""Every figure of a result page stands in its appendix, in a file of `longtail reproduce`, or in the paper."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtail.reproduction import papers

RESULTS = Path(__file__).parent.parent / "docs" / "results"
REPRODUCED = sorted((RESULTS / "reproduced").glob("*.json"))
PAGES = sorted(path.stem for path in (RESULTS / "appendix").glob("*.md"))
DECIMAL = re.compile(r"(?<![\w.@=])-?\d+\.\d+(?![\w.])")


def figures(text: str) -> list[str]:
    """The decimal numbers of a text, without those of recipes and addresses."""
    return DECIMAL.findall(re.sub(r"`[^`]*`|https?://\S+", "", text.replace("+", "")))


def same(shown: str, value: float) -> bool:
    """Whether a number is a value, rounded to its decimals; a half may have been rounded either way."""
    return abs(abs(float(shown)) - abs(value)) <= 0.5000001 * 10.0 ** -len(shown.split(".")[1])


def numbers(data: Any) -> Iterator[float]:
    if isinstance(data, dict | list):
        for one in data.values() if isinstance(data, dict) else data:
            yield from numbers(one)
    elif isinstance(data, float):
        yield data


@pytest.fixture(scope="module")
def published() -> list[float]:
    """Every effect that the papers print."""
    tables = [table for paper in papers() for table in paper.tables]
    return [v for table in tables for row in table.rows for one in table.effects_of(row).values() for v in one if v]


def stored(appendix: str) -> list[Any]:
    """The reproductions that an appendix names."""
    return [json.loads(path.read_text()) for path in REPRODUCED if f"reproduced/{path.name}" in appendix]


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_of_a_page_is_in_its_appendix(name: str, published: list[float]) -> None:
    page, appendix = ((RESULTS / part / f"{name}.md").read_text() for part in (".", "appendix"))
    values = [*map(float, figures(appendix)), *numbers(stored(appendix)), *published]
    assert [one for one in figures(page) if not any(same(one, value) for value in values)] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_row_of_a_page_is_a_row_of_its_appendix(name: str) -> None:
    """Or of two tables there whose rows have one name: a row is not put together from anywhere."""
    page, appendix = ((RESULTS / part / f"{name}.md").read_text() for part in (".", "appendix"))
    rows = defaultdict(list)
    for line in (line for line in appendix.splitlines() if line.startswith("|")):
        cells = [cell.strip() for cell in line.split("|")]
        rows[tuple(one for one in cells if not DECIMAL.search(re.sub("`[^`]*`", "", one)))] += map(float, figures(line))
    candidates = list(rows.values())
    for runs in (row["runs"] for one in stored(appendix) for table in one["tables"] for row in table["rows"]):
        names = [name for name, value in runs[0].items() if isinstance(value, float)] if runs else []
        candidates.append([sum(run[name] for run in runs) / len(runs) for name in names])
    shown = [figures(line) for line in page.splitlines() if line.startswith("|")]
    missing = [one for one in shown if not any(all(any(same(n, v) for v in row) for n in one) for row in candidates)]
    assert missing == []


@pytest.mark.parametrize("path", REPRODUCED, ids=[path.stem for path in REPRODUCED])
def test_a_stored_reproduction_names_command_seeds_and_versions(path: Path) -> None:
    read = json.loads(path.read_text())
    assert read["command"].startswith(("longtail reproduce", "python benchmarks/"))
    assert read["seeds"] and read["versions"]["longtail"]
    appendices = [(RESULTS / "appendix" / f"{one}.md").read_text() for one in PAGES]
    assert any(read["command"] in text for text in appendices), "the command stands beside no table"
