"""`predict --threshold` and `evaluate --choose-threshold`: chosen on valid, measured on test."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_calls import call

import longtail
from longtail.metrics import at_threshold, best_threshold


def test_predict_leaves_out_what_scores_less(model: Path) -> None:
    texts = "an apple\nthe dragon castle\nnothing known\n"
    whole = call("predict", model, "-k", "10", stdin=texts).lines
    scores = sorted(label["score"] for row in whole for label in row["labels"])
    cut = scores[len(scores) // 2]
    done = call("predict", model, "-k", "10", "--threshold", str(cut), stdin=texts)
    assert done.code == 0, done
    for before, after in zip(whole, done.lines, strict=True):
        assert after["labels"] == [label for label in before["labels"] if label["score"] >= cut]
    assert call("predict", model, "--threshold", "2", stdin="apple\n").lines == [{"id": "1", "labels": []}]


def test_the_threshold_is_chosen_on_valid_and_measured_on_test(model: Path, data: Path) -> None:
    found = call("evaluate", model, data, "--choose-threshold", "f1", "--json").json["threshold"]
    corpus, loaded = longtail.load(data), longtail.load_model(model)
    valid = loaded.predict(corpus.valid.rows, 10, corpus.valid.excluded)
    test = loaded.predict(corpus.test.rows, 10, corpus.test.excluded)
    assert found["threshold"] == best_threshold(valid, corpus.valid)
    expected = at_threshold(test, corpus.test, found["threshold"])
    assert (found["f1"], found["labels_per_row"]) == pytest.approx((expected.f1, expected.labels_per_row))
    assert 50 < found["f1"] <= 100
    without = call("evaluate", model, data, "--json").json
    assert "threshold" not in without
    shown = call("evaluate", model, data, "--choose-threshold", "f1").out
    assert f"--threshold {found['threshold']}" in shown


def test_wrong_choices_are_errors(model: Path, data: Path, tmp_path: Path) -> None:
    choose = ("--choose-threshold", "f1")
    assert "--choose-threshold takes f1" in call("evaluate", model, data, "--choose-threshold", "p").error
    assert "chosen on valid" in call("evaluate", model, data, *choose, "--split", "valid").error
    file = tmp_path / "predictions.jsonl"
    file.write_text("")
    assert "give a model folder" in call("evaluate", file, data, *choose).error
    assert "such as 0.5" in call("predict", model, "--threshold", "nan", stdin="x\n").error
