"""`longtail compare`: recipes side by side, one table, one report."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.checkpoints import ComparisonDir, comparison_messages
from longtail.cli.on import jobs_beside, jobs_on
from longtail.cli.shared import (
    Json,
    Source,
    console,
    places_of,
    print_json,
    progress,
    read_recipes,
    reads_data,
    ready_to_write,
    say,
    versions,
)
from longtail.errors import DataError, RecipeError, counted

if TYPE_CHECKING:
    from longtail.comparison import Comparison
    from longtail.comparison.entries import Entry
    from longtail.data.corpus import Corpus
    from longtail.report.result import Result

ON_VALID = "Measured on valid, to choose between recipes: where this page says test, it means valid. Test was not read."


@dataclass(frozen=True)
class _Task:
    """What is compared, and where it goes."""

    lines: list[Entry]
    split: str
    seeds: tuple[int, ...]
    ks: tuple[int, ...]
    report: Path
    folder: Path | None
    json: bool


@reads_data
def compare(
    source: Source,
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPES",
            help="Recipes such as 'centroid + rerank', TOML files of recipes, folders of saved models, files of "
            "predictions.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="How often each recipe is trained, such as 5, or with which seeds: 3,7,11."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Measure on test, or on valid to choose between recipes without test."),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="RECIPE", help="Add a recipe to the comparison in --checkpoint-dir."),
    ] = None,
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="HTML report to write; one that is there is replaced.")
    ] = Path("report.html"),
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="K,K", help="Values of k in P@k and so on, separated by commas; default: 1,3,5."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Train even if the plan says it will not fit.")] = False,
    checkpoint_dir: ComparisonDir = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Train each recipe with each seed in a job: on processes, files (for a scheduler), ray or "
            "ray://host:port.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train recipes on the same data: one table, one report.

    Each recipe is trained on train and valid and measured on test. Without a test split, part of train is held out
    as test. Intervals are of 95%; the other recipes are tested against the first.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("compare runs in one process; with torchrun, train one: torchrun ... -m longtail train")
    from longtail.comparison import each, read_seeds

    old = _old(checkpoint_dir) if add else None
    words = [*(old.settings["recipes"] if old else []), *(recipes or []), *(add or [])]
    if not words:
        raise RecipeError("compare needs a recipe such as 'parabel', in quotes")
    task = _Task(
        lines=_lines(list(dict.fromkeys(words)) if old else words),
        split=split or (old.split if old else "test"),
        seeds=read_seeds(seeds) if seeds is not None else old.seeds if old else (0,),
        ks=tuple(
            sorted({*places_of(_at(old) if at is None else at), 1, 3, 5})
        ),  # the report draws measures at 1, 3 and 5
        report=report,
        folder=checkpoint_dir,
        json=json,
    )
    if task.split not in ("test", "valid"):
        raise DataError(f"--split of compare must be test or valid, got {split!r}")
    ready_to_write(report)
    if on is not None:
        from longtail.jobs import check_on

        check_on(on)
    results: list[Result] = []
    try:
        with jobs_on(on, jobs_beside(report)), comparison_messages(checkpoint_dir), progress():
            corpus = _read(source, task.split)
            _check(task, corpus, force, old)
            _keep(task, [], corpus)
            results.extend(each(corpus, task.lines, task.ks, checkpoint_dir, task.seeds))  # each as it is done
    except BaseException:  # recipes may have trained for hours: show their results although another failed or Ctrl-C
        if results:
            say(f"note: stopped after {len(results)} of {counted(len(task.lines), 'recipe')}; here are the results")
            try:
                _show(task, results, corpus)
            except DataError as error:
                say(f"error: {error}")
        raise
    _show(task, results, corpus)


def _lines(words: list[str]) -> list[Entry]:
    """Recipes, the recipes of TOML files, folders of saved models and files of predictions, in their order."""
    from longtail.comparison import parse_entry, saved_entry

    lines: list[Entry] = []
    for word in words:
        saved = saved_entry(word)
        lines.extend([saved] if saved else map(parse_entry, read_recipes([word])))
    return lines


def _old(folder: Path | None) -> Comparison:
    from longtail.comparison import read_comparison

    if folder is None:
        raise DataError("--add extends the comparison of a --checkpoint-dir; give that folder too")
    return read_comparison(folder)


def _at(old: Comparison | None) -> str:
    return ",".join(map(str, old.settings["at"])) if old else "1,3,5"


def _read(source: Source, split: str) -> Corpus:
    if split == "valid":
        return source.read().judged_on_valid(source.valid_share, source.seed)
    return source.read(test=True)


def _check(task: _Task, corpus: Corpus, force: bool, old: Comparison | None) -> None:
    """Refuses, before anything is trained, what will not fit; says where an old comparison is of other data."""
    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.data.fingerprint import fingerprint
    from longtail.recipe import Recipe

    if old is not None and old.data["hash"]["test"] != fingerprint(corpus.test):
        say("warning: this is not the data of the old comparison, so its recipes are trained again")
    if not force:
        refuse_what_will_not_fit([one for one in task.lines if isinstance(one, Recipe)], corpus.train)


def _keep(task: _Task, results: list[Result], corpus: Corpus) -> Comparison:
    """Describes the comparison, and writes that into the checkpoint directory for `--add`."""
    from longtail.comparison import summarise
    from longtail.comparison.summary import FILE

    found = summarise(
        results,
        corpus,
        split=task.split,
        seeds=task.seeds,
        settings={"recipes": [str(line) for line in task.lines], "at": list(task.ks)},
        versions=versions(),
        command=shlex.join(["longtail", *sys.argv[1:]]),
    )
    if task.folder is not None:
        try:
            found.save(task.folder / FILE)
        except OSError as error:
            raise DataError(f"cannot be written ({error.strerror or error}); check the disk", task.folder) from None
    return found


def _show(task: _Task, results: list[Result], corpus: Corpus) -> None:
    """Prints the table first, because writing the report may fail on a full disk."""
    from longtail.comparison import judged
    from longtail.report.comparison_table import clean_table, comparison_table, difference_table, shared_notes
    from longtail.report.page import render, write

    results = judged(results, corpus, task.ks)
    described = _keep(task, results, corpus)
    for note in corpus.notes:
        say(f"note: {note}")
    for warning in described.warnings:
        say(f"warning: {warning}")
    if task.json:
        print_json(described.as_json())
    else:
        screen = console()
        screen.print(comparison_table(results, width=screen.width))
        for table in (difference_table(results), clean_table(results, width=screen.width)):
            if table is not None:
                screen.print(table)
        for line in shared_notes(results):
            screen.print(line)
    warnings = (*((ON_VALID,) if task.split == "valid" else ()), *described.warnings)
    page = render(results, corpus, command=described.command, versions=described.versions, warnings=warnings)
    write(task.report, page)
    say(f"report: {task.report}")
