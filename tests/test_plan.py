"""What `longtail plan` foretells, against what recipes leave behind and against each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import longtail
from longtail.data.corpus import Corpus
from longtail.plan import DataFacts, Plan
from longtail.recipe import Recipe
from longtail.store import size_on_disk

BOOKS = DataFacts(
    rows=46_030,
    labels=17_473,
    positives=221_149,
    terms=41_407,
    terms_per_row=11.5,
    shared_terms=0.84,
    mean_terms=1_148_158,
    terms_per_label=3.4,
    characters=3_708_185,
)


def plan(recipe: str, facts: DataFacts = BOOKS) -> Plan:
    return Recipe.parse(recipe).plan(facts)


@pytest.fixture(scope="module")
def wordnet() -> Corpus:
    return longtail.load("wordnet", test_share=0.1)


@pytest.mark.parametrize("recipe", ["centroid", "knn", "parabel(trees=1)", "centroid + ranknet(folds=2)"])
def test_models_are_as_large_as_planned(recipe: str, wordnet: Corpus, tmp_path: Path) -> None:
    train = wordnet.train.take(range(0, len(wordnet.train), 2))
    made = Recipe.parse(recipe)
    size = size_on_disk(made.fit(train, wordnet.valid.take(range(200))).save(tmp_path / "model"))
    assert made.plan(DataFacts.of(train)).model_bytes == pytest.approx(size, rel=0.25)


def test_a_smaller_cut_keeps_more_weights() -> None:
    for learner in ("parabel", "bonsai", "dismec"):
        sizes = [plan(f"{learner}(weight_threshold={cut})").model_bytes for cut in (0, 0.001, 0.01, 0.1, 0.2)]
        assert sizes == sorted(sizes, reverse=True) and sizes[1] > 2 * sizes[3], learner


def test_trees_add_weights_and_nothing_else() -> None:
    one, two, three = (plan(f"parabel(trees={trees})") for trees in (1, 2, 3))
    each = three.model_bytes - two.model_bytes
    assert two.model_bytes - one.model_bytes == pytest.approx(each, abs=2)
    assert three.train_bytes - two.train_bytes == pytest.approx(each, abs=2)


def test_the_peak_covers_every_step_of_its_own() -> None:
    for learner in ("parabel", "bonsai", "xreg", "dismec", "proxml", "centroid", "fastxml", "pfastrexml", "knn"):
        planned = plan(learner)
        assert max(size for _, size in planned.steps) <= planned.train_bytes, learner
        assert planned.train_bytes >= BOOKS.reading_bytes, learner


def test_threads_have_their_own_scratch_space(monkeypatch: pytest.MonkeyPatch) -> None:
    for learner in ("dismec", "proxml"):
        monkeypatch.setenv("LONGTAIL_THREADS", "1")
        one = plan(learner).train_bytes
        monkeypatch.setenv("LONGTAIL_THREADS", "8")
        assert plan(learner).train_bytes > 1.5 * one, learner


def test_folds_are_trained_too() -> None:
    plain, three, five = plan("parabel"), plan("parabel + ranknet"), plan("parabel + ranknet(folds=5)")
    assert three.train_seconds > 2.9 * plain.train_seconds  # itself and three times on two thirds
    assert five.train_seconds > three.train_seconds + 1.9 * plain.train_seconds
    assert three.train_bytes > plain.train_bytes  # the model stays while folds are trained
    assert plan("parabel + ranknet(max_examples=1000)").train_bytes < three.train_bytes
    untrained = plan("parabel + ranknet(epochs=0)")
    assert untrained.train_seconds == plain.train_seconds
    assert untrained.model_bytes == plain.model_bytes + 8 * 64 * BOOKS.labels
    wide = plan("parabel + ranknet(bottleneck=128)")
    assert wide.model_bytes - three.model_bytes == 8 * 64 * BOOKS.labels


def test_methods_are_planned_in_their_order() -> None:
    assert plan("parabel + rerank") == plan("parabel")
    first, second = plan("knn + centroid + ranknet"), plan("knn + ranknet + centroid")
    assert first.model_bytes == second.model_bytes
    assert first.train_seconds > second.train_seconds  # the folds of the first learn means as well
    apart = plan("parabel + taug")
    assert plan("parabel + taug + ranknet").train_seconds > 2.9 * apart.train_seconds
    assert plan("parabel + centroid").model_bytes > plan("parabel").model_bytes + 8 * BOOKS.mean_terms


def test_nothing_at_all_is_planned_without_error() -> None:
    nothing = replace(BOOKS, rows=0, labels=0, positives=0, terms=1, terms_per_row=0.0, mean_terms=1, characters=0)
    for recipe in ("parabel + ranknet", "bonsai", "xreg + taug", "dismec", "proxml", "fastxml", "pfastrexml", "knn"):
        planned = plan(recipe, nothing)
        assert planned.train_bytes > 0 and planned.train_seconds >= 0, recipe


def test_labels_without_rows_keep_next_to_nothing() -> None:
    half = replace(BOOKS, labels=2 * BOOKS.labels, empty=0.5)
    more = plan("parabel", half).model_bytes - plan("parabel").model_bytes
    assert 0 < more < 100 * BOOKS.labels
