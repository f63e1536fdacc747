"""`longtail compare`: recipes side by side, one table, one report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.shared import (
    Json,
    Source,
    console,
    print_json,
    progress,
    read_recipes,
    reads_data,
    say,
    versions,
)

HELD_OUT = 0.1  # of train, as test, when the data has no test split


@reads_data
def compare(
    source: Source,
    recipes: Annotated[
        list[str], typer.Argument(help="Recipes such as 'centroid + rerank', or TOML files of recipes.")
    ],
    report: Annotated[Path, typer.Option(help="Where to write the HTML report.")] = Path("report.html"),
    json: Json = False,
    force: Annotated[bool, typer.Option(help="Train even if the plan says it will not fit.")] = False,
) -> None:
    """Train recipes on the same data; print one table and write one HTML report."""
    parsed = read_recipes(recipes)

    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.comparison import compare as run
    from longtail.report.page import render, write
    from longtail.report.table import comparison_table

    with progress():
        corpus = source.read(test_share=HELD_OUT)
        if not force:
            refuse_what_will_not_fit(parsed, corpus.train)
        results = run(corpus, parsed)
        command = shlex.join(["longtail", *sys.argv[1:]])
        write(report, render(results, corpus, command=command, versions=versions()))
    for note in corpus.notes:
        say(f"note: {note}")
    if json:
        print_json([result.as_json() for result in results])
    else:
        screen = console()
        screen.print(comparison_table(results, width=screen.width))
    say(f"report: {report}")
