"""The settings of a recipe by name, for tools that change one at a time: `cost`, `rerank__strength`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longtail import catalogue
from longtail.errors import RecipeError, did_you_mean
from longtail.grammar import Part, Setting
from longtail.recipe import Recipe

BETWEEN = "__"  # a part's name and its setting


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """Every setting of a recipe, as written or by default.

    Args:
        recipe: the recipe.

    Returns:
        Values by name: those of the learner by their own name, those of a tail method as `part__setting`.
    """
    found: dict[str, Any] = {}
    for place, part in enumerate(recipe.parts):
        kind = catalogue.tail_class(part.name) if place else catalogue.learner_class(part.name)
        prefix = f"{part.name}{BETWEEN}" if place else ""
        for name, value in catalogue.written(part, kind).items():
            found.setdefault(prefix + name, value)
    return found


def with_settings(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with other settings. What has its value already stays unwritten.

    Args:
        recipe: the recipe.
        changes: values by the names of `settings_of`.

    Returns:
        The new recipe, checked as any other.

    Raises:
        RecipeError: a name is unknown, or a value does not suit its setting.
    """
    known = settings_of(recipe)
    parts = list(recipe.parts)
    for name, value in changes.items():
        if name not in known:
            raise RecipeError(
                f"recipe {str(recipe)!r} has no setting {name!r}{did_you_mean(name, known)} (settings: "
                f"{', '.join(known)})"
            )
        value = value.item() if isinstance(value, np.generic) else value
        if known[name] == value and type(known[name]) is type(value):
            continue
        owner, _, setting = name.rpartition(BETWEEN)
        place = next(
            number for number, part in enumerate(parts) if (part.name == owner if owner and number else not owner)
        )
        parts[place] = _changed(parts[place], setting, value)
    return Recipe(tuple(parts))


def _changed(part: Part, name: str, value: Any) -> Part:
    new = Setting(name, tuple(value) if isinstance(value, list) else value)
    if any(setting.name == name for setting in part.settings):
        return replace(part, settings=tuple(new if setting.name == name else setting for setting in part.settings))
    return replace(part, settings=(*part.settings, new))
