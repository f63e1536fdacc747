"""Runs a folder of jobs where `--on` says."""

from __future__ import annotations

from longtail.errors import JobError, did_you_mean
from longtail.jobs.folder import Failed, JobFolder
from longtail.progress import stage

PLACES = ("processes", "files", "ray")


def check_on(on: str) -> None:
    """Check the value of `--on` before any work.

    Args:
        on: "processes", "files", "ray" or "ray://host:port".

    Raises:
        JobError: it is none of them, or no Ray cluster answers at the address.
        MissingExtra: Ray is needed and not installed.
    """
    if on == "ray" or on.startswith("ray://"):
        from longtail.jobs.on_ray import check_ray

        check_ray(on)
    elif on not in PLACES:
        raise JobError(f"--on takes processes, files, ray or ray://host:port, got {on!r}{did_you_mean(on, PLACES)}")


def run_jobs(folder: JobFolder, on: str, name: str, *, workers: int = 0, gpus: bool = False) -> list[Failed]:
    """Run the jobs of a folder whose files are not there.

    Args:
        folder: the jobs.
        on: "processes", "ray" or "ray://host:port"; with "files" nothing is run here.
        name: of the stage that is shown.
        workers: processes of this machine; 0: one a core.
        gpus: with Ray: a GPU for each task, where the cluster has some.

    Returns:
        The jobs that failed; the others are done, unless `on` is "files".

    Raises:
        JobError: see `check_on`; or the nodes have another version of longtail.
    """
    folder.check_version()
    left = folder.left()
    if on == "files" or not left:
        return []
    with stage(name, total=len(folder)) as advance:
        advance(len(folder) - len(left))
        if on == "processes":
            from longtail.jobs.processes import run_in_processes

            return run_in_processes(folder, left, lambda number, rows: advance(1), workers)
        from longtail.jobs.on_ray import run_on_ray

        return run_on_ray(folder, left, lambda number, rows: advance(1), on, gpus)
