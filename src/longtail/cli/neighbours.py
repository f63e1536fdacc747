"""`longtail neighbours`: the labels that occur together with a label."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from longtail.cli.shared import Json, Source, console, print_json, progress, reads_data, ready_to_write, say
from longtail.errors import counted

if TYPE_CHECKING:
    from longtail.neighbours import Graph


@reads_data
def neighbours(
    source: Source,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="A label's id, or its text in quotes.")],
    k: Annotated[int, typer.Option("-k", metavar="NUMBER", help="How many labels to show.")] = 10,
    graph: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="cooccurrence: share of its examples that have the other label; walk: random walks; symmetric: both "
            "shares; bow: common words of the label texts.",
        ),
    ] = "cooccurrence",
    threshold: Annotated[float, typer.Option(metavar="WEIGHT", help="Leave out weights up to this one.")] = 0.0,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a bar chart.")] = None,
    json: Json = False,
) -> None:
    """Show the labels that occur together with a label.

    The tail method gandalf turns these weights into soft targets.
    """
    import numpy as np

    from longtail.errors import DataError, did_you_mean, what_to_do
    from longtail.neighbours import GRAPHS, find_label, linking
    from longtail.neighbours import neighbours as linked
    from longtail.soft_targets import right_by_size

    if graph not in GRAPHS:
        raise DataError(f"there is no graph {graph!r}{did_you_mean(graph, GRAPHS)} (graphs: {', '.join(GRAPHS)})")
    if k < 1 or not 0 <= threshold < 1:
        raise DataError(f"-k must be at least 1 and --threshold 0 to below 1, got {k} and {threshold:g}")
    if svg is not None:
        ready_to_write(svg)
    with progress():
        corpus = source.read()
        labels = corpus.labels
        row = find_label(labels, label)
        kind = cast("Graph", graph)
        train = linking(corpus.train, kind)
        found = linked(train, row, k, kind, threshold)
        right = right_by_size(corpus.train, corpus.valid)
    if len(train) < len(corpus.train):
        skipped = len(corpus.train) - len(train)
        what = counted(skipped, "example with more than 100 labels is", "examples with more than 100 labels are")
        say(f"note: {what} not counted, as in gandalf")
    # Counted on the examples that the weights come from, without those held out as valid.
    counts = np.bincount(train.targets.indices, minlength=len(labels))
    subtitle = f"{counted(int(counts[row]), 'training example')}; weights by {graph}"
    if svg is not None:
        from longtail.atomic import new_file
        from longtail.report.links import links_svg

        bars = [(labels.word(one.label), one.weight) for one in found]
        drawn = links_svg(labels.word(row), subtitle, bars, threshold or None)
        try:
            with new_file(svg) as file:
                file.write(drawn)
        except OSError as error:
            raise DataError(f"cannot be written ({error.strerror or error}); {what_to_do(error)}", svg) from None
        say(f"figure: {svg}")
    if json:
        print_json(
            {
                "label": {"id": labels.ids[row], "text": labels.texts[row], "rows": int(counts[row])},
                "graph": graph,
                "neighbours": [
                    {
                        "id": labels.ids[one.label],
                        "text": labels.texts[one.label],
                        "weight": round(one.weight, 6),
                        "together": one.together,
                        "rows": int(counts[one.label]),
                    }
                    for one in found
                ],
                "right_by_size": [asdict(one) for one in right],
            }
        )
        return
    from rich.table import Table

    table = Table(title=f"{labels.word(row)} ({labels.ids[row]}): {subtitle}", title_justify="left")
    table.add_column("label")
    table.add_column("id")
    for column in ("weight", "examples with both", "its examples"):
        table.add_column(column, justify="right")
    for one in found:
        examples = (f"{one.together:,}", f"{counts[one.label]:,}")
        table.add_row(labels.word(one.label), labels.ids[one.label], f"{one.weight:.3f}", *examples)
    console().print(table)
    if right:
        shares = ", ".join(map(str, right))
        say(f"soft targets of gandalf that are right on documents that are the label, by size: {shares}")
    else:
        say("too few documents are labels themselves to count how often soft targets are right")
    if not found:
        say("no label occurs together with it" + ("; try a smaller --threshold" if threshold else ""))
