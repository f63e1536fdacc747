"""Measures against other libraries, to 1e-6: scikit-learn, and ir-measures (trec_eval) where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from metrics_cases import data_with, labels_with

from longtail.data.dataset import Dataset
from longtail.metrics import evaluate
from longtail.predictions import Predictions

KS = (1, 3, 5, 10, 20, 1000)
ROWS, LABELS, PLACES = 60, 150, 120


def _case() -> tuple[Predictions, Dataset]:
    """Rows with 1 to 9 true labels; about half of them are predicted, at any place."""
    rng = np.random.default_rng(7)
    labels = labels_with(rng.integers(0, 50, LABELS).tolist(), train_rows=500)
    truth = [rng.choice(LABELS, rng.integers(1, 10), replace=False).tolist() for _ in range(ROWS)]
    ranked = np.array([rng.permutation(LABELS)[:PLACES] for _ in range(ROWS)], dtype=np.int32)
    for row in range(0, ROWS, 2):
        ranked[row] = [*truth[row], *(label for label in ranked[row] if label not in truth[row])][:PLACES]
        rng.shuffle(ranked[row, :12])
    scores = np.sort(rng.random((ROWS, PLACES)).astype(np.float32))[:, ::-1]
    return Predictions(labels, ranked, scores), data_with(labels, truth)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_f1_of_rows_is_the_samples_average_of_scikit_learn(k: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    predictions, data = _case()
    predicted = np.zeros((ROWS, LABELS), dtype=int)
    np.put_along_axis(predicted, predictions.indices[:, :k], 1, axis=1)
    wanted = metrics.f1_score(data.targets.toarray() > 0, predicted, average="samples", zero_division=0)
    assert evaluate(predictions, data, ks=(k,))[f"F1@{k}"] == pytest.approx(100 * wanted, abs=1e-6)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_ndcg_is_that_of_scikit_learn(k: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    predictions, data = _case()
    scores = np.zeros((ROWS, LABELS))
    np.put_along_axis(scores, predictions.indices, predictions.scores.astype(float) + 1, axis=1)
    wanted = metrics.ndcg_score(data.targets.toarray() > 0, scores, k=k)
    assert evaluate(predictions, data, ks=(k,))[f"nDCG@{k}"] == pytest.approx(100 * wanted, abs=1e-6)


def test_agrees_with_ir_measures() -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="pip install ir-measures")
    predictions, data = _case()
    relevant = {
        str(row): {str(label): 1 for label in data.targets.indices[data.targets.indptr[row] :][:number].tolist()}
        for row, number in enumerate(np.diff(data.targets.indptr).tolist())
    }
    run = {
        str(row): {str(label): float(PLACES - place) for place, label in enumerate(predictions.indices[row].tolist())}
        for row in range(ROWS)
    }
    measures = evaluate(predictions, data, ks=KS)
    peers = {"P": ir_measures.P, "R": ir_measures.R, "nDCG": ir_measures.nDCG, "MRR": ir_measures.RR}
    wanted = {f"{name}@{k}": peer @ k for name, peer in peers.items() for k in KS}
    found = ir_measures.calc_aggregate(wanted.values(), relevant, run)
    for name, peer in wanted.items():
        assert measures[name] == pytest.approx(100 * found[peer], abs=1e-6), name
