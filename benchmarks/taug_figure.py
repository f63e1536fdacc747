"""TAUG's figures 2 and 5 as pictures: PSP against the noisy copies of a tail row, and against the share of head labels.

    python benchmarks/taug_figure.py gutenberg [eurlex57k] --keep FOLDER --out docs/results

Reads what `ranknet_taug.py --parts taug --keep FOLDER` has finished, and writes taug-copies.svg and taug-head.svg: a
panel a data set, a line for PSP@1, PSP@3 and PSP@5 each. Settings stand at even distances, whatever lies between them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from longtail.report.axes import Box, Scale, ticks
from longtail.report.figures import look, marker, rules, stroke
from longtail.report.markup import Safe, tag
from ranknet_taug import BASE, COPIES, HEADS, Kept, Values, _method

WIDE, HIGH, LEGEND = 380, 300, 30  # of a panel, and of the strip above them
LINES = ("PSP@1", "PSP@3", "PSP@5")
STYLE = """
svg{background:#fff;font:12px system-ui,sans-serif;fill:#444}
.rule{stroke:#ddd}.line{fill:none;stroke-width:2}.before{stroke:#999;stroke-dasharray:2 4}
.s0 .line{stroke:#1f6fb2}.s0 .marker{fill:#1f6fb2}.s1 .line{stroke:#c4521b}.s1 .marker{fill:#c4521b}
.s2 .line{stroke:#2b8a5a}.s2 .marker{fill:#2b8a5a}
"""


def figure(title: str, settings: Sequence[str], found: dict[str, tuple[list[Values], Values]]) -> str:
    """A panel for each data set: the measures at each setting, and dotted those of the learner without TAUG."""
    parts = [tag("style", Safe(STYLE))]
    for number, name in enumerate(LINES):
        at = 40 + 90 * number
        parts += [tag("g", marker(at, 16, number), class_=look(number)), tag("text", name, x=at + 12, y=20)]
    for number, (data, (values, before)) in enumerate(found.items()):
        frame = Box(WIDE * number + 40, LEGEND + 26, WIDE * (number + 1) - 16, LEGEND + HIGH - 40)
        parts += [tag("text", data, x=frame.left, y=frame.top - 10), *_panel(frame, settings, values, before)]
        parts.append(tag("text", "dotted: without TAUG", x=frame.right, y=frame.top - 10, text_anchor="end"))
        parts.append(tag("text", title, x=frame.right, y=frame.bottom + 34, text_anchor="end"))
    size = {"width": WIDE * len(found), "height": HIGH + LEGEND}
    label = f"PSP against {title}"
    view = f"0 0 {size['width']} {size['height']}"
    return str(
        tag("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=view, **size, role="img", aria_label=label)
    )


def _panel(frame: Box, settings: Sequence[str], values: Sequence[Values], before: Values) -> list[Safe]:
    marks = ticks(*(bound(one[name] for one in (*values, before) for name in LINES) for bound in (min, max)))
    across = Scale(0, len(settings) - 1, frame.left + 14, frame.right - 14)
    down = Scale(marks[0], marks[-1], frame.bottom, frame.top)
    parts = [rules(marks, down, frame)]
    for place, setting in enumerate(settings):
        parts.append(tag("text", setting, x=across(place), y=frame.bottom + 16, text_anchor="middle"))
    for number, name in enumerate(LINES):
        y = down(before[name])
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="before"))
        spots = [(across(place), down(one[name])) for place, one in enumerate(values)]
        path = stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots), number)
        parts.append(tag("g", path, *(marker(x, y, number) for x, y in spots), class_=look(number)))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="names of data sets")
    parser.add_argument("--keep", type=Path, required=True, help="folder of finished figures")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = Kept(options.keep, closed=True)

    def values(data: str, recipe: str) -> Values:
        return kept.values(data, f"{recipe}, features", dict)

    for name, title, setting, sweep in (
        ("taug-copies", "noisy copies of a tail row", "copies", COPIES),
        ("taug-head", "share of labels that are head", "head_share", HEADS),
    ):
        made = {
            data: ([values(data, f"{BASE} + {_method(setting, value)}") for value in sweep], values(data, BASE))
            for data in options.data
        }
        (options.out / f"{name}.svg").write_text(figure(title, [f"{value:g}" for value in sweep], made) + "\n")


if __name__ == "__main__":
    main()
