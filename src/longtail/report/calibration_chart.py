"""Calibration: a chart of hits against scores, and the calibration error of each recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from longtail.data.corpus import Corpus
from longtail.drawing import words
from longtail.drawing.axes import AxisScale, Box
from longtail.drawing.markup import Safe, join, tag
from longtail.errors import counted
from longtail.metrics.curves import ScoreBin, calibration_curve
from longtail.metrics.measures import Measures
from longtail.report.download import csv_link
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result, deviation
from longtail.report.sections import section
from longtail.report.shapes import both, css_class, error_bar, legend, marker, picture, rules, stroke, target

PLACES = 5
MARKS = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]


def calibration_section(results: Sequence[Result], corpus: Corpus) -> Safe | None:
    """The section of the page on calibration: the chart and its figures.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.

    Returns:
        The section; None where no recipe has scores between 0 and 1.
    """
    shown = [number for number, result in enumerate(results) if f"ECE@{PLACES}" in result.measures.values]
    if not shown or len(corpus.test) == 0:
        return None
    curves, errors = {}, {}
    for number in shown:
        of_seeds = [calibration_curve(one, corpus.test, PLACES) for one in results[number].all_predictions]
        curves[number], errors[number] = mean_curve(of_seeds)
    varied = any(error > 0 for some in errors.values() for error in some)
    without = [result.recipe for number, result in enumerate(results) if number not in shown]
    return section(
        "calibration",
        "Calibration: are scores probabilities?",
        tag(
            "p",
            f"Predictions of the top {PLACES} in groups of similar score. Where scores are probabilities, 60% of the "
            "predictions with a score of 60% are right, and the line lies on the diagonal. Below the diagonal a recipe "
            "is overconfident. ECE, the expected calibration error, is the mean distance from the diagonal in points. ",
            tag("code", "+ calibrate"),
            " turns the scores of any recipe into probabilities.",
            " Points are means over seeds, bars standard deviations." if varied else None,
            class_="lead",
        ),
        legend([results[number].recipe for number in shown], shown),
        tag(
            "figure",
            calibration_svg(
                [results[number].recipe for number in shown], shown, list(curves.values()), errors=list(errors.values())
            ),
        ),
        tag("p", _saved(results, curves, errors, varied), class_="note"),
        _errors(results, shown),
        tag(
            "p",
            "Not shown, because their scores lie outside 0 to 1: ",
            tag("bdi", ", ".join(without)),
            ".",
            class_="note",
        )
        if without
        else None,
    )


def mean_curve(of_seeds: Sequence[Sequence[ScoreBin]]) -> tuple[tuple[ScoreBin, ...], tuple[float, ...]]:
    """The mean of calibration curves of several seeds.

    Args:
        of_seeds: the score bins of each.

    Returns:
        The bins that some seed has predictions in, with means over the seeds that have; and how much each hit rate
        varies: its standard deviation over seeds (n - 1), NaN with one.
    """
    by_score: dict[float, list[ScoreBin]] = {}
    for one in (one for curve in of_seeds for one in curve):
        by_score.setdefault(one.low, []).append(one)
    bins, errors = [], []
    for low in sorted(by_score):
        same = by_score[low]
        count, score, hits = np.mean([(one.count, one.mean_score, one.hit_rate) for one in same], axis=0).tolist()
        bins.append(ScoreBin(low, same[0].high, round(count), score, hits))
        errors.append(deviation([one.hit_rate for one in same]))
    return tuple(bins), tuple(errors)


def _saved(
    results: Sequence[Result],
    curves: Mapping[int, Sequence[ScoreBin]],
    errors: Mapping[int, Sequence[float]],
    varied: bool,
) -> Safe:
    header = ["recipe", "predictions", "mean score", "hit rate"]
    header += ["deviation of the hit rate"] if varied else []
    rows = [
        (results[number].recipe, one.count, one.mean_score, one.hit_rate, error)
        for number, curve in curves.items()
        for one, error in zip(curve, errors[number], strict=True)
    ]
    return csv_link("calibration", header, [row[: len(header)] for row in rows])


def calibration_svg(
    names: Sequence[str],
    numbers: Sequence[int],
    curves: Sequence[Sequence[ScoreBin]],
    what: str = f"top {PLACES}",
    errors: Sequence[Sequence[float]] = (),
) -> Safe:
    """Draws the hit rate over the score, both in percent, with the diagonal.

    Args:
        names: the name of each line.
        numbers: the recipe number of each line, which sets its colour and marker.
        curves: the score bins of each line.
        what: the predictions that were binned, for the chart's title.
        errors: half the length of each hit rate's error bar, in [0, 1]; NaN: none.

    Returns:
        The chart.
    """
    errors = errors or [[0.0] * len(curve) for curve in curves]
    title = f"Share of right predictions against their score, {what}: " + ", ".join(names)

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 44)
        across, down = AxisScale(0, 100, frame.left, frame.right), AxisScale(0, 100, frame.bottom, frame.top)
        parts = [rules(MARKS, down, frame)]
        parts += [
            tag("text", f"{mark:g}", x=across(mark), y=frame.bottom + 17, text_anchor="middle", class_="tick")
            for mark in MARKS
        ]
        parts.append(tag("text", "right, %", x=2, y=13, class_="axis-name"))
        parts.append(tag("text", "score, %", x=frame.right, y=height - 6, text_anchor="end", class_="axis-name"))
        diagonal = f"M{frame.left} {frame.bottom}L{frame.right} {frame.top}"
        parts.append(tag("path", d=diagonal, class_="base", fill="none"))
        drawn = []
        for name, number, curve, halves in zip(names, numbers, curves, errors, strict=True):
            spots = [(across(100 * one.mean_score), down(100 * one.hit_rate), one) for one in curve]
            line = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), number)] if spots else []
            for (x, y, one), half in zip(spots, halves, strict=True):
                right = f"{100 * one.hit_rate:.0f}%"
                if half > 0:
                    low, high = max(one.hit_rate - half, 0.0), min(one.hit_rate + half, 1.0)
                    line.append(error_bar(x, down(100 * low), x, down(100 * high)))
                    right = f"{100 * one.hit_rate:.0f} ± {100 * half:.0f}%"
                figures = (
                    f"{name}: {counted(one.count, 'prediction')} with a mean score of {100 * one.mean_score:.0f}%, "
                    f"{right} of them right"
                )
                line += [marker(x, y, number), target(x, y, figures)]
            drawn.append(tag("g", *line, class_=css_class(number)))
        parts += reversed(drawn)  # the first recipe on top
        return picture(width, height, title, parts)

    return both(draw, (540, 380), (360, 320))


def _errors(results: Sequence[Result], shown: Sequence[int]) -> Safe:
    names = [name for name in ("ECE@1", "ECE@3", "ECE@5") if name in results[shown[0]].measures.values]
    head = tag(
        "thead",
        tag("tr", tag("th", "Recipe", scope="col", class_="stick"), *(tag("th", name, scope="col") for name in names)),
    )
    rows = []
    for number in shown:
        result = results[number]
        rows.append(_row(tag("bdi", result.recipe), result.measures, names))
        if result.uncalibrated is not None:
            rows.append(_row(tag("span", "without calibrate", class_="note"), result.uncalibrated, names))
    return table_box("Calibration error by recipe", head, tag("tbody", join(rows)), class_="plain")


def _row(name: Safe, measures: Measures, names: Sequence[str]) -> Safe:
    """Errors of one recipe; a dash where scores lie outside 0 to 1."""
    cells = (words.percent(measures.values[one]) if one in measures.values else "–" for one in names)
    return tag("tr", tag("th", name, scope="row", class_="stick"), *(tag("td", cell) for cell in cells))
