import itertools
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as some
from report_sample import HOSTILE

from longtail.drawing.axes import Box, beside, separated, ticks
from longtail.drawing.markup import Safe, escape, join, tag
from longtail.report import figures, shapes
from longtail.report.figures import Series, Slot

NUMBERS = some.floats(-1e6, 1e6, allow_nan=False)


def elements(markup: str, name: str, class_: str = "") -> list[ET.Element]:
    tree = ET.fromstring(f"<body>{markup}</body>")
    return [one for one in tree.iter(name) if class_ in one.get("class", "").split() or not class_]


def test_markup_escapes_text_and_attributes_but_not_itself() -> None:
    inner = tag("b", "<i>&\"'")
    assert inner == "<b>&lt;i&gt;&amp;&quot;&#x27;</b>"
    assert tag("p", inner, title='"><script>') == f'<p title="&quot;&gt;&lt;script&gt;">{inner}</p>'
    assert escape(Safe("<b>")) == "<b>" and escape("<b>") == "&lt;b&gt;"
    assert join(["<", None, Safe("<br>")], ", ") == "&lt;, <br>"


def test_markup_attributes() -> None:
    assert tag("rect", x=1.0, y=2.346, class_="a b", aria_hidden="true") == (
        '<rect x="1" y="2.35" class="a b" aria-hidden="true"></rect>'
    )
    assert tag("input", checked=True, disabled=False, value=None) == "<input checked>"


@given(NUMBERS, NUMBERS, some.integers(2, 9))
def test_ticks_are_even_and_hold_the_range(one: float, other: float, about: int) -> None:
    low, high = sorted((one, other))
    marks = ticks(low, high, about)
    steps = [second - first for first, second in itertools.pairwise(marks)]
    slack = 1e-6 * max(1, abs(low), abs(high))
    assert marks[0] <= low + slack and marks[-1] >= high - slack
    assert 1 <= len(steps) <= 2 * about + 2
    assert max(steps) - min(steps) < 1e-6 * max(map(abs, marks)) + 1e-9


@given(some.lists(some.floats(0, 100), min_size=1, max_size=8))
def test_separated_names_keep_their_distance_and_order(wanted: list[float]) -> None:
    placed = separated(wanted, 12, 0, 100)
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    assert all(placed[b] - placed[a] >= 12 - 1e-9 for a, b in itertools.pairwise(order))
    assert min(placed) >= -1e-9 and max(placed) <= 100 + 1e-9
    if len(wanted) == 1:
        assert placed == wanted


@given(some.lists(some.tuples(some.floats(20, 380), some.floats(20, 280)), min_size=1, max_size=8))
def test_names_beside_dots_lie_on_nothing(dots: list[tuple[float, float]]) -> None:
    frame = Box(0, 0, 400, 300)
    names = [f"recipe {number}" for number in range(len(dots))]
    boxes = []
    for label, name in zip(beside(dots, names, frame), names, strict=True):
        if label is None:
            continue
        left = label.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor] * len(name) * 6.6
        box = Box(left, label.y - 12, left + len(name) * 6.6, label.y + 3)
        assert box.outside(frame) < 1
        assert not any(Box(x - 6, y - 6, x + 6, y + 6).overlap(box) > 1e-6 for x, y in dots)
        assert not any(box.overlap(other) > 1e-6 for other in boxes)
        boxes.append(box)


@given(some.lists(some.tuples(*[some.floats(20, 380), some.floats(20, 280), *[some.floats(0, 60)] * 4]), max_size=6))
def test_names_cross_no_error_bar(drawn: list[tuple[float, ...]]) -> None:
    dots = [(x, y) for x, y, *_ in drawn]
    bars = [Box(x - left, y - up, x + right, y + down) for x, y, left, up, right, down in drawn]
    names = [f"recipe {number}" for number in range(len(dots))]
    for label, name in zip(beside(dots, names, Box(0, 0, 400, 300), bars), names, strict=True):
        if label is not None:
            left = label.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor] * len(name) * 6.6
            box = Box(left, label.y - 9, left + len(name) * 6.6, label.y + 2)
            for (x, y), bar in zip(dots, bars, strict=True):
                assert box.overlap(Box(bar.left, y - 1, bar.right, y + 1)) < 1e-6
                assert box.overlap(Box(x - 1, bar.top, x + 1, bar.bottom)) < 1e-6


def test_names_of_the_demo_stand_behind_the_ends_of_their_error_bars() -> None:
    points = [(62.2, 23.4), (63.3, 32.7), (65.6, 27.1), (67.8, 36.8)]
    spans = [((x - 0.7, x + 0.7), (y - 0.6, y + 0.6)) for x, y in points]
    names = ["parabel", "rerank", "gandalf", "fuse"]
    chart = figures.scatter(names, points, title="t", across_name="P@1", up_name="PSP@1", ranges=spans)
    texts, flat = elements(chart, "text", "dot-name"), elements(chart, "path", "error")[::2]
    assert len(texts) == len(flat) == 2 * len(points)  # wide and narrow
    for text, bar in zip(texts, flat, strict=True):
        ends = [float(x) for x in re.findall(r"[ML]([\d.]+) ", bar.attrib["d"])]
        assert not min(ends) < float(text.attrib["x"]) < max(ends)


def test_names_stand_on_no_line() -> None:
    """Neither at the right, where the first place is, nor above, where the next free one would be."""
    across = Box(100, 98, 300, 102)
    up = Box(98, 20, 102, 100)
    (label,) = beside([(100, 100)], ["bm25"], Box(0, 0, 400, 300), lines=[across, up])
    assert label is not None and label.anchor == "end" and label.y == 104
    (label,) = beside([(100, 100)], ["bm25"], Box(0, 0, 400, 300), lines=[Box(0, 0, 400, 300)])
    assert label is None


def test_a_lone_dot_has_its_name_at_the_right() -> None:
    (label,) = beside([(100, 100)], ["bm25"], Box(0, 0, 400, 300))
    assert label is not None and label.anchor == "start" and label.x > 100


def test_line_chart_has_a_line_a_recipe_and_a_gap_where_there_is_no_value() -> None:
    slots = [Slot("10–20", "3 labels"), Slot("1–9", "40 labels"), Slot("never seen", "5 labels", apart=True)]
    series = [Series("a", (3.0, 2.0, 1.0)), Series("b", (1.0, math.nan, 2.0))]
    chart = figures.lines(series, slots, title="t", direct=True)
    drawn = [one.get("d", "") for one in elements(chart, "path", "line")]
    assert len(drawn) == 2 * 2  # wide and narrow
    assert sorted(path.count("M") for path in drawn) == [1, 1, 2, 2]
    assert len(elements(chart, "path", "marker")) == 2 * 5
    assert [one.text for one in elements(chart, "text", "end-name")] == ["a", "b"]
    assert len(elements(chart, "rect", "apart")) == 2
    assert {one.get("role") for one in elements(chart, "svg")} == {"img"}


def test_many_lines_are_named_by_the_legend_alone() -> None:
    series = [Series(f"recipe {number}", (1.0, 2.0)) for number in range(8)]
    chart = figures.lines(series, [Slot("2", "1 label"), Slot("1", "9 labels")], title="t", direct=True)
    assert not elements(chart, "text", "end-name")


def test_an_error_bar_does_not_stretch_percents_beyond_100() -> None:
    series, slots = [Series("a", (100.0, 40.0), (0.3, 0.3))], [Slot("2", ""), Slot("1", "")]
    for most, top in ((math.inf, 125), (100.0, 100)):
        chart = figures.lines(series, slots, title="t", most=most)
        marks = [float(one.text or 0) for one in elements(chart, "text", "tick") if (one.text or "").isdigit()]
        assert max(marks) == top


def test_higher_values_stand_higher() -> None:
    chart = figures.lines([Series("a", (0.0, 10.0))], [Slot("2", ""), Slot("1", "")], title="t")
    path = elements(chart, "path", "line")[0].get("d", "")
    first, second = (float(point.split()[1]) for point in path[1:].split("L"))
    assert second < first


def test_eight_recipes_look_different_without_colour() -> None:
    looks = [shapes.swatch(number).replace(shapes.css_class(number), "") for number in range(16)]
    assert len(set(looks[:8])) == 8
    assert looks[8] != looks[0]  # the ninth shares the colour of the first, not its shape


@pytest.mark.parametrize("points", [[(1.0, 2.0)], [(5.0, 5.0), (5.0, 5.0)], [(math.nan, 1.0), (3.0, 4.0)], []])
def test_scatter_of_few_equal_or_missing_points(points: list[tuple[float, float]]) -> None:
    names = [f"r{number}" for number in range(len(points))]
    chart = figures.scatter(names, points, title="t", across_name="P@1", up_name="PSP@1")
    known = sum(not math.isnan(x) for x, _ in points)
    assert len(elements(chart, "path", "marker")) == 2 * known


def test_bars_are_in_proportion() -> None:
    chart = shapes.bars(["a", "b", "c"], [10.0, 5.0, 0.0], ["10 s", "5 s", "0 s"])
    assert [one.get("width") for one in elements(chart, "rect", "fill")] == ["100", "50", "0"]


def test_hostile_names_stay_text_in_every_chart() -> None:
    names = [name or "empty" for name in HOSTILE]
    drawn = [
        shapes.legend(names),
        shapes.bars(names, [1.0] * len(names), names),
        figures.scatter(names, [(1.0, 1.0)] * len(names), title=names[0], across_name="<", up_name="&"),
        figures.lines(
            [Series(name, (1.0,)) for name in names[:5]], [Slot("<b>", "</svg>")], title=names[1], direct=True
        ),
    ]
    for chart in drawn:
        assert "<script" not in chart and "<img" not in chart
        ET.fromstring(f"<body>{chart}</body>")
