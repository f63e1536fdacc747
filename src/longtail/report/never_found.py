"""The section of the report on labels that are never predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longtail.data.corpus import Corpus
from longtail.drawing import words
from longtail.drawing.markup import Safe, tag
from longtail.errors import counted
from longtail.metrics.frequency import BANDS
from longtail.report import shapes
from longtail.report.download import csv_link
from longtail.report.findings import PLACES, Findings
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result
from longtail.report.result_table import recipe_name
from longtail.report.sections import nothing, section
from longtail.report.shapes import bar

NEVER_SHOWN = 24  # labels no recipe predicts, as examples


def never_section(results: Sequence[Result], corpus: Corpus, findings: Findings) -> Safe:
    """Labels with a test positive that are in the top 5 of no document, which precision does not show.

    Args:
        results: a result per recipe.
        corpus: the data that they were measured on.
        findings: the labels that each recipe predicts.

    Returns:
        The section.
    """
    wanted = findings.per_band(findings.wanted)
    shown = [number for number in range(len(BANDS)) if wanted[number]]
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Recipe", scope="col", class_="stick"),
            *(tag("th", *_band_head(BANDS[number], int(wanted[number])), scope="col") for number in shown),
            tag("th", *_band_head("all", int(wanted.sum())), scope="col"),
        ),
    )
    rows, saved = [], []
    for number, (result, predicted) in enumerate(zip(results, findings.predicted, strict=True)):
        never = findings.per_band(findings.wanted & ~predicted)
        saved += [(result.recipe, BANDS[one], int(never[one]), int(wanted[one])) for one in shown]
        rows.append(
            tag(
                "tr",
                recipe_name(number, result),
                *(_never_cell(int(never[one]), int(wanted[one]), number) for one in shown),
                _never_cell(int(never.sum()), int(wanted.sum()), number),
            )
        )
    return section(
        "never",
        "Labels never predicted",
        tag(
            "p",
            f"Labels with a test positive that are in the top {PLACES} of no test document. Users never see these "
            "labels, however high the precision is. ",
            csv_link("never-predicted", ("recipe", "band", "never predicted", "labels"), saved) if shown else None,
            class_="lead",
        ),
        table_box("Labels never predicted, by band", head, tag("tbody", *rows), class_="never") if shown else nothing(),
        _by_no_recipe(results, corpus, findings),
    )


def _band_head(name: str, number: int) -> list[Safe | str]:
    return [name, tag("small", counted(number, "label"))]


def _never_cell(never: int, wanted: int, number: int) -> Safe:
    return tag(
        "td",
        tag("span", words.count(never), class_="value"),
        tag("span", words.share(never, wanted), class_="part"),
        bar(never / wanted if wanted else 0.0, shapes.css_class(number)),
    )


def _by_no_recipe(results: Sequence[Result], corpus: Corpus, findings: Findings) -> Safe | None:
    """The labels that no recipe predicts, those with the most test positives first."""
    never = findings.wanted.copy()
    for predicted in findings.predicted:
        never &= ~predicted
    labels = np.flatnonzero(never)
    if not len(labels):
        return None
    positives = np.bincount(corpus.test.targets.indices, minlength=len(never))[labels]
    order = labels[np.lexsort((labels, -positives))][:NEVER_SHOWN].tolist()
    items = (
        tag(
            "li",
            tag("bdi", words.cut(corpus.labels.word(label), 80)),
            tag("span", BANDS[int(findings.band[label])], class_=f"tag b{int(findings.band[label])}"),
        )
        for label in order
    )
    which = "this recipe never predicts" if len(results) == 1 else "none of the recipes ever predicts"
    total = words.count(len(labels))
    what = (
        f"The {counted(len(labels), 'label')}" if len(labels) <= NEVER_SHOWN else f"{NEVER_SHOWN} of the {total} labels"
    )
    return tag("div", tag("h3", f"{what} {which}"), tag("ul", *items, class_="chips", role="list"), class_="by-none")
