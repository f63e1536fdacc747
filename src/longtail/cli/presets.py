"""`longtail presets`: the published data sets, their constants, and the papers' recipes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from longtail.cli.shared import Json, console, print_json

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="A data set to show with its recipes.")]


def presets(name: Name = None, json: Json = False) -> None:
    """List the papers' data sets: constants and sizes.

    With a NAME: also its papers and the recipes with their settings.
    """
    from longtail.data.published import PUBLISHED, find_published
    from longtail.errors import DataError, did_you_mean

    if name is None:
        if json:
            print_json([asdict(one) for one in PUBLISHED])
            return
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for column in ("data set", "train", "labels", "A, B", "tokens"):
            table.add_column(column, justify="left" if column == "data set" else "right", no_wrap=True)
        table.add_column("builder", no_wrap=True)
        for one in PUBLISHED:
            both = f"{one.propensity.a:g}, {one.propensity.b:g}"
            builder = next(iter(one.made_by.partition("build ")[2].split()), "")  # its options are shown with the set
            table.add_row(one.name, f"{one.train:,}", f"{one.labels:,}", both, str(one.tokens), builder)
        console().print(table)
        read = "Builders: longtail build. Published files of LF-WikiSeeAlso and of sets without one are read."
        console().print(read, soft_wrap=True)
        console().print("About one, with the papers' recipes: longtail presets NAME", soft_wrap=True)
        return
    found = find_published(name)
    if found is None:
        names = [one.name for one in PUBLISHED]
        raise DataError(
            f"no published set is called {name!r}{did_you_mean(name, names)} (all of them: longtail presets)"
        )
    if json:
        print_json(asdict(found))
        return
    counts = ", ".join(f"{value:,} {what}" for what, value in found.counts().items() if value is not None)
    lines = [
        found.name,
        f"  sizes      {counts}",
        f"  propensity {found.propensity}  (--propensity {found.propensity.a:g},{found.propensity.b:g})",
        f"  tokens     {found.tokens}",
        f"  made by    {found.made_by}",
        f"  papers     {', '.join(found.papers)}",
        *([f"  note       {found.note}"] if found.note else []),
        "  recipes with the papers' settings:",
        *(f'    "{recipe}"' for recipe in found.recipes),
    ]
    for line in lines:
        console().print(line, soft_wrap=True)
