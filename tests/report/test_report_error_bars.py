"""Error bars over seeds in the charts of the dial, of calibration and of norms."""

from __future__ import annotations

import csv
import io
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_sample import sample_corpus, sample_result, with_dial

from longtail.metrics.curves import calibration_curve
from longtail.report.calibration_chart import calibration_section, mean_curve
from longtail.report.dial_chart import dial_section
from longtail.report.norms_chart import norms_section
from longtail.report.page import render
from longtail.report.result import Result, joined

CORPUS = sample_corpus()
SEEDS = 3


def of_a_seed(name: str, seed: int, skill: float = 0.5) -> Result:
    """One whose scores, figures and norms depend on the seed."""
    norms = np.sqrt(np.maximum(CORPUS.labels.counts, 1)) * (1 + 0.1 * seed)
    result = replace(
        sample_result(name, CORPUS, skill=skill, seed=seed), seeds=(seed,), row_norms=norms.astype(np.float32)
    )
    return with_dial(result, CORPUS)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    several = joined([of_a_seed("parabel", seed) for seed in range(SEEDS)])
    alone = joined([replace(of_a_seed("bm25", seed, 0.7), dial=(), row_norms=None) for seed in range(SEEDS)])
    return [several, alone]


def charts(html: str) -> list[str]:
    return re.findall(r"<svg[^>]*chart.*?</svg>", html)


def saved(html: str) -> list[list[dict[str, str]]]:
    """The files behind the links of a section."""
    links = re.findall(r'href="data:text/csv[^,]*,([^"]*)"', html)
    return [list(csv.DictReader(io.StringIO(urllib.parse.unquote(link)))) for link in links]


def test_the_dial_has_a_bar_across_and_up_at_every_setting(results: list[Result]) -> None:
    html = dial_section(results) or ""
    several, _ = results
    for chart in charts(html):
        groups = dict(re.findall(r'<g class="(s\d)">(.*?)</g>', chart))
        assert groups["s0"].count('class="error"') == 2 * len(several.dial)
        assert groups["s1"].count('class="error"') == 2, "a recipe without a dial has bars, too"
    means = several.dial[3].values
    runs = [run.dial[3].values for run in several.runs]
    sizes = {name: np.std([values[name] for values in runs], ddof=1) for name in ("P@1", "PSP@1")}
    words = ", ".join(f"{name} {means[name]:.1f} ± {size:.1f}" for name, size in sizes.items())
    assert f"parabel, t = 0.3: {words}" in html
    row = saved(html)[0][3]
    assert float(row["deviation of PSP@1"]) == pytest.approx(sizes["PSP@1"], rel=1e-4)
    assert "standard deviations over seeds" in html


def test_calibration_is_that_of_all_seeds(results: list[Result]) -> None:
    html = calibration_section(results, CORPUS) or ""
    curves = [calibration_curve(run.predictions, CORPUS.test, 5) for run in results[0].runs]
    everywhere = set.intersection(*({one.low for one in curve} for curve in curves))
    rates = {low: [one.hit_rate for curve in curves for one in curve if one.low == low] for low in everywhere}
    widest = max(rates, key=lambda low: np.std(rates[low]))
    mean, deviation = np.mean(rates[widest]), np.std(rates[widest], ddof=1)
    assert deviation > 0.01
    rows = {round(float(row["hit rate"]), 5): row for row in saved(html)[0] if row["recipe"] == "parabel"}
    assert float(rows[round(mean, 5)]["deviation of the hit rate"]) == pytest.approx(deviation, rel=1e-3)
    assert f"{100 * mean:.0f} ± {100 * deviation:.0f}% of them right" in html
    found = [mean_curve([calibration_curve(run.predictions, CORPUS.test, 5) for run in one.runs]) for one in results]
    bars = sum(error > 0 for _, errors in found for error in errors)
    assert bars >= 4 and all(chart.count('class="error"') == bars for chart in charts(html))


def test_norms_are_means_over_seeds(results: list[Result]) -> None:
    html = norms_section(results) or ""
    bins = results[0].norm_bins()
    assert all(chart.count('class="error"') == len(bins) for chart in charts(html))
    for place, one in enumerate(bins):
        of_seeds = [run.norm_bins()[place].mean for run in results[0].runs]
        assert one.mean == pytest.approx(np.mean(of_seeds))
        assert f": {one.mean:.2f} ± {np.std(of_seeds, ddof=1):.2f}" in html


def test_seeds_with_classifiers_for_other_labels_are_not_averaged() -> None:
    first, second = (of_a_seed("parabel", seed) for seed in range(2))
    assert second.row_norms is not None
    gone = second.row_norms.copy()
    gone[np.argmax(CORPUS.labels.counts)] = np.nan
    both = joined([first, replace(second, row_norms=gone)])
    assert both.norm_bins() == first.norm_bins() and np.isnan(both.norm_deviations()).all()


@pytest.mark.parametrize("section", [dial_section, norms_section, lambda results: calibration_section(results, CORPUS)])
def test_one_seed_has_no_bars(section: Callable[[Any], Any]) -> None:
    html = section([of_a_seed("parabel", 0)]) or ""
    assert charts(html) and 'class="error"' not in html
    assert "±" not in html and "seeds" not in html and "deviation" not in urllib.parse.unquote(html)


def test_bars_lie_inside_their_charts(results: list[Result], browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_content(render(results, CORPUS, command="x", versions={}))
    outside = page.evaluate("""() => {
      const found = [];
      for (const bar of document.querySelectorAll('#dial .error, #calibration .error, #norms .error')) {
        const box = bar.getBoundingClientRect(), frame = bar.ownerSVGElement.getBoundingClientRect();
        if (frame.width === 0) continue;
        if (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom)
          found.push(bar.getAttribute('d'));
      }
      return found;
    }""")
    assert outside == []
    page.close()
