"""Progress bars: what is running, how far it is, the time left, and the peak of memory so far."""

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
        self.peak.update()
        return Text(f"peak {readable(self.peak.bytes)}", style="dim")


class Bars:
    """Draws each stage as a bar; a finished stage disappears."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            # Only this column may wrap in a narrow terminal, so that nothing is cut off.
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=False)),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            _TimeLeft(),
            _PeakMemory(),
            console=console,
            transient=True,
            redirect_stdout=False,  # otherwise output of the command would go to standard error with the bars
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def start(self, name: str, total: int | None) -> int:
        """Adds a bar for a stage; returns its handle."""
        return self.progress.add_task(name, total=total)

    def advance(self, handle: int, amount: int) -> None:
        """Moves a bar on."""
        self.progress.advance(TaskID(handle), amount)

    def finish(self, handle: int) -> None:
        """Removes a bar."""
        self.progress.remove_task(TaskID(handle))

    def note(self, line: str) -> None:
        """Prints a line above the bars."""
        self.progress.console.print(line, markup=False, highlight=False)


class Notes:
    """Prints notes only, where standard error is a file or a pipe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.note = say

    def start(self, name: str, total: int | None) -> int:
        """Draws nothing."""
        return 0

    def advance(self, handle: int, amount: int) -> None:
        """Draws nothing."""

    def finish(self, handle: int) -> None:
        """Draws nothing."""
