"""Settings larger than the data: the same result as its size, and no more memory."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import RecipeError
from longtail.memory import measure_peak
from longtail.recipe import Recipe


@pytest.mark.parametrize(
    ("huge", "enough"),
    [
        ("knn(neighbours=4000000000)", "knn(neighbours=410)"),
        ("parabel(beam=4000000000)", "parabel(beam=10)"),
        ("bonsai(hard_negatives=4000000000)", "bonsai(hard_negatives=10)"),
        ("bonsai(depth=4000)", "bonsai(depth=9)"),
        (
            "ance(encoder='bag', dimension=8, epochs=2, negatives=4000000000, shortlist=5)",
            "ance(encoder='bag', dimension=8, epochs=2, negatives=5, shortlist=5)",
        ),
        ("centroid + synonyms(neighbours=4000000000)", "centroid + synonyms(neighbours=1000)"),
        ("centroid + calibrate(bins=4000000000)", "centroid + calibrate(bins=10)"),
    ],
)
def test_as_good_as_the_size_of_the_data(huge: str, enough: str, tiny: Corpus) -> None:
    with measure_peak() as peak:
        models = [Recipe.parse(recipe).fit(tiny.train, tiny.valid) for recipe in (huge, enough)]
        found = [model.predict(tiny.test.rows, 5) for model in models]
    if "hard_negatives" not in huge:  # their number also weighs the path to a leaf
        assert np.array_equal(found[0].indices, found[1].indices)
        assert np.allclose(found[0].scores, found[1].scores, atol=1e-6)
    assert peak.bytes < 4 << 30


@pytest.mark.parametrize("learner", ["centroid", "knn", "parabel", "fastxml"])
def test_words_that_no_row_has_often_enough(learner: str, tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match=r"no word is in min_df=1,000 of the 410 training examples"):
        Recipe.parse(f"{learner}(min_df=1000)").fit(tiny.train, tiny.valid)


@pytest.mark.parametrize(
    "recipe",
    [
        "knn(neighbours=4294967297)",
        "parabel(seed=99999999999)",
        "centroid + gandalf(max_soft_targets=1" + "0" * 22 + ")",
    ],
)
def test_a_whole_number_that_nothing_holds(recipe: str) -> None:
    with pytest.raises(RecipeError, match=r"is at most 4,294,967,296, got"):
        assert Recipe.parse(recipe).tail == ()
