"""Metrics of several workers, added up by whichever of them is asked.

    0.json, 1.json, ...    what each worker has counted, in a folder that the service makes and removes

A worker writes its file twice a second and when it is asked. One that replaces a dead worker goes on from the dead
one's file, so that counters never fall. Gauges of a worker that has died, or hangs, do not count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from longtail.serve.counters import Counters

EVERY = 0.5  # seconds between two writes
STALE = 5.0  # seconds after which a worker that does not write is taken for dead or stuck


def bury(folder: Path, number: int) -> None:
    """Notes that a worker has died.

    Args:
        folder: of all workers.
        number: of the worker.
    """
    path = folder / f"{number}.json"
    with suppress(OSError, ValueError):  # it died before it wrote any
        path.write_text(json.dumps({**json.loads(path.read_text()), "time": float("-inf")}))


class Totals:
    """The metrics of one worker among several.

    Args:
        folder: of all workers.
        number: of this worker.
        counters: its metrics; they go on from what the worker before it had counted.
    """

    def __init__(self, folder: Path, number: int, counters: Counters) -> None:
        self._path, self._number, self._counters = folder / f"{number}.json", number, counters
        with suppress(OSError, ValueError):
            counters.resume(json.loads(self._path.read_text())["values"])

    def write(self) -> None:
        """Writes what this worker has counted. A full disk does not stop it: the others then see older figures."""
        temporary = self._path.with_suffix(".new")
        with suppress(OSError):
            temporary.write_text(json.dumps(self._mine()))
            temporary.replace(self._path)

    def text(self) -> str:
        """The metrics of all workers in the text format of Prometheus."""
        self.write()
        total = Counters()
        for number, found in self._all():
            alive = time.monotonic() - found["time"] < STALE
            total.include(found["values"], worker=str(number), gauges=alive)
        return total.text()

    def _mine(self) -> dict[str, Any]:
        return {"time": time.monotonic(), "values": self._counters.values()}

    def _all(self) -> Iterable[tuple[int, dict[str, Any]]]:
        yield self._number, self._mine()
        for path in sorted(self._path.parent.glob("*.json")):
            if path != self._path:
                with suppress(OSError, ValueError):
                    yield int(path.stem), json.loads(path.read_text())
