"""Metrics for Prometheus, in its text format."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Names = tuple[tuple[str, str], ...]


@dataclass(eq=False)
class Family:
    """One metric with a value for each combination of Prometheus labels. Only a histogram has bounds."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    bounds: tuple[float, ...] = ()
    together: Literal["sum", "least", "each"] = "sum"  # of several workers: added up, the least, or one line each
    _values: dict[Names, list[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, amount: float = 1, **names: str) -> None:
        """Adds to a counter or gauge.

        Args:
            amount: to add.
            **names: its Prometheus labels.
        """
        with self._lock:
            self._cells(names)[0] += amount

    def set(self, value: float, **names: str) -> None:
        """Sets a gauge.

        Args:
            value: that it gets.
            **names: its Prometheus labels.
        """
        with self._lock:
            self._cells(names)[0] = value

    def observe(self, value: float, **names: str) -> None:
        """Counts a value in the first bucket of a histogram whose bound is not below it.

        The last two cells are the count above all bounds, and the sum of the values.

        Args:
            value: to count.
            **names: the Prometheus labels of the histogram.
        """
        with self._lock:
            cells = self._cells(names)
            cells[bisect.bisect_left(self.bounds, value)] += 1
            cells[-1] += value

    def value(self, **names: str) -> float:
        """The value of a counter or gauge; the number of values of a histogram."""
        with self._lock:
            cells = self._values.get(tuple(sorted(names.items())), [0.0])
            return sum(cells[:-1]) if self.kind == "histogram" else cells[0]

    def values(self) -> list[Any]:
        """Every combination of Prometheus labels with its cells, as JSON values."""
        with self._lock:
            return [[list(map(list, names)), list(cells)] for names, cells in self._values.items()]

    def include(self, values: list[Any], **further: str) -> None:
        """Adds what another worker has counted.

        Args:
            values: of the other's `values`.
            **further: Prometheus labels of the worker, for a metric of which each worker has a line of its own.
        """
        for names, given in values:
            with self._lock:
                cells = self._cells({**dict(names), **(further if self.together == "each" else {})}, given)
                if cells is not given:
                    least = self.together == "least"
                    cells[:] = [min(pair) if least else sum(pair) for pair in zip(cells, given, strict=True)]

    def lines(self) -> Iterable[str]:
        """The metric in the text format, line by line."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        with self._lock:
            values = {names: list(cells) for names, cells in sorted(self._values.items())}
        for names, cells in values.items():
            if self.kind != "histogram":
                yield f"{self.name}{_written(names)} {cells[0]:.17g}"
                continue
            total = 0.0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), cells, strict=False):
                total += count
                yield f"{self.name}_bucket{_written((*names, ('le', bound)))} {total:.17g}"
            yield f"{self.name}_sum{_written(names)} {cells[-1]:.17g}"
            yield f"{self.name}_count{_written(names)} {total:.17g}"

    def _cells(self, names: Mapping[str, str], first: list[float] | None = None) -> list[float]:
        cells = len(self.bounds) + 2 if self.kind == "histogram" else 1
        return self._values.setdefault(tuple(sorted(names.items())), [0.0] * cells if first is None else first)


class Counters:
    """Every metric of the service."""

    def __init__(self) -> None:
        self.requests = Family("longtail_requests_total", "Requests by path and status.", "counter")
        self.seconds = Family("longtail_request_seconds", "Seconds from a request to its answer.", "histogram", SECONDS)
        self.under_way = Family("longtail_requests_under_way", "Requests not yet answered.", "gauge")
        self.connections = Family("longtail_connections", "Open connections.", "gauge")
        self.texts = Family("longtail_texts_total", "Texts predicted.", "counter")
        self.batches = Family("longtail_batch_texts", "Texts of a batch.", "histogram", TEXTS)
        self.computing = Family(
            "longtail_batch_seconds", "Seconds that the model took for a batch.", "histogram", SECONDS
        )
        self.waiting = Family("longtail_texts_waiting", "Texts in the queue.", "gauge")
        self.refused = Family("longtail_refused_total", "Requests refused, by reason.", "counter")
        self.labels = Family("longtail_labels", "Labels of a model.", "gauge", together="least")
        self.added = Family("longtail_labels_added_total", "Labels added since the start.", "counter")
        self.database = Family(
            "longtail_database",
            "1 when the database of added labels answers; of several workers, for how many.",
            "gauge",
        )
        self.ready = Family(
            "longtail_ready", "1 when the service answers predictions; of several workers, how many do.", "gauge"
        )
        self.memory = Family("process_resident_memory_bytes", "Memory of the process.", "gauge", together="each")
        self.start = Family(
            "process_start_time_seconds", "Start of the process, in seconds since 1970.", "gauge", together="each"
        )

    def text(self) -> str:
        """All metrics in the text format."""
        return "\n".join(line for family in self._families() for line in family.lines()) + "\n"

    def values(self) -> dict[str, Any]:
        """All metrics by name, as JSON values."""
        return {family.name: family.values() for family in self._families()}

    def include(self, values: Mapping[str, Any], worker: str, *, gauges: bool) -> None:
        """Adds what a worker has counted.

        Args:
            values: of the other's `values`.
            worker: its name, for what is not added up.
            gauges: whether its gauges count, too.
        """
        for family in self._families():
            if gauges or family.kind != "gauge":
                family.include(values.get(family.name, []), worker=worker)

    def resume(self, values: Mapping[str, Any]) -> None:
        """Goes on counting from what a process before this one had counted.

        Args:
            values: of the other's `values`.
        """
        self.include(values, "", gauges=False)

    def _families(self) -> list[Family]:
        return [family for family in vars(self).values() if isinstance(family, Family)]


def _written(names: Names) -> str:
    if not names:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in names)
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
