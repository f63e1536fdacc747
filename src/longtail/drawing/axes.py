"""Where things go in a chart: scales, round tick marks, and labels that do not sit on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LETTER = 6.6  # wide enough for most letters of a 12-pixel system font


@dataclass(frozen=True)
class AxisScale:
    """Straight map from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        part = (value - self.low) / span if span else 0.5
        return self.start + part * (self.end - self.start)


@dataclass(frozen=True)
class Box:
    """A rectangle that something occupies."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that both boxes cover, in square pixels."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0

    def outside(self, frame: Box) -> float:
        """The area of this box that lies outside the frame, in square pixels."""
        area = (self.right - self.left) * (self.bottom - self.top)
        return area - self.overlap(frame)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values for the tick marks of a linear axis.

    Args:
        low: the smallest value to show.
        high: the largest value to show.
        about: the number of steps to aim at.

    Returns:
        Ascending values; the first is at most `low`, the last at least `high`.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = 0.0, 1.0
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20 ... for the tick marks of a log axis.

    Args:
        low: the smallest value to show, above 0.
        high: the largest value to show, above 0.

    Returns:
        Ascending values; the first is at most `low`, the last at least `high`.
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    round_values = [float(f"{unit}e{power}") for power in powers for unit in (1, 2, 5)]
    first = max(value for value in round_values if value <= low * 1.0001)
    last = min(value for value in round_values if value >= high * 0.9999 and value > first)
    return [value for value in round_values if first <= value <= last]


def separated(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones that do not overlap.

    Args:
        wanted: the position of each text, in pixels.
        gap: the least distance between two texts.
        low: no position lies below this.
        high: no position lies above this, unless the texts need more room than low to high.

    Returns:
        A position for each text, in the order of `wanted`.
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    placed = [0.0] * len(wanted)
    lower = low
    for index in order:
        placed[index] = lower = max(wanted[index], lower)
        lower += gap
    upper = max(high, low + gap * (len(wanted) - 1))
    for index in reversed(order):
        placed[index] = upper = min(placed[index], upper)
        upper -= gap
    return placed


@dataclass(frozen=True)
class AxisLabel:
    """Where a name stands beside its dot."""

    x: float
    y: float
    anchor: str  # "start", "end" or "middle"


def beside(
    dots: Sequence[tuple[float, float]],
    names: Sequence[str],
    frame: Box,
    bars: Sequence[Box] = (),
    lines: Sequence[Box] = (),
) -> list[AxisLabel | None]:
    """Finds a free place next to each dot for its name.

    Args:
        dots: (x, y) of each dot, in pixels.
        names: what to write beside each dot.
        frame: the names have to stay inside it.
        bars: the smallest box around each dot's error bars, which no name crosses; none: no dot has any.
        lines: boxes along whatever else is drawn, which no name crosses either.

    Returns:
        A place for each name; None where every place is taken, so only the legend names that dot.
    """
    taken = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in dots]
    ends = list(bars or taken)
    taken += lines
    for (x, y), bar in zip(dots, bars, strict=False):
        taken += [Box(bar.left, y - 4, bar.right, y + 4), Box(x - 4, bar.top, x + 4, bar.bottom)]
    labels: list[AxisLabel | None] = []
    for (x, y), end, name in zip(dots, ends, names, strict=True):
        wide = len(name) * LETTER
        right, left = max(end.right, x + 7) + 4, min(end.left, x - 7) - 4
        above, below = min(end.top, y - 7) - 2, max(end.bottom, y + 7) + 3
        places = [
            (AxisLabel(right, y + 4, "start"), Box(right, y - 8, right + wide, y + 7)),
            (AxisLabel(left, y + 4, "end"), Box(left - wide, y - 8, left, y + 7)),
            (AxisLabel(x, above - 3, "middle"), Box(x - wide / 2, above - 15, x + wide / 2, above)),
            (AxisLabel(x, below + 11, "middle"), Box(x - wide / 2, below, x + wide / 2, below + 15)),
            (AxisLabel(x + 8, y - 11, "start"), Box(x + 8, y - 23, x + 8 + wide, y - 8)),
            (AxisLabel(x + 8, y + 20, "start"), Box(x + 8, y + 9, x + 8 + wide, y + 24)),
            (AxisLabel(x - 8, y - 11, "end"), Box(x - 8 - wide, y - 23, x - 8, y - 8)),
            (AxisLabel(x - 8, y + 20, "end"), Box(x - 8 - wide, y + 9, x - 8, y + 24)),
        ]
        free = (
            (label, box)
            for label, box in places
            if box.outside(frame) < 1 and not any(box.overlap(other) for other in taken)
        )
        label, box = next(free, (None, None))
        if box is not None:
            taken.append(box)
        labels.append(label)
    return labels
