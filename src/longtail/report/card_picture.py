"""The picture of a model card, a file of its own: the tail of the training data, and recall by label frequency."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from longtail.data.labels import LabelSet
from longtail.drawing import words
from longtail.drawing.axes import AxisScale, ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.errors import counted
from longtail.metrics.frequency import BANDS
from longtail.metrics.measures import Bin
from longtail.report.zipf import band_sizes

WIDTH, HEIGHT = 760, 280
TOP, BOTTOM = 40, HEIGHT - 46
BLUE, ORANGE, GREY, RULE = "#0072b2", "#c4602b", "#5b6068", "#dfe1e5"
SHADES = ("#eef4fa", "#f6f7f8", "#fdf1ea", "#f3eef7")  # head, torso, tail, unseen


def card_svg(labels: LabelSet, bins: Sequence[Bin], measured: str) -> str:
    """Draws the training examples of each label by rank and, where bins are given, the recall of each bin.

    Args:
        labels: the labels of the model, with their training counts.
        bins: frequency bins with their recall; none where nothing was measured.
        measured: what the recall is of, such as "@5 on valid".

    Returns:
        The SVG file.
    """
    half = WIDTH / 2 if bins else WIDTH
    parts = [_tail(labels, 0, half)]
    if bins:
        parts.append(_recall(bins, half, WIDTH, measured))
    sizes = zip(BANDS, band_sizes(labels).tolist(), strict=True)
    title = "; ".join(f"{counted(size, f'{name} label')}" for name, size in sizes if size)
    if bins:
        title += f". Recall {measured}, by training examples: " + "; ".join(
            f"{_range(one)}: {one.recall:.1f}%" for one in bins
        )
    return str(
        tag(
            "svg",
            tag("title", title),
            tag("rect", x=0, y=0, width=WIDTH, height=HEIGHT, fill="#fff"),
            join(parts),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            width=WIDTH,
            height=HEIGHT,
            font_family="system-ui, sans-serif",
            font_size=12,
            fill=GREY,
        )
    )


def _tail(labels: LabelSet, left: float, right: float) -> Safe:
    """Training examples against rank, on log scales, over the shaded bands."""
    counts = np.sort(labels.counts)[::-1]
    seen = int((counts > 0).sum())
    highest = max(int(counts.max(initial=0)), 2)
    across = AxisScale(0, math.log(max(len(counts), 2)), left + 52, right - 16)
    down = AxisScale(0, math.log(highest), BOTTOM, TOP)
    parts = [_heading("training examples of each label", left)]
    before = 0
    for name, shade, size in zip(BANDS, SHADES, band_sizes(labels).tolist(), strict=True):
        if not size:
            continue
        start = across(math.log(max(before, 1)))
        before += size
        wide = across(math.log(max(before, 1))) - start
        parts.append(tag("rect", x=start, y=TOP, width=wide, height=BOTTOM - TOP, fill=shade))
        if wide > 7 * len(name):
            parts.append(tag("text", name, x=start + wide / 2, y=TOP + 15, text_anchor="middle"))
    parts += [
        _rule(down(power * math.log(10)), left, right, words.short_count(10**power))
        for power in range(int(math.log10(highest)) + 1)
    ]
    for power in range(int(math.log10(max(len(counts), 1))) + 1):
        x = across(power * math.log(10))
        parts.append(tag("text", words.short_count(10**power), x=x, y=BOTTOM + 17, text_anchor="middle"))
    parts.append(tag("text", "rank of the label", x=right - 16, y=HEIGHT - 10, text_anchor="end"))
    if seen:
        ranks = np.unique(np.round(np.geomspace(1, seen, 160)).astype(np.int64)).tolist()
        path = "L".join(f"{across(math.log(rank)):.1f} {down(math.log(counts[rank - 1])):.1f}" for rank in ranks)
        parts.append(tag("path", d=f"M{path}", stroke=BLUE, stroke_width=2, fill="none"))
    return tag("g", join(parts))


def _recall(bins: Sequence[Bin], left: float, right: float, measured: str) -> Safe:
    """One bar per bin: the share of its positives that are in the top k."""
    k = measured.partition(" ")[0]
    marks = ticks(0, max((one.recall for one in bins), default=1) or 1)
    down = AxisScale(0, marks[-1], BOTTOM, TOP)
    slot = (right - 16 - left - 52) / len(bins)
    parts = [_heading(f"recall {measured}, %", left)]
    parts += [_rule(down(mark), left, right, f"{mark:g}") for mark in marks]
    for place, one in enumerate(bins):
        x = left + 52 + slot * place
        title = f"training examples: {_range(one)}, {counted(one.labels, 'label')}: recall {k} {one.recall:.1f}%"
        bar = {"x": x + 0.15 * slot, "width": 0.7 * slot, "y": down(one.recall), "height": BOTTOM - down(one.recall)}
        parts.append(tag("rect", tag("title", title), fill=ORANGE, **bar))
        parts.append(tag("text", _range(one), x=x + slot / 2, y=BOTTOM + 17, text_anchor="middle"))
    parts.append(tag("text", "training examples of the label", x=right - 16, y=HEIGHT - 10, text_anchor="end"))
    return tag("g", join(parts))


def _heading(text: str, left: float) -> Safe:
    return tag("text", text, x=left + 16, y=22, font_weight="bold", fill="#1f2328")


def _rule(y: float, left: float, right: float, name: str) -> Safe:
    line = tag("path", d=f"M{left + 52:.1f} {y:.1f}H{right - 16:.1f}", stroke=RULE, fill="none")
    return join([line, tag("text", name, x=left + 46, y=y + 4, text_anchor="end")])


def _range(one: Bin) -> str:
    low, high = words.short_count(one.low), words.short_count(one.high)
    return low if low == high else f"{low}–{high}"
