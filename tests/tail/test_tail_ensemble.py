"""The ensemble of encoder and classifier: the paper's toy example, the cut, and how it is saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.errors import DataError, RecipeError
from longtail.metrics.evaluate import evaluate
from longtail.plan import DataFacts
from longtail.predictions import Predictions
from longtail.progress import collecting
from longtail.recipe import Recipe
from longtail.store import load
from longtail.tail.ensemble import Ensemble, EnsembleScorer, TailThreshold, joined

ENCODER = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"
NAMES = ("H1", "H2", "H3", "O1", "O2", "T1", "T2", "T3")


def answers(text: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [pair.split(":") for pair in text.split()]
    labels = np.array([[NAMES.index(name) for name, _ in pairs]], dtype=np.int32)
    return labels, np.array([[float(score) for _, score in pairs]], dtype=np.float32)


def test_the_papers_toy_example() -> None:
    """Appendix C.3: each side is right about its own labels, and the ensemble is worse than the classifier alone."""
    encoder = answers("T1:0.8 T2:0.6 T3:0.4 O1:0.2 O2:0.1")
    classifier = answers("H1:0.7 H2:0.5 H3:0.3 O2:0.2 O1:0.1")
    tail = np.array([name in ("O1", "T1", "T2", "T3") for name in NAMES])
    labels, scores = joined(classifier, encoder, tail, None)
    assert [NAMES[label] for label in labels[0, :5]] == ["T1", "H1", "T2", "H2", "T3"]
    assert np.allclose(scores[0, :8], [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2])
    assert {NAMES[label] for label in labels[0, 6:8]} == {"O1", "O2"}

    known = LabelSet(ids=NAMES, counts=np.array([90, 80, 70, 20, 30, 3, 2, 1]), train_rows=100)
    truth = [NAMES.index(name) for name in ("H1", "H2", "O1", "O2", "T1")]
    targets = sparse.csr_array((np.ones(5, np.float32), (np.zeros(5, int), truth)), shape=(1, 8))
    data = Dataset(labels=known, targets=targets, ids=("d",), texts=("d",))

    def fifths(side: tuple[np.ndarray, np.ndarray]) -> tuple[int, int, int, int]:
        """Hits among the first five: head, torso, tail, all."""
        first = Predictions(known, *side).top(5)
        hits = [NAMES[label][0] for label in first.indices[first.hits(targets)]]
        total = round(5 * evaluate(first, data, ks=(5,))["P@5"] / 100)
        return hits.count("H"), hits.count("O"), hits.count("T"), total

    assert fifths(encoder) == (0, 2, 1, 3)
    assert fifths(classifier) == (2, 2, 0, 4)
    assert fifths((labels, scores)) == (2, 0, 1, 3)


def test_the_cut_is_the_best_on_valid(tiny: Corpus) -> None:
    with collecting() as told:
        Recipe.parse(f'knn + ensemble(tail_model="{ENCODER}")').fit(tiny.train, tiny.valid)
    (cut,) = (one for one in told if isinstance(one, TailThreshold))
    assert -1 in cut.values and max(cut.values) >= tiny.labels.counts.max() / 2
    assert cut.values[cut.chosen] == max(cut.values.values())
    for each in (cut.chosen, min(cut.values, key=cut.values.__getitem__)):
        model = Recipe.parse(f'knn + ensemble(tail_model="{ENCODER}", tail_max_count={each})').fit(
            tiny.train, tiny.valid
        )
        found = evaluate(model.predict(tiny.valid.rows, 10), tiny.valid)
        value = sum(found[f"{name}@{k}"] for name in ("P", "PSP") for k in (1, 3, 5))
        assert value == pytest.approx(cut.values[each], abs=1e-3)


def test_the_ends_are_the_two_models(tiny: Corpus) -> None:
    rows = tiny.test.rows
    learner, encoder = (Recipe.parse(one).fit(tiny.train, tiny.valid).predict(rows, 5) for one in ("dismec", ENCODER))
    for cut, alone in ((-1, learner), (10**6, encoder)):
        recipe = f'dismec + ensemble(tail_model="{ENCODER}", tail_max_count={cut}, calibrated=false)'
        both = Recipe.parse(recipe).fit(tiny.train, tiny.valid).predict(rows, 5)
        assert np.array_equal(both.indices, alone.indices) and np.array_equal(both.scores, alone.scores)


def test_each_side_keeps_to_its_labels(tiny: Corpus) -> None:
    model = Recipe.parse(f'dismec + ensemble(tail_model="{ENCODER}", tail_max_count=60, calibrated=false)').fit(
        tiny.train, tiny.valid
    )
    scorer = model.scorer
    assert isinstance(scorer, EnsembleScorer) and np.array_equal(scorer.tail, tiny.labels.counts <= 60)
    found = model.predict(tiny.test.rows, 10)
    for side, mine in ((scorer.common, ~scorer.tail), (scorer.rare, scorer.tail)):
        alone = dict(zip(*(part[0].tolist() for part in side.top(tiny.test.rows[:1], 10)), strict=True))
        for label, score in zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True):
            if mine[label]:
                assert score == pytest.approx(alone[label], rel=1e-5)
    norms = model.row_norms()
    assert norms is not None and np.array_equal(np.isnan(norms), scorer.tail)


class Fixed:
    """Teacher, model, learner and scorer at once: it keeps the rows it was trained on and ranks labels in one order."""

    recipe, reranks = "fixed", False

    def __init__(self, labels: LabelSet, order: list[int]) -> None:
        self.labels, self.order, self.texts = labels, np.array(order, np.int32), []
        self.scorer = self

    def fit(self, train: Dataset, valid: Dataset, parts: Any = None) -> Fixed:
        self.texts.append(train.texts)
        return self

    def top(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = np.linspace(0.9, 0.1, len(self.order), dtype=np.float32)
        return np.tile(self.order[:k], (len(rows), 1)), np.tile(scores[:k], (len(rows), 1))


@pytest.mark.parametrize("held_out", [0, 3])
def test_the_encoder_learns_from_given_rows_and_has_labels_up_to_the_threshold(held_out: int) -> None:
    labels = LabelSet(ids=tuple("abcd"), counts=np.array([3, 2, 1, 0]), train_rows=3)
    targets = sparse.csr_array(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=np.float32))
    given = Dataset(labels=labels, targets=targets, ids=("0", "1", "2"), texts=("r0", "r1", "r2"))
    train = given.with_rows(targets=targets[:1], origin="rows", texts=("more",))
    learner, encoder = Fixed(labels, [0, 1, 2, 3]), Fixed(labels, [3, 2, 1, 0])
    method = Ensemble(tail_max_count=2)
    wrapped = method.wrap_with(learner, encoder)  # type: ignore[arg-type]
    scorer = wrapped.fit(train, given.take(range(held_out)), ())
    assert encoder.texts == [("r0", "r1", "r2")] and learner.texts == [("r0", "r1", "r2", "more")]
    assert isinstance(scorer, EnsembleScorer) and scorer.tail.tolist() == [False, True, True, True]
    assert sorted(scorer.top(given.rows, 8)[0][0].tolist())[-4:] == [0, 1, 2, 3]  # each label once


def test_scores_become_probabilities(tiny: Corpus) -> None:
    model = Recipe.parse(f'knn + ensemble(tail_model="{ENCODER}", tail_max_count=60)').fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, 5)
    assert evaluate(found, tiny.test)["ECE@5"] < 12
    nothing = Recipe.parse(f'knn + ensemble(tail_model="{ENCODER}")').fit(tiny.train, tiny.valid.take([]))
    assert np.array_equal(nothing.scorer.tail, tiny.labels.counts <= 5)  # type: ignore[attr-defined]


def test_a_saved_encoder_is_saved_with_the_model(tiny: Corpus, tmp_path: Path) -> None:
    folder = Recipe.parse(ENCODER).fit(tiny.train, tiny.valid).save(tmp_path / "encoder")
    model = Recipe.parse(f'dismec + ensemble(tail_model="{folder}")').fit(tiny.train, tiny.valid)
    before = model.predict(tiny.test.rows, 5)
    saved = model.save(tmp_path / "model")
    folder.rename(tmp_path / "elsewhere")
    after = load(saved).predict(tiny.test.rows, 5)
    assert np.array_equal(before.indices, after.indices) and np.array_equal(before.scores, after.scores)
    other = replace(tiny.labels, ids=(*tiny.labels.ids[:-1], "other"))
    data = replace(tiny.train, labels=other)
    with pytest.raises(DataError, match="does not know 1 of 10"):
        Recipe.parse(f'dismec + ensemble(tail_model="{tmp_path / "elsewhere"}")').fit(data, data)


def test_wrong_settings_are_told() -> None:
    with pytest.raises(RecipeError, match="'tail_max_count' of ensemble"):
        Ensemble(tail_max_count=-2)
    with pytest.raises(RecipeError, match="without re-rankers"):
        Recipe.parse(f'knn + ensemble(tail_model="{ENCODER} + rerank")')
    with pytest.raises(RecipeError, match="teacher of ensemble is no recipe"):
        Recipe.parse("knn + ensemble(tail_model='nobody')")


def test_the_plan_is_that_of_both(tiny: Corpus) -> None:
    facts = DataFacts.of(tiny.train)
    both = Recipe.parse(f'parabel + ensemble(tail_model="{ENCODER}")').plan(facts)
    one, other = (Recipe.parse(each).plan(facts) for each in ("parabel", ENCODER))
    assert both.model_bytes == one.model_bytes + other.model_bytes
    assert both.predict_seconds == pytest.approx(one.predict_seconds + other.predict_seconds)
    assert both.train_bytes >= max(one.train_bytes, other.train_bytes)
