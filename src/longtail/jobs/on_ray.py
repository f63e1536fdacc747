"""Jobs as tasks of a Ray cluster.

`ray` takes the cluster that RAY_ADDRESS names or that runs on this machine, and starts one of this machine alone where
there is none. `ray://host:10001` speaks to a cluster from outside, through Ray's own client. Ray gives the task of a
lost node to another one; a job writes its file whole or not at all, so nothing is there twice.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from longtail.errors import JobError, MissingExtra
from longtail.jobs.folder import Failed, JobFolder

ANSWER = 5.0  # seconds that an address has to answer
IN_FLIGHT = 4  # tasks given to Ray for each of its cores; the rest wait here, so that a million jobs cost no memory
RETRIES = 10  # nodes that a job may lose under it


def check_ray(address: str) -> None:
    """Check that Ray is installed, and that the address answers, before any work.

    Args:
        address: "ray" or "ray://host:port".

    Raises:
        MissingExtra: Ray is not installed.
        JobError: nothing answers.
    """
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingExtra("ray", "cluster", "--on ray") from None
    target = address if address != "ray" else os.environ.get("RAY_ADDRESS", "")
    if target in ("", "auto", "local"):
        return
    host, _, port = target.removeprefix("ray://").partition("/")[0].rpartition(":")
    if not host or not port.isdecimal():
        raise JobError(f"--on {target}: an address is ray://host:port; Ray's client listens on port 10001")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except OSError as error:
        raise JobError(
            f"--on {target}: no Ray cluster answers there ({error.strerror or error}); start one with `ray start "
            "--head`, or check the host and the port (Ray's client: 10001)"
        ) from None


def run_on_ray(
    folder: JobFolder, numbers: Sequence[int], done: Callable[[int, int], None], address: str, gpus: bool = False
) -> list[Failed]:
    """Run jobs as tasks of a Ray cluster.

    Args:
        folder: the jobs; all nodes must see it under the same path.
        numbers: those to run.
        done: called with the number of a job that is done and its rows.
        address: "ray" or "ray://host:port".
        gpus: give each task a GPU, where the cluster has some.

    Returns:
        The jobs that failed.

    Raises:
        JobError: the cluster cannot be reached, or its nodes have another version of longtail.
        MissingExtra: Ray is not installed.
    """
    check_ray(address)
    import ray

    started = not ray.is_initialized()
    try:
        if started:
            ray.init(address=address if address != "ray" else None, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise JobError(f"--on {address}: Ray cannot be reached: {error}") from None
    try:
        return _work_off(ray, folder, numbers, done, gpus)
    finally:
        if started:
            ray.shutdown()


def _work_off(
    ray: Any, folder: JobFolder, numbers: Sequence[int], done: Callable[[int, int], None], gpus: bool
) -> list[Failed]:
    place, version = str(folder.path), folder.version

    # Sent whole, not by name: a node without longtail, or with another one, can say so.
    def run(number: int) -> dict[str, Any]:
        import os
        from pathlib import Path

        os.environ.setdefault("LONGTAIL_THREADS", "1")
        try:
            from longtail.version import __version__ as here
        except ImportError:
            return {"refused": f"a node ({os.uname().nodename}) has no longtail; install {version} on every node"}
        if here != version:
            return {"refused": f"a node ({os.uname().nodename}) has longtail {here}, the driver {version}"}
        from longtail.errors import LongtailError
        from longtail.jobs.folder import JobFolder

        try:
            return {"rows": JobFolder.read(Path(place)).run(number)}
        except LongtailError as error:
            return {"error": str(error)}

    resources = ray.cluster_resources()
    options = {"num_cpus": 1, "max_retries": RETRIES}
    if gpus and resources.get("GPU"):
        options["num_gpus"] = 1
    task = ray.remote(run).options(**options)
    most = max(IN_FLIGHT * int(resources.get("CPU", 1)), 1)
    waiting, flying, failed = list(reversed(numbers)), dict[Any, int](), list[Failed]()
    while waiting or flying:
        while waiting and len(flying) < most:
            number = waiting.pop()
            flying[task.remote(number)] = number
        ready, _ = ray.wait(list(flying), num_returns=1)
        number = flying.pop(ready[0])
        try:
            answer = ray.get(ready[0])
        except ray.exceptions.RayError as error:
            answer = {"error": f"job {number} ({folder.outputs[number].name}) failed: {_short(error)}"}
        if "refused" in answer:
            for other in flying:
                ray.cancel(other, force=True)
            raise JobError(f"{answer['refused']}; results of two versions are not mixed: install the same everywhere")
        if "error" not in answer and not folder.outputs[number].exists():
            answer = {
                "error": f"job {number} is done, but {folder.outputs[number]} is not here; the nodes need a disk that "
                "all of them see under the same path"
            }
        if "error" in answer:
            failed.append(Failed(number, folder.outputs[number], str(answer["error"])))
        else:
            done(number, int(answer["rows"]))
    return sorted(failed, key=lambda one: one.number)


def _short(error: Exception) -> str:
    return " ".join((str(error).strip().splitlines() or [type(error).__name__])[-1].split())[:300]
