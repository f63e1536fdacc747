"""Each measure against arithmetic done by hand."""

from __future__ import annotations

from math import log, log2

import pytest
from metrics_cases import data_with, labels_with, predicting

from longtail.metrics import evaluate
from longtail.metrics.curves import ScoreBin, calibration_curve

# With A = 1, B = 1 and ln N - 1 close to 4 (N = 148): q = 1 + C / (n + 1), C = 2 (ln 148 - 1).
LABELS = labels_with([9, 4, 1, 0], train_rows=148, a=1.0, b=1.0)
C = 2 * (log(148) - 1)
Q = [1 + C / 10, 1 + C / 5, 1 + C / 2, 1 + C / 1]

# row 0: true 0 and 2, found 0 first, 2 third. row 1: true 1, found third. row 2: nothing is true.
DATA = data_with(LABELS, [[0, 2], [1], []])
RANKED = predicting(LABELS, [[0, 3, 2], [0, 2, 1], [0, 1, 2]])
D = [1 / log2(2), 1 / log2(3), 1 / log2(4)]  # 1, 0.6309, 0.5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("P@1", (1 + 0 + 0) / 3),
        ("P@2", (1 / 2 + 0 + 0) / 3),
        ("P@3", (2 / 3 + 1 / 3 + 0) / 3),
        ("R@1", (1 / 2 + 0 + 0) / 3),
        ("R@3", (2 / 2 + 1 / 1 + 0) / 3),
        ("RP@1", (1 / 1 + 0 + 0) / 3),
        ("RP@2", (1 / 2 + 0 + 0) / 3),  # row 0: one of the two it could have
        ("RP@3", (2 / 2 + 1 / 1 + 0) / 3),
        ("F1@1", (2 / (1 + 2) + 0 + 0) / 3),
        ("F1@3", (4 / (3 + 2) + 2 / (3 + 1) + 0) / 3),  # each row by its own number of true labels
        ("F1@9", (4 / (3 + 2) + 2 / (3 + 1) + 0) / 3),  # three labels are predicted, whatever k is
        ("MRR@1", (1 + 0 + 0) / 3),
        ("MRR@2", (1 + 0 + 0) / 3),
        ("MRR@3", (1 + 1 / 3 + 0) / 3),
        ("nDCG@1", (1 + 0 + 0) / 3),
        ("nDCG@2", (D[0] / (D[0] + D[1]) + 0 + 0) / 3),
        # the ideal of row 0 is two hits and of row 1 one hit, although k is 3
        ("nDCG@3", ((D[0] + D[2]) / (D[0] + D[1]) + D[2] / D[0] + 0) / 3),
        ("PSP@1", (Q[0] + 0) / (Q[2] + Q[1])),  # the best first label of row 0 is the rare one
        ("PSP@2", (Q[0] + 0) / ((Q[2] + Q[0]) + Q[1])),
        ("PSP@3", 1.0),
        ("PSnDCG@1", (Q[0] + 0) / (Q[2] + Q[1])),
        (
            "PSnDCG@3",
            ((Q[0] * D[0] + Q[2] * D[2]) / (D[0] + D[1]) + Q[1] * D[2] / D[0])
            / ((Q[2] * D[0] + Q[0] * D[1]) / (D[0] + D[1]) + Q[1]),
        ),
        ("C@1", 1 / 3),  # labels 0, 1, 2 have a positive; 0 is hit
        ("C@3", 3 / 3),
        # top 1 predicts label 0 three times, right once
        ("macroP@1", (1 / 3 + 0 + 0 + 0) / 4),
        ("macroR@1", (1 / 1 + 0 + 0 + 0) / 4),
        ("macroF1@1", (2 / (3 + 1) + 0 + 0 + 0) / 4),
        # top 3: label 0 in 3 rows, label 1 in 2, label 2 in 3, label 3 in 1; each of 0, 1, 2 right once
        ("macroP@3", (1 / 3 + 1 / 2 + 1 / 3 + 0 / 1) / 4),
        ("macroR@3", (1 + 1 + 1 + 0) / 4),
        ("macroF1@3", (2 / (3 + 1) + 2 / (2 + 1) + 2 / (3 + 1) + 0) / 4),
    ],
)
def test_worked_by_hand(name: str, expected: float) -> None:
    assert evaluate(RANKED, DATA, ks=(1, 2, 3, 9))[name] == pytest.approx(100 * expected, abs=1e-9)


def test_coverage_counts_a_label_once_and_only_labels_with_a_positive() -> None:
    labels = labels_with([5, 5, 5, 5])
    data = data_with(labels, [[0], [0], [1], [1, 2]])  # label 3 has no positive
    found = predicting(labels, [[0], [0], [3], [2]])
    assert evaluate(found, data, ks=(1,))["C@1"] == pytest.approx(100 * 2 / 3)


def test_calibration_error_by_hand() -> None:
    labels = labels_with([5, 5])
    data = data_with(labels, [[0], [0], [1], [1]])
    ranked = predicting(labels, [[0, 1]] * 4, scores=[[1.0, 0.5], [1.0, 0.5], [0.75, 0.0], [0.75, 0.0]])
    # top 1: score 1.0 twice, both right; 0.75 twice, both wrong
    # top 2: also 0.5 twice, both wrong; 0.0 twice, both right
    measures = evaluate(ranked, data, ks=(1, 2))
    assert measures["ECE@1"] == pytest.approx(100 * (2 / 4 * 0 + 2 / 4 * 0.75))
    assert measures["ECE@2"] == pytest.approx(100 * (2 / 8 * 0 + 2 / 8 * 0.75 + 2 / 8 * 0.5 + 2 / 8 * 1))
    assert calibration_curve(ranked, data, k=2) == (
        ScoreBin(0 / 15, 1 / 15, 2, 0.0, 1.0),
        ScoreBin(7 / 15, 8 / 15, 2, 0.5, 0.0),
        ScoreBin(11 / 15, 12 / 15, 2, 0.75, 0.0),
        ScoreBin(14 / 15, 15 / 15, 2, 1.0, 1.0),
    )


def test_bins_by_hand() -> None:
    # 10 training positives in two bins of 5: label 0 holds the first five, labels 1 to 3 the rest
    labels = labels_with([5, 2, 2, 1, 0])
    data = data_with(labels, [[0, 1], [0, 4], [2]])
    ranked = predicting(labels, [[0, 1], [4, 3], [0, 1]])
    measures = evaluate(ranked, data, ks=(2,), bins=2, bins_at=2)
    head, tail, unseen = measures.bins
    assert (head.name, head.low, head.high, head.labels, head.positives) == ("1", 5, 5, 1, 2)
    assert (tail.name, tail.low, tail.high, tail.labels, tail.positives) == ("2", 1, 2, 3, 2)
    assert (unseen.name, unseen.low, unseen.high, unseen.labels, unseen.positives) == ("zero-shot", 0, 0, 1, 1)
    # hits: label 0 in row 0, label 1 in row 0, label 4 in row 1; six places
    assert [part.contribution for part in measures.bins] == pytest.approx([100 / 6] * 3)
    assert [part.recall for part in measures.bins] == pytest.approx([50, 50, 100])
    assert [part.coverage for part in measures.bins] == pytest.approx([100, 50, 100])
    assert measures["P@2"] == pytest.approx(50)
    assert measures.bins_at == 2
    assert measures.rows == 3


def test_measures_as_a_dict() -> None:
    measures = evaluate(RANKED, DATA, ks=(1, 20))
    assert dict(measures) == measures.values
    assert list(measures) == list(measures.values) and len(measures) == len(measures.values)
    assert "F1@20" in measures and "F1@3" not in measures
