"""The augmentations that gandalf is compared with: mixup, labelmixup, synonyms and bow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import DataError, RecipeError
from longtail.linear.features.sparse_features import Features
from longtail.nn.extra import minilm_folder
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.seams import Augments
from longtail.tail.bow import Bow
from longtail.tail.labelmixup import LabelMixup
from longtail.tail.mixup import Mixup
from longtail.tail.synonyms import SynonymRows

METHODS = [Mixup(), LabelMixup(), SynonymRows(min_similarity=-1), Bow(threshold=0)]


def new_rows(data: Dataset) -> Dataset:
    assert data.origins is not None
    return data.take(np.flatnonzero(data.origins > 0))


@pytest.mark.parametrize("method", METHODS)
def test_given_rows_counts_and_seeds(method: Augments, tiny: Corpus) -> None:
    train = tiny.train
    after, again = method.augment(train), method.augment(train)
    number = len(train)
    assert after.texts is not None and train.texts is not None
    assert len(after) > number and after.texts[:number] == train.texts
    assert np.array_equal(after.targets[:number].toarray(), train.targets.toarray())
    assert after.labels is train.labels  # counts and propensities are those of the rows given
    assert after.texts == again.texts and np.array_equal(after.targets.data, again.targets.data)
    assert len(set(after.origin_names)) == 2
    if hasattr(method, "seed"):
        assert after.texts != replace(method, seed=1).augment(train).texts  # type: ignore[type-var]


def test_mixed_targets_are_the_weighted_sum(tiny: Corpus) -> None:
    """Every mixture's targets are lambda y + (1 - lambda) y' of the two rows whose words it has."""
    assert tiny.train.texts is not None
    words = tuple(f"row{row}" for row in range(len(tiny.train)))  # a word of its own tells which row it came from
    made = new_rows(Mixup(fraction=0.5).augment(replace(tiny.train, texts=words)))
    assert made.texts is not None and len(made) == 205
    given = tiny.train.targets.toarray()
    for text, targets in zip(made.texts, made.targets.toarray(), strict=True):
        one, other = (int(word.removeprefix("row")) for word in text.split())
        assert one != other
        differ = np.flatnonzero(given[one] != given[other])
        if len(differ) == 0:
            assert np.allclose(targets, given[one])
            continue
        part = (targets - given[other])[differ[0]] / (given[one] - given[other])[differ[0]]
        assert 0 <= part <= 1 and np.allclose(targets, part * given[one] + (1 - part) * given[other], atol=1e-6)


def test_mixup_draws_lambda_by_alpha(numbers: Corpus) -> None:
    """A small alpha draws near 0 and 1; features are mixed by the same lambda as the targets."""
    for alpha, spread in ((0.05, 0.4), (50.0, 0.0)):
        made = new_rows(Mixup(alpha=alpha).augment(numbers.train))
        values = made.targets.data[made.targets.data < 1]
        assert (np.abs(values - 0.5) > 0.3).mean() >= spread
        assert (np.abs(values - 0.5) < 0.3).mean() >= 1 - spread - 0.6
        # In this data the first columns of the features are the targets themselves.
        assert np.allclose(made.features[:, :10].toarray(), made.targets.toarray(), atol=1e-6)


def test_labelmixup_gives_the_label_all_and_the_others_a_part(tiny: Corpus) -> None:
    made = new_rows(LabelMixup().augment(tiny.train))
    assert made.texts is not None and len(made) == len(tiny.train)
    rows = made.targets.toarray()
    assert (rows.max(axis=1) == 1).all()
    parts = np.sort(rows, axis=1)[:, -2]  # rows of this data have two labels, the last ten only one
    assert 0.3 < parts[parts > 0].mean() < 0.7
    for text, targets in zip(made.texts, rows, strict=True):
        full = tiny.labels.texts[int(targets.argmax())]
        assert text.split()[-1] in full.split()  # words of the label stand behind those of the row


def test_labelmixup_leaves_out_labels_without_a_text(tiny: Corpus) -> None:
    texts = ("a apple", *("",) * 9)
    bare = tiny.train.over(replace(tiny.labels, texts=texts))
    made = new_rows(LabelMixup().augment(bare))
    assert len(made) == np.count_nonzero(tiny.train.targets.toarray()[:, 0])
    assert (made.targets.toarray()[:, 0] == 1).all()


def test_bow_targets_are_cosines_of_label_texts() -> None:
    texts = ("history of france", "history of spain", "cooking", "history of france", "")
    labels = LabelSet(ids=tuple("abcde"), texts=texts)
    dense = np.eye(5, dtype=np.float32)
    data = Dataset(labels=labels, targets=sparse.csr_array(dense), ids=tuple("12345"), texts=("x",) * 5)
    made = new_rows(Bow(threshold=0).augment(data))
    assert made.texts == texts[:4]
    small = Dataset(
        labels=labels, targets=sparse.csr_array((4, 5), dtype=np.float32), ids=tuple("1234"), texts=texts[:4]
    )
    vectors = Features.learn(small)[1].toarray().astype(np.float64)
    expected = np.zeros((4, 5))
    expected[:, :4] = vectors @ vectors.T
    assert np.allclose(made.targets.toarray(), expected, atol=1e-6) and (made.targets.diagonal() == 1).all()
    nearest = new_rows(Bow(threshold=0, neighbours=1).augment(data)).targets.toarray()
    assert nearest[0].tolist() == [1, 0, 0, 1, 0] and np.count_nonzero(nearest[1]) == 2 and nearest[2].sum() == 1
    assert nearest[3].tolist() == [1, 0, 0, 1, 0]  # an equal text stands before it, and it keeps its own place
    assert new_rows(Bow(neighbours=0).augment(data)).targets.toarray().tolist() == np.eye(5)[:4].tolist()


def test_synonyms_keep_targets_and_change_words(tiny: Corpus) -> None:
    made = SynonymRows(min_similarity=-1, fraction=0.5, replace_probability=0).augment(tiny.train)
    new = new_rows(made)
    assert tiny.train.texts is not None and new.texts is not None and len(new) == 205
    known = {
        (text, targets.tobytes()) for text, targets in zip(tiny.train.texts, tiny.train.targets.toarray(), strict=True)
    }
    words = {word for text in tiny.train.texts for word in text.split()}
    for text, targets in zip(new.texts, new.targets.toarray(), strict=True):
        assert set(text.split()) <= words
        same = {tuple(old.split()) for old, label in known if label == targets.tobytes()}
        assert any(
            len(old) == len(text.split()) and sum(a != b for a, b in zip(old, text.split(), strict=True)) == 1
            for old in same
        )


def test_synonyms_without_near_words_add_nothing(tiny: Corpus) -> None:
    assert len(SynonymRows(min_similarity=1.0).augment(tiny.train)) == len(tiny.train)


@pytest.mark.skipif(minilm_folder() is None, reason="the package with all-MiniLM-L6-v2 is not installed")
def test_synonyms_of_an_encoder() -> None:
    from longtail.nn.encoders.pretrained_words import word_table

    words = ("king", "queen", "monarch", "bicycle", "qzxv", "Straße")
    known, vectors = word_table("minilm", words)
    assert known.tolist() == [0, 1, 2, 3]  # words of more than one token have no vector of their own
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert cosines[0, 1] > 0.4 > cosines[0, 3]


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ("mixup(alpha=0)", "alpha=0"),
        ("labelmixup(fraction=0)", "fraction=0"),
        ("labelmixup(fraction=1e30)", "a fraction above 0 to 100"),
        ("mixup(fraction=1e30)", "a fraction above 0 to 100"),
        ("synonyms(replace_probability=2)", "replace_probability=2"),
        ("bow(threshold=1)", "threshold=1"),
    ],
)
def test_settings_that_cannot_be(recipe: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        Recipe.parse(f"centroid + {recipe}").tail  # noqa: B018


def test_what_they_need_of_the_data(numbers: Corpus, tiny: Corpus) -> None:
    with pytest.raises(DataError, match="synonyms needs documents with texts"):
        Recipe.parse("knn + synonyms").fit(numbers.train, numbers.valid)
    bare = replace(tiny.labels, texts=("",) * 10)
    for method in ("labelmixup", "bow"):
        with pytest.raises(DataError, match=f"{method} needs labels with texts"):
            Recipe.parse(f"knn + {method}").fit(tiny.train.over(bare), tiny.valid.over(bare))


@pytest.mark.parametrize("method", ["mixup", "labelmixup", "bow"])
def test_features_without_texts(method: str, numbers: Corpus) -> None:
    model = Recipe.parse(f"parabel(max_leaf_labels=3, branches=2) + {method}").fit(numbers.train, numbers.valid)
    assert model.predict(numbers.test.rows, 2).hits(numbers.test.targets)[:, 0].mean() > 0.9


@pytest.mark.parametrize("method", ["mixup", "labelmixup", "synonyms", "bow"])
def test_plans_count_the_rows_that_are_added(method: str, tiny: Corpus) -> None:
    facts = replace(DataFacts.of(tiny.train), rows=50_000, labels=50_000, positives=100_000)
    plain, more = Recipe.parse("parabel").plan(facts), Recipe.parse(f"parabel + {method}").plan(facts)
    assert 1.9 * plain.train_seconds < more.train_seconds and more.train_bytes > plain.train_bytes
    assert more.model_bytes == plain.model_bytes
