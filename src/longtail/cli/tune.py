"""`longtail tune`: the settings of a recipe, found on valid or by folds."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.on import ROUND, jobs_beside, jobs_on
from longtail.cli.shared import Json, Source, console, print_json, progress, reads_data, ready_to_write, say
from longtail.errors import DataError, RecipeError

if TYPE_CHECKING:
    from longtail.tuning.found import Tuning

SHOWN = 10  # trials in the table


@reads_data
def tune(
    source: Source,
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="Recipe with ranges and choices: 'parabel(cost=0.5..4 log, trees=1|3)'."),
    ],
    objective: Annotated[
        str, typer.Option(metavar="SUM", help="What to maximise: measures with weights, such as '0.3*P@1 + 0.7*PSP@5'.")
    ] = "P@1 + PSP@5",
    pareto: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="SUM SUM", help="Two objectives instead: the result is their Pareto front."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Recipes to train; default: 20, or all that fit --within.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for the search, such as 90s, 20m or 1h30m.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Judge by folds of train; default: judge on valid.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help=f"Recipes in training at a time; default: 1, with --on {ROUND}."),
    ] = None,
    checkpoint_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the trials there; the same command goes on from them."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Train in jobs: on processes, files (for a scheduler), ray or ray://host:port."
        ),
    ] = None,
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="HTML page to write; one that is there is replaced.")
    ] = Path("tune.html"),
    json: Json = False,
) -> None:
    """Find the best settings of a recipe, without the test split.

    Trials are judged on valid, or by folds of train. Prints the best recipe alone on standard output, so that a shell
    can pass it on: longtail train DATA "$(longtail tune DATA RECIPE)" --out model
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("tune starts its own processes (--processes); run it without torchrun")
    from longtail.tuning.objective import Objective
    from longtail.tuning.search import tune as search
    from longtail.tuning.search_space import SearchSpace
    from longtail.tuning.trial_journal import require_optuna

    require_optuna()
    if recipe.endswith(".toml"):
        raise RecipeError("tune takes a recipe as text: a TOML file has no ranges")
    space = SearchSpace.parse(recipe)
    for one in pareto or (objective,):
        Objective.parse(one)
    seconds = None if within is None else seconds_of(within)
    ready_to_write(report)
    if on is not None:
        from longtail.jobs import check_on

        check_on(on)
        if on == "files" and within is not None:
            raise RecipeError("--within counts the time of one run, and --on files takes several; give --trials")
    if checkpoint_dir is not None:
        if checkpoint_dir.exists() and not checkpoint_dir.is_dir():
            raise DataError("is a file; give a folder for --checkpoint-dir", checkpoint_dir)
        ready_to_write(checkpoint_dir, folder=True)

    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.recipe import Recipe

    try:
        with jobs_on(on, jobs_beside(report)), progress():
            corpus = source.read()
            refuse_what_will_not_fit([Recipe.parse(text) for text in space.corners()], corpus.train)
            found = search(
                corpus,
                recipe,
                objective=objective,
                pareto=pareto,
                trials=trials,
                within=seconds,
                folds=folds,
                processes=processes if processes is not None else 1 if on is None else ROUND,
                checkpoint_dir=checkpoint_dir,
                seed=source.seed,
            )
    except (KeyboardInterrupt, SystemExit):
        if checkpoint_dir is not None:
            say(f"the trials that ended are in {checkpoint_dir}; the same command goes on from there")
        raise
    for note in corpus.notes:
        say(f"note: {note}")
    _show(found, report, source.data, json)


def _show(found: Tuning, report: Path, data: str, json: bool) -> None:
    """The table and the names of files on standard error; on standard output the recipe alone, or JSON."""
    from longtail.report.page import write
    from longtail.tuning.tuning_page import render

    if not json:
        console(errors=True).print(_table(found))
    command = shlex.join(["longtail", *sys.argv[1:]])
    write(report, render(found, command=command, data=data))
    say(f"page: {report}")
    if json:
        print_json(found.as_json())
    else:
        typer.echo(found.recipe)


def _table(found: Tuning) -> object:
    from rich.table import Table

    several = len(found.objectives) > 1
    besides = [name for name in ("P@1", "PSP@5") if name not in found.objectives]
    table = Table(box=None, title=None, pad_edge=False)
    for name in ("trial", *found.objectives, *besides):
        table.add_column(name, justify="right")
    table.add_column("recipe" + (" (Pareto front)" if several else ""), overflow="fold")
    best = sorted(found.done, key=lambda one: (-one.values[0], one.number))
    for one in found.front if several else best[:SHOWN]:
        measures = one.measures or {}
        cells = [f"{value:.2f}" for value in one.values]
        cells += [f"{measures[name]:.1f}" if name in measures else "" for name in besides]
        table.add_row(str(one.number + 1), *cells, one.recipe)
    return table


def seconds_of(written: str) -> float:
    """20m, 90s, 1h30m or a number of seconds."""
    found = re.fullmatch(
        r"\s*(?:(?P<h>\d+(?:\.\d+)?)\s*h)?\s*(?:(?P<m>\d+(?:\.\d+)?)\s*m(?:in)?)?\s*(?:(?P<s>\d+(?:\.\d+)?)\s*s?)?\s*",
        written,
    )
    parts = found.groupdict() if found else {}
    total = sum(float(parts.get(unit) or 0) * length for unit, length in (("h", 3600), ("m", 60), ("s", 1)))
    if not total:
        raise DataError(f"--within takes a time such as 90s, 20m or 1h30m, got {written!r}")
    return total
