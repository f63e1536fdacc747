from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail import catalogue, grammar
from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.errors import DataError, RecipeError
from longtail.grammar import Part, Setting
from longtail.learners.knn import Knn
from longtail.recipe import Recipe
from longtail.tail.rerank import Rerank

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in ("true", "false", "none"))
scalars = st.one_of(
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
values = st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))
parts = st.builds(
    Part,
    names,
    st.lists(st.builds(Setting, names, values), max_size=3, unique_by=lambda setting: setting.name).map(tuple),
)
recipes = st.lists(parts, min_size=1, max_size=4).map(tuple)


@given(recipes)
def test_what_is_printed_reads_back_the_same(recipe: tuple[Part, ...]) -> None:
    written = " + ".join(map(str, recipe))
    again = grammar.parse(written)
    assert again == recipe
    assert " + ".join(map(str, again)) == written


@given(recipes)
def test_toml_reads_back_the_same(recipe: tuple[Part, ...]) -> None:
    kept = tuple(
        Part(part.name, tuple(s for s in part.settings if s.value is not None and s.name != "name" and _plain(s.value)))
        for part in recipe
    )
    assert grammar.read_toml(grammar.to_toml(kept)) == [kept]


def _plain(value: object) -> bool:
    """TOML knows no null and forbids bare control characters, which the recipe notation does not need either."""
    items = value if isinstance(value, tuple) else (value,)
    return all(
        item is not None and not (isinstance(item, str) and re.search(r"[\x00-\x1f\x7f]", item)) for item in items
    )


@pytest.mark.parametrize(
    "text",
    [
        "centroid",
        "knn(neighbours=20)",
        "knn(neighbours=20) + rerank(strength=5e-1)",
        "lever(teacher=\"ngame(batching='labels', loss='logistic')\")",
        "a(x='single', y=[1, 2.5, \"three\"], z=none, w=true)",
    ],
)
def test_literals_stay_as_typed(text: str) -> None:
    assert " + ".join(map(str, grammar.parse(text))) == text


def test_white_space_does_not_matter() -> None:
    assert grammar.parse(" knn ( neighbours = 3 , )+rerank ") == grammar.parse("knn(neighbours=3) + rerank")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a learner's name, found the end"),
        ("centroid +", "expected a tail method's name after '+', found the end"),
        ("centroid rerank", "character 10: expected '+' or the end, found 'rerank'"),
        ("knn(neighbours)", "expected '=' after neighbours, found ')'"),
        ("fuse(knn, bm25)", "expected '=' after knn, found ','; a recipe that is a member stands in quotes: \"knn\""),
        ("knn(neighbours 3)", "expected '=' after neighbours, found '3'"),
        ("knn(neighbours=)", "expected a value, found ')'"),
        ("knn(neighbours=3", "expected ',' or ')' in the settings of knn, found the end"),
        ("knn(neighbours=many)", 'expected a value, found many; write "many" if it is a word'),
        ("knn(neighbours=1, neighbours=2)", "setting 'neighbours' of knn is given twice"),
        ('knn(neighbours="3)', "is not closed"),
        ("knn(a=1;b=2)", "cannot read ';b=2)'"),
        ("knn(a=3x)", "cannot read '3x)'"),
        ("__import__(3)", "expected a setting's name"),
    ],
)
def test_errors_point_at_the_place(text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        grammar.parse(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("centriod", "unknown learner 'centriod'; did you mean 'centroid'?"),
        ("centroid + rerang", "unknown tail method 'rerang'; did you mean 'rerank'?"),
        ("rerank", "it is a tail method and goes after a learner"),
        ("centroid + knn", "it is a learner, and a recipe has one learner, which stands first"),
        ("knn(neighbors=3)", "unknown setting 'neighbors' of knn; did you mean 'neighbours'? (settings: "),
        ("knn(neighbours=2.5)", "setting 'neighbours' of knn takes a whole number, got 2.5"),
        ("knn(neighbours=true)", "takes a whole number, got true"),
        ('centroid + rerank(strength="much")', 'takes a number, got "much"'),
        ("knn(neighbours=0)", "is at least 1, got 0"),
        ("bm25(b=2)", "b between 0 and 1"),
        ("knn + lever(lambda=0.5)", "the paper's lambda is the setting 'blend' of lever: write blend=..."),
        ("knn + taug(rho=0.5)", "the paper's rho is the setting 'keep_probability' of taug"),
        ("bm25 + rows", "rows changes training examples, and bm25 does not learn from them"),
        ("bm25 + lever", "lever changes training examples, and bm25 does not learn from them"),
        ("dpr + dexa + dexa(clusters=3)", "dexa and dexa each put a tower on the labels, which has room for one"),
    ],
)
def test_recipes_are_checked_before_any_data(text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(text)
    assert problem in str(caught.value)


def test_recipes_from_objects_write_only_what_differs() -> None:
    assert str(Recipe.of(Knn(neighbours=7), Rerank())) == "knn(neighbours=7) + rerank"
    assert Recipe.of(Knn(neighbours=7), Rerank()) == Recipe.parse("knn(neighbours=7) + rerank")
    assert Recipe.parse("centroid + rerank(strength=1)").tail == (Rerank(strength=1.0),)


def test_toml_forms() -> None:
    one = 'learner = { name = "knn", neighbours = 7 }\ntail = [{ name = "rerank" }]\n'
    assert [str(recipe) for recipe in Recipe.from_toml(one)] == ["knn(neighbours=7) + rerank"]
    several = '[[recipe]]\nlearner = "bm25"\n[[recipe]]\nlearner = "knn"\ntail = ["rerank"]\n'
    assert [str(recipe) for recipe in Recipe.from_toml(several)] == ["bm25", "knn + rerank"]
    words = 'recipes = ["centroid", "centroid + rerank"]'
    assert [str(recipe) for recipe in Recipe.from_toml(words)] == ["centroid", "centroid + rerank"]
    recipe = Recipe.parse("knn(neighbours=7) + rerank(strength=0.5)")
    assert Recipe.from_toml(recipe.to_toml()) == [recipe]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("learner = ", "not valid TOML"),
        ("learners = 1", "unknown entry 'learners'"),
        ('tail = ["rerank"]', "tail methods without a learner"),
        ("[[recipe]]\ntail = []", "has no learner"),
        ("learner = 3", "3 is not a part"),
        ("", "holds no recipe"),
    ],
)
def test_toml_errors_name_the_file(text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        Recipe.from_toml(text, Path("recipes.toml"))
    assert str(caught.value).startswith("recipes.toml: ")
    assert problem in str(caught.value)


PRESETS = [
    (name, preset, load(name))
    for names, load in ((LEARNERS, learner_class), (TAIL_METHODS, tail_class))
    for name in names
    for preset in getattr(load(name), "presets", {})
]


@pytest.mark.parametrize(
    "text",
    [
        "lever:paper",
        "renee:LF-AmazonTitles-1.3M(epochs=3) + lever:paper(tau=4)",
        'fuse("bonsai:paper", "parabel:paper(trees=1)", folds=4)',
    ],
)
def test_presets_print_and_read_back(text: str) -> None:
    parts = grammar.parse(text)
    assert " + ".join(map(str, parts)) == text
    assert grammar.read_toml(grammar.to_toml(parts)) == [parts]


@pytest.mark.parametrize(("name", "preset", "kind"), PRESETS)
def test_every_preset_builds_and_says_where_it_comes_from(name: str, preset: str, kind: type[Any]) -> None:
    built = catalogue.build(Part(name, preset=preset), kind)
    for setting, value in kind.presets[preset].settings.items():
        assert getattr(built, setting) == value
        assert kind.presets[preset].source_of(setting)
    for inner in ("teacher", "init_from"):
        if isinstance(kind.presets[preset].settings.get(inner), str):
            Recipe.parse(kind.presets[preset].settings[inner])


def test_settings_change_single_ones_of_a_preset() -> None:
    plain, changed = Recipe.parse("bonsai:paper").learner, Recipe.parse("bonsai:paper(max_iter=3)").learner
    assert changed == replace(plain, max_iter=3)
    assert plain == Recipe.parse("bonsai(hard_negatives=0, max_iter=20)").learner


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bonsai:papper", "unknown preset 'papper' of bonsai; did you mean 'paper'? (presets: paper)"),
        ("renee:131k", "did you mean 'LF-AmazonTitles-131K'?"),
        ("knn:paper", "knn has no presets"),
        ("bonsai:", "cannot read ':'"),
    ],
)
def test_unknown_presets_name_the_near_ones(text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(text)
    assert problem in str(caught.value)


def test_the_papers_names_lead_to_settings() -> None:
    for parts in (LEARNERS, TAIL_METHODS):
        for name in parts:
            kind = parts.load(name)
            settings = {field.name for field in fields(kind)}
            symbols = getattr(kind, "symbols", {})
            assert set(symbols.values()) <= settings, name
            assert not set(symbols) & settings, name


def test_types_of_settings_are_read_once_and_not_changed() -> None:
    """A list of the papers' tables builds some thousand parts."""
    found = catalogue.types_of_settings(Knn)
    assert found["neighbours"] is int and catalogue.types_of_settings(Knn) is found
    with pytest.raises(TypeError):
        found["neighbours"] = str  # type: ignore[index]
