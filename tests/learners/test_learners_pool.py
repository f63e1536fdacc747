"""depsl, unidec and dexml: what they are found by, labels that join later, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from longtail.data import Corpus, Rows  # noqa: E402
from longtail.errors import RecipeError  # noqa: E402
from longtail.learners.depsl import Depsl  # noqa: E402
from longtail.learners.dexml import Dexml  # noqa: E402
from longtail.learners.unidec import Unidec  # noqa: E402
from longtail.nn.dual.dual_scorer import DualEncoderScorer  # noqa: E402
from longtail.nn.encoders.text_encoder import normalised  # noqa: E402
from longtail.nn.pool.pool_scorer import (  # noqa: E402
    PoolScorer,
    join_halves,
    side_by_side,
    text_to_classifier_map,
    with_norm_power,
)
from longtail.plan import DataFacts  # noqa: E402
from longtail.seams import HasVectors, Misfit, State, TakesLabels  # noqa: E402
from longtail.tail.dexa import Dexa  # noqa: E402
from stored import check  # noqa: E402

SMALL = {"encoder": "bag", "dimension": 32, "batch_size": 64, "epochs": 5}


def hits(scorer: PoolScorer | DualEncoderScorer, corpus: Corpus) -> float:
    found, _ = scorer.top(corpus.test.rows, 1)
    truth = corpus.test.targets.toarray() > 0
    return float(truth[np.arange(len(found)), found[:, 0]].mean())


@pytest.fixture(scope="module")
def trained(tiny: Corpus) -> PoolScorer:
    return Unidec(**SMALL).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]


def test_both_is_the_weighted_mean_of_the_two_cosines(trained: PoolScorer, tiny: Corpus) -> None:
    assert trained.texts is not None and trained.classifiers is not None
    rows = tiny.test.rows
    encoded = normalised(trained.encoder.unnormalised(rows.texts or ()))
    first, second = trained.heads
    assert second is not None
    by_texts = normalised(np.tanh(encoded @ first.weight.T + first.bias)) @ trained.texts.T
    by_classifiers = normalised(encoded @ second.weight.T + second.bias) @ trained.classifiers.T
    assert trained.classifier_share == 0.7
    scores = 0.3 * by_texts.astype(np.float64) + 0.7 * by_classifiers
    found, probabilities = trained.top(rows, 3)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    assert np.array_equal(found, order)
    expected = 1 / (
        1 + np.exp(-(trained.calibration.scale * np.take_along_axis(scores, order, 1) + trained.calibration.offset))
    )
    assert np.allclose(probabilities, expected, rtol=1e-3)
    assert trained.label_vectors.shape == (10, 64) and isinstance(trained, HasVectors)


@pytest.mark.parametrize("by", ["encoder", "classifiers"])
def test_each_half_finds_labels_alone(by: str, tiny: Corpus) -> None:
    scorer = Unidec(**SMALL, predict_by=by).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert (scorer.texts is None) == (by == "classifiers") and (scorer.classifiers is None) == (by == "encoder")
    assert hits(scorer, tiny) > 0.9
    assert scorer.label_vectors.shape == (10, 32)


@pytest.mark.parametrize("loss", ["supcon", "infonce", "decoupled+bce", "bce"])
def test_every_loss_learns(loss: str, tiny: Corpus) -> None:
    scorer = Unidec(**SMALL, loss=loss, classifier_loss=loss).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert hits(scorer, tiny) > 0.9


def test_other_ways_to_train(tiny: Corpus) -> None:
    unlike = Unidec(**SMALL, classifier_norms=False, norm_power=0.0, cluster_size=None)  # type: ignore[arg-type]
    found = unlike.fit(tiny.train, tiny.valid, ())
    assert hits(found, tiny) > 0.9 and found.classifiers is not None
    assert np.allclose(np.linalg.norm(found.classifiers, axis=1), 1, atol=1e-5)
    ways = {
        "refresh_every": 0,
        "negatives": 0,
        "symmetric": False,
        "classifier_precision": "bf16",
        "classifiers_on_host": True,
    }
    scorer = Unidec(**SMALL, **ways).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert hits(scorer, tiny) > 0.9


@pytest.mark.parametrize("unseen", ["zero", "mapped"])
def test_a_label_joins_by_its_text(unseen: str, trained: PoolScorer, tiny: Corpus) -> None:
    scorer = replace(trained, unseen=unseen)
    assert isinstance(scorer, TakesLabels)
    more = scorer.with_labels(["apple castle"], tiny.labels.texts)
    assert isinstance(more, PoolScorer) and more.texts is not None and more.classifiers is not None
    assert more.texts.shape == more.classifiers.shape == (11, 32)
    whole = np.hypot(0.3, 0.7) * 2**0.5  # the norm of a label whose two halves are unit vectors
    assert np.linalg.norm(more.tower.labels[10]) == pytest.approx(whole, rel=1e-5)
    if unseen == "zero":
        assert (more.classifiers[10] == 0).all()
        assert np.allclose(more.tower.labels[10], whole * np.concatenate([more.texts[10], np.zeros(32)]), atol=1e-6)
    else:
        assert trained.classifiers is not None
        plain = trained.heads[0].of(trained.encoder.unnormalised(tiny.labels.texts))
        expected = normalised(more.texts[10:] @ text_to_classifier_map(plain, normalised(trained.classifiers)))
        assert np.allclose(more.classifiers[10:], expected, atol=1e-5)
    rows = Rows(texts=("castle apple",))
    assert 10 in more.top(rows, 3)[0][0]
    old = trained.top(tiny.test.rows, 1)[0]
    assert (more.top(tiny.test.rows, 2)[0] == old).any(1).all()  # the old best is still among the two best


def test_the_map_from_texts_to_classifiers_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    texts = normalised(rng.normal(size=(4000, 6)))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0].astype(np.float32)
    assert np.allclose(text_to_classifier_map(texts, texts @ turn), turn, atol=0.01)


def test_a_half_of_zeros_leaves_the_other_whole() -> None:
    halves = [normalised(np.ones((2, 4))), np.zeros((2, 4), dtype=np.float32)]
    whole = side_by_side(halves)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1) and np.allclose(whole[:, :4], halves[0])


def test_norms_count_by_their_power() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 1.0]], dtype=np.float32)  # norms 5 and 1, mean 3
    assert np.allclose(with_norm_power(rows, 0), normalised(rows)) and np.allclose(with_norm_power(rows, 1), rows / 3)
    assert np.allclose(np.linalg.norm(with_norm_power(rows, 0.5), axis=1), np.sqrt([5 / 3, 1 / 3]))
    texts = normalised(np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert np.allclose(join_halves(texts, normalised(rows)), side_by_side([texts, normalised(rows)]), atol=1e-6)
    assert np.allclose(
        join_halves(texts, rows) @ join_halves(texts, rows).T, (texts @ texts.T + rows @ rows.T) / 2, atol=1e-5
    )
    asked = side_by_side([texts, normalised(rows)])
    weighed = 0.2 * texts @ texts.T + 0.8 * normalised(rows) @ rows.T
    assert np.allclose(asked @ join_halves(texts, rows, 0.8).T, weighed, atol=1e-5)
    empty = np.zeros_like(rows)
    assert (
        np.allclose(join_halves(texts, empty), np.concatenate([texts, empty], axis=1))
        and join_halves(None, rows) is rows
    )


def test_norms_of_classifiers_vary_and_can_be_removed(tiny: Corpus) -> None:
    found = {}
    for power in (0.0, 1.0):
        scorer = Unidec(**SMALL, norm_power=power, predict_by="classifiers").fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
        assert scorer.classifiers is not None
        found[power] = np.linalg.norm(scorer.classifiers, axis=1)
    assert np.allclose(found[0.0], 1, atol=1e-5) and found[1.0].mean() == pytest.approx(1, abs=1e-4)
    assert np.ptp(found[1.0]) > 0.01


def test_label_towers_move_the_texts_half(tiny: Corpus) -> None:
    scorer = Depsl(**SMALL).fit(tiny.train, tiny.valid, (Dexa(clusters=3, learning_rate_scale=10.0),))  # type: ignore[arg-type]
    assert scorer.moved and scorer.texts is not None and hits(scorer, tiny) > 0.9
    plain = scorer.heads[0].of(scorer.encoder.unnormalised(tiny.labels.texts))
    assert np.abs(scorer.texts - plain).max() > 1e-3
    again = scorer.with_labels(["apple forest"], tiny.labels.texts)
    assert again.texts is not None and len(again.texts) == 11


@pytest.mark.parametrize("learner", [Depsl, Unidec])
@pytest.mark.parametrize("parts", [(), (Dexa(clusters=3, learning_rate_scale=10.0),)])
def test_heads_may_be_shorter_than_the_encoder(
    learner: type[Depsl] | type[Unidec], parts: tuple[Dexa, ...], tiny: Corpus
) -> None:
    """Two halves of 16 numbers are searched as one vector of 32, as long as the encoder's."""
    scorer = learner(**SMALL, head_dimension=16).fit(tiny.train, tiny.valid, parts)  # type: ignore[arg-type]
    assert hits(scorer, tiny) > 0.9 and scorer.moved == bool(parts)
    assert scorer.label_vectors.shape == (10, 32 if learner is Unidec else 16)
    again = PoolScorer.restore(scorer.state())
    assert np.array_equal(again.top(tiny.test.rows, 3)[0], scorer.top(tiny.test.rows, 3)[0])
    assert len(again.with_labels(["apple forest"], tiny.labels.texts).label_vectors) == 11


def test_heads_are_not_longer_than_the_encoder(tiny: Corpus) -> None:
    with pytest.raises(RecipeError, match="'head_dimension' of unidec is 33, and the vectors of bag have 32 numbers"):
        Unidec(**SMALL, head_dimension=33).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]


def test_dexml_scores_all_labels_in_mini_batches_as_at_once(tiny: Corpus) -> None:
    scorers = [
        Dexml(**SMALL, mini_batch_size=chunk, dropout=0.0).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
        for chunk in (3, None)
    ]
    assert hits(scorers[0], tiny) > 0.9
    assert np.allclose(scorers[0].labels, scorers[1].labels, atol=1e-3)


def test_plans_know_what_classifiers_cost(tiny: Corpus) -> None:
    facts = replace(DataFacts.of(tiny.train), labels=1_000_000)
    alone, table = Depsl(encoder="minilm").plan(facts), Unidec(encoder="minilm").plan(facts)
    assert table.train_bytes - alone.train_bytes == 16 * 384 * 1_000_000
    shorter = Unidec(encoder="minilm", head_dimension=192).plan(facts)
    assert table.model_bytes - shorter.model_bytes == 2 * 4 * 192 * 1_000_000
    half = Unidec(encoder="minilm", classifier_precision="bf16").plan(facts)
    assert half.train_bytes < table.train_bytes
    assert Dexml(encoder="minilm").plan(facts).train_seconds > 2 * alone.train_seconds


def test_a_damaged_model_is_refused(trained: PoolScorer) -> None:
    state = trained.state()
    for name, value in {
        "texts": np.full((10, 32), np.nan, dtype=np.float32),
        "classifiers": np.zeros((9, 32), dtype=np.float32),
        "head.texts.weight": np.zeros((3, 3), dtype=np.float32),
    }.items():
        with pytest.raises(Misfit, match=rf"array '{name}'"):
            check(PoolScorer, State(state.settings, {**state.tensors, name: value}))
    with pytest.raises(Misfit, match="setting 'unseen' is one of zero, mapped, not 'guess'"):
        check(PoolScorer, State({**state.settings, "unseen": "guess"}, state.tensors))
    with pytest.raises(Misfit, match=r"setting 'classifier_share' is a number, above 0 and at most 1, not 1\.5"):
        check(PoolScorer, State({**state.settings, "classifier_share": 1.5}, state.tensors))
    for missing in (("texts", "classifiers"), ("head.classifiers.bias",)):
        less = {name: array for name, array in state.tensors.items() if name not in missing}
        with pytest.raises(Misfit, match="is missing"):
            check(PoolScorer, State(state.settings, less))
    whole = check(PoolScorer, state)
    assert np.array_equal(whole.label_vectors, trained.label_vectors)
