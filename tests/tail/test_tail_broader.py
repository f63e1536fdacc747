"""The hierarchy of labels in targets and in answers: against walking upwards label by label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import DataError, RecipeError
from longtail.linear.graph.ancestors import ancestors, answers_with_ancestors
from longtail.model import Model
from longtail.recipe import Recipe
from longtail.tail.broader import Broader

LABELS = 8


def hierarchy(seed: int) -> np.ndarray:
    """Random steps upwards, with rings and labels above themselves."""
    rng = np.random.default_rng(seed)
    return (rng.random((LABELS, LABELS)) < 0.2).astype(np.float32)


def steps_to(above: np.ndarray, label: int) -> dict[int, int]:
    """How many steps upwards each other label is, by walking."""
    reached, edge, distance = {label: 0}, [label], 0
    while edge:
        distance += 1
        edge = sorted({int(up) for one in edge for up in np.flatnonzero(above[one])} - set(reached))
        reached |= dict.fromkeys(edge, distance)
    return {other: steps for other, steps in reached.items() if other != label}


@given(st.integers(0, 500), st.integers(1, 5), st.sampled_from([1.0, 0.5]))
def test_labels_above_are_those_found_by_walking(seed: int, depth: int, factor: float) -> None:
    above = hierarchy(seed)
    found = ancestors(sparse.csr_array(above), depth, factor).toarray()
    for label in range(LABELS):
        expected = np.zeros(LABELS)
        for other, steps in steps_to(above, label).items():
            expected[other] = factor ** (steps - 1) if steps <= depth else 0
        assert found[label] == pytest.approx(expected)


@given(st.integers(0, 300))
def test_a_broader_label_gets_the_largest_share(seed: int) -> None:
    rng, above = np.random.default_rng(seed), hierarchy(seed)
    labels = replace(make_labels(), broader=sparse.csr_array(above), related=sparse.csr_array(hierarchy(seed + 1)))
    given_targets = np.where(rng.random((5, LABELS)) < 0.3, rng.choice([1, 0.5], (5, LABELS)), 0).astype(np.float32)
    data = corpus_of(given_targets, labels)
    found = Broader(weight=0.4, depth=3, narrower=0.2, related=0.1).augment(data).targets.toarray()
    for row in range(5):
        expected = given_targets[row].copy()
        for label in np.flatnonzero(given_targets[row]):
            shares = {other: 0.4**steps for other, steps in steps_to(above, label).items() if steps <= 3}
            down = {other: 0.2 for other in range(LABELS) if above[other, label] and other != label}
            side = {other: 0.1 for other in np.flatnonzero(hierarchy(seed + 1)[label]) if other != label}
            for links in (shares, down, side):
                for other, share in links.items():
                    expected[other] = max(expected[other], given_targets[row, label] * share)
        assert found[row] == pytest.approx(expected, abs=1e-6)


@given(st.integers(0, 300), st.booleans())
def test_answers_agree_with_the_hierarchy(seed: int, excluded: bool) -> None:
    rng, above = np.random.default_rng(seed), hierarchy(seed)
    indices = np.array([rng.permutation(LABELS)[:6] for _ in range(4)], dtype=np.int32)
    scores = -np.sort(-rng.integers(1, 9, indices.shape) / 8, axis=1).astype(np.float32)
    indices[rng.random(indices.shape) < 0.2] = -1
    scores[indices < 0] = 0
    whole = ancestors(sparse.csr_array(above), LABELS)
    starts, up = whole.indptr.astype(np.int64), whole.indices.astype(np.int64)
    found, values = answers_with_ancestors(indices, scores, starts, up, excluded)
    for row in range(4):
        given_scores = {int(a): float(b) for a, b in zip(indices[row], scores[row], strict=True) if a >= 0}
        expected = dict(given_scores)
        for label, score in given_scores.items():
            for other in steps_to(above, label):
                if other not in given_scores:
                    continue
                if not excluded:
                    expected[other] = max(expected[other], score * (1 - 2**-22))
                elif given_scores[other] <= score:
                    expected.pop(other, None)
        assert {int(a): float(b) for a, b in zip(found[row], values[row], strict=True) if a >= 0} == pytest.approx(
            expected, rel=1e-7
        )


def make_labels() -> LabelSet:
    return LabelSet(ids=tuple("abcdefgh"))


def corpus_of(targets: np.ndarray, labels: LabelSet) -> Dataset:
    ids = tuple(map(str, range(len(targets))))
    return Dataset(labels=labels, targets=sparse.csr_array(targets), ids=ids, texts=ids)


def test_a_model_predicts_and_leaves_out_broader_labels(tiny: Corpus) -> None:
    """L9 is below L8, which is below L7; no row of train has L7 because of L9."""
    before = Recipe.parse("parabel").fit(tiny.train, tiny.valid)
    taught = Recipe.parse("parabel + broader(weight=0.9)").fit(tiny.train, tiny.valid)
    text = [tiny.labels.texts[9]]

    def scores(model: Model) -> dict[int, float]:
        found = model.predict(text, 10)
        return dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))

    assert scores(taught)[7] > scores(before)[7]
    left = Recipe.parse("parabel + ancestors(answer='excluded')").fit(tiny.train, tiny.valid)
    assert not {7, 8} & set(scores(left)) and 9 in scores(left)
    implied = Recipe.parse("parabel + ancestors").fit(tiny.train, tiny.valid)
    assert scores(implied)[9] == scores(before)[9] > scores(implied)[8] == scores(implied)[7]
    assert scores(implied)[7] == pytest.approx(scores(before)[9]) and next(iter(scores(implied))) == 9


def test_without_a_hierarchy_it_is_told_before_training(tiny: Corpus) -> None:
    bare = tiny.train.over(replace(tiny.labels, broader=None))
    for recipe in ("parabel + broader", "parabel + ancestors"):
        with pytest.raises(DataError, match="needs labels with broader labels: give a SKOS --vocabulary"):
            Recipe.parse(recipe).fit(bare, bare.take([]))
    for wrong in ("broader(weight=2)", "broader(weight=0)", "broader(depth=0)", "ancestors(answer='x')"):
        with pytest.raises(RecipeError, match=r"broader takes|of ancestors takes"):
            Recipe.parse(f"parabel + {wrong}")
