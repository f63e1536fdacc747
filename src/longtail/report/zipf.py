"""The long tail as a chart: training count by rank, both on log scales, with the bands marked."""

from __future__ import annotations

import math

import numpy as np

from longtail.arrays import Longs
from longtail.data.labels import LabelSet
from longtail.drawing import words
from longtail.drawing.axes import LETTER, AxisScale, Box
from longtail.drawing.markup import Safe, join, tag
from longtail.errors import counted
from longtail.metrics.frequency import BANDS, bands
from longtail.report.shapes import both, picture

_BLOCKS = " ▁▂▃▄▅▆▇█"


def band_sizes(labels: LabelSet) -> Longs:
    """Counts the labels of each band.

    Args:
        labels: the label set.

    Returns:
        (bands,) in the order of BANDS.
    """
    return np.bincount(bands(labels), minlength=len(BANDS)).astype(np.int64)


def zipf_text(labels: LabelSet, width: int = 60, height: int = 12) -> str:
    """The chart for a terminal.

    Args:
        labels: the label set.
        width: columns of the plot.
        height: lines of the plot.

    Returns:
        The plot, its axis and the bands, in lines.
    """
    if len(labels) == 0:
        return "no labels"
    counts = np.sort(labels.counts)[::-1]
    highest = max(int(counts[0]), 1)
    ranks = np.floor(len(counts) ** ((np.arange(width) + 0.5) / width)).astype(np.int64)
    heights = [_eighths(int(counts[rank - 1]), highest, height * 8) for rank in ranks]
    left = max(len(words.count(highest)), 8)
    lines = []
    for line in range(height, 0, -1):
        name = words.count(highest) if line == height else "1" if line == 1 and highest > 1 else ""
        blocks = "".join(_BLOCKS[min(max(tall - 8 * (line - 1), 0), 8)] for tall in heights)
        lines.append(f"{name:>{left}} │{blocks}".rstrip())
    lines.append(f"{'examples':>{left}} └" + "─" * width)
    lines.append(" " * (left + 2) + _ruler(band_sizes(labels), ranks, width))
    first, last = "label 1", f"label {words.count(len(counts))}"
    lines.append(" " * (left + 2) + first + last.rjust(max(width - len(first), len(last) + 1)))
    return "\n".join(line.rstrip() for line in lines)


def zipf_svg(labels: LabelSet) -> Safe:
    """The chart for the page.

    Args:
        labels: the label set.

    Returns:
        The chart.
    """
    sizes = band_sizes(labels)
    title = "Training examples of each label by rank, on log scales: " + ", ".join(
        counted(number, f"{name} label") for name, number in zip(BANDS, sizes.tolist(), strict=True) if number
    )

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(52, 26, width - 12, height - 40)
        counts = np.sort(labels.counts)[::-1]
        highest = max(int(counts[0]) if len(counts) else 1, 2)
        across = AxisScale(0, math.log(max(len(counts), 2)), frame.left, frame.right)
        down = AxisScale(0, math.log(highest), frame.bottom - 6, frame.top + 4)
        parts = [_bands(sizes.tolist(), across, frame)]
        for power in range(int(math.log10(highest)) + 1):
            y = down(power * math.log(10))
            parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="rule"))
            parts.append(
                tag(
                    "text",
                    words.short_count(10**power),
                    x=frame.left - 7,
                    y=y + 4,
                    text_anchor="end",
                    class_="tick",
                )
            )
        for power in range(int(math.log10(max(len(counts), 1))) + 1):
            x = across(power * math.log(10))
            parts.append(
                tag(
                    "text",
                    words.short_count(10**power),
                    x=x,
                    y=frame.bottom + 16,
                    text_anchor="middle",
                    class_="tick",
                )
            )
        parts.append(tag("path", d=_curve(counts, across, down), class_="line zipf"))
        parts.append(
            tag("text", "rank of the label", x=frame.right, y=height - 6, text_anchor="end", class_="axis-name")
        )
        parts.append(tag("text", "training examples", x=2, y=14, class_="axis-name"))
        return picture(width, height, title, parts)

    return both(draw, (520, 300), (360, 260))


def _eighths(count: int, highest: int, full: int) -> int:
    """Height of a count in eighths of a line: at least one where there is an example."""
    if count < 1:
        return 0
    return full if highest == 1 else 1 + round((full - 1) * math.log(count) / math.log(highest))


def _ruler(sizes: Longs, ranks: Longs, width: int) -> str:
    """`├─ head ──┤├─ torso ─┤` under the columns; a band too thin for its name shows as dots."""
    band = np.searchsorted(np.cumsum(sizes), ranks, side="left")
    pieces = []
    for number, name in enumerate(BANDS):
        room = int((band == number).sum())
        shown = f" {name} " if room >= len(name) + 4 else name
        pieces.append(f"├{shown:─^{room - 2}}┤" if room >= len(shown) + 2 else "·" * room)
    return "".join(pieces)[:width]


def _curve(counts: Longs, across: AxisScale, down: AxisScale) -> str:
    """A path through at most 240 ranks, evenly spaced on the log axis; it ends where unseen labels begin."""
    seen = int((counts > 0).sum())
    if not seen:
        return "M0 0"
    ranks = np.unique(np.round(np.geomspace(1, seen, 240)).astype(np.int64))
    points = [f"{across(math.log(rank)):.1f} {down(math.log(counts[rank - 1])):.1f}" for rank in ranks.tolist()]
    return "M" + "L".join(points)


def _bands(sizes: list[int], across: AxisScale, frame: Box) -> Safe:
    """Shaded stretches of the rank axis with the bands' names above."""
    parts, before = [], 0
    for number, name in enumerate(BANDS):
        if not sizes[number]:
            continue
        left = frame.left if before == 0 else across(math.log(before + 0.5))
        before += sizes[number]
        right = frame.right if before == sum(sizes) else across(math.log(before + 0.5))
        parts.append(
            tag(
                "rect",
                x=left,
                y=frame.top,
                width=max(right - left, 0.5),
                height=frame.bottom - frame.top,
                class_=f"band b{number}",
            )
        )
        if right - left > len(name) * LETTER:
            parts.append(
                tag(
                    "text",
                    name,
                    x=(left + right) / 2,
                    y=frame.top + 15,
                    text_anchor="middle",
                    class_="band-name",
                )
            )
    return join(parts)
