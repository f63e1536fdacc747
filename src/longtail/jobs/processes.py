"""Jobs in processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

from longtail.jobs.folder import Failed, JobFolder
from longtail.threads import thread_count

ATTEMPTS = 3  # of a job whose process was killed: by the system for its memory, most likely


def run_in_processes(
    folder: JobFolder, numbers: Sequence[int], done: Callable[[int, int], None], workers: int = 0
) -> list[Failed]:
    """Run jobs in processes that each take one after another, with one thread each.

    Args:
        folder: the jobs.
        numbers: those to run.
        done: called with the number of a job that is done and its rows; from several threads.
        workers: processes; 0: `thread_count()`.

    Returns:
        The jobs that failed. A process that is killed is started again, and its job given out again.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        waiting.put(number)
    failed: list[Failed] = []
    workers = min(workers or thread_count(), len(numbers))
    environment = {**os.environ, "LONGTAIL_THREADS": str(max(thread_count() // max(workers, 1), 1))}
    command = [sys.executable, "-m", "longtail.jobs.worker", str(folder.path)]
    running: list[subprocess.Popen[str]] = []

    def serve(_: int) -> None:
        process: subprocess.Popen[str] | None = None
        while True:
            try:
                number = waiting.get_nowait()
            except Empty:
                break
            for attempt in range(ATTEMPTS):
                if process is None:
                    process = subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
                    )
                    running.append(process)
                answer = _ask(process, number)
                if answer is not None:
                    break
                code = process.wait()
                process = None
                if attempt == ATTEMPTS - 1:
                    how = f"signal {-code}" if code < 0 else f"exit code {code}"
                    reason = f"its process ended {ATTEMPTS} times ({how}); memory may be short: fewer workers take less"
                    answer = {"error": f"job {number} ({folder.outputs[number].name}) failed: {reason}"}
            if answer is not None and "error" in answer:
                failed.append(Failed(number, folder.outputs[number], str(answer["error"])))
            elif answer is not None:
                done(number, int(answer["rows"]))
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    pool = ThreadPoolExecutor(max(workers, 1))
    try:
        for one in [pool.submit(serve, number) for number in range(workers)]:
            one.result()
    finally:
        while not waiting.empty():
            waiting.get()
        for process in running:
            process.kill()  # after an error or Ctrl-C; jobs leave whole files or none
            process.wait()
        pool.shutdown()
    return sorted(failed, key=lambda one: one.number)


def _ask(process: subprocess.Popen[str], number: int) -> dict[str, Any] | None:
    """The answer to a job, or None where the process ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except (BrokenPipeError, ValueError):
        return None
    if not line.endswith("\n"):
        return None
    answer: dict[str, Any] = json.loads(line)
    return answer
