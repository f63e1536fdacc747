"""The bounds of LEVER against the paper's theorems, by simulation and by numerical search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from longtail.errors import DataError
from longtail.metrics.bounds import Constants, best_blend, gaps, label_variance, theorem_1, worst_teacher

positive = st.floats(1e-4, 1e3)


@given(positive, positive, st.floats(0, 1e3))
def test_no_other_blend_is_better(a: float, b: float, c: float) -> None:
    def gap(share: np.ndarray | float) -> np.ndarray:
        return np.sqrt(a + (share * b) ** 2) + (1 - share) * c

    found = float(best_blend(a, b, c))
    assert 0 <= found <= 1
    assert gap(found) <= gap(np.linspace(0, 1, 2001)).min() * (1 + 1e-9)


def test_the_papers_formula_where_it_holds() -> None:
    a, b, c = 0.5, 3.0, 1.2
    found = float(best_blend(a, b, c))
    assert found == pytest.approx(c / b * np.sqrt(a / (b**2 - c**2)))
    assert np.sqrt(a + (found * b) ** 2) + (1 - found) * c == pytest.approx(np.sqrt(a - a * c**2 / b**2) + c)
    assert best_blend(a, b, 0.0) == 0  # a perfect teacher needs no labels
    assert best_blend(a, b, b) == best_blend(a, b, 2 * b) == 1  # a teacher that is too bad gets no weight


def test_blending_is_never_worse_than_either_alone() -> None:
    counts = np.array([1, 2, 5, 30, 400])
    for error in (0.0, 1e-4, 1e-3, 0.5):
        found = gaps(counts, 10_000, error)
        assert (found.blended <= np.minimum(found.given, found.teacher) + 1e-12).all()
        helped = error < worst_teacher(counts, 10_000)
        assert ((found.blend < 1) <= helped).all()
    assert (np.diff(gaps(counts, 10_000, 0.001).given) < 0).all()  # the rarer, the wider


def test_the_terms_are_those_of_equation_8() -> None:
    rows, held, error = 1000, 4, 0.002
    own = Constants(size=1.5, loss_variance=0.7, complexity=6.0)
    weight = rows / held
    a = 0.7 * 6 / rows
    b = np.sqrt(held * 6.0) * weight * 1.5 / rows
    c = error * weight * 1.5
    blend = c / b * np.sqrt(a / (b**2 - c**2))
    found = gaps([held], rows, error, own)
    assert found.blend[0] == pytest.approx(blend)
    assert found.given[0] == pytest.approx(np.sqrt(a + b**2) + 6 / rows)
    assert found.teacher[0] == pytest.approx(np.sqrt(a) + c + 6 / rows)
    # Lambda = 1 is theorem 1 with the variance of lemma 1.
    assert found.given[0] == pytest.approx(float(theorem_1(label_variance([held], rows, own), rows, own)[0]))


@pytest.mark.parametrize("held", [2, 20, 200])
def test_lemma_1_bounds_the_variance_that_labels_have(held: int) -> None:
    """Relevances drawn at random with mean S / N: E[p (1 - p)] (C K)^2 stays below N K^2 / S, near it in the tail."""
    rng, rows = np.random.default_rng(held), 1000
    mean = held / rows
    relevance = rng.beta(0.3 * mean, 0.3 * (1 - mean), 200_000)
    relevance *= min(mean / relevance.mean(), 1.0)
    true = (relevance * (1 - relevance)).mean() * (rows / held) ** 2
    assert 0 < true <= label_variance([held], rows)[0]


def test_theorem_1s_decomposition_holds_by_simulation() -> None:
    """Equation 12: the variance of the loss is that over inputs plus E[V[y]] d^2, for any weight C."""
    rng = np.random.default_rng(0)
    relevance, score = rng.beta(0.5, 3, 400_000), rng.standard_normal(400_000)
    yes, no, weight = np.logaddexp(0, -score), np.logaddexp(0, score), 7.0
    label = rng.random(len(relevance)) < relevance
    loss = np.where(label, weight * yes, no)
    mean = weight * relevance * yes + (1 - relevance) * no
    within = relevance * (1 - relevance) * (weight * yes - no) ** 2
    assert loss.var() == pytest.approx(mean.var() + within.mean(), rel=0.01)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="1 to 10 positives in 10 training examples"):
        gaps([0, 3], 10, 0.1)
    with pytest.raises(DataError, match="1 to 10 positives in 10 training examples"):
        label_variance([11], 10)
    with pytest.raises(DataError, match=r"\[0, 1\]"):
        gaps([1], 10, 1.5)
    with pytest.raises(DataError, match="above 0"):
        Constants(size=0)


def expected_loss(scores: np.ndarray, probabilities: np.ndarray, margin: float = 0.0) -> float:
    """Equation 9 in expectation over the labels of every pair of points, for one label: theorem 3's loss."""
    gap = scores[None, :] - scores[:, None] + margin  # how much b stands above a, for a positive and b negative
    weight = probabilities[:, None] * (1 - probabilities[None, :])
    np.fill_diagonal(weight, 0)
    return float((weight * np.logaddexp(0, gap)).sum())


def test_theorem_3_the_pairwise_logistic_loss_is_calibrated() -> None:
    """At the minimum, log odds differ from the scores by one constant c, so sigma(score + c) is the relevance."""
    probabilities = np.array([0.02, 0.1, 0.35, 0.5, 0.8, 0.97])
    found = minimize(expected_loss, np.zeros(6), args=(probabilities,), tol=1e-12).x
    constants = np.log(probabilities / (1 - probabilities)) - found
    assert np.allclose(constants, constants[0], atol=1e-3)
    assert np.allclose(1 / (1 + np.exp(-(found + constants[0]))), probabilities, atol=1e-3)


def test_neither_the_hinge_nor_a_margin_is_calibrated() -> None:
    """Why the loss is not a hinge, and what a margin costs: scores are stretched, the order stays."""
    probabilities = np.array([0.1, 0.3, 0.5, 0.9])
    logits = np.log(probabilities / (1 - probabilities))
    apart = minimize(expected_loss, np.zeros(4), args=(probabilities, 1.0), tol=1e-12).x
    assert (np.diff(apart) > 0).all() and np.ptp(logits - apart) > 0.2

    def hinge(scores: np.ndarray) -> float:
        gap = scores[None, :] - scores[:, None] + 1
        weight = probabilities[:, None] * (1 - probabilities[None, :])
        np.fill_diagonal(weight, 0)
        return float((weight * np.maximum(gap, 0)).sum())

    best = min((minimize(hinge, start, method="Nelder-Mead").x for start in np.eye(4)), key=hinge)
    assert np.ptp(logits - best) > 0.5
