"""Stages as bars: what is running, how far, time left, and the most memory held so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from longtail.memory import Peak, readable


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        return Text("" if seconds is None or task.finished else f"{_time(seconds)} left", style="cyan")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _PeakMemory(ProgressColumn):
    max_refresh = 0.2

    def __init__(self) -> None:
        super().__init__()
        self.peak = Peak()

    def render(self, task: Task) -> Text:
        self.peak.look()
        return Text(f"peak {readable(self.peak.bytes)}", style="dim")


class Bars:
    """Listens to stages and draws them; a finished stage leaves."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            # The one column that gives way: a long line wraps where the terminal is narrow, and nothing of it is lost.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=False)),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            _TimeLeft(),
            _PeakMemory(),
            console=console,
            transient=True,
            redirect_stdout=False,  # or what a command prints would follow the bars to standard error
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def start(self, name: str, total: int | None) -> int:
        return self.progress.add_task(name, total=total)

    def advance(self, handle: int, amount: int) -> None:
        self.progress.advance(TaskID(handle), amount)

    def finish(self, handle: int) -> None:
        self.progress.remove_task(TaskID(handle))

    def note(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)


class Notes:
    """Listens to what stays, where nobody watches bars: in a file, or behind a pipe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.note = say

    def start(self, name: str, total: int | None) -> int:
        return 0

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None: ...
