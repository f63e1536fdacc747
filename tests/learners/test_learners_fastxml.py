"""FastXML and PfastreXML: the formulas, and that the second favours the tail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus
from longtail.errors import RecipeError
from longtail.learners.fastxml import FastXmlScorer
from longtail.learners.pfastrexml import PfastreXmlScorer
from longtail.linear.features.sparse_features import Features
from longtail.metrics import inverse_propensity
from longtail.recipe import Recipe


def test_pfastrexml_by_formula(tiny: Corpus) -> None:
    """trees^0.8 x (1 / (1 + exp(30 (|w|^2 + 1 - 2 w.x))))^0.2, w the mean of the label's examples."""
    model = Recipe.parse("pfastrexml(trees=5)").fit(tiny.train, tiny.valid)
    scorer = model.scorer
    assert isinstance(scorer, PfastreXmlScorer)
    features, vectors = Features.learn(tiny.train)
    dense = vectors.toarray().astype(np.float64)
    targets = tiny.train.targets.toarray()
    means = np.stack([dense[targets[:, label] > 0].mean(axis=0) for label in range(10)])
    queries = features.of(tiny.test.rows)
    trees, tree_scores = scorer.forest.top(queries, 10)
    found = model.predict(tiny.test.rows, k=10)
    for row in range(len(tiny.test)):
        x = queries[[row]].toarray()[0].astype(np.float64)
        assert np.linalg.norm(x) == pytest.approx(1, abs=1e-6)
        expected = {}
        for label, score in zip(trees[row].tolist(), tree_scores[row].tolist(), strict=True):
            if label >= 0:
                mean = means[label]
                near = 1 / (1 + np.exp(30 * (mean @ mean + 1 - 2 * mean @ x)))
                expected[label] = score**0.8 * near**0.2
        shown = dict(zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True))
        shown.pop(-1, None)
        assert shown == pytest.approx(expected, rel=1e-4)


def test_leaves_of_pfastrexml_hold_inverse_propensities(tiny: Corpus) -> None:
    """One leaf for all rows: its label values are frequency x inverse propensity; fastxml's are the frequency."""
    frequency = np.asarray(tiny.train.targets.sum(axis=0)).ravel() / len(tiny.train)
    plain = Recipe.parse("fastxml(trees=1, max_leaf_rows=1000)").fit(tiny.train, tiny.valid).scorer
    weighted = Recipe.parse("pfastrexml(trees=1, max_leaf_rows=1000)").fit(tiny.train, tiny.valid).scorer
    assert isinstance(plain, FastXmlScorer) and isinstance(weighted, PfastreXmlScorer)
    assert plain.forest.leaves.toarray()[0] == pytest.approx(frequency, rel=1e-4)
    assert weighted.forest.leaves.toarray()[0] == pytest.approx(frequency * inverse_propensity(tiny.labels), rel=1e-4)


def test_centroid_weight_zero_leaves_the_trees_alone(tiny: Corpus) -> None:
    model = Recipe.parse("pfastrexml(trees=5, centroid_weight=0)").fit(tiny.train, tiny.valid)
    scorer = model.scorer
    assert isinstance(scorer, PfastreXmlScorer)
    labels, scores = scorer.forest.top(scorer.features.of(tiny.test.rows), 5)
    found = model.predict(tiny.test.rows, k=5)
    assert np.array_equal(found.indices, labels)
    assert found.scores == pytest.approx(scores, rel=1e-5)


def test_the_propensity_variant_ranks_rare_labels_higher(tiny: Corpus) -> None:
    """The last label is the rarest, the first the commonest; over all rows the rare one rises against it."""

    def ratio(recipe: str) -> float:
        found = Recipe.parse(recipe).fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
        common, rare = (np.where(found.indices == label, found.scores, 0).sum() for label in (0, 9))
        return float(rare / common)

    assert ratio("pfastrexml(trees=10)") > 1.2 * ratio("fastxml(trees=10)")


def test_no_more_labels_than_the_tail_scorer_sees(tiny: Corpus) -> None:
    scorer = Recipe.parse("pfastrexml(trees=3)").fit(tiny.train, tiny.valid).scorer
    few, many = scorer.top(tiny.test.rows, 10), scorer.top(tiny.test.rows, 1005)
    assert many[0].shape == many[1].shape == (len(tiny.test), 1005)
    assert np.array_equal(few[0], many[0][:, :10])
    assert (many[0][:, 10:] == -1).all() and not many[1][:, 10:].any()


def test_seeds_make_different_trees(tiny: Corpus) -> None:
    def leaves(seed: int) -> sparse.csr_array:
        scorer = Recipe.parse(f"fastxml(trees=3, seed={seed})").fit(tiny.train, tiny.valid).scorer
        assert isinstance(scorer, FastXmlScorer)
        return scorer.forest.leaves

    one, other = leaves(0), leaves(1)
    assert one.shape != other.shape or abs(one - other).sum() > 0


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("fastxml(trees=0)", "trees=0"),
        ("fastxml(max_leaf_rows=0)", "max_leaf_rows=0"),
        ("fastxml(cost=0)", "cost=0"),
        ("pfastrexml(labels_per_leaf=0)", "labels_per_leaf=0"),
        ("pfastrexml(centroid_weight=1.5)", "centroid_weight=1.5"),
        ("pfastrexml(gamma=-1)", "gamma=-1"),
    ],
)
def test_settings_that_cannot_be_are_refused(recipe: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(recipe)
