"""The sections of the page that show results: table, charts, and the labels that never come up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from longtail.data.corpus import Corpus
from longtail.metrics.frequency import BANDS
from longtail.metrics.measures import Bin
from longtail.report import figures, words
from longtail.report.facts import MEANING, table_box
from longtail.report.figures import Series, Slot, bar, bars, legend, swatch
from longtail.report.findings import PLACES, Findings
from longtail.report.markup import Safe, tag
from longtail.report.result import Result
from longtail.report.table import Column, columns

NEVER_SHOWN = 24  # labels no recipe predicts, as examples


def section(name: str, title: str, *content: str | Safe | None) -> Safe:
    heading = tag("h2", title, id=f"{name}-title")
    return tag("section", heading, *content, id=name, aria_labelledby=f"{name}-title")


def table_section(results: Sequence[Result]) -> Safe:
    """The comparison with best values marked and differences to the first recipe."""
    shown = columns(results)
    groups = [(group, len(list(members))) for group, members in groupby(shown, key=lambda one: one.group)]
    starts = {next(column.name for column in shown if column.group == group) for group, _ in groups}
    titles = {
        "P": "Precision",
        "PSP": "Propensity-scored precision",
        "C": "Coverage",
        "cost": "Cost",
    }
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Recipe", scope="col", rowspan=2, class_="stick"),
            *(
                tag(
                    "th",
                    titles[group],
                    tag("small", str(results[0].measures.propensity)) if group == "PSP" else None,
                    scope="colgroup",
                    colspan=span,
                    class_="group",
                )
                for group, span in groups
            ),
        ),
        tag("tr", *(_header(column, column.name in starts) for column in shown)),
    )
    best = [column.best(results) for column in shown]
    body = tag(
        "tbody",
        *(
            tag(
                "tr",
                _who(number, result),
                *(
                    _cell(column, result, results[0], top, column.name in starts)
                    for column, top in zip(shown, best, strict=True)
                ),
            )
            for number, result in enumerate(results)
        ),
    )
    key = (
        tag(
            "p",
            tag("b", "Bold", class_="best-key"),
            " is the best of its column; the small figure is the difference to the first recipe, ",
            tag("bdi", results[0].recipe, class_="name"),
            ". Measures are in percent of the test split. Point at, tap or tab to a column's name for its meaning.",
            class_="note",
        )
        if len(results) > 1
        else tag(
            "p",
            "Measures are in percent of the test split. Point at, tap or tab to a column's name for its meaning.",
            class_="note",
        )
    )
    return section(
        "table", "Results", table_box("Results by recipe", head, body, class_="results"), key, _notes(results)
    )


def bins_section(results: Sequence[Result]) -> Safe:
    """Where by label frequency the hits come from."""
    k = results[0].measures.bins_at
    heading = "Where the tail was won and where the head paid" if len(results) > 1 else "Where the hits come from"
    bins = [one for one in results[0].measures.bins if one.labels]
    if not bins:
        return section("bins", heading, _nothing())
    slots = [_slot(one) for one in bins]
    names = [result.recipe for result in results]

    def series(field: str) -> list[Series]:
        return [Series(result.recipe, tuple(_of_bin(result, one.name, field) for one in bins)) for result in results]

    contribution = tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", f"Points of P@{k} from each group of labels"),
            tag("p", f"The points of a line add up to the recipe's P@{k}."),
        ),
        figures.lines(
            series("contribution"),
            slots,
            title=f"Contribution to P@{k} by label frequency, one line a recipe; the table below has the figures",
            direct=True,
        ),
    )
    coverage = tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", "Labels found at least once"),
            tag("p", f"Percent of the group's labels with a test positive that some row's top {k} finds."),
        ),
        figures.lines(
            series("coverage"),
            slots,
            title="Labels found at least once by label frequency; the table below has the figures",
            wide=(440, 376),
        ),
    )
    return section(
        "bins",
        heading,
        tag(
            "p",
            "Labels stand by how many training rows they have, most frequent left, cut into groups that "
            "hold equal shares of the training positives: a few frequent labels weigh as much as very "
            "many rare ones. Under each group: the training rows of its labels, and how many labels it has.",
            class_="lead",
        ),
        legend(names) if len(names) > 1 else None,
        tag("div", contribution, coverage, class_="pair"),
        _bins_table(results, bins, k),
    )


def tradeoff_section(results: Sequence[Result]) -> Safe:
    """Precision against what the tail gets, at 1 with propensities and at 5 in labels found."""
    names = [result.recipe for result in results]
    charts = []
    for across, up, said in (
        ("P@1", "PSP@1", f"A hit weighs by how rare its label is ({results[0].measures.propensity})."),
        ("P@5", "C@5", "Labels found at least once, of those with a test positive."),
    ):
        points = [
            (result.measures.values.get(across, math.nan), result.measures.values.get(up, math.nan))
            for result in results
        ]
        if all(math.isnan(x) or math.isnan(y) for x, y in points):
            continue
        title = f"{across} against {up}: " + "; ".join(
            f"{name} {words.percent(x)} and {words.percent(y)}" for name, (x, y) in zip(names, points, strict=True)
        )
        charts.append(
            tag(
                "figure",
                tag("figcaption", tag("h3", f"{across} against {up}"), tag("p", said)),
                figures.scatter(names, points, title=title, across_name=across, up_name=up),
            )
        )
    return section(
        "tradeoff",
        "Trade-off",
        tag(
            "p",
            "Precision counts every hit alike, so frequent labels rule it. Up and right is better at both.",
            class_="lead",
        ),
        legend(names) if len(names) > 1 else None,
        tag("div", *charts, class_="pair even"),
    )


def cost_section(results: Sequence[Result]) -> Safe:
    names = [result.recipe for result in results]
    panels = [
        ("Training time", [result.train_seconds for result in results], words.seconds),
        ("Peak memory", [float(result.peak_bytes) for result in results], words.size),
        ("Prediction time", [result.predict_seconds for result in results], words.seconds),
        ("Model on disk", [float(result.model_bytes) for result in results], words.size),
    ]
    return section(
        "cost",
        "What it cost",
        tag(
            "div",
            *(
                tag(
                    "figure",
                    tag("figcaption", tag("h3", title)),
                    bars(names, values, [write(value) for value in values]),
                )
                for title, values, write in panels
            ),
            class_="pair even",
        ),
    )


def never_section(results: Sequence[Result], corpus: Corpus, findings: Findings) -> Safe:
    """Labels with a test positive that no row's top 5 ever holds: what precision does not show."""
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
    rows = []
    for number, (result, predicted) in enumerate(zip(results, findings.predicted, strict=True)):
        never = findings.per_band(findings.wanted & ~predicted)
        rows.append(
            tag(
                "tr",
                _who(number, result),
                *(_never_cell(int(never[one]), int(wanted[one]), number) for one in shown),
                _never_cell(int(never.sum()), int(wanted.sum()), number),
            )
        )
    return section(
        "never",
        "Labels never predicted",
        tag(
            "p",
            f"Of the labels that are true for some test row, how many never stand in the top {PLACES} of any "
            "row. Nobody will ever be shown these labels, whatever the precision says.",
            class_="lead",
        ),
        table_box("Labels never predicted, by band", head, tag("tbody", *rows), class_="never")
        if shown
        else _nothing(),
        _by_nobody(results, corpus, findings),
    )


def _who(number: int, result: Result) -> Safe:
    name = tag("div", swatch(number), tag("bdi", result.recipe, class_="name"), class_="who")
    return tag("th", name, scope="row", class_="stick")


def _header(column: Column, start: bool) -> Safe:
    meaning = MEANING[column.group if column.group != "cost" else column.name]
    k = column.name.partition("@")[2]
    text = f"{column.name}: {meaning.replace('the top k', f'the top {k}')}"
    button = tag("button", column.name, type="button", class_="help", data_help=text)
    return tag("th", button, scope="col", class_="start" if start else None)


def _cell(column: Column, result: Result, first: Result, best: str | None, start: bool) -> Safe:
    written = column.write(column.value(result))
    marked = written == best
    parts: list[Safe | str] = [tag("span", written, class_="value")]
    if marked:
        parts.append(tag("span", " (best)", class_="unseen-text"))
    if result is not first:
        difference, kind = column.delta(result, first)
        parts.append(tag("span", difference, class_=f"delta {kind}"))
    classes = " ".join(name for name, yes in (("best", marked), ("start", start)) if yes)
    return tag("td", *parts, class_=classes or None)


def _notes(results: Sequence[Result]) -> Safe | None:
    """What the evaluation noticed; said once where it holds for all."""
    said: dict[str, list[str]] = {}
    for result in results:
        for note in result.measures.notes:
            said.setdefault(note, []).append(result.recipe)
    if not said:
        return None
    items = []
    for note, recipes in said.items():
        named = ", ".join(recipes) if len(recipes) < 3 else f"{recipes[0]} and {len(recipes) - 1} more"
        items.append(tag("li", *([] if len(recipes) == len(results) else [tag("bdi", named), ": "]), note))
    return tag("ul", *items, class_="notes")


def _slot(one: Bin) -> Slot:
    if one.name == "zero-shot":
        return Slot("never seen", f"{words.short_count(one.labels)} labels", apart=True)
    low, high = words.short_count(one.low), words.short_count(one.high)
    plural = "label" if one.labels == 1 else "labels"
    return Slot(low if low == high else f"{low}–{high}", f"{words.short_count(one.labels)} {plural}")


def _of_bin(result: Result, name: str, field: str) -> float:
    """A bin's figure; none where the test split has no positive of the bin."""
    found = next((one for one in result.measures.bins if one.name == name), None)
    return math.nan if found is None or not found.positives else float(getattr(found, field))


def _bins_table(results: Sequence[Result], bins: Sequence[Bin], k: int) -> Safe:
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Training rows", scope="col", class_="stick"),
            *(tag("th", _range(one), *_sizes(one), scope="col") for one in bins),
        ),
    )
    fields = (("contribution", f"points of P@{k}"), ("recall", "recall"), ("coverage", "coverage"))
    bodies = (
        tag(
            "tbody",
            tag("tr", tag("th", tag("bdi", result.recipe), scope="rowgroup", colspan=len(bins) + 1, class_="of")),
            *(
                tag(
                    "tr",
                    tag("th", name, scope="row", class_="stick"),
                    *(tag("td", words.percent(_of_bin(result, one.name, field))) for one in bins),
                )
                for field, name in fields
            ),
        )
        for result in results
    )
    table = table_box("Figures by frequency group", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "The figures behind these charts"), table)


def _range(one: Bin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return "never seen" if one.name == "zero-shot" else low if low == high else f"{low}–{high}"


def _sizes(one: Bin) -> list[Safe]:
    return [tag("small", f"{words.count(one.labels)} labels"), tag("small", f"{words.count(one.positives)} true")]


def _band_head(name: str, number: int) -> list[Safe | str]:
    return [name, tag("small", f"{words.count(number)} labels")]


def _never_cell(never: int, wanted: int, number: int) -> Safe:
    return tag(
        "td",
        tag("span", words.count(never), class_="value"),
        tag("span", words.share(never, wanted), class_="part"),
        bar(never / wanted if wanted else 0.0, figures.look(number)),
    )


def _by_nobody(results: Sequence[Result], corpus: Corpus, findings: Findings) -> Safe | None:
    """The labels that no recipe predicts, those with the most test rows first."""
    nobody = findings.wanted.copy()
    for predicted in findings.predicted:
        nobody &= ~predicted
    rows = np.flatnonzero(nobody)
    if not len(rows):
        return None
    asked = np.bincount(corpus.test.targets.indices, minlength=len(nobody))[rows]
    order = rows[np.lexsort((rows, -asked))][:NEVER_SHOWN].tolist()
    items = (
        tag(
            "li",
            tag("bdi", words.cut(corpus.labels.word(label), 80)),
            tag("span", BANDS[int(findings.band[label])], class_=f"tag b{int(findings.band[label])}"),
        )
        for label in order
    )
    which = "this recipe never predicts" if len(results) == 1 else "none of the recipes ever predicts"
    total = words.count(len(rows))
    what = f"The {total} labels" if len(rows) <= NEVER_SHOWN else f"{NEVER_SHOWN} of the {total} labels"
    return tag("div", tag("h3", f"{what} {which}"), tag("ul", *items, class_="chips", role="list"), class_="nobody")


def _nothing() -> Safe:
    return tag("p", "The test split has no true labels.", class_="note")
