"""The page of all figures of `fuse`, written from kept results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.tables import BINS, at_ks, cells, table

MEASURES = [*at_ks("P", "PSP", "C"), "nDCG@20", "F1@5", "ECE@5"]
FEWER = ["P@1", "P@5", "PSP@1", "PSP@5", "C@5", "ECE@5"]

INTRODUCTION = """# Fuse: all figures

These are the full tables of [Fuse](../fuse.md), written by `benchmarks/fuse.py --page`. Test split unless a column says
valid; labels' frequencies and propensities are those of the training rows used. Seconds are those of the processor, on
one thread: of training for a recipe, of learning from the members' answers for `fuse`.
"""

ALONE = """## Every member alone, and their combinations

The linear model a label is least squares over the members' shares, drawn to the weights of all labels. `fuse`: mean of
three seeds of the trees. Scores that are no probabilities have no ECE.
"""

BINS_TEXT = """## By frequency

Points of P@5 by frequency bin, the most frequent labels first, each a fifth of the training positives.
"""

SPREAD = """## Three seeds of the trees

Largest less smallest of three seeds; the members are the same.
"""

FOLDS = """## Learned on valid, or on folds of train

The combiner learned on out-of-fold answers over train, one seed; *members s* are the seconds that training members
anew and asking them took. No tree saw valid then, so it is measured there too. Beside it the line of valid, from above.
"""

LEFT_OUT = """## What is left out

Valid: five-fold cross-validation over the whole split, each row ranked by trees that did not see it. Numbers and
settings are chosen there. Test is shown beside it, with one seed; nothing was chosen by it.
"""


def page(lines: list[dict[str, Any]]) -> str:
    """The page.

    Args:
        lines: kept results.

    Returns:
        Markdown.
    """
    parts = [INTRODUCTION]
    shown = [*_of(lines, "alone"), *_of(lines, "ways"), *_of(lines, "fuse")]
    shown.sort(key=lambda one: one["data"])  # keeps the order of the parts
    body = [[*_name(one), *cells(one["values"], MEASURES), _seconds(one)] for one in shown]
    parts += [ALONE, table(["data", "recipe", *MEASURES, "train s"], body, words=2)]
    body = [[*_name(one), *cells(one["bins"], BINS)] for one in shown]
    parts += [BINS_TEXT, table(["data", "recipe", *BINS], body, words=2)]
    body = [[*_name(one), *cells(one["spread"], MEASURES, 2)] for one in _of(lines, "fuse")]
    parts += [SPREAD, table(["data", "recipe", *MEASURES], body, words=2)]
    folded = list(_of(lines, "folds"))
    if folded:
        names = {one["data"] for one in folded}
        folded += [one for one in _of(lines, "fuse") if one["data"] in names]
        folded.sort(key=lambda one: one["data"])
        body = [
            [
                *_name(one),
                *cells(one.get("valid", {}), FEWER),
                *cells(one["values"], MEASURES),
                f"{one['members']:.0f}" if "members" in one else "",
                _seconds(one),
            ]
            for one in folded
        ]
        parts += [
            FOLDS,
            table(
                ["data", "learned", *(f"valid {one}" for one in FEWER), *MEASURES, "members s", "train s"],
                body,
                words=2,
            ),
        ]
    left_out = list(_of(lines, "left out"))
    columns = [*(f"valid {one}" for one in FEWER), *FEWER, "train s"]
    body = [
        [*_name(one), *cells(one["values"], FEWER, 2), *cells(one["test"], FEWER, 2), _seconds(one)] for one in left_out
    ]
    parts += [LEFT_OUT, table(["data", "combiner", *columns], body, words=2)] if left_out else []
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _of(lines: list[dict[str, Any]], part: str) -> Iterable[dict[str, Any]]:
    return (one for one in lines if one["part"] == part)


def _name(line: dict[str, Any]) -> list[str]:
    return [line["data"], f"`{line['name']}`" if line["part"] == "alone" else line["name"]]


def _seconds(line: dict[str, Any]) -> str:
    return "" if line.get("seconds") is None else f"{line['seconds']:.1f}"
