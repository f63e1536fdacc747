"""Predictions from a file: the ranking is the writer's, and everything wrong is named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.data import Corpus, Dataset
from longtail.errors import DataError
from longtail.metrics import evaluate
from longtail.predictions_file import read_predictions

SCORE = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.1, 0.5, 1, 0, -3, 10**30]))


@pytest.fixture(scope="module")
def three(tiny: Corpus) -> Dataset:
    """Three rows, ten labels."""
    return tiny.test.take([0, 1, 2])


def write(path: Path, *entries: Any) -> Path:
    path.write_text("".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in entries))
    return path


def read(path: Path, three: Dataset, labels: Any) -> list[str]:
    """The ranking that is read for one row."""
    rest = [{"id": name, "labels": []} for name in ("test-0", "test-2")]
    predictions = read_predictions(write(path, *rest, {"id": "test-1", "labels": labels}), three)
    assert [answer.id for answer in predictions.answers(0)] == []
    return [answer.id for answer in predictions.answers(1)]


def scored(**scores: float) -> list[dict[str, Any]]:
    return [{"id": name, "text": "whatever", "score": score} for name, score in scores.items()]


def test_best_first_however_it_was_written(tmp_path: Path, three: Dataset) -> None:
    assert read(tmp_path / "p", three, scored(L1=0.2, L7=0.9, L3=-5, L0=0.5)) == ["L7", "L0", "L1", "L3"]
    assert read(tmp_path / "p", three, ["L9", "L2", "L5"]) == ["L9", "L2", "L5"]
    assert read(tmp_path / "p", three, []) == []


def test_ties_keep_the_order_of_the_list(tmp_path: Path, three: Dataset) -> None:
    assert read(tmp_path / "p", three, scored(L9=0.5, L2=0.5, L5=0.7, L0=0.5)) == ["L5", "L9", "L2", "L0"]


def test_what_float32_would_tie_is_told_apart(tmp_path: Path, three: Dataset) -> None:
    assert read(tmp_path / "p", three, scored(L1=0.99999999, L8=0.999999995, L0=0.9999999)) == ["L8", "L1", "L0"]
    assert read(tmp_path / "p", three, scored(L1=1e300, L8=2e300, L0=-1e300)) == ["L8", "L1", "L0"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(scores=st.lists(SCORE, max_size=10))
def test_any_scores_rank_as_python_sorts_them(scores: list[float], tmp_path: Path, three: Dataset) -> None:
    labels = [{"id": f"L{place}", "score": score} for place, score in enumerate(scores)]
    expected = [label["id"] for label in sorted(labels, key=lambda label: -label["score"])]  # stable
    assert read(tmp_path / "p", three, labels) == expected


def test_rows_are_matched_by_id(tmp_path: Path, three: Dataset) -> None:
    entries = [{"id": f"test-{row}", "labels": [f"L{row}"]} for row in (2, 0, 1)]
    predictions = read_predictions(write(tmp_path / "p", *entries), three)
    assert [answers[0].id for answers in predictions] == ["L0", "L1", "L2"]


def test_rankings_without_scores_claim_no_probabilities(tmp_path: Path, three: Dataset) -> None:
    """Made-up scores must not be measured as if they were probabilities."""
    entries = [{"id": name, "labels": ["L0"]} for name in three.ids]
    measured = evaluate(read_predictions(write(tmp_path / "p", *entries), three), three)
    assert not any(name.startswith("ECE") for name in measured.values)
    given = [{"id": name, "labels": scored(L0=0.5)} for name in three.ids]
    assert "ECE@1" in evaluate(read_predictions(write(tmp_path / "p", *given), three), three).values


WRONG = {
    '{"id": "test-1", "labels": ["L1"]': "p:2: broken JSON",
    "[]": "p:2: expected a JSON object",
    '{"labels": ["L1"]}': 'p:2: the line has no "id"; give the id of an example',
    '{"id": null, "labels": []}': 'p:2: the line has no "id"',
    '{"id": "test-11", "labels": []}': "p:2: id 'test-11' is not an example of this split; did you mean 'test-1'?",
    '{"id": "test-0", "labels": []}': "p:2: id 'test-0' stands twice; remove one of the lines",
    '{"id": "test-1"}': 'p:2: "labels" must be a list of label ids or of {"id", "score"}',
    '{"id": "test-1", "labels": {"L1": 0.5}}': 'p:2: "labels" must be a list',
    '{"id": "test-1", "labels": ["L1", "L11"]}': "p:2: unknown label id 'L11'; did you mean 'L1'? give ids of",
    '{"id": "test-1", "labels": [null]}': "p:2: unknown label id None; give ids of this data set's labels",
    '{"id": "test-1", "labels": [{"score": 1}]}': "p:2: unknown label id None",
    '{"id": "test-1", "labels": [{"id": "L1", "score": "high"}]}': "p:2: score 'high' of label 'L1' is not a finite",
    '{"id": "test-1", "labels": [{"id": "L1", "score": true}]}': "p:2: score True of label 'L1' is not a finite number",
    '{"id": "test-1", "labels": [{"id": "L1", "score": NaN}]}': "p:2: score nan of label 'L1' is not a finite number",
    '{"id": "test-1", "labels": [{"id": "L1", "score": 1e999}]}': "p:2: score inf of label 'L1' is not a finite number",
    f'{{"id": "test-1", "labels": [{{"id": "L1", "score": 1{"0" * 400}}}]}}': "p:2: score 1000",
    '{"id": "test-1", "labels": ["L1", {"id": "L2", "score": 1}]}': "p:2: 1 of 2 labels have a score; give all of",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_lines(line: str, tmp_path: Path, three: Dataset) -> None:
    path = write(tmp_path / "p", {"id": "test-0", "labels": ["L1"]}, line, {"id": "test-2", "labels": []})
    with pytest.raises(DataError) as caught:
        read_predictions(path, three)
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert message.startswith(WRONG[line])
    assert "\n" not in message


def test_every_row_needs_a_line(tmp_path: Path, three: Dataset) -> None:
    path = write(tmp_path / "p", {"id": "test-1", "labels": ["L1"]})
    with pytest.raises(DataError, match=r"p: 2 of 3 examples of the split have no predictions, the first is 'test-0'"):
        read_predictions(path, three)
