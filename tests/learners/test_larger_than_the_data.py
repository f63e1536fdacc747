"""Settings larger than the data: as good as its size, and no dearer."""

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
        ("bonsai(rivals=4000000000)", "bonsai(rivals=10)"),
        ("bonsai(depth=4000)", "bonsai(depth=9)"),
        (
            "ance(encoder='bag', dimension=8, epochs=2, negatives=4000000000, shortlist=5)",
            "ance(encoder='bag', dimension=8, epochs=2, negatives=5, shortlist=5)",
        ),
        ("centroid + synonyms(nearest=4000000000)", "centroid + synonyms(nearest=1000)"),
        ("centroid + calibrate(bins=4000000000)", "centroid + calibrate(bins=10)"),
    ],
)
def test_as_good_as_the_size_of_the_data(huge: str, enough: str, tiny: Corpus) -> None:
    with measure_peak() as peak:
        models = [Recipe.parse(recipe).fit(tiny.train, tiny.valid) for recipe in (huge, enough)]
        found = [model.predict(tiny.test.rows, 5) for model in models]
    if "rivals" not in huge:  # which count in how far strangers are trusted
        assert np.array_equal(found[0].indices, found[1].indices)
        assert np.allclose(found[0].scores, found[1].scores, atol=1e-6)
    assert peak.bytes < 4 << 30


@pytest.mark.parametrize("learner", ["centroid", "knn", "parabel", "fastxml"])
def test_words_that_no_row_has_often_enough(learner: str, tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match=r"no word of the 410 training rows stands in min_rows=1,000 of them"):
        Recipe.parse(f"{learner}(min_rows=1000)").fit(tiny.train, tiny.valid)


@pytest.mark.parametrize(
    "recipe", ["knn(neighbours=4294967297)", "parabel(seed=99999999999)", "centroid + gandalf(most=1" + "0" * 22 + ")"]
)
def test_a_whole_number_that_nothing_holds(recipe: str) -> None:
    with pytest.raises(RecipeError, match=r"is at most 4,294,967,296, got"):
        assert Recipe.parse(recipe).tail == ()
