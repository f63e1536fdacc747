"""renee: warm starts, its model, and its settings."""

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
from longtail.linear.solvers.platt_scaling import PlattScaling  # noqa: E402
from longtail.metrics.propensity import inverse_propensity  # noqa: E402
from longtail.model import Model  # noqa: E402
from longtail.nn.encoders.text_encoder import TextEncoder  # noqa: E402
from longtail.nn.onevsall import onevsall_fit  # noqa: E402
from longtail.nn.onevsall.onevsall_fit import GAIN, OneVsAllFit  # noqa: E402
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer, rare_of  # noqa: E402
from longtail.nn.onevsall.onevsall_task import OneVsAllTask  # noqa: E402
from longtail.nn.training.history import History  # noqa: E402
from longtail.plan import DataFacts  # noqa: E402
from longtail.recipe import Recipe  # noqa: E402
from longtail.seams import Misfit, State  # noqa: E402
from longtail.store import load  # noqa: E402
from stored import check  # noqa: E402

SMALL = 'encoder="bag", dimension=64, batch_size=32, epochs=5, dropout=0.3'
TEACHER = "dpr(encoder='bag', dimension=48, batch_size=64, epochs=2)"


def fit(recipe: str, corpus: Corpus) -> Model:
    return Recipe.parse(recipe).fit(corpus.train, corpus.valid)


def hits(model: Model, rows: Dataset) -> float:
    return float(model.predict(rows.rows, 1).hits(rows.targets).mean())


@pytest.fixture(scope="module")
def model(tiny: Corpus) -> Model:
    return fit(f"renee({SMALL})", tiny)


def test_scores_are_calibrated_products(model: Model, tiny: Corpus) -> None:
    scorer = model.scorer
    assert isinstance(scorer, OneVsAllScorer) and scorer.bias is not None
    vectors = scorer.encoder.unnormalised(tiny.test.texts or ())
    scores = vectors.astype(np.float64) @ scorer.weights.T.astype(np.float64) + scorer.bias
    probabilities = 1 / (1 + np.exp(-(scorer.calibration.scale * scores + scorer.calibration.offset)))
    found, values = scorer.top(tiny.test.rows, 4)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :4]  # two probabilities of nearly 1 may be equal
    assert np.array_equal(found, order)
    assert np.allclose(values, np.take_along_axis(probabilities, order, axis=1), rtol=1e-4)
    assert np.allclose(scorer.row_norms(), np.linalg.norm(scorer.weights, axis=1), rtol=1e-5)


def test_probabilities_are_learned_on_valid(model: Model, tiny: Corpus) -> None:
    scorer = model.scorer
    assert isinstance(scorer, OneVsAllScorer) and scorer.calibration != PlattScaling(1.0, 0.0)
    found = model.predict(tiny.valid.rows, 10)
    right = found.hits(tiny.valid.targets)
    assert float(found.scores.mean()) == pytest.approx(float(right.mean()), abs=0.02)


@pytest.mark.parametrize(("rows", "epochs"), [(1_000, 30), (50_000, 30), (285_131, 13), (2_000_000, 8)])
def test_more_rows_need_fewer_epochs(rows: int, epochs: int) -> None:
    assert Renee().passes(rows) == epochs and Renee(epochs=3).passes(rows) == 3


WAYS = ["loss='hinge', propensity_power=0", "bias_init=none", "propensity_power=0.5", "positive_weight=3"]
WAYS += ["momentum=0.5", "head_init='texts'", "head_precision='bf16', kahan_share=0.2"]
WAYS += ["schedule='cosine', label_chunk=3"]


@pytest.mark.parametrize("how", WAYS)
def test_every_way_to_learn_finds_what_the_text_names(how: str, tiny: Corpus) -> None:
    found = fit(f"renee({SMALL}, {how})", tiny)
    assert hits(found, tiny.test) > 0.9
    scorer = found.scorer
    assert isinstance(scorer, OneVsAllScorer)
    assert (scorer.bias is None) == ("bias_init=none" in how) and scorer.half == ("bf16" in how)


@pytest.mark.parametrize(
    ("setting", "power"), [("", 0.15), (", propensity_power=0.5", 0.5), (", propensity_power=0", 0)]
)
def test_a_positive_weighs_more_the_rarer_its_label(
    setting: str, power: float, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the 0.15th power of the inverse propensity, where a recipe does not set another."""
    tasks: list[OneVsAllTask] = []

    def train(task: OneVsAllTask, *_: object) -> History:
        tasks.append(task)
        return History()

    monkeypatch.setattr(onevsall_fit, "train", train)
    own = Recipe.parse(f"renee({SMALL}{setting})").learner
    assert isinstance(own, Renee)
    OneVsAllFit.begin(own, tiny.train, tiny.valid, ()).learn()
    batch = tasks[0].targets.batch(np.arange(len(tiny.train)), torch.device("cpu"))
    assert set(batch.sorted.tolist()) == set(range(10))
    weights = inverse_propensity(tiny.labels)[batch.sorted] ** power
    assert (len(np.unique(weights)) > 5) == (power > 0)
    assert np.allclose(batch.positive_weight, weights) and np.allclose(batch.negative_weight, 1 - weights, atol=1e-6)


def test_the_learning_rate_of_the_classifiers_follows_the_norm_of_the_vectors(tiny: Corpus) -> None:
    """A positive row changes its label's score by the same amount, whatever the norm of the encoder's vectors."""
    own = Recipe.parse(f"renee({SMALL})").learner
    assert isinstance(own, Renee)
    fit = OneVsAllFit.begin(own, tiny.train, tiny.valid, ())
    vectors = TextEncoder.of(fit.encoder, fit.tokenizer, 64).unnormalised(tiny.train.texts or ())
    assert fit.head_learning_rate * (vectors**2).sum(axis=1).mean() == pytest.approx(GAIN, rel=0.01)
    assert OneVsAllFit.begin(replace(own, head_learning_rate=0.3), tiny.train, tiny.valid, ()).head_learning_rate == 0.3


def test_a_warm_start_takes_the_encoder_of_a_recipe(tiny: Corpus) -> None:
    first = fit(TEACHER, tiny)
    still = fit(f'renee(init_from="{TEACHER}", batch_size=32, epochs=1, learning_rate=1e-9, weight_decay=0)', tiny)
    for name, array in first.scorer.encoder.weights.items():  # type: ignore[attr-defined]
        assert np.allclose(still.scorer.encoder.weights[name], array, atol=1e-6), name  # type: ignore[attr-defined]
    assert still.scorer.weights.shape == (10, 48)  # type: ignore[attr-defined]
    assert hits(fit(f'renee(init_from="{TEACHER}", batch_size=32, epochs=10, dropout=0.3)', tiny), tiny.test) > 0.9


def test_a_warm_start_takes_a_saved_model_also_of_other_labels(tiny: Corpus, tmp_path: Path) -> None:
    labels = replace(tiny.labels, ids=(*tiny.labels.ids[:9], "another"))
    parts = {name: replace(getattr(tiny, name), labels=labels) for name in ("train", "valid", "test")}
    other = Corpus(name="other", **parts)
    folder = fit(TEACHER, other).save(tmp_path / "first")
    before = {name: array.copy() for name, array in load(folder).scorer.encoder.weights.items()}  # type: ignore[attr-defined]
    found = fit(f"renee(init_from='{folder}', batch_size=32, epochs=10, dropout=0.3)", tiny)
    assert hits(found, tiny.test) > 0.9
    after = load(folder).scorer.encoder.weights  # type: ignore[attr-defined]
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_warm_start_learns_from_the_original_rows(tiny: Corpus) -> None:
    """Rows that a tail method adds are for the classifiers; the model they start from is the same without them."""
    rows, labels = tiny.train.targets.shape
    added = replace(
        tiny.train,
        targets=sparse.vstack([tiny.train.targets, sparse.eye_array(labels, dtype=np.float32)], format="csr"),
        ids=(*tiny.train.ids, *tiny.labels.ids),
        texts=(*(tiny.train.texts or ()), *tiny.labels.texts),
        origins=np.r_[np.zeros(rows, np.int32), np.ones(labels, np.int32)],
        origin_names=("given", "rows"),
    )
    still = f'renee(init_from="{TEACHER}", batch_size=32, epochs=1, learning_rate=1e-9, weight_decay=0)'
    first, second = (Recipe.parse(still).fit(train, tiny.valid).scorer for train in (tiny.train, added))
    for name, array in first.encoder.weights.items():  # type: ignore[attr-defined]
        assert np.allclose(second.encoder.weights[name], array, atol=1e-6), name  # type: ignore[attr-defined]


def test_a_warm_start_without_an_encoder_is_refused_before_data_is_read() -> None:
    with pytest.raises(RecipeError, match="'bonsai' has none: name a dual encoder"):
        Recipe.parse("renee(init_from='bonsai')")
    with pytest.raises(RecipeError, match="the warm start of renee is no recipe and no model folder: unknown learner"):
        Recipe.parse("renee(init_from='nothing')")


def test_a_plan_counts_the_warm_start(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    cold, warm = (
        Recipe.parse("renee(encoder='bag')").plan(facts),
        Recipe.parse("renee(encoder='bag', init_from='dpr')").plan(facts),
    )
    assert warm.train_seconds > cold.train_seconds
    assert Recipe.parse("renee(encoder='bag', momentum=0.9)").plan(facts).train_bytes > cold.train_bytes
    assert Recipe.parse("renee(encoder='bag') + l2tie").plan(facts).train_bytes > cold.train_bytes


def test_new_labels_join_by_their_texts(model: Model, tiny: Corpus) -> None:
    """A label that training never saw gets the norm and the bias of rare ones, and is found by its word."""
    known = tiny.labels.ids[:-1]
    held = tiny.train.targets[:, [9]].toarray()[:, 0] > 0
    few = replace(tiny.labels, ids=known, texts=tiny.labels.texts[:-1], counts=tiny.labels.counts[:-1], broader=None)
    train, valid = (
        replace(part, labels=few, targets=sparse.csr_array(part.targets[:, :9])) for part in (tiny.train, tiny.valid)
    )
    grown = (
        Recipe.parse(f'renee({SMALL}, init_from="{TEACHER}")')
        .fit(train, valid)
        .with_labels([tiny.labels.texts[9]], ["L9"])
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


def test_the_median_of_rare_labels() -> None:
    weights = np.diag([1.0, 2.0, 3.0, 4.0]).astype(np.float32)
    bias = np.array([-1, -2, -3, -4], dtype=np.float32)
    assert rare_of(weights, bias, np.array([0, 5, 3, 100])) == (2.5, -2.5)
    assert rare_of(weights, None, np.array([0, 50, 30, 100])) == (2.5, 0.0)


def test_damaged_state_is_refused(model: Model) -> None:
    state = model.scorer.state()
    for name, wrong in (("weights", np.full((10, 64), np.nan, np.float32)), ("bias", np.zeros(3, np.float32))):
        with pytest.raises(Misfit, match=f"array '{name}'"):
            check(OneVsAllScorer, State(state.settings, {**state.tensors, name: wrong}))


def test_rows_without_texts_are_refused(model: Model, tiny: Corpus) -> None:
    with pytest.raises(DataError, match="reads texts"):
        model.scorer.top(Rows(features=tiny.test.targets), 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epochs=0", "'epochs' of renee is at least 1"),
        ("head_learning_rate=0", "'head_learning_rate' of renee is above 0"),
        ("dropout=1", r"'dropout' of renee lies in \[0, 1\)"),
        ("kahan_share=2", r"'kahan_share' of renee lies in \[0, 1\]"),
        ("propensity_power=-1", r"'propensity_power' of renee lies in \[0, 1\]"),
        ("head_weight_decay=100", "in one step"),
        ("seed=-1", "'seed' of renee is at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(f"renee({setting})")


def test_missing_label_texts_are_refused_before_training(tiny: Corpus) -> None:
    bare = replace(tiny.labels, texts=("",) * 10)
    for recipe in (f"renee({SMALL}, head_init='texts')", f"renee({SMALL}) + l2tie"):
        with pytest.raises(DataError, match="needs labels with texts"):
            Recipe.parse(recipe).fit(tiny.train.over(bare), tiny.valid.over(bare))
