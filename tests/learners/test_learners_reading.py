"""What every learner over words makes of the settings that say how rows are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.catalogue import LEARNERS, learner_class
from longtail.data import Corpus, Dataset, LabelSet
from longtail.data.dataset import Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.reading import Reading
from longtail.plan import Facts
from longtail.recipe import Recipe
from longtail.store import load

READERS = [name for name in LEARNERS if issubclass(learner_class(name), Reading)]
OWN = {  # where the defaults are meant for more rows and labels than these
    "knn": "neighbours=15",
    "parabel": "leaf=2, branches=2",
    "bonsai": "branches=2",
    "xreg": "leaf=2, branches=2",
}


def recipe(learner: str, settings: str) -> Recipe:
    return Recipe.parse(f"{learner}({', '.join(filter(None, [OWN.get(learner), settings]))})")


def dataset(texts: list[str], targets: list[int], labels: int, vectors: np.ndarray | None = None) -> Dataset:
    names = LabelSet(ids=tuple(f"L{row}" for row in range(labels)))
    dense = np.zeros((len(texts), labels), dtype=np.float32)
    dense[np.arange(len(texts)), targets] = 1
    ids = tuple(map(str, range(len(texts))))
    data = Dataset(labels=names, targets=dense, ids=ids, texts=tuple(texts), features=vectors)
    return data.over(names.counted(data.targets))


def hits(found: Recipe, train: Dataset, test: Dataset) -> float:
    predictions = found.fit(train, train.take([])).predict(test.rows, k=1)
    return float(predictions.hits(test.targets).mean())


@pytest.fixture(scope="module")
def ordered() -> tuple[Dataset, Dataset]:
    """Four labels told apart only by the order of two words: the same words stand in all rows."""
    orders = ["red blue then old new", "blue red then old new", "red blue then new old", "blue red then new old"]
    chance = np.random.default_rng(0)

    def draw(number: int) -> Dataset:
        targets = chance.integers(0, 4, number)
        return dataset([f"{orders[target]} word{chance.integers(3)}" for target in targets], targets.tolist(), 4)

    return draw(200), draw(60)


@pytest.mark.parametrize("learner", READERS)
@pytest.mark.parametrize("settings", ["pairs=true", "pairs=true, hashed_bits=12", "pairs=true, min_rows=5"])
def test_pairs_tell_orders_apart(learner: str, settings: str, ordered: tuple[Dataset, Dataset]) -> None:
    assert hits(recipe(learner, settings), *ordered) > 0.95


@pytest.mark.parametrize("learner", READERS)
def test_single_words_do_not(learner: str, ordered: tuple[Dataset, Dataset]) -> None:
    assert hits(recipe(learner, ""), *ordered) < 0.6


@pytest.fixture(scope="module")
def embedded() -> tuple[Dataset, Dataset]:
    """Words say which pair of labels, vectors which of the pair: both are needed."""
    chance = np.random.default_rng(1)
    centres = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, -0.5]])

    def draw(number: int) -> Dataset:
        targets = chance.integers(0, 4, number)
        texts = [f"{'cat' if target < 2 else 'dog'} word{chance.integers(3)}" for target in targets]
        return dataset(texts, targets.tolist(), 4, centres[targets % 2] + chance.normal(0, 0.1, (number, 3)))

    return draw(200), draw(60)


@pytest.mark.parametrize("learner", READERS)
def test_vectors_join_the_words(learner: str, embedded: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    train, test = embedded
    assert hits(recipe(learner, "vectors=0.7"), train, test) > 0.95
    assert hits(recipe(learner, ""), train, test) < 0.75
    assert hits(recipe(learner, "vectors=1"), train, test) < 0.75
    model = recipe(learner, "vectors=0.7, pairs=true").fit(train, train.take([]))
    loaded = load(model.save(tmp_path / "model"))
    expected, found = model.predict(test.rows, 4), loaded.predict(test.rows, 4)
    assert np.array_equal(expected.indices, found.indices) and np.array_equal(expected.scores, found.scores)
    assert (found.scores >= 0).all() and np.isfinite(found.scores).all()


def test_rows_must_have_what_the_model_was_trained_on(embedded: tuple[Dataset, Dataset]) -> None:
    train, _ = embedded
    both = Recipe.parse("centroid(vectors=0.5)").fit(train, train.take([]))
    with pytest.raises(DataError, match="vectors beside them and cannot read plain texts; give rows with 3 features"):
        both.predict(["cat"])
    with pytest.raises(DataError, match="rows have 2 features, the model was trained on 3"):
        both.predict(Rows(texts=("cat",), features=np.ones((1, 2))))
    with pytest.raises(DataError, match="cannot read rows that have only features"):
        both.predict(Rows(features=np.ones((1, 3))))
    with pytest.raises(DataError, match="vector of row 1 holds a value that is not a finite number"):
        both.predict(Rows(texts=("cat", "dog"), features=np.array([[1.0, 1, 1], [1, np.inf, 1]])))
    alone = Recipe.parse("centroid(vectors=1)").fit(train, train.take([]))
    assert alone.predict(Rows(features=np.array([[1.0, -1.0, 0.5]])), k=1).answers(0)[0].id in ("L0", "L2")
    words = Recipe.parse("centroid").fit(train, train.take([]))
    assert words.predict(["cat"], k=2).indices.shape == (1, 2)  # the vectors were not asked for


def test_what_vectors_need_is_checked_before_anything_is_trained(embedded: tuple[Dataset, Dataset]) -> None:
    train, _ = embedded
    bare, wordless = replace(train, features=None), replace(train, texts=None)
    with pytest.raises(DataError, match=r"vectors=0.5 needs rows with features .* leave the setting out"):
        Recipe.parse("parabel(vectors=0.5)").check(bare)
    with pytest.raises(DataError, match=r"vectors=0.5 joins features to words, and these rows have no texts"):
        Recipe.parse("parabel(vectors=0.5)").check(wordless)
    Recipe.parse("parabel(vectors=1)").check(wordless)
    Recipe.parse("parabel").check(bare)


@pytest.mark.parametrize("learner", READERS)
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("hashed_bits=40", "hashed_bits lies between 0"),
        ("hashed_bits=9, min_rows=2", "hashed words do not have"),
        ("min_rows=0", "min_rows of at least 1"),
        ("max_columns=-1", "max_columns of at least 0"),
        ("vectors=1.5", "0 .words alone. to 1 .features alone., got 1.5"),
        ("vectors=-0.1", "got -0.1"),
        ("pairs=1", "setting 'pairs' of .* takes true or false, got 1"),
        ("pair=true", "did you mean 'pairs'"),
    ],
)
def test_wrong_values_are_refused(learner: str, settings: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        Recipe.parse(f"{learner}({settings})").learner  # noqa: B018


def test_recipes_print_only_what_was_set() -> None:
    written = "parabel(pairs=true, trees=1)"
    assert str(Recipe.parse(written)) == written
    assert str(Recipe.of(learner_class("parabel")(trees=1, pairs=True))) == written
    assert str(Recipe.of(learner_class("parabel")(2))) == "parabel(trees=2)"  # a learner's own settings stand first


def test_plans_follow_what_is_read(tiny: Corpus, embedded: tuple[Dataset, Dataset]) -> None:
    facts = Facts.of(tiny.train)
    assert Reading().seen(facts) == facts
    pairs = Reading(pairs=True).seen(facts)
    assert pairs.terms > 4 * facts.terms and pairs.terms_per_row > 2 * facts.terms_per_row
    assert Reading(pairs=True, hashed_bits=4).seen(facts).terms == 16
    assert Reading(max_columns=7).seen(facts).terms == 7
    assert Reading(min_rows=2).seen(facts).terms < facts.terms
    both = Facts.of(embedded[0])
    assert (both.own_columns, both.own_per_row) == (3, 3.0)
    assert Reading(vectors=0.5).seen(both).terms == both.terms + 3
    assert Reading(vectors=1.0).seen(both).terms_per_row == 3
    for learner in READERS:
        plain, wide = (Recipe.parse(f"{learner}{more}").plan(facts) for more in ("", "(pairs=true)"))
        assert wide.train_bytes > plain.train_bytes and wide.train_seconds > plain.train_seconds
