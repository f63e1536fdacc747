"""Figures 2 and 3 of the Gandalf paper as SVG, from stored results.

    python benchmarks/gandalf_figure.py RUNS --shares LINES --out docs/results
    python benchmarks/gandalf_figure.py RUNS --data yso --paper --out docs/results

Reads RUNS/runs.jsonl, which `gpu/gandalf.py --part figure2 figure3` writes, and LINES, which `gandalf_linear.py --part
shares --out LINES` writes. Writes gandalf-bins.svg (points of P@5 that rows, gandalf and gandalf with chosen settings
add in each frequency bin, one panel for each net), gandalf-epochs.svg (P@1 and PSP@5 on valid over the epochs) and
gandalf-share.svg (P@1 and PSP@5 of `parabel` on test against the share of labels that become rows). A net needs a plain
run and one with rows to have a panel; a figure without its runs is not drawn. Names of figures of data other than
gutenberg end in the name of the data set.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longtail.drawing.axes import AxisScale, Box, ticks
from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import rules
from shared.command import parser_for
from shared.figures import entry, line, svg
from shared.tables import read_lines

NETS = ("astec", "inceptionxml", "decaf", "eclare", "inceptionxml-lf", "renee")
SHARES = (0.25, 0.5, 0.75)
CHOSEN = "gandalf(soft_scale=0.3, repeats=2)"
LOOKS = {"plain": 0, "rows": 1, "gandalf": 2, CHOSEN: 3, "uniform": 0, "rarest first": 3}  # the same in every picture
WIDE, HIGH, LEGEND = 340, 280, 30  # of a panel, and of the strip above them
Line = tuple[str, Sequence[float]]
Panel = tuple[str, Sequence[str], Sequence[Line]]


def figure(title: str, panels: Sequence[Panel], across: int) -> str:
    """Panels in rows of `across`, below the names of their lines."""
    parts: list[Safe] = []
    named = {name for _, _, lines in panels for name, _ in lines}
    for place, name in enumerate(name for name in LOOKS if name in named):
        parts += entry(name, 40 + 130 * place, 20, LOOKS[name])
    for number, (name, slots, lines) in enumerate(panels):
        left, top = WIDE * (number % across), LEGEND + HIGH * (number // across)
        frame = Box(left + 44, top + 26, left + WIDE - 16, top + HIGH - 30)
        parts += [tag("text", name, x=frame.left, y=frame.top - 10), *_panel(frame, slots, lines)]
    high = HIGH * math.ceil(len(panels) / across) + LEGEND
    return svg(parts, WIDE * min(across, len(panels)), high, title)


def _panel(frame: Box, slots: Sequence[str], lines: Sequence[Line]) -> list[Safe]:
    marks = ticks(*(bound(value for _, values in lines for value in values) for bound in (min, max)))
    across = AxisScale(0, max(len(slots) - 1, 1), frame.left + 14, frame.right - 14)
    down = AxisScale(marks[0], marks[-1], frame.bottom, frame.top)
    parts = [rules(marks, down, frame)]
    for place, slot in enumerate(slots):
        parts.append(tag("text", slot, x=across(place), y=frame.bottom + 16, text_anchor="middle"))
    for name, values in lines:
        parts.append(line([(across(place), down(value)) for place, value in enumerate(values)], LOOKS[name]))
    return parts


class Missing(Exception):
    """A run that has not been made."""


class Runs:
    """Stored runs by recipe, the seeds of a recipe together."""

    def __init__(self, folder: Path, data: str, paper: bool = False) -> None:
        self.found = [run for run in read_lines(folder / "runs.jsonl") if run["data"] == data]
        for run in self.found if paper else ():
            run["recipe"] = run["recipe"].replace("(longest=none)", "").replace("longest=none, ", "")

    def has(self, net: str, more: str) -> bool:
        try:
            return bool(self.of(net, more))
        except Missing:
            return False

    def of(self, net: str, more: str) -> list[dict[str, Any]]:
        """Runs of a net, with any settings, followed by exactly these tail methods."""
        found = [
            run for run in self.found
            if run["recipe"].split(" + ")[0].split("(")[0] == net and "keep=" not in run["recipe"]
            and run["recipe"].partition(" + ")[2] == more.removeprefix(" + ")
        ]  # fmt: skip
        if not found:
            raise Missing(f"{net}{more}")
        return found

    def bins(self, net: str, more: str) -> list[float]:
        """Points of P@5 from each frequency bin, the head first."""
        each = [[part["contribution"] for part in run["test bins"][:5]] for run in self.of(net, more)]
        return [statistics.mean(values) for values in zip(*each, strict=True)]

    def epochs(self, net: str, more: str, name: str) -> tuple[list[str], list[float]]:
        """The mean over the seeds at each epoch in which all of them were evaluated."""
        each = [
            {epoch["epoch"]: epoch[name] for part in run["history"] for epoch in part if name in epoch}
            for run in self.of(net, more)
        ]
        common = sorted(set.intersection(*(set(values) for values in each)))
        return [str(epoch) for epoch in common], [statistics.mean(values[epoch] for values in each) for epoch in common]


def bins(runs: Runs) -> str:
    panels: list[Panel] = []
    for net in NETS:
        ways = [way for way in ("rows", "gandalf", CHOSEN) if runs.has(net, f" + {way}")]
        if not runs.has(net, "") or "rows" not in ways:
            continue
        plain, *others = (runs.bins(net, more) for more in ("", *(f" + {way}" for way in ways)))
        gains = [
            (way, [new - old for new, old in zip(found, plain, strict=True)])
            for way, found in zip(ways, others, strict=True)
        ]
        panels.append((f"{net}, points of P@5 over plain", ["head", "2", "3", "4", "tail"], gains))
    return figure("points of P@5 by frequency bin over the plain net", panels, 2)


def epochs(runs: Runs, net: str = "astec") -> str:
    ways = {"plain": "", "rows": " + rows", "gandalf": " + gandalf"}
    ways |= {CHOSEN: f" + {CHOSEN}"} if runs.has(net, f" + {CHOSEN}") else {}
    panels = [
        (f"{net}, {name} on valid by epoch", runs.epochs(net, "", name)[0],
         [(way, runs.epochs(net, more, name)[1]) for way, more in ways.items()])
        for name in ("P@1", "PSP@5")
    ]  # fmt: skip
    return figure("P@1 and PSP@5 on valid by epoch", panels, 2)


def shares(runs: Sequence[dict[str, Any]], data: str, learner: str = "parabel") -> str:
    known = {run["recipe"]: run for run in runs if (run["data"], run["split"]) == (data, "test")}

    def values(which: str, name: str) -> list[float]:
        some = [f'{learner} + gandalf(label_share={share:g}, label_selection="{which}")' for share in SHARES]
        return [known[recipe][name] for recipe in (learner, *some, f"{learner} + gandalf")]

    slots = ["none", *(f"{share:.0%}" for share in SHARES), "all"]
    panels = [
        (f"{learner}, {name} by the share of labels", slots,
         [("uniform", values("uniform", name)), ("rarest first", values("tail", name))])
        for name in ("P@1", "PSP@5")
    ]  # fmt: skip
    return figure("P@1 and PSP@5 by the share of labels that become rows", panels, 2)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("runs", type=Path, help="folder of runs.jsonl")
    parser.add_argument("--data", default="gutenberg", help="name of the data set")
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--shares", type=Path, help="JSON lines of the runs with fewer labels")
    parser.add_argument("--paper", action="store_true", help="the runs were made with --paper")
    options = parser.parse_args()
    runs = Runs(options.runs, options.data, options.paper)
    end = "" if options.data == "gutenberg" else f"-{options.data}"
    if options.shares is not None:
        picture = shares(read_lines(options.shares), options.data)
        (options.out / f"gandalf-share{end}.svg").write_text(picture + "\n")
    for name, draw in (("bins", bins), ("epochs", epochs)):
        try:
            (options.out / f"gandalf-{name}{end}.svg").write_text(draw(runs) + "\n")
        except Missing as missing:
            print(f"gandalf-{name}{end}.svg was not drawn: there is no run of {missing}")


if __name__ == "__main__":
    main()
