"""`longtail job`: runs one job of a folder that `--on files` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.errors import counted


def job(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that --on files named, or around it.")],
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Jobs to run, from 0; none: say what is left.")
    ] = None,
) -> None:
    """Run jobs of a folder, as the array job of a scheduler does.

    A job whose file is there is not run again. Example, with Slurm:
    sbatch --array=0-99 --wrap 'longtail job out $SLURM_ARRAY_TASK_ID'
    """
    from longtail.jobs import JobFolder

    found = JobFolder.find(folder)
    for number in numbers or ():
        done = found.run(number)
        typer.echo(f"job {number}: {done:,} done, in {found.outputs[number]}" if done else f"job {number}: was done")
    if not numbers:
        left = found.left()
        typer.echo(f"{len(found) - len(left)} of {counted(len(found), 'job is', 'jobs are')} done")
        if left:
            typer.echo(f"left: {' '.join(map(str, left[:50]))}{' ...' if len(left) > 50 else ''}")
