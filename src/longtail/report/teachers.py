"""How good teachers are: the calibration of their relevances, and the labels for which they lower variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from longtail.arrays import Doubles
from longtail.data.corpus import Corpus
from longtail.drawing import words
from longtail.drawing.axes import AxisScale, Box, log_ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.metrics.bounds import Gaps, gaps, worst_teacher
from longtail.metrics.calibration import ErrorBin, Teaching
from longtail.report.calibration_chart import calibration_svg
from longtail.report.download import csv_link
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result
from longtail.report.sections import section
from longtail.report.shapes import both, css_class, legend, marker, picture, rules, stroke, target

WAYS = ("given labels alone", "teacher alone", "best blend of both")


def teachers_section(results: Sequence[Result], corpus: Corpus) -> Safe | None:
    """The section of the page on teachers, with a part for each recipe that has one.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.

    Returns:
        The section; None where no recipe has a teacher.
    """
    parts = [_part(result.recipe, result.teaching, corpus) for result in results if result.teaching is not None]
    if not parts:
        return None
    return section(
        "teachers",
        "How good the teachers are",
        tag(
            "p",
            "A tail method with a teacher trains the learner on soft labels from another model. They help where the "
            "error of the teacher is smaller than the variance of the few given labels.",
            class_="lead",
        ),
        *parts,
    )


def _part(recipe: str, teaching: Teaching, corpus: Corpus) -> Safe:
    chosen = ", ".join(f"{name} {value:g}" for name, value in teaching.chosen.items())
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in teaching.seconds.items())
    rows = max(corpus.labels.train_rows, len(corpus.train))
    return tag(
        "div",
        tag("h3", tag("bdi", recipe)),
        tag(
            "p",
            "Teacher: ",
            tag("bdi", teaching.teacher, class_="name"),
            f". {words.count(teaching.entries)} soft labels ({chosen}). Time: {seconds}.",
            class_="note",
        ),
        tag("div", _relevances(teaching), _variance(teaching.errors, rows), class_="pair"),
        _table(teaching.errors, rows) if teaching.errors else None,
    )


def _relevances(teaching: Teaching) -> Safe | None:
    """Each way to turn similarities into relevances, against the hits on held-out examples."""
    if not teaching.calibrations:
        return None
    names = [
        f"{one.name}{' (used)' if one.name == teaching.used else ''}, ECE {one.error:.1f}"
        for one in teaching.calibrations
    ]
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", "Calibration of the teacher's relevances"),
            tag(
                "p",
                "The nearest 100 labels of held-out examples in groups of similar relevance. Each calibration is "
                "fitted on half of the examples and drawn on the others. ECE is the mean distance from the diagonal "
                "in points. ",
                csv_link(
                    "teacher-calibration",
                    ("calibration", "candidates", "mean relevance", "hit rate"),
                    [(one.name, b.count, b.mean_score, b.hit_rate) for one in teaching.calibrations for b in one.bins],
                ),
            ),
            legend(names),
        ),
        calibration_svg(
            names, range(len(names)), [one.bins for one in teaching.calibrations], "candidates of held-out examples"
        ),
    )


def _gaps(bins: Sequence[ErrorBin], rows: int) -> Gaps:
    held = np.minimum([one.middle for one in bins], rows)
    return gaps(held, rows, np.minimum([one.error for one in bins], 1.0))


def _variance(bins: Sequence[ErrorBin], rows: int) -> Safe | None:
    if not bins:
        return None
    found = _gaps(bins, rows)
    curves = (found.given, found.teacher, found.blended)
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", "Where label variance dominates"),
            tag(
                "p",
                "LEVER's bound on how far the true risk of a label's classifier may lie above its training risk, for "
                "unit-norm vectors and log loss, with the teacher's error on held-out examples. Where the line of the "
                "given labels is above that of the teacher, their variance costs more than the teacher's errors. "
                "Compare the lines with each other; their heights alone mean nothing. ",
                csv_link(
                    "label-variance",
                    ("training examples", *WAYS),
                    [
                        (one.middle, *values)
                        for one, *values in zip(bins, *(curve.tolist() for curve in curves), strict=True)
                    ],
                ),
            ),
            legend(WAYS),
        ),
        variance_svg(bins, curves),
    )


def variance_svg(bins: Sequence[ErrorBin], curves: Sequence[Doubles]) -> Safe:
    """Draws bounds over training examples, both on log scales; the most frequent labels are left.

    Args:
        bins: labels by frequency, the rarest first.
        curves: a bound per bin for each of WAYS, (bins,) each.

    Returns:
        The chart.
    """
    title = "Bound on true risk minus training risk, against training examples of the label: " + ", ".join(WAYS)
    values = [float(value) for curve in curves for value in curve]

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 52)
        rarest, commonest = bins[0].middle, max(bins[-1].middle, bins[0].middle * 1.001)
        across = AxisScale(math.log(commonest), math.log(rarest), frame.left + 14, frame.right - 14)
        marks = log_ticks(max(min(values), max(values) / 1e4), max(values))
        scale = AxisScale(math.log(marks[0]), math.log(marks[-1]), frame.bottom, frame.top)

        def down(value: float) -> float:
            return scale(math.log(max(value, marks[0])))

        powers = [10**power for power in range(9) if rarest <= 10**power <= commonest] or [round(commonest)]
        parts = [rules(marks[:: max(len(marks) // 6, 1)], down, frame)]
        parts += [
            tag(
                "text",
                words.short_count(power),
                x=across(math.log(power)),
                y=frame.bottom + 17,
                text_anchor="middle",
                class_="tick",
            )
            for power in powers
        ]
        parts.append(tag("text", "bound", x=2, y=13, class_="axis-name"))
        names = (
            ("← most frequent", frame.left, "start"),
            ("training examples", (frame.left + frame.right) / 2, "middle"),
            ("rarest →", frame.right, "end"),
        )
        parts += [tag("text", name, x=x, y=height - 6, text_anchor=side, class_="axis-name") for name, x, side in names]
        for number, (way, curve) in enumerate(zip(WAYS, curves, strict=True)):
            spots = [
                (across(math.log(one.middle)), down(value), one, value)
                for one, value in zip(bins, map(float, curve), strict=True)
            ]
            line = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in spots), number)]
            for x, y, one, value in spots:
                figures = f"{way}, labels with {_range(one)} training examples: {value:.3g}"
                line += [marker(x, y, number), target(x, y, figures)]
            parts.append(tag("g", *line, class_=css_class(number)))
        return picture(width, height, title, parts)

    return both(draw, (440, 376), (360, 320))  # as narrow as the second chart of a pair


def _table(bins: Sequence[ErrorBin], rows: int) -> Safe:
    found = _gaps(bins, rows)
    largest_error = worst_teacher(np.minimum([one.middle for one in bins], rows), rows)
    names = ("Training examples", "labels", "teacher's error", "helps up to", "given", "teacher", "blend", "best λ")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    body = (
        tag(
            "tr",
            tag("th", _range(one), scope="row", class_="stick"),
            tag("td", words.count(one.labels)),
            *(
                tag("td", f"{value:.3g}")
                for value in (
                    one.error,
                    largest_error[place],
                    found.given[place],
                    found.teacher[place],
                    found.blended[place],
                    found.blend[place],
                )
            ),
        )
        for place, one in reversed(list(enumerate(bins)))
    )
    table = table_box("Bounds by label frequency", head, tag("tbody", join(body)), class_="plain bins")
    return tag("details", tag("summary", "The figures behind this chart"), table)


def _range(one: ErrorBin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return low if low == high else f"{low}–{high}"
