"""Ranges and choices in the notation of recipes."""

from __future__ import annotations

import math

import pytest

from longtail.errors import RecipeError
from longtail.recipe import Recipe
from longtail.tuning.search_space import Alternatives, NumberRange, SearchSpace


def test_ranges_and_choices_are_read() -> None:
    space = SearchSpace.parse('parabel(cost=0.5..4 log, trees=1|3|5, seed=7) + calibrate(curve="platt"|"isotonic")')
    assert space.dimensions == (
        NumberRange("parabel.cost", 0.5, 4, log=True),
        Alternatives("parabel.trees", ("1", "3", "5")),
        Alternatives("calibrate.curve", ('"platt"', '"isotonic"')),
    )
    assert space.size == math.inf
    drawn = {"parabel.cost": 1.23456, "parabel.trees": 2, "calibrate.curve": 1}
    assert space.recipe(drawn) == 'parabel(cost=1.235, trees=5, seed=7) + calibrate(curve="isotonic")'
    assert Recipe.parse(space.recipe(drawn))
    assert space.corners() == (
        'parabel(cost=0.5, trees=1, seed=7) + calibrate(curve="platt")',
        'parabel(cost=4.0, trees=5, seed=7) + calibrate(curve="isotonic")',
    )


def test_the_type_of_the_setting_decides_what_numbers_a_range_has() -> None:
    trees, cost = SearchSpace.parse("parabel(trees=1..3, cost=1..3)").dimensions
    assert isinstance(trees, NumberRange) and trees.whole and trees.written(2) == "2"
    assert isinstance(cost, NumberRange) and not cost.whole and cost.written(2) == "2.0"


def test_rounding_never_leaves_the_range() -> None:
    edge = NumberRange("x.y", 0.123456, 0.987654)
    assert edge.written(0.5) == "0.5" and edge.written(0.200004) == "0.2"
    assert edge.written(0.987654) == "0.987654"  # and not 0.9877
    assert NumberRange("x.y", 0.10004, 1).written(0.10004) == "0.10004"


def test_a_finite_space_has_a_grid() -> None:
    space = SearchSpace.parse("knn(neighbours=2..4) + rerank(strength=0|1)")
    assert space.size == 6
    recipes = {space.recipe(values) for values in space.grid()}
    assert recipes == {f"knn(neighbours={n}) + rerank(strength={s})" for n in (2, 3, 4) for s in (0, 1)}


def test_a_recipe_inside_a_string_has_ranges_too() -> None:
    space = SearchSpace.parse('dpr(encoder="bag") + ensemble(tail_model="dpr(encoder=\'bag\', epochs=1|2)")')
    assert [one.name for one in space.dimensions] == ["dpr.epochs"]
    assert "epochs=2" in space.recipe({"dpr.epochs": 1})
    twice = SearchSpace.parse("centroid + rerank(strength=0..1) + rerank(strength=0..1)")
    assert [one.name for one in twice.dimensions] == ["rerank.strength (1)", "rerank.strength (2)"]


def test_bars_and_dots_inside_strings_and_lists_are_values() -> None:
    space = SearchSpace.parse('dpr(encoder="a|b..c", epochs=1|2)')
    assert [one.name for one in space.dimensions] == ["dpr.epochs"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parabel", "has no range or choice, so there is nothing to tune"),
        ("parabel(cost=4..1)", "character 14: the range 4..1 of parabel.cost is empty"),
        ("parabel(cost=1..1)", "is empty"),
        ("parabel(cost=0..4 log)", "logarithmic and must begin above 0"),
        ("parabel(cost=..2)", "no range of parabel.cost; write low..high"),
        ("parabel(cost=1..2|3)", "mixes a range and a choice"),
        ("parabel(cost=1|)", "a choice of parabel.cost is empty"),
        ("parabel(cost=1|1)", "stands twice"),
        ("parabel(cost=1|word)", "choice 'word' of parabel.cost: expected a value, found word; write \"word\""),
        ("parabel(trees=1.5..3)", "takes whole numbers"),
        ("ngame(encoder=1..3)", "takes no number, so it has no range; write a choice"),
        ("parabel(tress=1|3)", "unknown setting 'tress' of parabel; did you mean 'trees'"),
        ("parabel(trees=1|'a')", "takes a whole number"),
        ("parabel(cost=-1..2)", "cost above 0"),
        ("nope(cost=1..2)", "unknown learner 'nope'"),
        ("parabel(cost=1..2) + nope", "unknown tail method 'nope'"),
        ("parabel(cost=1..2", "found the end"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as refused:
        SearchSpace.parse(text)
    assert problem in str(refused.value)


@pytest.mark.parametrize("text", ["parabel(cost=0.5..4)", "parabel(cost=1|2)", "parabel(cost=1e-3 .. 2)"])
def test_an_ordinary_recipe_points_to_tune(text: str) -> None:
    with pytest.raises(RecipeError, match=r"is a range or a choice, not a value; `longtail tune` finds"):
        Recipe.parse(text)
