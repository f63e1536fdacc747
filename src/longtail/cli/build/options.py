"""Options that all builders have, and how a result is printed: achieved counts beside published ones."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli.shared import console, print_json, say

if TYPE_CHECKING:
    from longtail.data.builders.output import Built

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Data folder to write.")]
Seed = Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the split and of other draws.")]
Constants = Annotated[str, typer.Option("--propensity", metavar="A,B", help="Propensity constants to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the data set that is there.")]
Accept = Annotated[
    bool, typer.Option("--accept-licence", help="You accept the licence of the files, which is printed.")
]
Counts = Annotated[bool, typer.Option("--counts", help="Soft targets by how often, instead of 1 for every label.")]


def command() -> str:
    """The command as it was typed, for `corpus.json`."""
    return shlex.join(["longtail", *sys.argv[1:]])


def show(built: Built, json: bool) -> None:
    """Prints what was built, beside the published set."""
    from longtail.data.published import find_published

    published = None if built.published is None else find_published(built.published)
    for note in built.notes:
        say(f"note: {note}")
    known: dict[str, Any] = {} if published is None else published.counts()
    if json:
        shown = {"data": str(built.out), "counts": built.counts, "notes": list(built.notes)}
        print_json(shown | {"published": None if published is None else {"name": published.name, **known}})
        return
    from rich.table import Table

    table = Table(title=f"wrote {built.out}", title_justify="left")
    table.add_column("")
    table.add_column("built", justify="right")
    if published is not None:
        table.add_column(f"published: {published.name}", justify="right")
    for name, value in built.counts.items():
        row = [name, f"{value:,}"]
        if published is not None:
            row.append(f"{known[name]:,}" if known.get(name) is not None else "")
        table.add_row(*row)
    console().print(table)
