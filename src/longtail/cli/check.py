"""`longtail check`: describes data and finds what is wrong with it, before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from longtail.cli.shared import Json, Source, console, print_json, progress, reads_data, say


@reads_data
def check(source: Source, json: Json = False) -> None:
    """Describe a data set and list what is wrong with it.

    Exit code 0: no errors, perhaps warnings. 1: the data has errors. 2: there is no such data.
    """
    from longtail.errors import DataError
    from longtail.inspection import inspect

    try:
        with progress():
            corpus = source.read()
            found = inspect(corpus)
    except DataError as error:
        if not Path(source.data).exists():
            raise
        if json:
            nothing: dict[str, Any] = {"name": source.data, "facts": {}, "bands": {}, "notes": [], "warnings": []}
            print_json({**nothing, "errors": [str(error)]})
        else:
            say(f"error: {error}")
        raise typer.Exit(1) from None
    if json:
        print_json(
            {
                "name": corpus.name,
                "facts": found.facts,
                "bands": found.bands,
                "notes": list(corpus.notes),
                "warnings": list(found.warnings),
                "errors": list(found.errors),
            }
        )
        raise typer.Exit(1 if found.errors else 0)
    from rich.table import Table

    from longtail.report.zipf import zipf_text

    screen = console()
    table = Table(title=corpus.name, title_justify="left", show_header=False)
    for name, value in found.facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    screen.print(table)
    shares = Table(title="Labels by frequency", title_justify="left")
    for column in ("band", "of the labels", "of the positives"):
        shares.add_column(column, justify="left" if column == "band" else "right")
    for name, share in found.bands.items():
        shares.add_row(name, f"{share['labels']:.1f}%", f"{share['positives']:.1f}%")
    screen.print(shares)
    screen.print(zipf_text(corpus.labels, width=min(60, max(screen.width - 15, 20))))
    for note in corpus.notes:
        typer.echo(f"note: {note}")
    for warning in found.warnings:
        typer.echo(f"warning: {warning}")
    for problem in found.errors:
        typer.echo(f"error: {problem}")
    if not found.warnings and not found.errors:
        typer.echo("no warnings, no errors")
    raise typer.Exit(1 if found.errors else 0)
