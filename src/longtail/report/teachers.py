"""How good teachers are: the calibration of their relevances, and what labels of each frequency were given."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.drawing import words
from longtail.drawing.markup import Safe, join, tag
from longtail.metrics.calibration import FrequencyBin, Teaching
from longtail.report.calibration import calibration_svg
from longtail.report.download import csv_link
from longtail.report.facts import table_box
from longtail.report.result import Result
from longtail.report.sections import section
from longtail.report.shapes import legend


def teachers_section(results: Sequence[Result]) -> Safe | None:
    """The section of the page on teachers, with a part for each recipe that has one.

    Args:
        results: a result per recipe.

    Returns:
        The section; None where no recipe has a teacher.
    """
    parts = [_part(result.recipe, result.teaching) for result in results if result.teaching is not None]
    if not parts:
        return None
    return section(
        "teachers",
        "How good the teachers are",
        tag(
            "p",
            "A tail method with a teacher trains the learner on soft labels from another model. They help where they "
            "are right as often as they say.",
            class_="lead",
        ),
        *parts,
    )


def _part(recipe: str, teaching: Teaching) -> Safe:
    chosen = ", ".join(f"{name} {value:g}" for name, value in teaching.chosen.items())
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in teaching.seconds.items())
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
        _relevances(teaching),
        _table(teaching.frequencies) if teaching.frequencies else None,
    )


def _relevances(teaching: Teaching) -> Safe | None:
    """Each way to turn similarities into relevances, against the hits on held-out examples."""
    if not teaching.calibrations:
        return None
    number = sum(one.count for one in teaching.calibrations[0].bins)
    right = sum(one.count * one.hit_rate for one in teaching.calibrations[0].bins) / max(number, 1)
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
                "Of the nearest 100 labels of held-out examples those with a similarity of at least "
                f"{teaching.above:g} ({words.count(number)} pairs, {right:.1%} of them right), in groups of similar "
                "relevance. Each calibration is "
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


def _table(bins: Sequence[FrequencyBin]) -> Safe:
    """What labels of each frequency were given on held-out examples."""
    names = ("Training examples", "labels", "positives", "found", "relevance given", "right for each 1.0 given")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    body = (
        tag(
            "tr",
            tag("th", _range(one), scope="row", class_="stick"),
            tag("td", words.count(one.labels)),
            tag("td", words.count(one.positives)),
            tag("td", f"{100 * one.found / one.positives:.1f}%" if one.positives else "none"),
            tag("td", f"{one.expected:.1f}"),
            tag("td", f"{one.found / one.expected:.2f}" if one.expected else "none"),
        )
        for one in reversed(bins)
    )
    caption = "What labels of each frequency were given on held-out examples"
    meaning = (
        "Found: the share of the positives that is among the pairs with a relevance. With less than 1 right for each "
        "1.0 given, the teacher overrates such labels."
    )
    return tag(
        "figure",
        tag("figcaption", tag("h3", caption), tag("p", meaning)),
        table_box(caption, head, tag("tbody", join(body)), class_="plain bins"),
    )


def _range(one: FrequencyBin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return low if low == high else f"{low}–{high}"
