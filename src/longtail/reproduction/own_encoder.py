"""The rows of a table with one encoder in place of those that they name."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from longtail.comparison.entries import INNER_RECIPES
from longtail.errors import RecipeError
from longtail.grammar import Member, Part, Setting
from longtail.nn.encoders.encoder_names import RANDOM_INIT, check_encoder
from longtail.recipe import Recipe
from longtail.reproduction.paper_tables import PaperTable
from longtail.reproduction.table_rows import TableRow


def with_encoder(table: PaperTable, encoder: str) -> PaperTable:
    """Give every row that names a pretrained encoder another one, with all its other settings.

    Rows whose encoder starts at random, such as `bag`, stay as they are.

    Args:
        table: of a paper.
        encoder: minilm, a folder, or owner/name on the Hugging Face hub.

    Returns:
        The table.

    Raises:
        DataError: no encoder has this name.
    """
    check_encoder(encoder)
    return replace(table, rows=tuple(_row(row, encoder) for row in table.rows))


def _row(row: TableRow, encoder: str) -> TableRow:
    return row if row.missing() else replace(row, recipe=str(recipe_with(Recipe.parse(row.recipe), encoder)))


def recipe_with(recipe: Recipe, encoder: str) -> Recipe:
    """Give a recipe, its teachers and its members another pretrained encoder.

    Args:
        recipe: the recipe.
        encoder: its name.

    Returns:
        The recipe; equal to the one given where it names no pretrained encoder.
    """
    objects = (recipe.learner, *recipe.tail)
    return Recipe(tuple(_part(part, one, encoder) for part, one in zip(recipe.parts, objects, strict=True)))


def _part(part: Part, built: Any, encoder: str) -> Part:
    names = {field.name for field in fields(built)}
    changed: dict[str, Any] = {}
    # A learner that starts from another model has that model's encoder; its own setting is not read.
    if "encoder" in names and built.encoder not in RANDOM_INIT and getattr(built, "init_from", None) is None:
        changed["encoder"] = encoder
    members = part.members
    for name in (one for one in INNER_RECIPES if one in names):
        value = getattr(built, name)
        if name == "members":
            members = tuple(Member(_text(one, encoder)) for one in value)
        elif isinstance(value, str) and (text := _text(value, encoder)) != value:
            changed[name] = text
    kept = tuple(one for one in part.settings if one.name not in changed)
    return replace(part, members=members, settings=(*kept, *(Setting(name, one) for name, one in changed.items())))


def _text(text: str, encoder: str) -> str:
    """An inner recipe with the encoder; the folder of a saved model stays as it is."""
    if Path(text).expanduser().exists():
        return text
    try:
        return str(recipe_with(Recipe.parse(text), encoder))
    except RecipeError:
        return text
