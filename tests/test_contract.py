"""What every learner and every pair of learner and tail method must do, on data whose right answer is obvious."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import DataError
from longtail.model import Model
from longtail.plan import Facts
from longtail.recipe import Recipe
from longtail.seams import DATA_NEEDS, OFFERS, seams_of
from longtail.store import load

SETTINGS = {  # where the defaults are meant for more rows and labels than these
    "knn": "knn(neighbours=5)",
    "parabel": "parabel(leaf=3, branches=2)",
    "bonsai": "bonsai(branches=3)",
    "xreg": "xreg(leaf=3, branches=2)",
    "taug": "taug(head_share=0.3)",
    "mixup": "mixup(share=0.2)",
    "labelmixup": "labelmixup(share=0.2)",
    "synonyms": "synonyms(share=0.2)",
    "ensemble": "ensemble(encoder=\"dpr(encoder='bag', dimension=32, batch=64, epochs=2)\")",
    "lever": "lever(teacher=\"dpr(encoder='bag', dimension=32, batch=64, epochs=2)\")",
    "astec": "astec(dimension=64, batch=64, epochs=5, rate=0.05)",
    "decaf": "decaf(dimension=64, batch=64, epochs=5, rate=0.05)",
    "eclare": "eclare(dimension=64, batch=64, epochs=5, rate=0.05)",
    "inceptionxml": "inceptionxml(dimension=64, places=4, cluster=2, batch=64, epochs=8, rate=0.02)",
    "inceptionxml-lf": "inceptionxml-lf(dimension=64, places=4, cluster=2, batch=64, epochs=8, rate=0.02)",
    "ance": 'ance(encoder="bag", dimension=64, batch=64, epochs=5, shortlist=4)',
    "depsl": 'depsl(encoder="bag", dimension=64, batch=64, epochs=5)',
    "dexml": 'dexml(encoder="bag", dimension=64, batch=64, epochs=5)',
    "dpr": 'dpr(encoder="bag", dimension=64, batch=64, epochs=5)',
    "ngame": 'ngame(encoder="bag", dimension=64, batch=64, epochs=5, classifier_epochs=5)',
    "renee": 'renee(encoder="bag", dimension=64, batch=32, epochs=5, dropout=0.3)',
    "siamesexml": "siamesexml(dimension=64, batch=5, epochs=20, classifier_epochs=5)",
    "unidec": 'unidec(encoder="bag", dimension=64, batch=64, epochs=5)',
}
RECIPES = [SETTINGS.get(name, name) for name in LEARNERS]
RECIPES += [
    f"{SETTINGS.get(learner, learner)} + {SETTINGS.get(method, method)}"
    for learner in LEARNERS
    for method in TAIL_METHODS
    if tail_class(method).needs <= learner_class(learner).offers
]
JOINT = ("ranknet",)  # what they make of a candidate depends on the other candidates of its row
SOFT = [name for name in LEARNERS if "soft_targets" in learner_class(name).offers]


def fit(recipe: str, corpus: Corpus) -> Model:
    return Recipe.parse(recipe).fit(corpus.train, corpus.valid)


@pytest.mark.parametrize("recipe", RECIPES)
def test_finds_what_the_text_names(recipe: str, tiny: Corpus) -> None:
    model = fit(recipe, tiny)
    predictions = model.predict(tiny.test.rows, k=2)
    assert predictions.hits(tiny.test.targets)[:, 0].mean() > 0.9


@pytest.mark.parametrize("learner", LEARNERS)
def test_works_on_features_without_texts(learner: str, numbers: Corpus) -> None:
    if "texts" in learner_class(learner).data_needs:
        with pytest.raises(DataError, match=f"{learner} needs rows with texts"):
            fit(learner, numbers)
        return
    model = fit(SETTINGS.get(learner, learner), numbers)
    predictions = model.predict(numbers.test.rows, k=2)
    assert predictions.hits(numbers.test.targets)[:, 0].mean() > 0.9
    with pytest.raises(DataError, match=r"features|feature files"):
        model.predict(["a text"])


@pytest.mark.parametrize("learner", LEARNERS)
def test_classifier_rows_have_a_length_where_they_are_offered(learner: str, tiny: Corpus) -> None:
    norms = fit(SETTINGS.get(learner, learner), tiny).row_norms()
    if "classifier_rows" in learner_class(learner).offers:
        assert norms is not None and norms.shape == (10,) and (norms[np.isfinite(norms)] > 0).all()
    else:
        assert norms is None


@pytest.mark.parametrize("recipe", RECIPES)
def test_saved_and_loaded_predicts_the_same(recipe: str, tiny: Corpus, tmp_path: Path) -> None:
    model = fit(recipe, tiny)
    before = model.predict(tiny.test.rows, k=5)
    again = load(model.save(tmp_path / "model"))
    after = again.predict(tiny.test.rows, k=5)
    assert np.array_equal(before.indices, after.indices)
    assert np.array_equal(before.scores, after.scores)
    assert again.recipe == recipe
    assert again.labels == model.labels


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_data_gives_the_same_model(recipe: str, tiny: Corpus) -> None:
    first, second = fit(recipe, tiny).scorer.state(), fit(recipe, tiny).scorer.state()
    assert first.settings == second.settings
    assert first.tensors.keys() == second.tensors.keys()
    assert all(np.array_equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


@pytest.mark.parametrize("recipe", RECIPES)
def test_ranking_is_in_order_and_does_not_depend_on_the_batch(recipe: str, tiny: Corpus) -> None:
    model = fit(recipe, tiny)
    whole = model.predict(tiny.test.rows, k=4)
    for row in range(5):
        alone = model.predict(tiny.test.rows[row : row + 1], k=4)
        assert np.array_equal(alone.indices[0], whole.indices[row])
    scores = np.where(whole.indices >= 0, whole.scores, -1)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (whole.scores[whole.indices >= 0] > 0).all()
    tied = (np.diff(scores, axis=1) == 0) & (whole.indices[:, 1:] >= 0)
    assert (np.diff(whole.indices, axis=1)[tied] > 0).all()
    shorter = model.predict(tiny.test.rows, k=2)
    assert np.array_equal(shorter.indices, whole.indices[:, :2])


@pytest.mark.parametrize("recipe", RECIPES)
def test_excluded_labels_leave_before_the_top_k(recipe: str, tiny: Corpus) -> None:
    model = fit(recipe, tiny)
    free = model.predict(tiny.test.rows, k=3)
    first = free.indices[:, :1]
    kept = first[:, 0] >= 0
    banned = sparse.csr_array(
        (np.ones(kept.sum(), bool), first[kept, 0], np.concatenate([[0], np.cumsum(kept)])), tiny.test.targets.shape
    )
    predictions = model.predict(tiny.test.rows, k=2, excluded=banned)
    assert not (predictions.indices == first)[kept].any()
    if not any(method in recipe for method in JOINT):
        assert np.array_equal(predictions.indices, free.indices[:, 1:])


@pytest.mark.parametrize("recipe", RECIPES)
def test_odd_rows_and_large_k(recipe: str, tiny: Corpus) -> None:
    model = fit(recipe, tiny)
    predictions = model.predict(["", "words nobody has seen", "\x00 \ud800 ☃ apple"], k=50)
    assert predictions.indices.shape == (3, 10)  # there are no more; a row without known words may get the likely ones
    assert predictions.indices[2, 0] == 0
    assert model.predict([], k=3).indices.shape == (0, 3)
    with pytest.raises(DataError, match="at least 1"):
        model.predict(["apple"], k=0)
    with pytest.raises(DataError, match="brackets"):
        model.predict("apple")


@pytest.mark.parametrize("learner", SOFT)
def test_half_a_target_sits_between_none_and_all(learner: str) -> None:
    """Label b has one sure row and shares another with label a; the more of it, the higher b scores there."""
    labels = LabelSet(ids=("a", "b"), texts=("one", "two"))
    recipe = re.sub(r"\bepochs=\d+", "epochs=60", SETTINGS.get(learner, learner))  # three rows are one step an epoch

    def score(weight: float) -> float:
        dense = np.array([[1, weight], [0, 1], [1, 0]], dtype=np.float32)
        data = Dataset(
            labels=labels,
            targets=sparse.csr_array(dense),
            ids=("0", "1", "2"),
            texts=("shared words here", "something else entirely", "shared nothing"),
        )
        train = data.over(labels.counted(data.targets))
        model = Recipe.parse(recipe).fit(train, train.take([]))
        predictions = model.predict(["shared words here"], k=2)
        found = dict(zip(predictions.indices[0].tolist(), predictions.scores[0].tolist(), strict=True))
        return found.get(1, 0.0)

    assert score(0.0) < score(0.5) < score(1.0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_missing_label_texts_are_told_before_training(learner: str, tiny: Corpus) -> None:
    bare = replace(tiny.labels, texts=("",) * 10)
    train = tiny.train.over(bare)
    if "label_texts" in learner_class(learner).data_needs:
        with pytest.raises(DataError, match=f"{learner} needs labels with texts") as caught:
            Recipe.parse(learner).fit(train, tiny.valid.over(bare))
        assert ("(ids_as_text=true)" in str(caught.value)) == hasattr(learner_class(learner), "ids_as_text")
    else:
        Recipe.parse(SETTINGS.get(learner, learner)).fit(train, tiny.valid.over(bare))


@pytest.mark.parametrize("learner", LEARNERS)
def test_plans_grow_with_the_data(learner: str, tiny: Corpus) -> None:
    small = Facts.of(tiny.train)
    large = replace(
        small, rows=small.rows * 100, labels=small.labels * 100, positives=small.positives * 100, terms=small.terms * 9
    )
    one, other = Recipe.parse(learner).plan(small), Recipe.parse(learner).plan(large)
    assert 0 < one.train_bytes < other.train_bytes
    assert 0 < one.model_bytes < other.model_bytes
    assert 0 < one.train_seconds < other.train_seconds


def test_declarations_use_known_words() -> None:
    for name in LEARNERS:
        kind = learner_class(name)
        assert kind.offers <= set(OFFERS), name
        assert kind.data_needs <= set(DATA_NEEDS), name
        assert kind.summary and kind.__doc__, name
    for name in TAIL_METHODS:
        kind = tail_class(name)
        assert kind.needs <= set(OFFERS), name
        assert kind.data_needs <= set(DATA_NEEDS), name
        assert seams_of(kind), f"{name} acts on no seam"
        for heading in ("Paper:", "Needs:", "Costs:", "Prefer instead:", "Example:"):
            assert heading in (kind.__doc__ or ""), (name, heading)


def test_every_method_file_is_in_the_catalogue() -> None:
    import longtail.learners
    import longtail.tail

    for package, names in ((longtail.learners, LEARNERS), (longtail.tail, TAIL_METHODS)):
        files = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {"__init__"}
        assert files == {home.split(":")[0].rsplit(".", 1)[1] for home in names.values()}
