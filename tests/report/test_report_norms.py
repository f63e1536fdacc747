from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_sample import sample_corpus, sample_result

from longtail.data import Corpus
from longtail.drawing.axes import log_ticks
from longtail.recipe import Recipe
from longtail.report.norms_chart import norm_lines, norms_section
from longtail.report.page import render
from longtail.report.result import Result


def with_norms(name: str, norms: object, seed: int = 0) -> Result:
    array = None if norms is None else np.asarray(norms, dtype=np.float32)
    return replace(sample_result(name, sample_corpus(), seed=seed), row_norms=array)


def power_norms(power: float) -> np.ndarray:
    return np.maximum(sample_corpus().labels.counts, 1).astype(np.float32) ** power


def test_recipes_with_the_same_classifiers_share_a_line() -> None:
    plain, flat = power_norms(0.5), power_norms(0.25)
    results = [
        with_norms("bm25", None),
        with_norms("parabel", plain),
        with_norms("parabel + taug", flat),
        with_norms("parabel + rerank", plain.copy()),
        with_norms("parabel + ranknet", plain.copy()),
    ]
    lines = norm_lines(results)
    assert [(line.number, line.name, line.same) for line in lines] == [
        (1, "parabel", ("parabel + rerank", "parabel + ranknet")),
        (2, "parabel + taug", ()),
    ]
    html = norms_section(results)
    assert html is not None
    text = re.sub("<[^>]+>", "", html)
    assert "parabel + rerank and parabel + ranknet have the same classifiers as parabel" in text
    assert "bm25 has no classifiers" in text
    assert "s1" in html and "s2" in html and "s0" not in html  # the colours of the rest of the page


def test_figures_stand_behind_the_chart() -> None:
    counts = sample_corpus().labels.counts
    html = norms_section([with_norms("<b>a</b>", power_norms(1.0))])
    assert html is not None and "<b>a</b>" not in html
    most = int(counts.max())
    tops = counts[counts > 2 ** (math.ceil(math.log2(most)) - 1)]
    assert f"<td>{tops.mean():.2f}</td>" in html  # a norm is the count of its label here
    assert '<th scope="row" class="stick">1</th><td>' in html


def test_no_classifiers_no_section() -> None:
    corpus = sample_corpus()
    results = [with_norms("bm25", None), with_norms("knn", None, seed=1)]
    assert norms_section(results) is None
    assert 'href="#norms"' not in render(results, corpus, command="x", versions={})
    results.append(with_norms("dismec", power_norms(0.5), seed=2))
    html = render(results, corpus, command="x", versions={})
    assert 'href="#norms"' in html and 'id="norms"' in html


@pytest.mark.parametrize(
    "norms",
    [np.zeros(60), np.full(60, 3.0), np.where(np.arange(60) < 2, np.nan, 0.0), np.geomspace(1e-9, 1e6, 60)],
    ids=["all weights dropped", "all alike", "none for the head", "far apart"],
)
def test_odd_norms_stay_inside_the_picture(norms: np.ndarray) -> None:
    html = norms_section([with_norms("a", norms)])
    assert html is not None and "nan" not in html and "inf" not in html
    charts = html.split('class="chart"')[1:]
    assert len(charts) == 2
    for chart in charts:
        _, _, _, height = re.search(r'viewBox="([^"]+)"', chart)[1].split()  # type: ignore[index]
        heights = [
            float(y) for path in re.findall(r'd="(M[^"]+)"', chart) for y in re.findall(r"[ML][\d.]+ (\S+?)[LZ]", path)
        ]
        assert len(heights) > 5 and 0 <= min(heights) <= max(heights) <= float(height)


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_log_ticks_enclose(low: float, factor: float) -> None:
    marks = log_ticks(low, low * factor)
    assert marks == sorted(set(marks)) and len(marks) >= 2
    assert marks[0] <= low * 1.001 and marks[-1] >= low * factor * 0.999
    assert marks[0] > low / 3 and marks[-1] < low * factor * 7


def test_json_has_the_bins() -> None:
    data = with_norms("a", power_norms(1.0)).as_json()["row_norms"]
    assert data[0]["low"] == data[0]["high"] == 1 and data[0]["mean"] == 1.0
    assert with_norms("a", None).as_json()["row_norms"] is None


def test_norms_of_real_recipes(tiny: Corpus) -> None:
    def norms(recipe: str) -> np.ndarray | None:
        return Recipe.parse(recipe).fit(tiny.train, tiny.valid).row_norms()

    plain, reranked, apart = norms("dismec"), norms("dismec + rerank"), norms("dismec + taug(head_share=0.3)")
    assert plain is not None and reranked is not None and apart is not None
    assert np.array_equal(plain, reranked)
    assert np.isfinite(apart).all() and not np.isclose(plain, apart).any()
    assert norms("knn + taug(head_share=0.3)") is None and norms("bm25") is None


def test_labels_of_a_side_that_learned_nothing_have_no_norms(tiny: Corpus) -> None:
    rare = np.argsort(-tiny.labels.counts, kind="stable")[3:]
    keep = np.setdiff1d(np.arange(len(tiny.train)), tiny.train.targets[:, rare].nonzero()[0])
    model = Recipe.parse("dismec + taug(head_share=0.3)").fit(tiny.train.take(keep), tiny.valid)
    norms = model.row_norms()
    assert norms is not None and norms.shape == (10,)
    assert np.isnan(norms[rare]).all() and np.isfinite(np.delete(norms, rare)).all()
