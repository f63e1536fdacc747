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
from longtail.nn.pool.scorer import PoolScorer, beside, joined, lengthened, relation  # noqa: E402
from longtail.nn.towers import TowerScorer, unit  # noqa: E402
from longtail.plan import Facts  # noqa: E402
from longtail.seams import HasVectors, State, TakesLabels  # noqa: E402
from longtail.tail.dexa import Dexa  # noqa: E402

SMALL = {"encoder": "bag", "dimension": 32, "batch": 64, "epochs": 5}


def hits(scorer: PoolScorer | TowerScorer, corpus: Corpus) -> float:
    found, _ = scorer.top(corpus.test.rows, 1)
    truth = corpus.test.targets.toarray() > 0
    return float(truth[np.arange(len(found)), found[:, 0]].mean())


@pytest.fixture(scope="module")
def trained(tiny: Corpus) -> PoolScorer:
    return Unidec(**SMALL).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]


def test_both_is_the_weighed_mean_of_the_two_cosines(trained: PoolScorer, tiny: Corpus) -> None:
    assert trained.texts is not None and trained.classifiers is not None
    rows = tiny.test.rows
    encoded = unit(trained.reader.lengthy(rows.texts or ()))
    first, second = trained.heads
    assert second is not None
    by_texts = unit(np.tanh(encoded @ first.weight.T + first.bias)) @ trained.texts.T
    by_classifiers = unit(encoded @ second.weight.T + second.bias) @ trained.classifiers.T
    assert trained.share == 0.7
    scores = 0.3 * by_texts.astype(np.float64) + 0.7 * by_classifiers
    found, chances = trained.top(rows, 3)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    assert np.array_equal(found, order)
    expected = 1 / (1 + np.exp(-(trained.odds.slope * np.take_along_axis(scores, order, 1) + trained.odds.offset)))
    assert np.allclose(chances, expected, rtol=1e-3)
    assert trained.label_vectors.shape == (10, 64) and isinstance(trained, HasVectors)


@pytest.mark.parametrize("by", ["encoder", "classifiers"])
def test_each_half_finds_labels_alone(by: str, tiny: Corpus) -> None:
    scorer = Unidec(**SMALL, by=by).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert (scorer.texts is None) == (by == "classifiers") and (scorer.classifiers is None) == (by == "encoder")
    assert hits(scorer, tiny) > 0.9
    assert scorer.label_vectors.shape == (10, 32)


@pytest.mark.parametrize("loss", ["supcon", "infonce", "decoupled+bce", "bce"])
def test_every_loss_learns(loss: str, tiny: Corpus) -> None:
    scorer = Unidec(**SMALL, loss=loss, classifier_loss=loss).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert hits(scorer, tiny) > 0.9


def test_other_ways_to_train(tiny: Corpus) -> None:
    unlike = Unidec(**SMALL, classifier_lengths=False, lengths=0.0, cluster=None)  # type: ignore[arg-type]
    found = unlike.fit(tiny.train, tiny.valid, ())
    assert hits(found, tiny) > 0.9 and found.classifiers is not None
    assert np.allclose(np.linalg.norm(found.classifiers, axis=1), 1, atol=1e-5)
    ways = {"refresh": 0, "negatives": 0, "both": False, "classifier_precision": "bf16", "classifiers_on_host": True}
    scorer = Unidec(**SMALL, **ways).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
    assert hits(scorer, tiny) > 0.9


@pytest.mark.parametrize("unseen", ["zero", "mapped"])
def test_a_label_joins_by_its_text(unseen: str, trained: PoolScorer, tiny: Corpus) -> None:
    scorer = replace(trained, unseen=unseen)
    assert isinstance(scorer, TakesLabels)
    more = scorer.with_labels(["apple castle"], tiny.labels.texts)
    assert isinstance(more, PoolScorer) and more.texts is not None and more.classifiers is not None
    assert more.texts.shape == more.classifiers.shape == (11, 32)
    whole = np.hypot(0.3, 0.7) * 2**0.5  # as long as a label whose two halves are of length 1
    assert np.linalg.norm(more.tower.labels[10]) == pytest.approx(whole, rel=1e-5)
    if unseen == "zero":
        assert (more.classifiers[10] == 0).all()
        assert np.allclose(more.tower.labels[10], whole * np.concatenate([more.texts[10], np.zeros(32)]), atol=1e-6)
    else:
        assert trained.classifiers is not None
        plain = trained.heads[0].of(trained.reader.lengthy(tiny.labels.texts))
        expected = unit(more.texts[10:] @ relation(plain, unit(trained.classifiers)))
        assert np.allclose(more.classifiers[10:], expected, atol=1e-5)
    rows = Rows(texts=("castle apple",))
    assert 10 in more.top(rows, 3)[0][0]
    old = trained.top(tiny.test.rows, 1)[0]
    assert (more.top(tiny.test.rows, 2)[0] == old).any(1).all()  # the old best is still among the two best


def test_the_relation_is_least_squares() -> None:
    luck = np.random.default_rng(0)
    texts = unit(luck.normal(size=(4000, 6)))
    turn = np.linalg.qr(luck.normal(size=(6, 6)))[0].astype(np.float32)
    assert np.allclose(relation(texts, texts @ turn), turn, atol=0.01)


def test_a_half_of_zeros_leaves_the_other_whole() -> None:
    halves = [unit(np.ones((2, 4))), np.zeros((2, 4), dtype=np.float32)]
    whole = beside(halves)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1) and np.allclose(whole[:, :4], halves[0])


def test_as_much_of_their_lengths_counts_as_asked() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 1.0]], dtype=np.float32)  # of lengths 5 and 1, in the mean 3
    assert np.allclose(lengthened(rows, 0), unit(rows)) and np.allclose(lengthened(rows, 1), rows / 3)
    assert np.allclose(np.linalg.norm(lengthened(rows, 0.5), axis=1), np.sqrt([5 / 3, 1 / 3]))
    texts = unit(np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert np.allclose(joined(texts, unit(rows)), beside([texts, unit(rows)]), atol=1e-6)
    assert np.allclose(joined(texts, rows) @ joined(texts, rows).T, (texts @ texts.T + rows @ rows.T) / 2, atol=1e-5)
    asked = beside([texts, unit(rows)])
    weighed = 0.2 * texts @ texts.T + 0.8 * unit(rows) @ rows.T
    assert np.allclose(asked @ joined(texts, rows, 0.8).T, weighed, atol=1e-5)
    empty = np.zeros_like(rows)
    assert np.allclose(joined(texts, empty), np.concatenate([texts, empty], axis=1)) and joined(None, rows) is rows


def test_longer_classifiers_are_for_the_head(tiny: Corpus) -> None:
    found = {}
    for lengths in (0.0, 1.0):
        scorer = Unidec(**SMALL, lengths=lengths, by="classifiers").fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
        assert scorer.classifiers is not None
        found[lengths] = np.linalg.norm(scorer.classifiers, axis=1)
    assert np.allclose(found[0.0], 1, atol=1e-5) and found[1.0].mean() == pytest.approx(1, abs=1e-4)
    assert np.ptp(found[1.0]) > 0.01


def test_label_towers_move_the_texts_half(tiny: Corpus) -> None:
    scorer = Depsl(**SMALL).fit(tiny.train, tiny.valid, (Dexa(clusters=3, speed=10.0),))  # type: ignore[arg-type]
    assert scorer.moved and scorer.texts is not None and hits(scorer, tiny) > 0.9
    plain = scorer.heads[0].of(scorer.reader.lengthy(tiny.labels.texts))
    assert np.abs(scorer.texts - plain).max() > 1e-3
    again = scorer.with_labels(["apple forest"], tiny.labels.texts)
    assert again.texts is not None and len(again.texts) == 11


@pytest.mark.parametrize("learner", [Depsl, Unidec])
@pytest.mark.parametrize("parts", [(), (Dexa(clusters=3, speed=10.0),)])
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


def test_dexml_looks_at_all_labels_in_chunks_as_at_once(tiny: Corpus) -> None:
    scorers = [
        Dexml(**SMALL, chunk=chunk, dropout=0.0).fit(tiny.train, tiny.valid, ())  # type: ignore[arg-type]
        for chunk in (3, None)
    ]
    assert hits(scorers[0], tiny) > 0.9
    assert np.allclose(scorers[0].labels, scorers[1].labels, atol=1e-3)


def test_plans_tell_what_a_classifier_a_label_costs(tiny: Corpus) -> None:
    facts = replace(Facts.of(tiny.train), labels=1_000_000)
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
        with pytest.raises(ValueError, match=r"label|head"):
            PoolScorer.restore(State(state.settings, {**state.tensors, name: value}))
    with pytest.raises(ValueError, match="search"):
        PoolScorer.restore(State({**state.settings, "unseen": "guess"}, state.tensors))
    with pytest.raises(ValueError, match=r"a share of 1\.5"):
        PoolScorer.restore(State({**state.settings, "share": 1.5}, state.tensors))
    older = {name: value for name, value in state.settings.items() if name != "share"}
    assert PoolScorer.restore(State(older, state.tensors)).share == 0.5
    whole = PoolScorer.restore(state)
    assert np.array_equal(whole.label_vectors, trained.label_vectors)
