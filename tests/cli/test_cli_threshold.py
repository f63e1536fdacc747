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
    assert "threshold" not in without and found["chosen"] == "f1"
    shown = call("evaluate", model, data, "--choose-threshold", "f1").out
    assert f"--threshold {found['threshold']}" in shown


def test_wrong_choices_are_errors(model: Path, data: Path, tmp_path: Path) -> None:
    choose = ("--choose-threshold", "f1")
    for wrong in ("p", "f1,precision=0.9", "f1=2", "labels", "labels=x", "labels=1,labels=2", ""):
        assert "--choose-threshold takes f1" in call("evaluate", model, data, "--choose-threshold", wrong).error
    assert "a precision is above 0" in call("evaluate", model, data, "--choose-threshold", "precision=2").error
    assert "at most 1 to 100 labels" in call("evaluate", model, data, "--choose-threshold", "labels=0").error
    assert "choose one with --choose-threshold" in call("evaluate", model, data, "--store").error
    assert "chosen on valid" in call("evaluate", model, data, *choose, "--split", "valid").error
    file = tmp_path / "predictions.jsonl"
    file.write_text("")
    assert "give a model folder" in call("evaluate", file, data, *choose).error
    assert "such as 0.5" in call("predict", model, "--threshold", "nan", stdin="x\n").error


def test_a_stored_threshold_is_used_unless_something_else_is_asked_for(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "model"
    done = call("train", data, "parabel", "--out", place, "--choose-threshold", "f1,labels=2")
    assert done.code == 0 and "at most 2 a document: f1,labels=2 on valid" in done.out
    cutoff = longtail.load_model(place).cutoff
    assert cutoff is not None and (cutoff.most, cutoff.chosen) == (2, "f1,labels=2")
    texts = "an apple\nthe dragon castle\nnothing known\n"
    whole = call("predict", place, "-k", "5", "--threshold", "0", stdin=texts).lines
    for before, after in zip(whole, call("predict", place, stdin=texts).lines, strict=True):
        assert after["labels"] == [one for one in before["labels"][:2] if one["score"] >= cutoff.threshold]
    most = call("predict", place, "-k", "1", stdin=texts).lines
    assert max(len(row["labels"]) for row in most) == 1
    before = call("evaluate", place, data, "--json").json
    assert before["threshold"]["threshold"] == cutoff.threshold and before["threshold"]["labels_per_row"] <= 2
    done = call("evaluate", place, data, "--choose-threshold", "precision=0.8", "--store")
    assert done.code == 0 and "stored in the model" in done.out
    stored = longtail.load_model(place).cutoff
    assert stored is not None and (stored.most, stored.chosen) == (None, "precision=0.8")
    assert "precision=0.8" in call("evaluate", place, data).out


def test_a_threshold_needs_valid_examples(data: Path, tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_text('{"id": "1", "text": "a", "labels": ["a"]}\n')
    words = ("--choose-threshold", "f1", "--valid-share", "0", "--out", tmp_path / "m")
    assert "no valid examples to choose" in call("train", tmp_path / "few.jsonl", "bm25", *words).error
