"""The charts of the report, as SVG without a library. Colours come from the page's CSS variables.

Every chart is drawn twice, for a wide and for a narrow screen, because text would shrink with a scaled picture. CSS
shows one of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longtail.drawing import words
from longtail.drawing.axes import LETTER, AxisScale, Box, beside, separated, ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.report.shapes import both, css_class, error_bar, marker, picture, rules, stroke, target

Range = tuple[float, float]
NAMED_LINES = 5  # with more lines, names at their ends would crowd; the legend names them


@dataclass(frozen=True)
class Series:
    """One recipe's values, one per slot; NaN where it has none."""

    name: str
    values: tuple[float, ...]
    errors: tuple[float, ...] = ()  # half the length of each error bar; NaN: none


@dataclass(frozen=True)
class Slot:
    """One place on the x axis."""

    top: str  # "2,017–12k"
    bottom: str  # "14 labels"
    apart: bool = False  # set off from the others: labels never seen in training


def lines(
    series: Sequence[Series],
    slots: Sequence[Slot],
    *,
    title: str,
    wide: tuple[int, int] = (680, 376),
    top: float | None = None,
    most: float = math.inf,
    direct: bool = False,
    write: Callable[[float], str] = words.percent,
) -> Safe:
    """A line chart with one line per recipe over the frequency groups.

    Args:
        series: the values of each recipe.
        slots: the places on the x axis.
        title: what a screen reader reads.
        wide: width and height on a wide screen, in pixels.
        top: the end of the y axis; None means the largest value with its error bar.
        most: a value that none can exceed, where an error bar could: 100 percent.
        direct: writes names at the line ends where there is room.
        write: formats a value for the tooltip.

    Returns:
        The chart.
    """

    def draw(width: int, height: int, roomy: bool) -> Safe:
        named = direct and roomy and len(series) <= NAMED_LINES
        names = words.short_names([one.name for one in series], 24)
        right = 34 + max(map(len, names), default=0) * LETTER if named else 16.0
        slot = (width - right - 38) / max(len(slots), 1)
        texts = _under(slots, slot)
        frame = Box(38, 14, width - right, height - 32 - 15 * max(map(len, texts), default=1))
        across = [frame.left + slot * (place + 0.5) for place in range(len(slots))]
        known = [value + _error(one, place) for one in series for place, value in enumerate(one.values)]
        known = [value for value in known if math.isfinite(value)]
        marks = ticks(0, top if top is not None else min(max(known, default=1) or 1, most))
        down = AxisScale(marks[0], marks[-1], frame.bottom, frame.top)
        parts = [_shade(slots, across, slot, frame), rules(marks, down, frame)]
        parts += [_slot_texts(texts, across, frame.bottom), _ends_named(frame, height - 4)]
        drawn = [
            tag("g", *_line(one, number, slots, across, down, write), class_=css_class(number))
            for number, one in enumerate(series)
        ]
        parts += reversed(drawn)  # the first recipe on top: the others are compared with it
        if named:
            parts.append(_line_ends(series, names, across, down, frame))
        return picture(width, height, title, parts)

    return both(draw, wide, (360, 290))


def scatter(
    names: Sequence[str],
    points: Sequence[tuple[float, float]],
    *,
    title: str,
    across_name: str,
    up_name: str,
    wide: tuple[int, int] = (540, 370),
    ranges: Sequence[tuple[Range, Range] | None] = (),
) -> Safe:
    """A scatter chart with one labelled dot per recipe.

    Args:
        names: of the recipes.
        points: (x, y) of each; a point with NaN is left out.
        title: what a screen reader reads.
        across_name: name of the x axis.
        up_name: name of the y axis.
        wide: width and height on a wide screen, in pixels.
        ranges: low and high of x and of y for each dot, drawn as error bars; None: no bars.

    Returns:
        The chart.
    """
    ends = [one for one in ranges if one is not None]

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 44)
        known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        right = AxisScale(
            *_padded([*(x for x, _ in known), *(x for one in ends for x in one[0])]), frame.left, frame.right
        )
        up = AxisScale(
            *_padded([*(y for _, y in known), *(y for one in ends for y in one[1])]), frame.bottom, frame.top
        )
        x_marks = _inside(right, 6 if roomy else 4)
        y_marks = _inside(up, 5)
        parts = [rules(y_marks, up, frame), _rules_down(x_marks, right, frame), _corner(frame)]
        parts.append(tag("text", across_name, x=frame.right, y=height - 6, text_anchor="end", class_="axis-name"))
        parts.append(tag("text", up_name, x=2, y=13, class_="axis-name"))
        shown = [number for number, point in enumerate(points) if point in known]
        dots = [(right(points[number][0]), up(points[number][1])) for number in shown]
        short = words.short_names([names[number] for number in shown], 30 if roomy else 22)
        spans = [ranges[number] if ranges else None for number in shown]
        bars = [_bar_box(x, y, span, right, up) for (x, y), span in zip(dots, spans, strict=True)]
        places = beside(dots, short, frame, bars)
        for number, (x, y), span, name, place in zip(shown, dots, spans, short, places, strict=True):
            figures = f"{names[number]}: {across_name} {points[number][0]:.1f}, {up_name} {points[number][1]:.1f}"
            error_bars: list[Safe] = []
            if span is not None:
                error_bars = [
                    error_bar(right(span[0][0]), y, right(span[0][1]), y),
                    error_bar(x, up(span[1][0]), x, up(span[1][1])),
                ]
            dot = (marker(x, y, number, 6.5), target(x, y, figures))
            parts.append(tag("g", *error_bars, *dot, class_=css_class(number)))
            if place is not None:
                parts.append(tag("text", name, x=place.x, y=place.y, text_anchor=place.anchor, class_="dot-name"))
        return picture(width, height, title, parts)

    return both(draw, wide, (360, 320))


def _bar_box(x: float, y: float, span: tuple[Range, Range] | None, right: AxisScale, up: AxisScale) -> Box:
    """The smallest box around a dot and its error bars."""
    if span is None:
        return Box(x, y, x, y)
    (low, high), (lower, upper) = span
    return Box(min(x, right(low)), min(y, up(upper)), max(x, right(high)), max(y, up(lower)))


def _rules_down(marks: Sequence[float], right: AxisScale, frame: Box) -> Safe:
    return join(
        part
        for mark in marks
        for part in (
            tag("line", x1=right(mark), x2=right(mark), y1=frame.top, y2=frame.bottom, class_="rule"),
            tag("text", f"{mark:g}", x=right(mark), y=frame.bottom + 17, text_anchor="middle", class_="tick"),
        )
    )


def _shade(slots: Sequence[Slot], across: Sequence[float], slot: float, frame: Box) -> Safe:
    """A shaded background behind the slots that are set apart."""
    return join(
        tag(
            "rect",
            x=x - slot / 2,
            y=frame.top,
            width=slot,
            height=frame.bottom - frame.top,
            class_="apart",
        )
        for one, x in zip(slots, across, strict=True)
        if one.apart
    )


def _under(slots: Sequence[Slot], room: float) -> list[list[str]]:
    """The text under each slot, as much as fits: range and size, or the range on two lines, or its start."""
    widest = room - 5  # keeps neighbours apart

    def fits(texts: Sequence[Sequence[str]]) -> bool:
        return all(len(text) * LETTER <= widest for lines_of_slot in texts for text in lines_of_slot)

    full = [[slot.top, slot.bottom] for slot in slots]
    if fits(full):
        return full
    broken = [_broken(slot.top, widest) for slot in slots]
    return broken if fits(broken) else [["0" if slot.apart else slot.top.partition("–")[0]] for slot in slots]


def _broken(text: str, room: float) -> list[str]:
    if len(text) * LETTER <= room:
        return [text]
    first, dash, last = text.partition("–")
    return [first + dash, last] if dash else text.split(" ", 1)


def _slot_texts(texts: Sequence[Sequence[str]], across: Sequence[float], bottom: float) -> Safe:
    return join(
        tag("text", text, x=x, y=bottom + 17 + 15 * number, text_anchor="middle", class_="tick")
        for x, lines_of_slot in zip(across, texts, strict=True)
        for number, text in enumerate(lines_of_slot)
    )


def _ends_named(frame: Box, y: float) -> Safe:
    names = (
        ("← most frequent", frame.left, "start"),
        ("training examples", (frame.left + frame.right) / 2 + 12, "middle"),
        ("rarest →", frame.right, "end"),
    )
    return join(tag("text", name, x=x, y=y, text_anchor=anchor, class_="axis-name") for name, x, anchor in names)


def _line(
    one: Series,
    number: int,
    slots: Sequence[Slot],
    across: Sequence[float],
    down: AxisScale,
    write: Callable[[float], str],
) -> list[Safe]:
    path, pen_down = [], False
    spots: list[Safe] = []
    for place, (slot, x, value) in enumerate(zip(slots, across, one.values, strict=True)):
        if not math.isfinite(value):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{x:.1f} {down(value):.1f}")
        pen_down = True
        error = _error(one, place)
        if error > 0:
            spots.append(error_bar(x, down(max(value - error, 0.0)), x, down(value + error)))
        spots.append(marker(x, down(value), number))
        spread = f" ± {write(error)}" if error > 0 else ""
        spots.append(target(x, down(value), f"{one.name}, {slot.top}: {write(value)}{spread}"))
    return [stroke("".join(path), number), *spots]


def _error(one: Series, place: int) -> float:
    """Half the length of an error bar, 0 where there is none."""
    return one.errors[place] if one.errors and math.isfinite(one.errors[place]) else 0.0


def _line_ends(
    series: Sequence[Series], names: Sequence[str], across: Sequence[float], down: AxisScale, frame: Box
) -> Safe:
    """Names at the right, each joined to the end of its line."""
    ends = [
        (number, max(place for place, value in enumerate(one.values) if math.isfinite(value)))
        for number, one in enumerate(series)
        if any(map(math.isfinite, one.values))
    ]
    heights = [down(series[number].values[place]) for number, place in ends]
    parts: list[Safe] = []
    for (number, place), y, placed in zip(
        ends, heights, separated(heights, 16, frame.top + 6, frame.bottom - 2), strict=True
    ):
        start, end = across[place] + 8, frame.right + 22
        parts.append(
            tag(
                "path",
                d=f"M{start:.1f} {y:.1f}L{end - 10:.1f} {placed:.1f}H{end - 4:.1f}",
                class_=f"tie {css_class(number)}",
            )
        )
        parts.append(tag("text", names[number], x=end, y=placed + 4, class_=f"end-name {css_class(number)}"))
    return join(parts)


def _inside(scale: AxisScale, about: int) -> list[float]:
    return [mark for mark in ticks(scale.low, scale.high, about) if scale.low <= mark <= scale.high]


def _corner(frame: Box) -> Safe:
    """The two axes of a chart that does not start at zero."""
    path = f"M{frame.left} {frame.top}V{frame.bottom}H{frame.right}"
    return tag("path", d=path, class_="base", fill="none")


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values with a margin on both sides."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    margin = max((high - low) * 0.2, 0.5)
    return max(low - margin, 0.0), high + margin
