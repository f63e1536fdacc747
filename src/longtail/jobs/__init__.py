"""Work cut into jobs that run anywhere: processes of this machine, a scheduler's array job, or a Ray cluster.

    folder.py       a folder of jobs: jobs.json says what each does and which one file it writes; start reading here
    running.py      `run_jobs`: picks the runner that --on names
    job_runner.py    where the parts of a training run: learners ask for it deep inside `fit`
    processes.py    processes of this machine
    on_ray.py       tasks of a Ray cluster
    worker.py       the process that runs jobs for `processes.py`

A job is idempotent: it writes one file, whole or not at all, and is done when the file is there. So whoever is killed,
running the same command again does what is left, and two that run the same job write the same bytes. The folder, the
input and the output must be on a disk that all machines see under the same path. What a kind of job does is found by
its name in `folder.KINDS`, so this room imports none of the rooms whose work it runs.
"""

from longtail.jobs.folder import Failed, JobFolder
from longtail.jobs.job_runner import JobRunner, current_job_runner, using_jobs, without_jobs
from longtail.jobs.running import check_on, run_jobs

__all__ = [
    "Failed",
    "JobFolder",
    "JobRunner",
    "check_on",
    "current_job_runner",
    "run_jobs",
    "using_jobs",
    "without_jobs",
]
