"""Intervals and tests against slow references and SciPy."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from metrics_cases import data_with, labels_with, predicting
from scipy import stats

from longtail.data.dataset import Dataset
from longtail.metrics import evaluate
from longtail.metrics import significance as tested
from longtail.metrics.significance import BETTER, SAME, WORSE, Sums, bootstrap, holm, randomisation_test, significance
from longtail.predictions import Predictions

KS = (1, 3, 5)


def case(rows: int, labels: int = 30, seed: int = 0) -> tuple[Dataset, list[Predictions]]:
    """Documents with 1 to 4 labels, and three recipes: a good one, its twin with noise, and guesses."""
    rng = np.random.default_rng(seed)
    known = labels_with((200 / np.arange(1, labels + 1)).astype(int).tolist(), train_rows=2000)
    truth = [rng.choice(labels, size=rng.integers(1, 5), replace=False).tolist() for _ in range(rows)]
    data = data_with(known, truth)

    def recipe(skill: float, seed: int) -> Predictions:
        own = np.random.default_rng(seed)
        ranked = []
        for true in truth:
            found = [label for label in true if own.random() < skill]
            others = [label for label in own.permutation(labels).tolist() if label not in true]
            ranked.append((found + others)[:5] if own.random() < 0.7 else (others[:1] + found + others[1:])[:5])
        return predicting(known, ranked)

    return data, [recipe(0.7, 1), recipe(0.7, 2), recipe(0.1, 3)]


def slow(chosen: np.ndarray, data: Dataset, one: Predictions) -> dict[str, float]:
    """The measures of the drawn documents, by drawing them for real."""
    drawn = data.take(chosen)
    return evaluate(Predictions(one.labels, one.indices[chosen], one.scores[chosen]), drawn, ks=KS).values


def test_resamples_are_the_measures_of_the_documents_drawn() -> None:
    data, recipes = case(40)
    by_row, _ = tested.sums([[one] for one in recipes], data, KS)
    drawn = 100 * bootstrap(by_row, 20, np.random.default_rng(5))
    again = np.random.default_rng(5).integers(0, 40, (20, 40), dtype=np.int32)
    for resample, chosen in enumerate(again):
        for recipe, one in enumerate(recipes):
            wanted = slow(chosen, data, one)
            for at, name in enumerate(by_row.names):
                assert drawn[resample, recipe, at] == pytest.approx(wanted[name], abs=1e-6), name


def test_coverage_resamples_labels() -> None:
    data, recipes = case(40)
    _, by_label = tested.sums([[one] for one in recipes], data, KS)
    assert by_label.names == ("C@1", "C@3", "C@5")
    truth = data.targets.toarray() > 0
    present = np.flatnonzero(truth.any(axis=0))
    found = np.array(
        [[(one.indices[:, :k] == label)[truth[:, label]].any() for label in present] for one in recipes for k in KS]
    )
    drawn = bootstrap(by_label, 20, np.random.default_rng(5)).reshape(20, -1)
    again = np.random.default_rng(5).integers(0, len(present), (20, len(present)), dtype=np.int32)
    for resample, chosen in enumerate(again):
        np.testing.assert_allclose(drawn[resample], found[:, chosen].mean(axis=1), atol=1e-6)


def test_intervals_agree_with_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_scipy_draws(units: int, resamples: int, rng: np.random.Generator) -> Any:
        drawn = rng.integers(0, units, (resamples, units))  # of 64 bits
        yield 0, np.array([np.bincount(one, minlength=units) for one in drawn], dtype=np.float64)

    monkeypatch.setattr(tested, "_draws", as_scipy_draws)
    data, recipes = case(60)
    by_row, _ = tested.sums([[one] for one in recipes], data, KS)
    drawn = bootstrap(by_row, 500, np.random.default_rng(8))
    for name in ("P@3", "nDCG@5", "PSP@5"):
        at = by_row.names.index(name)
        over, under = by_row.over[:, :, at], by_row.under[:, at]

        def difference(first, second, best, axis=-1):  # type: ignore[no-untyped-def]
            return (second.sum(axis=axis) - first.sum(axis=axis)) / best.sum(axis=axis)

        theirs = stats.bootstrap(
            (over[:, 0], over[:, 1], under), difference, n_resamples=500, paired=True, vectorized=True,
            method="percentile", rng=np.random.default_rng(8),
        )  # fmt: skip
        ours = np.quantile(drawn[:, 1, at] - drawn[:, 0, at], [0.025, 0.975])
        assert ours == pytest.approx(list(theirs.confidence_interval), abs=1e-6)


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_the_randomisation_test_agrees_with_scipy_and_a_slow_count(rows: int) -> None:
    data, recipes = case(rows, seed=rows)
    by_row, _ = tested.sums([[one] for one in recipes], data, KS)
    # Multiples of 1/1024 add up without rounding: SciPy breaks ties by rounding where the sum is near 0.
    apart = np.round(1024 * (by_row.over[:, 1:] - by_row.over[:, :1])) / 1024
    p = randomisation_test(apart, 2000, np.random.default_rng(0))
    for recipe, at in itertools.product(range(2), range(len(by_row.names))):
        values = apart[:, recipe, at]
        flips = [abs(np.dot(signs, values)) for signs in itertools.product((1, -1), repeat=rows)]
        assert p[recipe, at] == pytest.approx(np.mean(np.array(flips) >= abs(values.sum()) - 1e-9), abs=1e-6)
        if rows > 1:
            theirs = stats.permutation_test(
                (values,), lambda one, axis: one.sum(axis=axis), permutation_type="samples", vectorized=True
            )
            assert p[recipe, at] == pytest.approx(theirs.pvalue, abs=1e-6)


def test_drawn_signs_come_near_the_exact_p_value() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, size=(18, 1, 1))
    drawn = randomisation_test(values, 20_000, np.random.default_rng(0))[0, 0]
    exact = randomisation_test(values, 2**18, np.random.default_rng(0))[0, 0]
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_holm_steps_down() -> None:
    def slow_holm(p: list[float]) -> list[float]:
        order = sorted(range(len(p)), key=lambda one: p[one])
        return [
            min(1.0, max((len(p) - place) * p[order[place]] for place in range(order.index(one) + 1)))
            for one in range(len(p))
        ]

    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
    rng = np.random.default_rng(0)
    for size in (1, 2, 7):
        p = rng.random(size) ** 3
        assert holm(p) == pytest.approx(slow_holm(p.tolist()), abs=1e-12)


def test_verdicts() -> None:
    data, (good, twin, guesses) = case(400)
    found = significance([[good], [twin], [guesses]], data, KS)
    assert found.differences[0] == {}
    assert found.differences[1]["P@1"].verdict == SAME
    assert found.differences[2]["P@5"].verdict == WORSE
    assert significance([[guesses], [good]], data, KS).differences[1]["PSP@5"].verdict == BETTER
    for recipe, one in enumerate((good, twin, guesses)):
        values = evaluate(one, data, ks=KS).values
        first = evaluate(good, data, ks=KS).values
        for name, interval in found.intervals[recipe].items():
            assert interval.low <= values[name] + 1e-9
            assert interval.high >= values[name] - 1e-9
            if recipe:
                assert found.differences[recipe][name].difference == pytest.approx(values[name] - first[name])


def test_several_trainings_count_by_their_mean() -> None:
    data, (good, twin, guesses) = case(80)
    found = significance([[guesses], [good, twin]], data, KS)
    mean = (evaluate(good, data)["PSP@5"] + evaluate(twin, data)["PSP@5"]) / 2
    assert found.differences[1]["PSP@5"].difference == pytest.approx(mean - evaluate(guesses, data)["PSP@5"])


def test_groups_keep_the_width_of_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    data, recipes = case(3000)
    runs = [[one] for one in recipes[:2]]
    whole = significance(runs, data, KS)
    monkeypatch.setattr(tested, "GROUPS", 1000)
    grouped = significance(runs, data, KS)
    for name in ("P@1", "PSP@5", "nDCG@3"):
        widths = [one.intervals[0][name].high - one.intervals[0][name].low for one in (whole, grouped)]
        assert widths[1] == pytest.approx(widths[0], rel=0.15)  # 3 deviations of 1,000 groups and 2,000 resamples
        assert grouped.differences[1][name].difference == pytest.approx(whole.differences[1][name].difference)


def test_groups_of_labels_keep_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested, "GROUPS", 20)
    data, recipes = case(50)
    _, by_label = tested.sums([[recipes[0]]], data, KS)
    assert by_label.over.shape[0] == 20
    covered = 100 * by_label.over.sum(axis=0)[0] / by_label.under.sum(axis=0)
    assert covered.tolist() == pytest.approx([evaluate(recipes[0], data)[f"C@{k}"] for k in KS])


def test_the_same_seed_gives_the_same_figures() -> None:
    data, recipes = case(30)
    runs = [[one] for one in recipes]
    assert significance(runs, data, KS) == significance(runs, data, KS)


def test_a_resample_without_a_divisor_counts_as_0() -> None:
    empty = Sums(("PSP@1",), np.zeros((3, 1, 1)), np.zeros((3, 1)))
    assert bootstrap(empty, 4, np.random.default_rng(0)).tolist() == [[[0.0]]] * 4


def test_it_costs_little() -> None:
    data, recipes = case(2000)
    runs = [[one] for one in recipes]
    significance(runs, data, KS)  # compiles
    start = time.perf_counter()
    significance(runs, data, KS)
    assert time.perf_counter() - start < 3  # about 0.2 s on an idle core
