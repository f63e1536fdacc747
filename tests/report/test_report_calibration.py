"""The section that shows whether scores are probabilities."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from report_sample import sample_corpus, sample_result

from longtail.comparison import run
from longtail.data import Corpus
from longtail.metrics import evaluate
from longtail.predictions import Predictions
from longtail.recipe import Recipe
from longtail.report.calibration_chart import calibration_section
from longtail.report.page import render
from longtail.report.result import Result


def scaled(result: Result, corpus: Corpus, factor: float) -> Result:
    scores = result.predictions.scores * np.float32(factor)
    predictions = Predictions(corpus.labels, result.predictions.indices, scores)
    return replace(result, predictions=predictions, measures=evaluate(predictions, corpus.test))


def test_errors_with_and_without_calibrate_are_in_one_table(tiny: Corpus) -> None:
    results = []
    for recipe in ("knn(neighbours=5)", "knn(neighbours=5) + calibrate"):
        predictions = Recipe.parse(recipe).fit(tiny.train, tiny.valid).predict(tiny.test.rows, 5)
        results.append(Result(recipe, evaluate(predictions, tiny.test), predictions, 1.0, 1.0, 1, 1))
    before, after = (result.measures["ECE@5"] for result in results)
    assert after < before
    html = calibration_section(results, tiny)
    assert html is not None
    assert f"<td>{before:.1f}</td>" in html and f"<td>{after:.1f}</td>" in html
    page = render(results, tiny, command="x", versions={})
    assert 'href="#calibration"' in page and 'id="calibration"' in page


def test_a_calibrated_recipe_alone_shows_its_error_without_calibrate(tiny: Corpus) -> None:
    result = run(Recipe.parse("knn(neighbours=5) + calibrate"), tiny)
    before = run(Recipe.parse("knn(neighbours=5)"), tiny)
    assert result.uncalibrated is not None and before.uncalibrated is None
    assert result.uncalibrated["ECE@5"] == before.measures["ECE@5"]
    assert result.as_json()["uncalibrated"]["ECE@1"] == before.measures["ECE@1"]
    html = calibration_section([result], tiny) or ""
    rows = re.findall(r"<tr>.*?</tr>", html)
    assert f"<td>{result.measures['ECE@5']:.1f}</td>" in rows[1] and "without calibrate" in rows[2]
    assert f"<td>{before.measures['ECE@5']:.1f}</td>" in rows[2]


def test_scores_that_are_no_probabilities_are_named_and_not_drawn() -> None:
    corpus = sample_corpus()
    probable, wild = sample_result("knn", corpus), scaled(sample_result("<i>bm25</i>", corpus), corpus, 9)
    html = calibration_section([wild, probable], corpus)
    assert html is not None and "<i>" not in html
    assert "outside 0 to 1: &lt;i&gt;bm25&lt;/i&gt;." in re.sub("</?bdi>", "", html)
    assert 's1"' in html and 's0"' not in html  # the colour the recipe has elsewhere
    assert calibration_section([wild], corpus) is None
    assert 'href="#calibration"' not in render([wild], corpus, command="x", versions={})


def test_each_dot_has_score_and_hits() -> None:
    corpus = sample_corpus()
    result = sample_result("knn", corpus)
    html = calibration_section([result], corpus) or ""
    numbers = re.findall(r"knn: ([\d,]+) predictions with a mean score", html)
    shown = sum(int(number.replace(",", "")) for number in numbers)
    assert shown == 2 * 5 * len(corpus.test)  # drawn for wide and for narrow screens
