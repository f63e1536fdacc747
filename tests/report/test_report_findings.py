import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from report_sample import sample_corpus, sample_result
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.metrics.frequency import BANDS
from longtail.metrics.measures import Measures
from longtail.predictions import Predictions
from longtail.report.findings import find, hit_places
from longtail.report.result import Result


@given(some.integers(0, 10_000), some.integers(1, 6), some.integers(1, 9), some.integers(0, 5))
def test_hits_agree_with_a_plain_loop(seed: int, rows: int, labels: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    targets = sparse.csr_array((rng.random((rows, labels)) < 0.4).astype(np.float32))
    top = rng.integers(-1, labels, size=(rows, places)).astype(np.int32)
    true = targets.toarray()
    expected = [[label >= 0 and true[row, label] > 0 for label in top[row]] for row in range(rows)]
    assert hit_places(top, targets).tolist() == expected


def worked() -> tuple[Corpus, list[Result]]:
    """Labels: 0 head, 1 torso, 2 and 3 tail, 4 unseen. Worked by hand."""
    labels = LabelSet(ids=tuple("abcde"), counts=np.array([100, 20, 3, 2, 0]), train_rows=100)
    targets = sparse.csr_array(np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=np.float32))
    excluded = sparse.csr_array(np.array([[0, 0, 0, 0, 1], [0] * 5, [0] * 5], dtype=bool))
    test = Dataset(labels=labels, targets=targets, ids=("x", "y", "z"), texts=("x", "y", "z"), excluded=excluded)
    corpus = Corpus(name="worked", train=test, valid=test, test=test)

    def result(name: str, top: list[list[int]], first: float) -> Result:
        predictions = Predictions(labels, np.array(top), np.zeros((3, 2), dtype=np.float32))
        measures = Measures(values={"P@1": first}, bins=(), bins_at=5, propensity=labels.propensity, rows=3)
        return Result(name, measures, predictions, 1.0, 1.0, 1, 1)

    head = result("popular", [[0, 1], [0, 1], [0, 1]], 66.7)
    tail = result("careful", [[4, 2], [0, -1], [2, 3]], 33.3)
    return corpus, [head, tail]


def test_found_and_never_predicted_labels_by_hand() -> None:
    corpus, results = worked()
    findings = find(results, corpus)
    assert [BANDS[band] for band in findings.band] == ["head", "torso", "tail", "tail", "unseen"]
    assert findings.wanted.tolist() == [True] * 5
    assert findings.found[0].tolist() == [True, True, False, False, False]
    assert findings.found[1].tolist() == [True, False, True, True, False]
    assert findings.per_band(findings.wanted & ~findings.predicted[0]).tolist() == [0, 0, 2, 1]
    # label e is excluded for the only row that holds it, so it is never shown to anybody
    assert findings.per_band(findings.wanted & ~findings.predicted[1]).tolist() == [0, 1, 0, 1]


def test_coverage_agrees_with_the_measure() -> None:
    corpus = sample_corpus()
    result = sample_result("a", corpus, skill=0.6)
    findings = find([result], corpus)
    covered = 100 * findings.found[0].sum() / findings.wanted.sum()
    assert covered == pytest.approx(result.measures["C@5"])
