"""The settings that all learners over words share: how examples are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail.catalogue import LEARNERS, learner_class
from longtail.data import Corpus, Dataset, LabelSet
from longtail.data.dataset import Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.store import load

LEARNERS_OVER_WORDS = [name for name in LEARNERS if issubclass(learner_class(name), TfidfSettings)]
OWN = {  # where the defaults are meant for more rows and labels than these
    "knn": "neighbours=15",
    "parabel": "max_leaf_labels=2, branches=2",
    "bonsai": "branches=2",
    "xreg": "max_leaf_labels=2, branches=2",
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
    """Four labels that differ only in the order of two words: all rows have the same words."""
    orders = ["red blue then old new", "blue red then old new", "red blue then new old", "blue red then new old"]
    rng = np.random.default_rng(0)

    def draw(number: int) -> Dataset:
        targets = rng.integers(0, 4, number)
        return dataset([f"{orders[target]} word{rng.integers(3)}" for target in targets], targets.tolist(), 4)

    return draw(200), draw(60)


@pytest.mark.parametrize("learner", LEARNERS_OVER_WORDS)
@pytest.mark.parametrize("settings", ["bigrams=true", "bigrams=true, hash_bits=12", "bigrams=true, min_df=5"])
def test_pairs_tell_orders_apart(learner: str, settings: str, ordered: tuple[Dataset, Dataset]) -> None:
    assert hits(recipe(learner, settings), *ordered) > 0.95


@pytest.mark.parametrize("learner", LEARNERS_OVER_WORDS)
def test_single_words_do_not(learner: str, ordered: tuple[Dataset, Dataset]) -> None:
    assert hits(recipe(learner, ""), *ordered) < 0.6


@pytest.fixture(scope="module")
def embedded() -> tuple[Dataset, Dataset]:
    """Words say which pair of labels, vectors which of the pair: both are needed."""
    rng = np.random.default_rng(1)
    centres = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, -0.5]])

    def draw(number: int) -> Dataset:
        targets = rng.integers(0, 4, number)
        texts = [f"{'cat' if target < 2 else 'dog'} word{rng.integers(3)}" for target in targets]
        return dataset(texts, targets.tolist(), 4, centres[targets % 2] + rng.normal(0, 0.1, (number, 3)))

    return draw(200), draw(60)


@pytest.mark.parametrize("learner", LEARNERS_OVER_WORDS)
def test_vectors_join_the_words(learner: str, embedded: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    train, test = embedded
    assert hits(recipe(learner, "feature_weight=0.7"), train, test) > 0.95
    assert hits(recipe(learner, ""), train, test) < 0.75
    assert hits(recipe(learner, "feature_weight=1"), train, test) < 0.75
    model = recipe(learner, "feature_weight=0.7, bigrams=true").fit(train, train.take([]))
    loaded = load(model.save(tmp_path / "model"))
    expected, found = model.predict(test.rows, 4), loaded.predict(test.rows, 4)
    assert np.array_equal(expected.indices, found.indices) and np.array_equal(expected.scores, found.scores)
    assert (found.scores >= 0).all() and np.isfinite(found.scores).all()


def test_rows_must_have_what_the_model_was_trained_on(embedded: tuple[Dataset, Dataset]) -> None:
    train, _ = embedded
    both = Recipe.parse("centroid(feature_weight=0.5)").fit(train, train.take([]))
    with pytest.raises(DataError, match="cannot read plain texts; give documents with 3 features"):
        both.predict(["cat"])
    with pytest.raises(DataError, match="the examples have 2 features, the model was trained on 3"):
        both.predict(Rows(texts=("cat",), features=np.ones((1, 2))))
    with pytest.raises(DataError, match="cannot read examples that have only features"):
        both.predict(Rows(features=np.ones((1, 3))))
    with pytest.raises(DataError, match="vector of example 1 has a value that is not a finite number"):
        both.predict(Rows(texts=("cat", "dog"), features=np.array([[1.0, 1, 1], [1, np.inf, 1]])))
    alone = Recipe.parse("centroid(feature_weight=1)").fit(train, train.take([]))
    assert alone.predict(Rows(features=np.array([[1.0, -1.0, 0.5]])), k=1).answers(0)[0].id in ("L0", "L2")
    words = Recipe.parse("centroid").fit(train, train.take([]))
    assert words.predict(["cat"], k=2).indices.shape == (1, 2)  # the vectors were not asked for


def test_what_vectors_need_is_checked_before_anything_is_trained(embedded: tuple[Dataset, Dataset]) -> None:
    train, _ = embedded
    bare, wordless = replace(train, features=None), replace(train, texts=None)
    with pytest.raises(DataError, match=r"feature_weight=0.5 needs examples with features .* leave the setting out"):
        Recipe.parse("parabel(feature_weight=0.5)").check(bare)
    with pytest.raises(
        DataError, match=r"feature_weight=0.5 joins features to words, and these examples have no texts"
    ):
        Recipe.parse("parabel(feature_weight=0.5)").check(wordless)
    Recipe.parse("parabel(feature_weight=1)").check(wordless)
    Recipe.parse("parabel").check(bare)


@pytest.mark.parametrize("learner", LEARNERS_OVER_WORDS)
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("hash_bits=40", "hash_bits is between 0"),
        ("hash_bits=9, min_df=2", "hashed words do not have"),
        ("min_df=0", "min_df is at least 1 .* got min_df=0"),
        ("max_features=-1", "max_features at least 0 .*max_features=-1"),
        ("feature_weight=1.5", "0 .words alone. to 1 .features alone., got 1.5"),
        ("feature_weight=-0.1", "got -0.1"),
        ("bigrams=1", "setting 'bigrams' of .* takes true or false, got 1"),
        ("bigram=true", "did you mean 'bigrams'"),
    ],
)
def test_wrong_values_are_refused(learner: str, settings: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        Recipe.parse(f"{learner}({settings})").learner  # noqa: B018


def test_recipes_print_only_what_was_set() -> None:
    written = "parabel(bigrams=true, trees=1)"
    assert str(Recipe.parse(written)) == written
    assert str(Recipe.of(learner_class("parabel")(trees=1, bigrams=True))) == written
    assert str(Recipe.of(learner_class("parabel")(2))) == "parabel(trees=2)"  # a learner's own settings come first


def test_plans_follow_what_is_read(tiny: Corpus, embedded: tuple[Dataset, Dataset]) -> None:
    facts = DataFacts.of(tiny.train)
    assert TfidfSettings().seen(facts) == facts
    pairs = TfidfSettings(bigrams=True).seen(facts)
    assert pairs.terms > 4 * facts.terms and pairs.terms_per_row > 2 * facts.terms_per_row
    assert TfidfSettings(bigrams=True, hash_bits=4).seen(facts).terms == 16
    assert TfidfSettings(max_features=7).seen(facts).terms == 7
    assert TfidfSettings(min_df=2).seen(facts).terms < facts.terms
    both = DataFacts.of(embedded[0])
    assert (both.own_columns, both.own_per_row) == (3, 3.0)
    assert TfidfSettings(feature_weight=0.5).seen(both).terms == both.terms + 3
    assert TfidfSettings(feature_weight=1.0).seen(both).terms_per_row == 3
    for learner in LEARNERS_OVER_WORDS:
        plain, wide = (Recipe.parse(f"{learner}{more}").plan(facts) for more in ("", "(bigrams=true)"))
        assert wide.train_bytes > plain.train_bytes and wide.train_seconds > plain.train_seconds


def test_further_names_of_labels_are_read_wherever_their_texts_are() -> None:
    labels = LabelSet(ids=("a", "b", "c"), texts=("car", "boat", ""), names=(("automobile", "motor"), (), ("plane",)))
    assert labels.texts_with_names == ("car; automobile; motor", "boat", "plane")
    assert replace(labels, texts=("car", " \t", "")).without_text == (1, 2)
    plain = replace(labels, names=())
    assert plain.texts_with_names is plain.texts
    texts = ("car on the road", "boat on the lake", "plane in the sky")
    data = Dataset(labels=labels, targets=np.eye(3, dtype=np.float32), ids=("1", "2", "3"), texts=texts)
    data = data.over(labels.counted(data.targets))
    asked = Rows(texts=("an automobile", "a motor"))
    for written in ("bm25", "parabel(max_leaf_labels=2, branches=2) + rows"):
        model = Recipe.parse(written).fit(data, data.take([])).with_doubts(data, data.take([]))
        assert model.predict(asked, 1).indices.ravel().tolist() == [0, 0], written
        assert model.unsure(["automobile", "zzz"])[0] is None
