"""Whether scores are chances: a picture of scores against hits, and the calibration error of each recipe."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.data.corpus import Corpus
from longtail.metrics.curves import ScoreBin, calibration_curve
from longtail.metrics.measures import Measures
from longtail.report import words
from longtail.report.axes import Box, Scale
from longtail.report.facts import table_box
from longtail.report.figures import both, legend, look, marker, picture, rules, stroke, target
from longtail.report.markup import Safe, join, tag
from longtail.report.result import Result
from longtail.report.sections import section

PLACES = 5
MARKS = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]


def chances_section(results: Sequence[Result], corpus: Corpus) -> Safe | None:
    """The chart and its figures; nothing where no recipe's scores lie between 0 and 1."""
    shown = [number for number, result in enumerate(results) if f"ECE@{PLACES}" in result.measures.values]
    if not shown or len(corpus.test) == 0:
        return None
    curves = {number: calibration_curve(results[number].predictions, corpus.test, PLACES) for number in shown}
    without = [result.recipe for number, result in enumerate(results) if number not in shown]
    return section(
        "chances",
        "Whether scores are chances",
        tag(
            "p",
            f"Predictions of the top {PLACES} in groups of like score. Where scores are chances, of those that score "
            "60 out of 100 are right, and the line lies on the diagonal; below it a recipe is too sure of itself. "
            "ECE, the calibration error, is the mean distance from it in points. ",
            tag("code", "+ calibrate"),
            " makes chances of any recipe's scores.",
            class_="lead",
        ),
        legend([results[number].recipe for number in shown], shown),
        tag("figure", chances_svg([results[number].recipe for number in shown], shown, list(curves.values()))),
        _errors(results, shown),
        tag("p", "Scores outside 0 to 1, so no chances: ", tag("bdi", ", ".join(without)), ".", class_="note")
        if without
        else None,
    )


def chances_svg(
    names: Sequence[str], numbers: Sequence[int], curves: Sequence[Sequence[ScoreBin]], what: str = f"top {PLACES}"
) -> Safe:
    """Hit rate over score, both in percent, with the diagonal."""
    title = f"Share of right predictions against their score, {what}: " + ", ".join(names)

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 44)
        across, down = Scale(0, 100, frame.left, frame.right), Scale(0, 100, frame.bottom, frame.top)
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
        for name, number, curve in zip(names, numbers, curves, strict=True):
            spots = [(across(100 * one.mean_score), down(100 * one.hit_rate), one) for one in curve]
            line = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), number)] if spots else []
            for x, y, one in spots:
                told = (
                    f"{name}: {words.count(one.count)} predictions score {100 * one.mean_score:.0f}%, "
                    f"{100 * one.hit_rate:.0f}% of them are right"
                )
                line += [marker(x, y, number), target(x, y, told)]
            drawn.append(tag("g", *line, class_=look(number)))
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
            rows.append(_row(tag("span", "the same before calibrate", class_="note"), result.uncalibrated, names))
    return table_box("Calibration error by recipe", head, tag("tbody", join(rows)), class_="plain")


def _row(name: Safe, measures: Measures, names: Sequence[str]) -> Safe:
    """Errors of one recipe; a dash where scores were no chances."""
    cells = (words.percent(measures.values[one]) if one in measures.values else "–" for one in names)
    return tag("tr", tag("th", name, scope="row", class_="stick"), *(tag("td", cell) for cell in cells))
