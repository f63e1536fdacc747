"""renee: warm starts, what it leaves behind, and settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402

from longtail.data import Corpus, Dataset, Rows  # noqa: E402
from longtail.errors import DataError, RecipeError  # noqa: E402
from longtail.learners.renee import Renee  # noqa: E402
from longtail.model import Model  # noqa: E402
from longtail.nn.blend import Odds  # noqa: E402
from longtail.nn.heads.fit import GAIN, OneVsAllFit  # noqa: E402
from longtail.nn.heads.scorer import OneVsAllScorer, rare_of  # noqa: E402
from longtail.nn.towers import Reader  # noqa: E402
from longtail.plan import Facts  # noqa: E402
from longtail.recipe import Recipe  # noqa: E402
from longtail.seams import State  # noqa: E402
from longtail.store import load  # noqa: E402

SMALL = 'encoder="bag", dimension=64, batch=32, epochs=5, dropout=0.3'
TEACHER = "dpr(encoder='bag', dimension=48, batch=64, epochs=2)"


def fit(recipe: str, corpus: Corpus) -> Model:
    return Recipe.parse(recipe).fit(corpus.train, corpus.valid)


def hits(model: Model, rows: Dataset) -> float:
    return float(model.predict(rows.rows, 1).hits(rows.targets).mean())


@pytest.fixture(scope="module")
def model(tiny: Corpus) -> Model:
    return fit(f"renee({SMALL})", tiny)


def test_scores_are_the_chances_of_the_products(model: Model, tiny: Corpus) -> None:
    scorer = model.scorer
    assert isinstance(scorer, OneVsAllScorer) and scorer.bias is not None
    vectors = scorer.reader.lengthy(tiny.test.texts or ())
    scores = vectors.astype(np.float64) @ scorer.weights.T.astype(np.float64) + scorer.bias
    chances = 1 / (1 + np.exp(-(scorer.odds.slope * scores + scorer.odds.offset)))
    found, values = scorer.top(tiny.test.rows, 4)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :4]  # two chances of nearly 1 may be equal
    assert np.array_equal(found, order)
    assert np.allclose(values, np.take_along_axis(chances, order, axis=1), rtol=1e-4)
    assert np.allclose(scorer.row_norms(), np.linalg.norm(scorer.weights, axis=1), rtol=1e-5)


def test_chances_are_learned_on_valid(model: Model, tiny: Corpus) -> None:
    scorer = model.scorer
    assert isinstance(scorer, OneVsAllScorer) and scorer.odds != Odds(1.0, 0.0)
    found = model.predict(tiny.valid.rows, 10)
    right = found.hits(tiny.valid.targets)
    assert float(found.scores.mean()) == pytest.approx(float(right.mean()), abs=0.02)


@pytest.mark.parametrize(("rows", "epochs"), [(1_000, 30), (50_000, 30), (285_131, 13), (2_000_000, 8)])
def test_more_rows_need_fewer_epochs(rows: int, epochs: int) -> None:
    assert Renee().passes(rows) == epochs and Renee(epochs=3).passes(rows) == 3


WAYS = ["loss='hinge', propensity=0", "bias=none", "propensity=0.5", "positive=3", "momentum=0.5", "begin='texts'"]
WAYS += ["head_precision='bf16', compensated=0.2", "decay='cosine', chunk=3"]


@pytest.mark.parametrize("how", WAYS)
def test_every_way_to_learn_finds_what_the_text_names(how: str, tiny: Corpus) -> None:
    found = fit(f"renee({SMALL}, {how})", tiny)
    assert hits(found, tiny.test) > 0.9
    scorer = found.scorer
    assert isinstance(scorer, OneVsAllScorer)
    assert (scorer.bias is None) == ("bias=none" in how) and scorer.half == ("bf16" in how)


def test_the_rate_of_the_classifiers_follows_the_length_of_the_vectors(tiny: Corpus) -> None:
    """A right row moves its label's score by the same, whatever the encoder's vectors are."""
    own = Recipe.parse(f"renee({SMALL})").learner
    assert isinstance(own, Renee)
    fit = OneVsAllFit.begin(own, tiny.train, tiny.valid, ())
    vectors = Reader.of(fit.encoder, fit.tokenizer, 64).lengthy(tiny.train.texts or ())
    assert fit.head_rate * (vectors**2).sum(axis=1).mean() == pytest.approx(GAIN, rel=0.01)
    assert OneVsAllFit.begin(replace(own, head_rate=0.3), tiny.train, tiny.valid, ()).head_rate == 0.3


def test_a_warm_start_begins_with_the_encoder_of_a_recipe(tiny: Corpus) -> None:
    begun = fit(TEACHER, tiny)
    still = fit(f'renee(warm="{TEACHER}", batch=32, epochs=1, rate=1e-9, weight_decay=0)', tiny)
    for name, array in begun.scorer.reader.weights.items():  # type: ignore[attr-defined]
        assert np.allclose(still.scorer.reader.weights[name], array, atol=1e-6), name  # type: ignore[attr-defined]
    assert still.scorer.weights.shape == (10, 48)  # type: ignore[attr-defined]
    assert hits(fit(f'renee(warm="{TEACHER}", batch=32, epochs=10, dropout=0.3)', tiny), tiny.test) > 0.9


def test_a_warm_start_begins_with_a_saved_model_also_of_other_labels(tiny: Corpus, tmp_path: Path) -> None:
    labels = replace(tiny.labels, ids=(*tiny.labels.ids[:9], "another"))
    parts = {name: replace(getattr(tiny, name), labels=labels) for name in ("train", "valid", "test")}
    other = Corpus(name="other", **parts)
    folder = fit(TEACHER, other).save(tmp_path / "begun")
    before = {name: array.copy() for name, array in load(folder).scorer.reader.weights.items()}  # type: ignore[attr-defined]
    found = fit(f"renee(warm='{folder}', batch=32, epochs=10, dropout=0.3)", tiny)
    assert hits(found, tiny.test) > 0.9
    after = load(folder).scorer.reader.weights  # type: ignore[attr-defined]
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_warm_start_learns_from_the_rows_as_given(tiny: Corpus) -> None:
    """What a tail method adds is for the classifiers; the model they begin with is the same without it."""
    rows, labels = tiny.train.targets.shape
    added = replace(
        tiny.train,
        targets=sparse.vstack([tiny.train.targets, sparse.eye_array(labels, dtype=np.float32)], format="csr"),
        ids=(*tiny.train.ids, *tiny.labels.ids),
        texts=(*(tiny.train.texts or ()), *tiny.labels.texts),
        origins=np.r_[np.zeros(rows, np.int32), np.ones(labels, np.int32)],
        origin_names=("given", "rows"),
    )
    still = f'renee(warm="{TEACHER}", batch=32, epochs=1, rate=1e-9, weight_decay=0)'
    first, second = (Recipe.parse(still).fit(train, tiny.valid).scorer for train in (tiny.train, added))
    for name, array in first.reader.weights.items():  # type: ignore[attr-defined]
        assert np.allclose(second.reader.weights[name], array, atol=1e-6), name  # type: ignore[attr-defined]


def test_a_warm_start_that_has_no_encoder_is_told_before_data_is_read() -> None:
    with pytest.raises(RecipeError, match="'bonsai' has none: name a dual encoder"):
        Recipe.parse("renee(warm='bonsai')")
    with pytest.raises(RecipeError, match="the warm start of renee is no recipe and no model folder: unknown learner"):
        Recipe.parse("renee(warm='nothing')")


def test_a_plan_counts_the_warm_start(tiny: Corpus) -> None:
    facts = Facts.of(tiny.train)
    cold, warm = (
        Recipe.parse("renee(encoder='bag')").plan(facts),
        Recipe.parse("renee(encoder='bag', warm='dpr')").plan(facts),
    )
    assert warm.train_seconds > cold.train_seconds
    assert Recipe.parse("renee(encoder='bag', momentum=0.9)").plan(facts).train_bytes > cold.train_bytes
    assert Recipe.parse("renee(encoder='bag') + l2tie").plan(facts).train_bytes > cold.train_bytes


def test_new_labels_join_by_their_texts(model: Model, tiny: Corpus) -> None:
    """A label that training never saw has the length and the number of rare ones, and is found by its word."""
    known = tiny.labels.ids[:-1]
    held = tiny.train.targets[:, [9]].toarray()[:, 0] > 0
    few = replace(tiny.labels, ids=known, texts=tiny.labels.texts[:-1], counts=tiny.labels.counts[:-1])
    train, valid = (
        replace(part, labels=few, targets=sparse.csr_array(part.targets[:, :9])) for part in (tiny.train, tiny.valid)
    )
    grown = (
        Recipe.parse(f'renee({SMALL}, warm="{TEACHER}")').fit(train, valid).with_labels([tiny.labels.texts[9]], ["L9"])
    )
    assert len(grown.labels) == 10 and held.any()
    scorer = grown.scorer
    assert isinstance(scorer, OneVsAllScorer) and scorer.bias is not None
    assert scorer.row_norms()[9] == pytest.approx(scorer.rare[0], rel=1e-5) and scorer.bias[9] == scorer.rare[1]
    found = grown.predict(["a jungle", "jungle"], 1)
    assert [row[0].id for row in found] == ["L9", "L9"]
    again = grown.predict(tiny.test.rows, 1)
    old = tiny.test.targets[:, [9]].toarray()[:, 0] == 0
    assert again.hits(tiny.test.targets)[old].mean() > 0.9  # the others are found as before


def test_what_rare_labels_have() -> None:
    weights = np.diag([1.0, 2.0, 3.0, 4.0]).astype(np.float32)
    bias = np.array([-1, -2, -3, -4], dtype=np.float32)
    assert rare_of(weights, bias, np.array([0, 5, 3, 100])) == (2.5, -2.5)
    assert rare_of(weights, None, np.array([0, 50, 30, 100])) == (2.5, 0.0)


def test_damaged_state_is_refused(model: Model) -> None:
    state = model.scorer.state()
    for name, wrong in (("weights", np.full((10, 64), np.nan, np.float32)), ("bias", np.zeros(3, np.float32))):
        with pytest.raises(ValueError, match="finite"):
            OneVsAllScorer.restore(State(state.settings, {**state.tensors, name: wrong}))


def test_rows_without_texts_are_refused(model: Model, tiny: Corpus) -> None:
    with pytest.raises(DataError, match="reads texts"):
        model.scorer.top(Rows(features=tiny.test.targets), 3)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("epochs=0", "'epochs' of renee is at least 1"),
        ("head_rate=0", "'head_rate' of renee is above 0"),
        ("dropout=1", r"'dropout' of renee lies in \[0, 1\)"),
        ("compensated=2", r"'compensated' of renee lies in \[0, 1\]"),
        ("propensity=-1", r"'propensity' of renee lies in \[0, 1\]"),
        ("head_decay=100", "in one step"),
        ("seed=-1", "'seed' of renee is at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_told(setting: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        Recipe.parse(f"renee({setting})")


def test_texts_that_are_not_there_are_told_before_training(tiny: Corpus) -> None:
    bare = replace(tiny.labels, texts=("",) * 10)
    for recipe in (f"renee({SMALL}, begin='texts')", f"renee({SMALL}) + l2tie"):
        with pytest.raises(DataError, match="needs labels with texts"):
            Recipe.parse(recipe).fit(tiny.train.over(bare), tiny.valid.over(bare))
