"""What the teachers were worth: whether their relevances can be believed, and for which labels they lower variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from longtail.arrays import Doubles
from longtail.data.corpus import Corpus
from longtail.metrics.bounds import Gaps, gaps, worst_teacher
from longtail.metrics.calibration import ErrorBin, Teaching
from longtail.report import words
from longtail.report.axes import Box, Scale, log_ticks
from longtail.report.chances import chances_svg
from longtail.report.facts import table_box
from longtail.report.figures import both, legend, look, marker, picture, rules, stroke, target
from longtail.report.markup import Safe, join, tag
from longtail.report.result import Result
from longtail.report.sections import section

WAYS = ("given labels alone", "teacher alone", "best blend of both")


def teachers_section(results: Sequence[Result], corpus: Corpus) -> Safe | None:
    """A part for each recipe with a teacher; nothing where there is none."""
    parts = [_part(result.recipe, result.teaching, corpus) for result in results if result.teaching is not None]
    if not parts:
        return None
    return section(
        "teachers",
        "What the teachers were worth",
        tag(
            "p",
            "A tail method with a teacher gives a learner soft labels from another model. They help where the teacher "
            "errs less than the few given labels vary.",
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
    """Each way to make relevances of similarities, against what was right on held-out rows."""
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
            tag("h3", "Whether the teacher's relevances can be believed"),
            tag(
                "p",
                "The nearest 100 labels of held-out rows in groups of like relevance; each way is learned on half of "
                "the rows and drawn on the others. ECE is the mean distance from the diagonal in points.",
            ),
            legend(names),
        ),
        chances_svg(
            names, range(len(names)), [one.bins for one in teaching.calibrations], "candidates of held-out rows"
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
                "LEVER's bound on how far the true risk of a label's classifier may lie above that in training, for "
                "unit vectors and log loss, with the error that the teacher had on held-out rows. Where the line "
                "of the given labels is the higher one, their variance costs more than the teacher's errors do. "
                "Compare the lines with each other: their height has no meaning of its own.",
            ),
            legend(WAYS),
        ),
        variance_svg(bins, curves),
    )


def variance_svg(bins: Sequence[ErrorBin], curves: Sequence[Doubles]) -> Safe:
    """Bounds over training rows, both on log scales; most frequent left, as in the other charts."""
    title = "Bound on the risk above that in training against training rows of the label: " + ", ".join(WAYS)
    values = [float(value) for curve in curves for value in curve]

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 52)
        fewest, most = bins[0].middle, max(bins[-1].middle, bins[0].middle * 1.001)
        across = Scale(math.log(most), math.log(fewest), frame.left + 14, frame.right - 14)
        marks = log_ticks(max(min(values), max(values) / 1e4), max(values))
        scale = Scale(math.log(marks[0]), math.log(marks[-1]), frame.bottom, frame.top)

        def down(value: float) -> float:
            return scale(math.log(max(value, marks[0])))

        powers = [10**power for power in range(9) if fewest <= 10**power <= most] or [round(most)]
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
            ("training rows", (frame.left + frame.right) / 2, "middle"),
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
                told = f"{way}, labels of {_range(one)} training rows: {value:.3g}"
                line += [marker(x, y, number), target(x, y, told)]
            parts.append(tag("g", *line, class_=look(number)))
        return picture(width, height, title, parts)

    return both(draw, (440, 376), (360, 320))  # beside the other: as narrow as the second of a pair


def _table(bins: Sequence[ErrorBin], rows: int) -> Safe:
    found = _gaps(bins, rows)
    most = worst_teacher(np.minimum([one.middle for one in bins], rows), rows)
    names = ("Training rows", "labels", "teacher's error", "helps up to", "given", "teacher", "blend", "best λ")
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
                    most[place],
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
