"""The published sets: recipes that parse, and a warning where data looks like one but has other constants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longtail.data.labels import Propensity
from longtail.data.published import BOTH, PUBLISHED, constants_note, find_published
from longtail.data.read import load
from longtail.recipe import Recipe


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.name)
def test_recipes_parse_and_sizes_agree(one: object) -> None:
    from longtail.data.published import PublishedSet

    assert isinstance(one, PublishedSet)
    for recipe in one.recipes:
        parsed = Recipe.parse(recipe)
        assert Recipe.parse(str(parsed)) == parsed
    assert one.recipes and find_published(one.name.lower().replace("-", "_")) is one
    rows = one.train + (one.test or 0 if BOTH in one.note else 0)
    rounding = 0.005 * (rows + one.labels)  # of both means, which are printed with two decimals
    if one.name == "MS MARCO":
        rounding = 0.05 * rows  # with one
    assert abs(rows * one.labels_a_row - one.labels * one.rows_a_label) <= rounding + 1


def test_recipes_have_the_settings_of_the_papers() -> None:
    aol = find_published("LF-AOL-270K")
    assert aol is not None
    for setting in ("dropout=0.6,", "learning_rate=1e-06", "head_learning_rate=0.001", "batch_size=1024", "tau=100"):
        assert setting in aol.recipes[0]
    assert f"warmup={20000 / (100 * 4097):.3f}" in aol.recipes[0]


def test_other_constants_are_warned_of() -> None:
    assert constants_note(("lf_amazontitles_131k",), 5, 5, Propensity(0.6, 2.6)) is None
    by_name = constants_note(("x", "LF-AmazonTitles-131K"), 5, 5, Propensity())
    assert by_name is not None and "named like LF-AmazonTitles-131K" in by_name and "--propensity 0.6,2.6" in by_name
    by_size = constants_note(("x",), 1_813_391, 501_070, Propensity())
    assert by_size is not None and "sized like LF-WikiTitles-500K" in by_size
    near = constants_note(("aol-prefixes",), 3_990_000, 269_000, Propensity(0.6, 2.6))  # no build matches to the row
    assert near is not None and "sized like LF-AOL-270K" in near
    assert constants_note(("x",), 3_990_000, 200_000, Propensity(0.6, 2.6)) is None
    assert constants_note(("wordnet",), 100, 50, Propensity()) is None


def test_load_warns(tmp_path: Path) -> None:
    folder = tmp_path / "LF-Wikipedia-500K"
    folder.mkdir()
    rows = [{"id": str(number), "text": f"text {number}", "labels": ["a"]} for number in range(4)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any("published with A=0.5, B=0.4" in note for note in load(folder).notes)
    assert not any("published" in note for note in load(folder, propensity=Propensity(0.5, 0.4)).notes)
    (folder / "corpus.json").write_text('{"name": "mine", "propensity": {"a": 0.5, "b": 0.4}, "held_out_labels": 2}')
    assert load(folder).held_out_labels == 2 and not any("published" in note for note in load(folder).notes)
