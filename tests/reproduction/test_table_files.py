"""Every table of every paper: each recipe parses and plans, and the cheap rows train on tiny data."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.data import Corpus
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.reproduction import PaperTable, papers, reproduce

TABLES = [table for paper in papers() for table in paper.tables]
NAMES = [f"{table.paper}-{table.name}" for table in TABLES]
WORDS = {"parabel", "centroid", "knn", "bonsai", "xreg"}  # learners that train in an instant


def cheapest(table: PaperTable) -> str:
    """A row without an encoder, else one with a bag of words and few epochs; one with a control first."""
    words = [row for row in table.ready if "encoder" not in row.recipe and row.recipe.split("(")[0].split()[0] in WORDS]
    bags = [row for row in table.ready if "encoder='bag'" in row.recipe and ("epochs=5" in row.recipe or not words)]
    rows = [row for row in words or bags if "clusters=" not in row.recipe]
    return max(rows, key=lambda row: bool(row.control) and "rows" in row.recipe).name


@pytest.mark.parametrize("table", TABLES, ids=NAMES)
def test_every_recipe_plans(table: PaperTable, tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    for row in table.ready:
        recipe = Recipe.parse(row.recipe)
        assert str(recipe) == row.recipe, "a table writes recipes as they are printed"
        assert recipe.plan(facts).train_seconds >= 0
    assert all(len(figures) == len(table.columns) for rows in table.published.values() for figures in rows.values())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one table has trained, another does not train again."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("table", TABLES, ids=NAMES)
def test_a_cheap_row_trains(table: PaperTable, tiny: Corpus, finished: Path) -> None:
    name = cheapest(table)
    (outcome,) = reproduce(table.paper, tiny, [table.name], 1, checkpoint_dir=finished, rows=[name]).outcomes
    assert outcome.left == () and outcome.refused == ()
    for row in outcome.table.rows:
        figures = [outcome.figure(row, column) for column in table.columns]
        found = [one.mean for one in figures if one is not None]
        assert found and all(value >= 0 for value in found), row.name
        assert not row.control or figures[-1] is None or outcome.effect(row, table.columns[-1]) is not None


def test_the_papers_settings_are_those_of_the_presets() -> None:
    """A row in the paper's own words names the preset, so that a setting stands in one place."""
    found = {part.title for table in TABLES for row in table.ready for part in Recipe.parse(row.recipe).parts}
    assert {"taug:paper", "gandalf:paper", "lever:paper", "renee:paper", "depsl:paper", "unidec:paper"} <= found
