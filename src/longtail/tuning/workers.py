"""Several recipes in training at a time, each in a process of its own.

Only the caller talks to Optuna: a worker gets a recipe, reports its steps, and waits to hear whether to go on. So the
number of trials is exact, and a worker that dies takes nothing with it but its own trial.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from longtail.errors import LongtailError
from longtail.threads import thread_count
from longtail.tuning.judge import Judge, Pruned, TimeUp

_THREADS = ("LONGTAIL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(eq=False)
class Worker:
    """A process that trains one recipe after another."""

    judge: Judge
    connection: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        # A fresh interpreter: a fork would copy threads of kernels half way through their work.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.judge), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self.process.terminate()
        self.process.join()


@contextmanager
def pool(judge: Judge, number: int) -> Iterator[list[Worker]]:
    """Start workers that share the cores of the machine, and end them.

    Args:
        judge: trains and measures; every worker gets a copy.
        number: of workers.

    Yields:
        The workers; a caller may replace one that died.
    """
    before = {name: os.environ.get(name) for name in _THREADS}
    share = max(thread_count() // number, 1)
    os.environ.update({name: str(share) for name in _THREADS})
    workers: list[Worker] = []
    try:
        workers.extend(Worker(judge) for _ in range(number))
        yield workers
    finally:
        for worker in workers:
            worker.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def next_message(workers: list[Worker]) -> tuple[Worker, tuple[str, Any]]:
    """Wait for a message.

    Args:
        workers: those that train.

    Returns:
        The worker, and ("step", (step, value)), ("done", measures), ("pruned", why), ("time", why), ("failed", why) or
        ("died", exit code).
    """
    by_connection = {worker.connection: worker for worker in workers}
    ready = wait(list(by_connection))[0]
    worker = by_connection[ready]  # type: ignore[index]
    try:
        return worker, worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        return worker, ("died", worker.process.exitcode)


def outcome(judge: Judge, recipe: str, report: Any) -> tuple[str, Any]:
    """Train and judge a recipe; expected failures are outcomes, not errors.

    Args:
        judge: trains and measures.
        recipe: the recipe as text.
        report: see `Judge.measures`.

    Returns:
        ("done", measures), ("pruned", why), ("time", why) or ("failed", why).
    """
    try:
        return "done", judge.measures(recipe, report)
    except Pruned as why:
        return "pruned", str(why)
    except TimeUp as why:
        return "time", str(why)
    except LongtailError as error:
        return "failed", str(error)


def _serve(connection: Connection, judge: Judge) -> None:
    """The work of a process: until the caller closes the connection."""

    def report(step: int, value: float) -> bool:
        connection.send(("step", (step, value)))
        return bool(connection.recv())

    with suppress(EOFError, OSError, KeyboardInterrupt):  # the caller has gone, and its own error is the one to read
        while True:
            connection.send(outcome(judge, connection.recv(), report))
