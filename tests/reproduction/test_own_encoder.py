"""One encoder in place of those that the rows of a table name."""

from __future__ import annotations

import pytest

from longtail.comparison.entries import reseeded
from longtail.data import Corpus
from longtail.errors import DataError
from longtail.recipe import Recipe
from longtail.reproduction import find_paper, reproduce
from longtail.reproduction.own_encoder import recipe_with, with_encoder


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("unidec:paper", 'unidec:paper(encoder="tiny-folder/x")'),
        ("ngame(encoder='minilm', epochs=3)", 'ngame(epochs=3, encoder="tiny-folder/x")'),
        ("ngame(encoder='bag')", "ngame(encoder='bag')"),  # starts at random: stays
        ("parabel + rows", "parabel + rows"),
        (
            "renee(init_from='ngame(epochs=2)') + rows",
            'renee(init_from="ngame(epochs=2, encoder=\\"tiny-folder/x\\")") + rows',
        ),
        ("fuse('ngame', 'parabel')", 'fuse("ngame(encoder=\\"tiny-folder/x\\")", "parabel")'),
    ],
)
def test_pretrained_encoders_are_replaced_and_nothing_else(before: str, after: str) -> None:
    assert str(recipe_with(Recipe.parse(before), "tiny-folder/x")) == after


def test_the_teacher_of_a_preset_gets_it_too() -> None:
    changed = recipe_with(Recipe.parse("renee:paper + lever:paper"), "tiny-folder/x")
    teacher = Recipe.parse(changed.tail[0].teacher)  # type: ignore[attr-defined]
    before = Recipe.parse(Recipe.parse("renee:paper + lever:paper").tail[0].teacher)  # type: ignore[attr-defined]
    assert teacher.learner.encoder == "tiny-folder/x"  # type: ignore[attr-defined]
    assert teacher.learner.epochs == before.learner.epochs == 300  # type: ignore[attr-defined]
    assert changed.learner.head_learning_rate == 0.05  # type: ignore[attr-defined]


def test_a_whole_table_and_an_unknown_encoder() -> None:
    table = with_encoder(find_paper("dexa").table("2"), "owner/name")
    assert not any("distilbert" in row.recipe or "minilm" in row.recipe for row in table.rows)
    assert [row.name for row in table.rows] == [row.name for row in find_paper("dexa").table("2").rows]
    with pytest.raises(DataError, match="no encoder 'nowhere'"):
        with_encoder(table, "nowhere")


def test_an_encoder_that_no_row_reads_is_refused(tiny: Corpus) -> None:
    with pytest.raises(DataError, match=r"no row of taug 3 .* names a pretrained encoder, so minilm would not be used"):
        reproduce("taug", tiny, ["3"], encoder="minilm")
    with pytest.raises(DataError, match="no row of dexa 2"):
        reproduce("dexa", tiny, ["2"], rows=["bag, 5 epochs*"], encoder="minilm")


def test_the_tail_model_of_an_ensemble_has_another_seed_too() -> None:
    recipe = reseeded(Recipe.parse("parabel + ensemble(tail_model='dpr')"), 2)
    assert str(recipe) == 'parabel(seed=2) + ensemble(tail_model="dpr(seed=2)")'
