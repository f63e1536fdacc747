"""Model cards: every saved model has one, it tells the truth, and the model does not depend on it."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.data import Corpus, LabelSet
from longtail.metrics import evaluate
from longtail.model import Model
from longtail.nn import extra
from longtail.recipe import Recipe
from longtail.report.card import Card
from longtail.report.card_text import CardFacts
from longtail.store import CARD_FILES, load, save


@pytest.fixture(scope="module")
def model(tiny: Corpus) -> Model:
    return Recipe.parse("centroid + rerank(strength=0.5)").fit(tiny.train, tiny.valid)


@pytest.fixture(scope="module")
def card(tiny: Corpus, model: Model) -> Card:
    measures = evaluate(model.predict(tiny.valid.rows, 5), tiny.valid)
    facts = CardFacts("tiny", 410, 60, 1.25, 250_000_000, "longtail train tiny 'centroid'")
    return Card(facts).with_measures("valid", measures)


def test_a_saved_model_has_a_card_of_what_it_knows(model: Model, tmp_path: Path) -> None:
    text = (model.save(tmp_path / "model") / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: longtail\n")
    for line in (
        "# `centroid + rerank(strength=0.5)`",
        "| `+ rerank(strength=0.5)` | score x inverse propensity",
        "| labels | 10 |",
        "| training examples in the data set | 410 |",
        "Not measured.",
        "Not recorded.",
        'longtail.load_model("path/of/this/folder")',
        "](card.svg)",
        "@misc{submission2020improving,",
        "@incollection{rocchio1971relevance,",
    ):
        assert line in text, line
    assert "jain2016extreme" not in text  # only the papers of these parts


def test_figures_and_cost_are_written_as_they_were_measured(model: Model, card: Card, tmp_path: Path) -> None:
    path = save(model, tmp_path / "model", card=card)
    text = (path / "README.md").read_text()
    measures = card.facts.measured["valid"]
    assert f"| P | {measures['P@1']:.1f} | {measures['P@3']:.1f} | {measures['P@5']:.1f} |" in text
    first = measures.bins[0]
    assert f"| {first.labels} | {first.contribution:.1f} | {first.recall:.1f} | {first.coverage:.1f} |" in text
    assert "60 examples of the valid split" in text and "may have chosen settings or calibrated" in text
    assert "1.2 s to train, at most 250 MB" in text
    assert "longtail train tiny 'centroid'" in text
    assert Card.read(path) == card


def test_the_card_prefers_the_test_split_to_valid(model: Model, card: Card, tiny: Corpus) -> None:
    measures = evaluate(model.predict(tiny.test.rows, 5), tiny.test)
    text = card.with_measures("test", measures).files(model)["README.md"]
    assert "60 examples of the test split" in text and "may have chosen" not in text
    train = Card().with_measures("train", measures).files(model)["README.md"]
    assert "do not tell how it does on new documents" in train


def test_the_model_does_not_depend_on_its_card(model: Model, card: Card, tiny: Corpus, tmp_path: Path) -> None:
    path = save(model, tmp_path / "model", card=card)
    before = model.predict(tiny.test.rows, 3)
    (path / "README.md").write_text("rewritten by hand")
    (path / "card.json").write_text('{"measured": 7}')
    (path / "card.svg").unlink()
    assert np.array_equal(load(path).predict(tiny.test.rows, 3).indices, before.indices)
    assert Card.read(path) == Card()
    assert save(model, path, overwrite=True) == path  # a card is no stranger's file
    assert set(CARD_FILES) <= {file.name for file in path.iterdir()}


@pytest.mark.parametrize("broken", ["", "[", "null", "[1]", '{"measured": {}, "more": 1}', '{"measured": {"a": 1}}'])
def test_a_broken_card_counts_as_none(broken: str, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(broken)
    assert Card.read(tmp_path) == Card()


def test_the_picture_stands_alone(model: Model, card: Card) -> None:
    files = card.files(model)
    root = ElementTree.fromstring(files["card.svg"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    bars = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    bins = [one for one in card.facts.measured["valid"].bins if one.positives]
    assert len(bars) == 1 + len(bins)
    assert f"recall @5 {bins[0].recall:.1f}%" in str(bars[1])
    for word in ("script", "href", "url("):
        assert word not in files["card.svg"]


def test_names_from_outside_stay_words(model: Model) -> None:
    hostile = "<img src=x> | ```\n# not a heading [a](b) \x1b[31m"
    text = Card(CardFacts(data=hostile, train_seconds=1.0, command=hostile)).files(model)["README.md"]
    assert "\n# not" not in text and "\x1b" not in text
    assert "\\<img src=x\\>" in text
    assert text.count("```") % 2 == 0


def test_odd_label_sets_have_a_card_too(model: Model) -> None:
    for labels in (LabelSet(ids=("a",)), LabelSet(ids=("a", "b"), counts=np.array([0, 1]), train_rows=1)):
        files = Card().files(Model("bm25", labels, model.scorer))
        ElementTree.fromstring(files["card.svg"])
        assert "are found by their texts alone" in files["README.md"]
        json.loads(files["card.json"])


@pytest.mark.parametrize(
    ("recipe", "ending"), [("centroid", "; `+ calibrate` lowers"), ("centroid + calibrate", ", with `")]
)
def test_calibrate_is_not_advised_to_those_who_have_it(tiny: Corpus, recipe: str, ending: str) -> None:
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    text = (
        Card().with_measures("valid", evaluate(model.predict(tiny.valid.rows, 5), tiny.valid)).files(model)["README.md"]
    )
    assert "points (ECE@5 on valid)" + ending in text


def test_labels_that_stand_in_no_row_have_no_recall(model: Model, card: Card) -> None:
    measures = card.facts.measured["valid"]
    none = replace(measures.bins[-1], positives=0, contribution=0.0, recall=0.0, coverage=0.0)
    text = Card().with_measures("valid", replace(measures, bins=(none,))).files(model)["README.md"]
    assert f"| {none.labels} | 0.0 | – | – |" in text


@pytest.mark.parametrize("here", [None, Path("weights")])
@pytest.mark.parametrize(("encoder", "name"), [("bag", "`bag`"), ("tiny", "`minilm` (all-MiniLM-L6-v2)")])
def test_the_encoder_that_auto_chose_is_named(
    tiny: Corpus, here: Path | None, encoder: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever "auto" would find on the machine where the card is written."""
    model = Recipe.parse(f"dpr(encoder='{encoder}', dimension=8, epochs=1, batch_size=32)").fit(tiny.train, tiny.valid)
    monkeypatch.setattr(extra, "minilm_folder", lambda: here)
    assert f"Encoder: `{encoder}`; a " in Card().files(model)["README.md"]
    text = Card().files(replace(model, recipe="dpr(dimension=8)"))["README.md"]
    assert f"Encoder: {name}, chosen by `auto`; a " in text
    assert ("Task-Agnostic Compression" in text) == (encoder == "tiny")


def test_the_encoders_of_joined_models_are_named(tiny: Corpus) -> None:
    inner = 'dpr(encoder="bag", dimension=8, epochs=1, batch_size=32)'
    model = Recipe.parse(f"centroid + ensemble(tail_model='{inner}')").fit(tiny.train, tiny.valid)
    assert "Encoder: `bag`; a mean of word vectors, " in Card().files(model)["README.md"]
    assert "Encoder" not in Card().files(Recipe.parse("centroid").fit(tiny.train, tiny.valid))["README.md"]


def _edited(path: Path, field: str, value: str) -> None:
    """Another value of a field, as text: JSON has numbers that Python's writer would not write."""
    facts = json.loads((path / "card.json").read_text())
    place: object = facts
    *steps, last = field.split(".")
    for step in steps:
        place = place[int(step) if step.isdigit() else step]  # type: ignore[index]
    assert last in place  # type: ignore[operator]
    place[last] = "HERE"  # type: ignore[index]
    (path / "card.json").write_text(json.dumps(facts).replace('"HERE"', value))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("data", "5"), ("train_seconds", '"long"'), ("train_rows", "1e999"), ("peak_bytes", "-1"), ("command", "[]"),
        ("measured", "[1]"), ("measured.valid", "null"), ("measured.valid.rows", "1e999"),
        ("measured.valid.values", '{"P@1": "x"}'), ("measured.valid.values", '{"P@1": 1, "P": 2}'),
        ("measured.valid.values", "{}"), ("measured.valid.values", '{"P@1": NaN}'),
        ("measured.valid.bins", '[{"name": 1}]'), ("measured.valid.bins.0.high", '"x"'),
        ("measured.valid.propensity.a", "0"), ("measured.valid.notes", "7"), ("refit", "2"),
        ("how_found", "[" * 900 + "]" * 900), ("measured", "[" * 100_000),
    ],
)  # fmt: skip
def test_a_card_that_was_edited_wrongly_counts_as_empty(
    field: str, value: str, model: Model, card: Card, tmp_path: Path
) -> None:
    """Whoever made the folder: evaluating a model writes its card anew from what the old one says."""
    path = model.save(tmp_path / "model", card=card)
    assert Card.read(path) == card
    _edited(path, field, value)
    assert Card.read(path) == Card()


def test_a_card_that_is_no_file_counts_as_empty(model: Model, tmp_path: Path) -> None:
    path = model.save(tmp_path / "model")
    (path / "card.json").unlink()
    os.mkfifo(path / "card.json")
    assert Card.read(path) == Card()
    (path / "card.json").unlink()
    (path / "card.json").symlink_to("/dev/zero")
    assert Card.read(path) == Card()
