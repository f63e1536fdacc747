"""`--on` of `train`, `tune` and `compare`: their parts run as jobs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from longtail.cli.shared import say
from longtail.errors import JobsLeft, RecipeError, counted

if TYPE_CHECKING:
    from longtail.recipe import Recipe

ROUND = 8  # trials of `tune` that are drawn together, where --processes does not say


def check_train_on(on: str, recipe: Recipe) -> None:
    """Refuses a place that does not answer, and a recipe that has no work for jobs."""
    from longtail import catalogue
    from longtail.jobs import check_on

    check_on(on)
    if not recipe.runs_in_jobs:
        able = [
            name for name in catalogue.LEARNERS if getattr(catalogue.learner_class(name), "runs_in_jobs", False) is True
        ]
        raise RecipeError(
            f"{recipe} has nothing to cut into jobs; leave --on out, or use {', '.join(able)}, alone or "
            "as members, or folds, as of ranknet, or nets apart, mach(shared_encoder=false); other nets train on "
            "several GPUs and hosts with torchrun"
        )


@contextmanager
def jobs_on(on: str | None, folder: Path) -> Iterator[None]:
    """Runs the work in this block as jobs of a folder, which is removed when all are done."""
    if on is None:
        yield
        return
    from longtail.jobs import using_jobs

    try:
        with using_jobs(folder, on):
            yield
    except JobsLeft as waiting:
        here = waiting.folder
        say(
            f"{len(waiting.left)} of {counted(waiting.jobs, 'job is', 'jobs are')} left; "
            "run each by its number, such as in an array job:"
        )
        say(f"  sbatch --array=0-{waiting.jobs - 1} --wrap 'longtail job {here} $SLURM_ARRAY_TASK_ID'")
        say("then run the same command again")
        typer.echo("\n".join(f"longtail job {here} {number}" for number in waiting.left))
        raise typer.Exit from None
    shutil.rmtree(folder, ignore_errors=True)


def jobs_beside(path: Path) -> Path:
    """The folder of the jobs that make a file or folder."""
    return path.with_name(f"{path.name}.jobs")
