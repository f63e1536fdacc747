"""What a person sees while work runs: nothing of a long line is lost where the terminal is narrow."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from longtail.cli.bars import Bars, Notes, _time
from longtail.progress import listening, note, stage

LINE = "training encoder: epoch 3 of 30, loss 1.23, P@1 45.1, PSP@1 33.0, 12,345 rows/s"


@pytest.mark.parametrize("width", [70, 100, 200])
def test_a_training_line_is_shown_whole(width: int) -> None:
    shown = io.StringIO()
    bars = Bars(Console(file=shown, width=width, force_terminal=True, color_system=None))
    handle = bars.start(LINE, total=1000)
    for _ in range(3):
        bars.advance(handle, 100)
    bars.progress.console.print(bars.progress.get_renderable())
    screen = shown.getvalue()
    for word in LINE.split():
        assert word in screen
    assert "s left" in screen
    assert re.search(r"peak [\d.]+ [MG]B", screen)
    assert "…" not in screen
    assert width < 200 or len(screen.splitlines()) == 1


def test_notes_stay_with_bars_and_without() -> None:
    shown = io.StringIO()
    with Bars(Console(file=shown, width=80, force_terminal=True, color_system=None)) as bars:
        bars.note("tau=4 [bold]: P@1 45.1")
    assert "tau=4 [bold]: P@1 45.1" in shown.getvalue()
    lines: list[str] = []
    with listening(Notes(lines.append)), stage("work", total=3) as advance:
        advance(1)
        note("chosen")
    assert lines == ["chosen"]


def test_times_left_in_words() -> None:
    assert [_time(seconds) for seconds in (3.4, 119, 600, 9000)] == ["3 s", "119 s", "10 min", "2.5 h"]
