"""The page of a search: one HTML file with the best recipe, its history, importance and every setting."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from importlib import resources

from longtail.drawing import words
from longtail.drawing.axes import AxisScale, Box, log_ticks, ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.errors import counted
from longtail.report.sections import section
from longtail.report.shapes import bars, both, css_class, marker, picture, rules, stroke
from longtail.tuning.found import DONE, FAILED, PRUNED, TrialResult, Tuning
from longtail.tuning.search_space import NumberRange, SearchSpace

MOST_ROWS = 200  # of the table


def render(found: Tuning, *, command: str, data: str) -> str:
    """Write the page. It loads nothing from the network and runs no script.

    Args:
        found: the result of a search.
        command: the command line that repeats it.
        data: the data as the command line names it.

    Returns:
        HTML.
    """
    best = found.best
    several = len(found.objectives) > 1
    parts = [
        _front(found) if several else None,
        section("history", "History", *(_history(found, place) for place in range(len(found.objectives)))),
        _importance(found),
        _settings(found),
        section("trials", "Trials", _table(found)),
        section("repeat", "Repeat it", _code(command), tag("p", f"seed {found.seed}", class_="note")),
    ]
    counts = {state: sum(one.state == state for one in found.trials) for state in (DONE, PRUNED, FAILED)}
    states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    values = ", ".join(f"{name} {value:.2f}" for name, value in zip(found.objectives, best.values, strict=True))
    header = tag(
        "header",
        tag("div", tag("span", "longtail tune", class_="brand"), class_="bar-top"),
        tag("h1", tag("bdi", found.data), ": settings found"),
        tag("p", "Best: ", tag("strong", tag("bdi", best.recipe)), class_="takeaway"),
        tag(
            "p",
            f"{values}, judged on {found.judged_on}; {counted(len(found.trials), 'trial')} ({states})",
            class_="under",
        ),
        _code(f"longtail train {shlex.quote(data)} {shlex.quote(best.recipe)} --out model"),
    )
    # No script: the theme follows the system by a copy of the dark rules.
    style = _style()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{found.data}: settings found · longtail"),
        tag("style", Safe(style)),
    )
    body = tag("body", header, tag("main", *parts))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _style() -> str:
    """The report's style. The report's script sets the theme; this page has none, so dark rules follow the system."""
    css = resources.files("longtail.report").joinpath("assets", "report.css").read_text(encoding="utf-8")
    own = (
        ".rejected { fill: none; stroke: var(--edge); stroke-width: 1.5; } .command pre { padding: 12px 16px; }"
        " header .command { margin-top: 20px; } .each { display: grid; gap: 32px 40px;"
        " grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); }"
    )
    begin = css.find("@media screen {")
    end = css.find("\n}\n", begin)
    dark = css[begin : end + 3].replace("@media screen", "@media screen and (prefers-color-scheme: dark)")
    return css + dark.replace(':root[data-theme="dark"]', ":root") + own


def _code(line: str) -> Safe:
    return tag("div", tag("pre", tag("code", line)), class_="command")


def _history(found: Tuning, place: int) -> Safe:
    """The value of each trial, and the best so far."""
    name = found.objectives[place]
    done = found.done
    best, so_far = -math.inf, []
    for one in done:
        best = max(best, one.values[place])
        so_far.append((float(one.number + 1), best))
    points = [(float(one.number + 1), one.values[place], _tooltip(one, found)) for one in done]
    rejected = [(float(one.number + 1), _tooltip(one, found)) for one in found.trials if one.state != DONE]
    last = max((one.number + 1 for one in found.trials), default=1)
    chart = _chart(
        points,
        f"{name} of each trial",
        across=(1.0, float(max(last, 2))),
        marks=sorted({1.0, *(mark for mark in ticks(1, max(last, 2)) if 1 <= mark <= last and mark == int(mark))}),
        across_name="trial",
        up_name=name,
        steps=so_far,
        rejected=rejected,
    )
    note = "A dot is a trial; the line is the best so far; a ring at the foot was pruned or failed."
    return tag("figure", tag("figcaption", tag("h3", name), tag("p", note)), chart)


def _importance(found: Tuning) -> Safe | None:
    """Which settings matter."""
    figures = []
    for name, shares in zip(found.objectives, found.importance, strict=True):
        if shares:
            written = [words.share(share, 1) for share in shares.values()]
            figures.append(
                tag("figure", tag("figcaption", tag("h3", name)), bars(list(shares), list(shares.values()), written))
            )
    if not figures:
        return None
    lead = "How much each setting decides which trials are among the best (PED-ANOVA). The shares add up to 100%."
    return section("importance", "Importance", tag("p", lead, class_="lead"), *figures)


def _settings(found: Tuning) -> Safe:
    """The first objective against every setting."""
    figures = []
    for one in SearchSpace.parse(found.space).dimensions:
        points: list[tuple[float, float, str]] = []
        names: dict[float, str] = {}
        for trial in found.done:
            written = trial.settings[one.name]
            x = float(written) if isinstance(one, NumberRange) else float(one.literals.index(written))
            points.append((x, trial.values[0], _tooltip(trial, found)))
        if isinstance(one, NumberRange):
            inside = [
                mark for mark in (log_ticks if one.log else ticks)(one.low, one.high) if one.low <= mark <= one.high
            ]
            span, marks = (one.low, one.high), inside or [one.low, one.high]
        else:
            names = {float(number): words.cut(literal, 14) for number, literal in enumerate(one.literals)}
            span, marks = (-0.5, len(one.literals) - 0.5), list(names)
        chart = _chart(
            points,
            f"{found.objectives[0]} against {one.name}",
            across=span,
            marks=marks,
            across_name=one.name,
            up_name=found.objectives[0],
            log=isinstance(one, NumberRange) and one.log,
            names=names,
        )
        figures.append(tag("figure", tag("figcaption", tag("h3", one.name)), chart))
    return section("settings", "Settings", tag("div", *figures, class_="each"))


def _front(found: Tuning) -> Safe:
    """Two objectives against each other, and the trials that no other beats."""
    first, second = found.objectives[:2]
    points = [(one.values[0], one.values[1], _tooltip(one, found)) for one in found.done]
    front = sorted((one.values[0], one.values[1]) for one in found.front)
    low, high = min(x for x, _, _ in points), max(x for x, _, _ in points)
    marks = ticks(low, high)
    chart = _chart(
        points,
        f"{second} against {first}",
        across=(marks[0], marks[-1]),
        marks=marks,
        across_name=first,
        up_name=second,
        steps=front if len(found.objectives) == 2 else (),
        straight=True,
    )
    items = (
        tag("li", ", ".join(f"{value:.2f}" for value in one.values), "  ", tag("bdi", one.recipe))
        for one in found.front
    )
    lead = f"No other trial is better in one of {', '.join(found.objectives)} without being worse in another."
    return section("front", "Pareto front", tag("p", lead, class_="lead"), chart, tag("ul", join(items)))


def _table(found: Tuning) -> Safe:
    """The trials, best first."""
    order = sorted(found.trials, key=lambda one: ([-value for value in one.values] or [math.inf], one.number))
    besides = [name for name in ("P@1", "PSP@5", "C@5") if name not in found.objectives]
    head = ["Recipe", "Trial", *found.objectives, *besides, "Time"]
    rows = []
    for one in order[:MOST_ROWS]:
        measures = one.measures or {}
        values = [f"{value:.2f}" for value in one.values] or [one.state, *[""] * (len(found.objectives) - 1)]
        cells = [str(one.number + 1), *values]
        cells += [words.percent(measures.get(name)) for name in besides]
        cells.append(words.seconds(one.seconds))
        why = tag("small", one.why, class_="delta") if one.why else None
        rows.append(
            tag(
                "tr",
                tag("th", tag("bdi", one.recipe), why, scope="row", class_="stick"),
                *(tag("td", cell) for cell in cells),
            )
        )
    columns = (tag("th", name, scope="col", class_="stick" if name == "Recipe" else None) for name in head)
    left = len(order) - MOST_ROWS
    more = tag("p", f"{left} more are in the JSON.", class_="note") if left > 0 else None
    table = tag("table", tag("thead", tag("tr", *columns)), tag("tbody", *rows))
    return join([tag("div", table, class_="box", tabindex=0, role="region", aria_label="Trials"), more])


def _tooltip(trial: TrialResult, found: Tuning) -> str:
    values = ", ".join(f"{name} {value:.2f}" for name, value in zip(found.objectives, trial.values, strict=False))
    return f"trial {trial.number + 1}: {trial.recipe}: {values or trial.why}"


def _chart(
    points: Sequence[tuple[float, float, str]],
    title: str,
    *,
    across: tuple[float, float],
    marks: Sequence[float],
    across_name: str,
    up_name: str,
    steps: Sequence[tuple[float, float]] = (),
    rejected: Sequence[tuple[float, str]] = (),
    log: bool = False,
    straight: bool = False,
    names: dict[float, str] | None = None,
) -> Safe:
    """Dots over one axis, with a line of steps or a straight one through some of them."""
    place: Callable[[float], float] = math.log10 if log else float

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(52, 26, width - 16, height - 44)
        levels = [y for _, y, _ in points] or [0.0, 1.0]
        up_marks = ticks(min(levels), max(levels))
        right = AxisScale(place(across[0]), place(across[1]), frame.left + 8, frame.right - 8)
        up = AxisScale(up_marks[0], up_marks[-1], frame.bottom, frame.top)
        parts = [rules(up_marks, up, frame)]
        shown = marks if roomy or names or len(marks) < 7 else marks[::2]
        for mark in shown:
            word = (names or {}).get(mark, f"{mark:g}")
            x = right(place(mark))
            parts.append(tag("text", word, x=x, y=frame.bottom + 17, text_anchor="middle", class_="tick"))
        parts.append(tag("text", across_name, x=frame.right, y=height - 6, text_anchor="end", class_="axis-name"))
        parts.append(tag("text", up_name, x=2, y=13, class_="axis-name"))
        drawn = []
        if steps:
            spots = [(right(place(x)), up(y)) for x, y in steps]
            path = f"M{spots[0][0]:.1f} {spots[0][1]:.1f}"
            path += "".join(f"L{x:.1f} {y:.1f}" if straight else f"H{x:.1f}V{y:.1f}" for x, y in spots[1:])
            drawn.append(stroke(path, 0))
        for x, y, caption in points:
            drawn.append(tag("g", tag("title", caption), marker(right(place(x)), up(y), 0, 4.0)))
        for x, caption in rejected:
            ring = tag("circle", tag("title", caption), cx=right(place(x)), cy=frame.bottom - 6, r=4, class_="rejected")
            drawn.append(ring)
        return picture(width, height, title, [*parts, tag("g", *drawn, class_=css_class(0))])

    return both(draw, (540, 320), (360, 280))
