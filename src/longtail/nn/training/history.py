"""What happened in each epoch, as lines of JSON and as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.atomic import new_own_file
from longtail.errors import DataError

FILE, PICTURE = "history.jsonl", "history.svg"
NEEDED = {"epoch", "loss", "rows_per_second", "peak_bytes"}  # of a line


@dataclass(frozen=True)
class History:
    """What happened in each epoch.

    A line has the epoch, steps, loss, learning_rate, seconds, rows_per_second and peak_bytes; where the epoch ended
    with a validation, also its measures.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)  # one for each epoch

    @classmethod
    def of(cls, lines: Iterable[Any]) -> History:
        """Take lines that were read back.

        Args:
            lines: Any JSON values.

        Returns:
            The history.

        Raises:
            ValueError: A line is none of a history.
        """
        found = list(lines)
        for line in found:
            if not isinstance(line, dict) or not set(line) >= NEEDED:
                raise ValueError(f"a line of a history has {', '.join(sorted(NEEDED))}")
            if not all(isinstance(value, int | float) for value in line.values()):
                raise ValueError("a line of a history has numbers alone")
        return cls(found)

    def values(self, name: str) -> list[tuple[int, float]]:
        """Collect one measure over the epochs.

        Args:
            name: Such as loss or P@1.

        Returns:
            (epoch, value) of each epoch that has it.
        """
        return [(line["epoch"], float(line[name])) for line in self.lines if name in line]

    def write(self, folder: Path) -> None:
        """Write history.jsonl as a whole: a resumed training drops the lines after its checkpoint.

        Args:
            folder: An existing folder.
        """
        with new_own_file(folder / FILE) as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines)

    def draw(self, folder: Path) -> Path:
        """Draw the loss and the validation measures over the epochs.

        Args:
            folder: Where history.svg is written.

        Returns:
            The path of the picture.
        """
        path = folder / PICTURE
        with new_own_file(path) as file:
            file.write(svg(self.lines))
        return path

    @classmethod
    def read(cls, folder: str | Path) -> History:
        """Read the history that `write` wrote.

        Args:
            folder: That of a training loop.

        Returns:
            The history.

        Raises:
            DataError: The file is missing or damaged.
        """
        path = Path(folder) / FILE
        try:
            if path.exists() and not path.is_file():  # a pipe would never end
                raise DataError("cannot be read (it is no file)", path)
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read ({getattr(error, 'strerror', error)})", path) from None
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                lines += cls.of([json.loads(line)]).lines
            except (ValueError, RecursionError) as error:
                raise DataError(f"not a line of a training history ({error})", path, number) from None
        return cls(lines)


WIDTH, HEIGHT = 640, 260
COLOURS = ("#3566a8", "#c4602b", "#2f855a")


def svg(lines: Sequence[dict[str, Any]]) -> str:
    """Draw two panels over the epochs: the loss, and P@1 and PSP@1 on the validation split.

    Args:
        lines: Of a `History`.

    Returns:
        The text of an SVG without scripts or fonts.
    """
    from longtail.drawing.axes import AxisScale, ticks
    from longtail.drawing.markup import Safe, join, tag

    def panel(names: Sequence[str], left: float, right: float, title: str) -> Safe:
        measured = {
            name: [(line["epoch"], line[name]) for line in lines if math.isfinite(line.get(name, math.nan))]
            for name in names
        }
        values = [value for points in measured.values() for _, value in points]
        last = max((line["epoch"] for line in lines), default=1)
        marks = ticks(min(values, default=0.0), max(values, default=1.0))
        across, down = (
            AxisScale(1, max(last, 2), left + 44, right - 10),
            AxisScale(marks[0], marks[-1], HEIGHT - 34, 34),
        )
        parts = [tag("text", title, x=left + 44, y=18, font_weight="bold")]
        for mark in marks:
            y = round(down(mark), 1)
            parts.append(tag("path", d=f"M{left + 44} {y}H{right - 10}", stroke="#ddd", fill="none"))
            parts.append(tag("text", f"{mark:g}", x=left + 38, y=y + 4, text_anchor="end"))
        parts += [
            tag("text", f"epoch {epoch}", x=round(across(epoch), 1), y=HEIGHT - 14, text_anchor=anchor)
            for epoch, anchor in {1: "start", last: "end"}.items()
        ]
        for number, (name, points) in enumerate(measured.items()):
            if not points:
                continue
            colour = COLOURS[number % len(COLOURS)]
            path = "L".join(f"{across(epoch):.1f} {down(value):.1f}" for epoch, value in points)
            parts.append(tag("path", d=f"M{path}", stroke=colour, stroke_width=2, fill="none"))
            parts += [
                tag("circle", tag("title", f"epoch {epoch}: {name} {value:.4g}"), fill=colour, r=3,
                    cx=round(across(epoch), 1), cy=round(down(value), 1))
                for epoch, value in points
            ]  # fmt: skip
            if len(names) > 1:
                parts.append(tag("text", name, x=right - 60 * (len(names) - number), y=18, fill=colour))
        return tag("g", join(parts))

    half = WIDTH / 2
    return str(
        tag(
            "svg",
            tag("title", "Loss and validation measures over the epochs"),
            panel(["loss"], 0, half, "loss"),
            panel(["P@1", "PSP@1"], half, WIDTH, "validation, %"),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            width=WIDTH,
            height=HEIGHT,
            font_family="system-ui, sans-serif",
            font_size=12,
        )
    )
