"""`longtail compare`: recipes side by side, one table, one report."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.keep import Keep, kept
from longtail.cli.shared import (
    Json,
    Source,
    console,
    print_json,
    progress,
    read_recipes,
    reads_data,
    ready_to_write,
    say,
    versions,
)
from longtail.errors import DataError, RecipeError

if TYPE_CHECKING:
    from longtail.data.corpus import Corpus
    from longtail.report.result import Result


@reads_data
def compare(
    source: Source,
    recipes: Annotated[
        list[str],
        typer.Argument(metavar="RECIPES", help="Recipes such as 'centroid + rerank', or TOML files of recipes."),
    ],
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="HTML report to write; one that stands there is replaced.")
    ] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Train even if the plan says it will not fit.")] = False,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Train recipes on the same data: one table, one report.

    Each recipe learns from train and valid and is measured on test. Without a test split, part of train is held
    out for it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("compare runs in one process; with torchrun, train one: torchrun ... -m longtail train")
    parsed = read_recipes(recipes)
    ready_to_write(report)

    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.comparison import each
    from longtail.inspection import told_of_leaks

    results: list[Result] = []
    try:
        with kept(parsed, keep), progress():
            corpus = told_of_leaks(source.read(test=True))
            if not force:
                refuse_what_will_not_fit(parsed, corpus.train)
            results.extend(each(corpus, parsed, keep=keep))  # each as it is done
    except BaseException:  # what some recipes took hours for is told although another failed, or somebody lost patience
        if results:
            say(f"note: {len(results)} of {len(parsed)} recipes were done before it stopped; these are theirs")
            try:
                _tell(results, corpus, report, json)
            except DataError as error:
                say(f"error: {error}")
        raise
    _tell(results, corpus, report, json)


def _tell(results: list[Result], corpus: Corpus, report: Path, json: bool) -> None:
    """The table, then the report, which a full disk may refuse."""
    from longtail.report.page import render, write
    from longtail.report.table import comparison_table

    for note in corpus.notes:
        say(f"note: {note}")
    if json:
        print_json([result.as_json() for result in results])
    else:
        screen = console()
        screen.print(comparison_table(results, width=screen.width))
    command = shlex.join(["longtail", *sys.argv[1:]])
    write(report, render(results, corpus, command=command, versions=versions()))
    say(f"report: {report}")
