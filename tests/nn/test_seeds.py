"""Seeds of any size."""

from __future__ import annotations

import pytest
import torch

from longtail.data import Corpus
from longtail.nn.training.seeds import fold_seed
from longtail.recipe import Recipe


def test_small_seeds_stay_and_large_ones_differ() -> None:
    assert [fold_seed(value) for value in (0, 7, 2**62)] == [0, 7, 2**62]
    large = [fold_seed((seed << 44) ^ step) for seed in (2**20, 2**24, 20261107, 2**32) for step in (0, 1)]
    assert len(set(large)) == len(large) and all(0 <= value < 2**63 for value in large)
    torch.Generator().manual_seed(max(large))


@pytest.mark.parametrize(
    "recipe",
    [
        "unidec(encoder='bag', dimension=8, epochs=1, seed=SEED)",
        "renee(encoder='bag', dimension=8, epochs=1, head_precision='bf16', seed=SEED) + l2tie",
        "fastxml(trees=2, seed=SEED)",
        "parabel(seed=SEED)",
    ],
)
def test_a_date_is_a_seed(recipe: str, tiny: Corpus) -> None:
    for seed in (20261107, 2**32):
        model = Recipe.parse(recipe.replace("SEED", str(seed))).fit(tiny.train, tiny.valid)
        assert len(model.predict(tiny.test.rows, 3)) == len(tiny.test)
