"""The section with the curves of the dial."""

from __future__ import annotations

import re

import pytest
from report_sample import sample_corpus, sample_result, with_dial

from longtail.comparison import compare
from longtail.data import Corpus
from longtail.dial import STEPS
from longtail.model import Model
from longtail.report.dial_chart import dial_section
from longtail.report.page import MAX_BYTES, render


def test_one_line_a_recipe_with_probabilities_and_one_mark_for_the_others() -> None:
    corpus = sample_corpus()
    plain, turned = sample_result("<i>bm25</i>", corpus), with_dial(sample_result("centroid", corpus, seed=1), corpus)
    html = dial_section([plain, turned])
    assert html is not None and "<i>" not in html
    (chart, *_) = re.findall(r"<svg[^>]*chart.*?</svg>", html)
    groups = dict(re.findall(r'<g class="(s\d)">(.*?)</g>', chart))
    assert groups["s0"].count('class="line"') == 0 and groups["s0"].count('class="marker"') == 1
    assert groups["s1"].count('class="line"') == 1 and groups["s1"].count('class="marker"') == len(STEPS)
    assert "not probabilities" in html and "&lt;i&gt;bm25" in html
    for point in turned.dial:
        assert f"centroid, t = {point.dial:g}: P@1 {point.values['P@1']:.1f}, PSP@1 {point.values['PSP@1']:.1f}" in html
        assert f"centroid, t = {point.dial:g}: P@1 {point.values['P@1']:.1f}, C@5 {point.values['C@5']:.1f}" in html
    rows = re.findall(r'<th scope="row" class="stick">([\d.]+)</th>(.*?)</tr>', html)
    assert [float(dial) for dial, _ in rows] == list(STEPS)
    assert f"<td>{turned.dial[-1].values['PSP@5']:.1f}</td>" in rows[-1][1]


def test_without_probabilities_there_is_no_section() -> None:
    corpus = sample_corpus()
    results = [sample_result("bm25", corpus)]
    assert dial_section(results) is None
    page = render(results, corpus, command="x", versions={})
    assert 'id="dial"' not in page and 'href="#dial"' not in page


def test_a_page_of_many_curves_stays_small() -> None:
    corpus = sample_corpus()
    results = [with_dial(sample_result(f"recipe {seed}", corpus, seed=seed), corpus) for seed in range(12)]
    page = render(results, corpus, command="x", versions={})
    assert 'href="#dial"' in page and len(page.encode()) < MAX_BYTES


def test_compare_draws_the_curve_without_predicting_again(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    predict = Model.predict

    def counted(model: Model, rows: object, k: int = 5, *rest: object, **named: object) -> object:
        if getattr(rows, "texts", None) == tiny.test.texts:
            calls.append((model.recipe, k))
        return predict(model, rows, k, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "predict", counted)
    with_one, without = compare(tiny, ["centroid", "bm25"])
    assert [recipe for recipe, _ in calls] == ["centroid", "bm25"]
    assert [point.dial for point in with_one.dial] == list(STEPS) and without.dial == ()
    assert with_one.predictions.places == 5
    assert with_one.dial[0].values == {name: with_one.measures[name] for name in with_one.dial[0].values}
    assert with_one.as_json()["dial"][3] == {"dial": 0.3, **with_one.dial[3].values}
    assert without.as_json()["dial"] == []
