"""A table of every measure at every k, for those who compare with figures from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.drawing import words
from longtail.drawing.markup import Safe, tag
from longtail.report.comparison_table import measured_at
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result


def more_measures(results: Sequence[Result]) -> Safe:
    """All measures of all recipes, folded away.

    Args:
        results: a result per recipe.

    Returns:
        Markup.
    """
    ks = measured_at(results)
    head = tag(
        "thead",
        tag("tr", tag("th", "Measure", scope="col", class_="stick"), *(tag("th", f"@{k}", scope="col") for k in ks)),
    )
    bodies = (
        tag(
            "tbody",
            tag("tr", tag("th", tag("bdi", result.recipe), scope="rowgroup", colspan=len(ks) + 1, class_="of")),
            *(
                tag(
                    "tr",
                    tag("th", name, scope="row", class_="stick"),
                    *(tag("td", words.percent(result.measures.values.get(f"{name}@{k}"))) for k in ks),
                )
                for name in dict.fromkeys(key.partition("@")[0] for key in result.measures.values)
            ),
        )
        for result in results
    )
    table = table_box("All measures by recipe", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "All measures: nDCG, F1, MRR, recall and others"), table)
