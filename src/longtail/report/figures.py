"""The charts of the report, as SVG without a library. Colours come from the page's CSS variables.

Every chart is drawn twice, for a wide and for a narrow screen, because text in a scaled picture scales too;
CSS shows one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longtail.report import words
from longtail.report.axes import LETTER, Box, Scale, beside, spread, ticks
from longtail.report.markup import Safe, join, tag

COLOURS = 8  # distinct looks; a ninth recipe takes the first colour again with another dash
NAMED_LINES = 5  # with more, names at the line ends crowd and the legend does better
_DASHES = (None, "7 4", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "9 3 2 3 2 3")
_SHAPES = (  # within -1..1; told apart without colour
    "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
    "M-.88-.88H.88V.88H-.88Z",
    "M0-1.1L1.05.8H-1.05Z",
    "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
    "M0 1.1L1.05-.8H-1.05Z",
    "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "M-.55-1H.55L1.1 0L.55 1H-.55L-1.1 0Z",
    "M0-1.2L.35-.4L1.2-.37L.55.2L.75 1.05L0 .58L-.75 1.05L-.55.2L-1.2-.37L-.35-.4Z",
)


@dataclass(frozen=True)
class Series:
    """One recipe's values, one a slot; NaN where it has none."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Slot:
    """One place on the x axis."""

    top: str  # "2,017–12k"
    bottom: str  # "14 labels"
    apart: bool = False  # set off from the others: labels never seen in training


def look(number: int) -> str:
    """The CSS class that colours recipe `number`."""
    return f"s{number % COLOURS}"


def swatch(number: int) -> Safe:
    """The line and marker of a recipe, for legends and table rows."""
    return tag(
        "svg",
        stroke("M0 7H30", number),
        marker(15, 7, number),
        class_=f"swatch {look(number)}",
        viewBox="0 0 30 14",
        width=30,
        height=14,
        aria_hidden="true",
    )


def legend(names: Sequence[str], numbers: Sequence[int] | None = None) -> Safe:
    """Swatches beside names; `numbers` says which recipes they are, where not all are there."""
    shown = zip(range(len(names)) if numbers is None else numbers, names, strict=True)
    entries = (tag("li", swatch(number), tag("bdi", name, class_="name")) for number, name in shown)
    return tag("ul", join(entries), class_="legend", role="list")


def lines(
    series: Sequence[Series],
    slots: Sequence[Slot],
    *,
    title: str,
    wide: tuple[int, int] = (680, 376),
    top: float | None = None,
    direct: bool = False,
    write: Callable[[float], str] = words.percent,
) -> Safe:
    """One line a recipe over the slots; with `direct`, names at the line ends where there is room."""

    def draw(width: int, height: int, roomy: bool) -> Safe:
        named = direct and roomy and len(series) <= NAMED_LINES
        names = words.short_names([one.name for one in series], 24)
        right = 34 + max(map(len, names), default=0) * LETTER if named else 16.0
        slot = (width - right - 38) / max(len(slots), 1)
        texts = _under(slots, slot)
        frame = Box(38, 14, width - right, height - 32 - 15 * max(map(len, texts), default=1))
        across = [frame.left + slot * (place + 0.5) for place in range(len(slots))]
        known = [value for one in series for value in one.values if math.isfinite(value)]
        marks = ticks(0, top if top is not None else max(known, default=1) or 1)
        down = Scale(marks[0], marks[-1], frame.bottom, frame.top)
        parts = [_shade(slots, across, slot, frame), rules(marks, down, frame)]
        parts += [_slot_texts(texts, across, frame.bottom), _ends_named(frame, height - 4)]
        drawn = [
            tag("g", *_line(one, number, slots, across, down, write), class_=look(number))
            for number, one in enumerate(series)
        ]
        parts += reversed(drawn)  # the first recipe is what others are read against: on top
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
) -> Safe:
    """A labelled dot a recipe."""

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 44)
        known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        right = Scale(*_padded([x for x, _ in known]), frame.left, frame.right)
        up = Scale(*_padded([y for _, y in known]), frame.bottom, frame.top)
        x_marks = _inside(right, 6 if roomy else 4)
        y_marks = _inside(up, 5)
        parts = [rules(y_marks, up, frame), _rules_down(x_marks, right, frame), _corner(frame)]
        parts.append(tag("text", across_name, x=frame.right, y=height - 6, text_anchor="end", class_="axis-name"))
        parts.append(tag("text", up_name, x=2, y=13, class_="axis-name"))
        shown = [number for number, point in enumerate(points) if point in known]
        dots = [(right(points[number][0]), up(points[number][1])) for number in shown]
        short = words.short_names([names[number] for number in shown], 30 if roomy else 22)
        places = beside(dots, short, frame)
        for number, (x, y), name, place in zip(shown, dots, short, places, strict=True):
            figures = f"{names[number]}: {across_name} {points[number][0]:.1f}, {up_name} {points[number][1]:.1f}"
            parts.append(tag("g", marker(x, y, number, 6.5), target(x, y, figures), class_=look(number)))
            if place is not None:
                parts.append(tag("text", name, x=place.x, y=place.y, text_anchor=place.anchor, class_="dot-name"))
        return picture(width, height, title, parts)

    return both(draw, wide, (360, 320))


def bars(names: Sequence[str], values: Sequence[float], written: Sequence[str]) -> Safe:
    """Horizontal bars; names are text of the page, so that long ones wrap instead of being cut."""
    most = max((value for value in values if math.isfinite(value)), default=0.0)
    rows = (
        tag(
            "li",
            tag("span", tag("bdi", name, class_="name"), class_="bar-name"),
            bar(value / most if most > 0 else 0.0, look(number)),
            tag("span", text, class_="bar-value"),
        )
        for number, (name, value, text) in enumerate(zip(names, values, written, strict=True))
    )
    return tag("ul", join(rows), class_="bars", role="list")


def bar(part: float, class_: str) -> Safe:
    """A bar over its track. A rectangle, not a background: browsers leave backgrounds out of print."""
    filled = min(max(part, 0.004 if part > 0 else 0.0), 1.0) * 100 if math.isfinite(part) else 0.0
    return tag(
        "svg",
        tag("rect", width=100, height=1, class_="track"),
        tag("rect", width=filled, height=1, class_="fill"),
        class_=f"bar {class_}",
        viewBox="0 0 100 1",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def both(draw: Callable[[int, int, bool], Safe], wide: tuple[int, int], narrow: tuple[int, int]) -> Safe:
    """The same chart for wide and for narrow screens; CSS shows one."""
    return join((tag("div", draw(*wide, True), class_="wide"), tag("div", draw(*narrow, False), class_="narrow")))


def picture(width: int, height: int, title: str, parts: Sequence[Safe]) -> Safe:
    """A chart that scales with its column, up to where its text would look oversized."""
    return tag(
        "svg",
        *parts,
        class_="chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
        style=f"max-width:{1.3 * width:.0f}px",
    )


def stroke(path: str, number: int) -> Safe:
    return tag("path", d=path, class_="line", stroke_dasharray=_DASHES[(number + number // COLOURS) % 8])


def marker(x: float, y: float, number: int, radius: float = 4.5) -> Safe:
    shape = _SHAPES[(number + number // COLOURS) % len(_SHAPES)]
    return tag("path", d=shape, transform=f"translate({x:.1f} {y:.1f}) scale({radius})", class_="marker")


def target(x: float, y: float, text: str) -> Safe:
    """An unseen, finger-sized spot that shows the figures."""
    return tag("circle", cx=x, cy=y, r=11, class_="target", data_help=text)


def rules(marks: Sequence[float], down: Callable[[float], float], frame: Box) -> Safe:
    return join(
        part
        for mark in marks
        for part in (
            tag(
                "line",
                x1=frame.left,
                x2=frame.right,
                y1=down(mark),
                y2=down(mark),
                class_="rule base" if mark == 0 else "rule",
            ),
            tag("text", f"{mark:g}", x=frame.left - 7, y=down(mark) + 4, text_anchor="end", class_="tick"),
        )
    )


def _rules_down(marks: Sequence[float], right: Scale, frame: Box) -> Safe:
    return join(
        part
        for mark in marks
        for part in (
            tag("line", x1=right(mark), x2=right(mark), y1=frame.top, y2=frame.bottom, class_="rule"),
            tag("text", f"{mark:g}", x=right(mark), y=frame.bottom + 17, text_anchor="middle", class_="tick"),
        )
    )


def _shade(slots: Sequence[Slot], across: Sequence[float], slot: float, frame: Box) -> Safe:
    """A quiet ground behind the slots that stand apart."""
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
    """What stands under each slot: range and size, or the range over two lines, or where it starts."""
    widest = room - 5  # air between neighbours

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
        ("training rows", (frame.left + frame.right) / 2 + 12, "middle"),
        ("rarest →", frame.right, "end"),
    )
    return join(tag("text", name, x=x, y=y, text_anchor=anchor, class_="axis-name") for name, x, anchor in names)


def _line(
    one: Series,
    number: int,
    slots: Sequence[Slot],
    across: Sequence[float],
    down: Scale,
    write: Callable[[float], str],
) -> list[Safe]:
    path, pen_down = [], False
    spots: list[Safe] = []
    for slot, x, value in zip(slots, across, one.values, strict=True):
        if not math.isfinite(value):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{x:.1f} {down(value):.1f}")
        pen_down = True
        spots.append(marker(x, down(value), number))
        spots.append(target(x, down(value), f"{one.name}, {slot.top}: {write(value)}"))
    return [stroke("".join(path), number), *spots]


def _line_ends(
    series: Sequence[Series], names: Sequence[str], across: Sequence[float], down: Scale, frame: Box
) -> Safe:
    """Names at the right, each tied to where its line ends."""
    ends = [
        (number, max(place for place, value in enumerate(one.values) if math.isfinite(value)))
        for number, one in enumerate(series)
        if any(map(math.isfinite, one.values))
    ]
    heights = [down(series[number].values[place]) for number, place in ends]
    parts: list[Safe] = []
    for (number, place), y, placed in zip(
        ends, heights, spread(heights, 16, frame.top + 6, frame.bottom - 2), strict=True
    ):
        start, end = across[place] + 8, frame.right + 22
        parts.append(
            tag(
                "path",
                d=f"M{start:.1f} {y:.1f}L{end - 10:.1f} {placed:.1f}H{end - 4:.1f}",
                class_=f"tie {look(number)}",
            )
        )
        parts.append(tag("text", names[number], x=end, y=placed + 4, class_=f"end-name {look(number)}"))
    return join(parts)


def _inside(scale: Scale, about: int) -> list[float]:
    return [mark for mark in ticks(scale.low, scale.high, about) if scale.low <= mark <= scale.high]


def _corner(frame: Box) -> Safe:
    """The two axes of a chart that does not start at zero."""
    path = f"M{frame.left} {frame.top}V{frame.bottom}H{frame.right}"
    return tag("path", d=path, class_="base", fill="none")


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """A range with air around the values."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    air = max((high - low) * 0.2, 0.5)
    return max(low - air, 0.0), high + air
