"""`longtail predict --on`: predicts the files of a folder in jobs."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from longtail.cli.shared import progress, say
from longtail.errors import DataError, JobError, counted

NAMED = 5  # failed shards that the error names; the others are in the folder


def predict_on(
    on: str, model: Path, source: str, out: Path | None, k: int, threshold: float | None, dial: float
) -> None:
    """Predicts every shard that has no answers yet. One that is broken is named when all others are done."""
    from longtail.jobs import check_on, run_jobs

    if out is None:
        raise DataError("--on writes one file a shard; give the folder with --out")
    if source == "-" or not Path(source).exists():
        raise DataError("is not there; --on takes a folder of shards", source)
    if out.exists() and not out.is_dir():
        raise DataError("is a file; with --on, --out is a folder", out)
    check_on(on)
    from longtail.batch_prediction import prediction_jobs
    from longtail.store import load

    load(model).check_dial(dial, "--dial")  # a damaged model is refused here, not by every worker
    folder = prediction_jobs(model, Path(source), out, k=k, threshold=threshold, dial=dial)
    before, begin = len(folder.left()), time.perf_counter()
    if on == "files":
        _say_what_to_run(out, folder.left(), len(folder))
        return
    with progress():
        failed = run_jobs(folder, on, "predicting shards", gpus=True)
    if failed:
        shown = "; ".join(one.reason for one in failed[:NAMED])
        more = f" and {len(failed) - NAMED} more, see {folder.path / 'failed'}" if len(failed) > NAMED else ""
        raise JobError(
            f"{len(failed)} of {counted(len(folder), 'shard')} failed, "
            f"the others are done: {shown}{more}; mend them and run the "
            "command again"
        )
    was = f" ({len(folder) - before} were there)" if before < len(folder) else ""
    typer.echo(
        f"{counted(len(folder), 'shard is', 'shards are')} answered in {out}{was}, {time.perf_counter() - begin:.1f} s"
    )


def _say_what_to_run(out: Path, left: list[int], all_jobs: int) -> None:
    if not left:
        typer.echo(f"{counted(all_jobs, 'shard is', 'shards are')} answered in {out}")
        return
    say(
        f"{len(left)} of {counted(all_jobs, 'job is', 'jobs are')} left; "
        "run each by its number, such as in an array job of Slurm:"
    )
    say(f"  sbatch --array=0-{all_jobs - 1} --wrap 'longtail job {out} $SLURM_ARRAY_TASK_ID'")
    typer.echo("\n".join(f"longtail job {out} {number}" for number in left))
