"""Where the parts of a training run, as a context variable: learners that know nothing of it run here.

A learner whose work can be cut declares `runs_in_jobs`; deep inside its `fit` it asks for `current_job_runner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import JobError, JobsLeft, counted
from longtail.jobs.folder import JobFolder
from longtail.jobs.running import run_jobs

NAMED = 5  # failed jobs that the error names; the others are in the folder


@dataclass(frozen=True)
class JobRunner:
    """Where jobs run, and the folder for what they read and write; all machines see it under the same path."""

    folder: Path
    on: str  # "processes", "files", "ray" or "ray://host:port"

    def run(self, jobs: JobFolder, name: str, *, gpus: bool = False) -> None:
        """Run the jobs that are not done.

        Args:
            jobs: the jobs.
            name: of the stage that is shown.
            gpus: with Ray: a GPU for each job, where the cluster has some.

        Raises:
            JobsLeft: a scheduler must run them (`on` is "files").
            JobError: some failed; the others are done.
        """
        failed = run_jobs(jobs, self.on, name, gpus=gpus)
        if failed:
            shown = "; ".join(one.reason for one in failed[:NAMED])
            more = f" and {len(failed) - NAMED} more, see {jobs.path / 'failed'}" if len(failed) > NAMED else ""
            raise JobError(
                f"{len(failed)} of {counted(len(jobs), 'job')} failed, "
                f"the others are done: {shown}{more}; run the command again"
            )
        left = jobs.left()
        if left:
            raise JobsLeft(jobs.path, left, len(jobs))


_runner: ContextVar[JobRunner | None] = ContextVar("longtail_job_runner", default=None)


@contextmanager
def using_jobs(folder: Path, on: str) -> Iterator[None]:
    """Run the parts of trainings inside this block as jobs.

    Args:
        folder: for the jobs; the same folder again takes up what is done.
        on: "processes", "files", "ray" or "ray://host:port".

    Yields:
        Nothing.
    """
    token = _runner.set(JobRunner(folder.resolve(), on))
    try:
        yield
    finally:
        _runner.reset(token)


@contextmanager
def without_jobs() -> Iterator[None]:
    """Train here, also inside `using_jobs`.

    Yields:
        Nothing.
    """
    token = _runner.set(None)
    try:
        yield
    finally:
        _runner.reset(token)


def current_job_runner() -> JobRunner | None:
    """Look up where the parts of a training run.

    Returns:
        Where; None: here.
    """
    return _runner.get()
