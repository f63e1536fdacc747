"""The section about teachers: what training emitted becomes charts and figures."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from report_sample import sample_corpus, sample_result

from longtail.comparison import run
from longtail.data import Corpus
from longtail.metrics.calibration import Calibration, FrequencyBin, Teaching, score_bins
from longtail.metrics.curves import ScoreBin
from longtail.recipe import Recipe
from longtail.report.page import render
from longtail.report.teachers import teachers_section

TEACHING = Teaching(
    teacher="dpr <b>",
    used="logistic",
    calibrations=(
        Calibration("cosine", (ScoreBin(0.4, 0.6, 30, 0.5, 0.1), ScoreBin(0.6, 0.8, 10, 0.7, 0.5))),
        Calibration("logistic", (ScoreBin(0.0, 0.2, 40, 0.2, 0.2),)),
    ),
    above=0.8,
    frequencies=(FrequencyBin(1, 1, 20, 40, 10, 20.0), FrequencyBin(17, 30, 3, 0, 0, 0.0)),
    chosen={"tau": 15, "blend": 0.5},
    entries=1234,
    seconds={"teacher": 12.34, "soft labels": 0.5, "student": 3.0},
)


def test_the_figures_are_those_that_training_emitted() -> None:
    corpus = sample_corpus()
    html = teachers_section([sample_result("a", corpus), replace(sample_result("b", corpus), teaching=TEACHING)])
    assert html is not None and "dpr <b>" not in html
    text = re.sub("<[^>]+>", "", html)
    assert "1,234 soft labels (tau 15, blend 0.5)" in text and "teacher 12.3 s" in text
    assert "cosine, ECE 35.0" in text and "logistic (used), ECE 0.0" in text  # (30 x 0.4 + 10 x 0.2) / 40
    assert "similarity of at least 0.8 (40 pairs, 20.0% of them right)" in text  # (30 x 0.1 + 10 x 0.5) / 40
    rows = html.split("<tbody>")[1].split("</tr>")
    assert [re.sub("<[^>]+>", " ", row).split() for row in rows[:2]] == [
        ["17–30", "3", "0", "none", "0.0", "none"],
        ["1", "20", "40", "25.0%", "20.0", "0.50"],
    ]
    assert len(html.split('class="chart"')) == 3  # one picture, wide and narrow


def test_no_teacher_no_section() -> None:
    corpus = sample_corpus()
    plain = sample_result("a", corpus)
    assert teachers_section([plain]) is None
    assert 'href="#teachers"' not in render([plain], corpus, command="x", versions={})
    bare = replace(plain, teaching=Teaching("dpr"))  # no valid split: nothing was measured
    html = teachers_section([bare])
    assert html is not None and "chart" not in html


def test_a_comparison_hears_what_a_teacher_was_worth(tiny: Corpus) -> None:
    teacher = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=2)"
    result = run(Recipe.parse(f'knn + lever(teacher="{teacher}", min_relevance=0.5)'), tiny)
    assert result.teaching is not None and result.teaching.teacher == teacher
    assert json.loads(json.dumps(result.as_json()))["teaching"]["chosen"]["tau"] == 15
    page = render([result], tiny, command="x", versions={})
    assert (
        'href="#teachers"' in page
        and "What labels of each frequency were given on held-out examples" in page
        and "nan" not in page.split("<main>")[1].split("examples-data")[0]
    )
    assert run(Recipe.parse("knn"), tiny).teaching is None


def test_bins_of_probabilities_hold_every_candidate() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    probabilities = np.concatenate([rng.random(5000), [0.0, 1.0]])
    hits = rng.random(5002) < probabilities
    bins = score_bins(probabilities, hits)
    assert sum(one.count for one in bins) == 5002
    assert sum(one.count * one.hit_rate for one in bins) == pytest.approx(hits.sum())
    assert all(one.low <= one.mean_score <= one.high for one in bins)
    slow = sum(
        abs(
            probabilities[(np.minimum(probabilities * 15, 14).astype(int) == step)].sum()
            - hits[np.minimum(probabilities * 15, 14).astype(int) == step].sum()
        )
        for step in range(15)
    )
    assert Calibration("x", bins).error == pytest.approx(100 * slow / 5002)
