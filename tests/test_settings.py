"""Settings that no part can work with raise an error when a recipe is read, by the names that recipes use."""

from __future__ import annotations

import pytest

from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.errors import RecipeError
from longtail.recipe import Recipe


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("inceptionxml(max_words=0)", "setting 'max_words' of inceptionxml is at least 1, got 0"),
        ("inceptionxml(channels=0)", "setting 'channels' of inceptionxml is at least 1, got 0"),
        ("inceptionxml(feature_dropout=1)", "setting 'feature_dropout' of inceptionxml lies in [0, 1), got 1"),
        ("inceptionxml(meta_only_share=2)", "setting 'meta_only_share' of inceptionxml lies in [0, 1], got 2"),
        ("inceptionxml(dimension=66)", "setting 'dimension' of inceptionxml is at least 64 and a multiple of 4"),
        ("inceptionxml-lf(beam=-3)", "setting 'beam' of inceptionxml-lf is at least 0, got -3"),
        ("inceptionxml-lf(walk_steps=0)", "setting 'walk_steps' of inceptionxml-lf is at least 1, got 0"),
        ("eclare(restart=2)", "setting 'restart' of eclare lies in [0, 1], got 2"),
        ("eclare(neighbours=-1)", "setting 'neighbours' of eclare is at least 0, got -1"),
        (
            "astec(learning_rate=150)",
            "shrinks classifiers by head_weight_decay x learning_rate, which lies in [0, 1), got 0.01 x 150",
        ),
        (
            "parabel + synonyms(min_similarity=2)",
            "setting 'min_similarity' of synonyms is a cosine, from -1 to 1, got 2",
        ),
    ],
)
def test_settings_that_cannot_work(recipe: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(recipe)
    assert message in str(caught.value)


def test_a_seed_is_not_negative() -> None:
    kinds = {name: learner_class(name) for name in LEARNERS} | {name: tail_class(name) for name in TAIL_METHODS}
    seeded = [name for name, kind in kinds.items() if hasattr(kind, "seed")]
    assert {"astec", "parabel", "gandalf", "mixup"} <= set(seeded)
    for name in seeded:
        recipe = f"{name}(seed=-1)" if name in LEARNERS else f"centroid + {name}(seed=-1)"
        with pytest.raises(RecipeError, match=f"setting 'seed' of {name} is at least 0, got -1"):
            Recipe.parse(recipe)


def test_a_setting_is_found_by_a_part_of_its_name() -> None:
    for recipe, wanted in (("dpr(rate=0.1)", "learning_rate"), ("parabel(leaf=5)", "max_leaf_labels")):
        with pytest.raises(RecipeError, match=f"did you mean '{wanted}'"):
            Recipe.parse(recipe)
