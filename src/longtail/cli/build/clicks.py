"""`longtail build clicks`: query to document from a click log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.build.options import Accept, Constants, Counts, Out, Overwrite, Seed, command, show
from longtail.cli.shared import Json, constants, progress, ready_to_write


def clicks(
    log: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Tab-separated log: orcas.tsv.gz, or query, item and, perhaps, clicks."),
    ],
    out: Out,
    titles: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts of items: msmarco-docs.tsv.gz, or id and title.")
    ] = None,
    offsets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="msmarco-docs-lookup.tsv.gz: reads titles at their places in --titles."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="NAMES", help="Columns of another log, such as -,query,item,clicks (- is not read).")
    ] = "",
    least: Annotated[int, typer.Option(metavar="CLICKS", min=1, help="Clicks of an item that becomes a label.")] = 3,
    test: Annotated[float, typer.Option(metavar="SHARE", help="Share of the queries that become test.")] = 0.26,
    counts: Counts = False,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    accept_licence: Accept = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From a click log such as ORCAS.

    A document is a query, its labels are the items that were clicked for it. A build that was stopped goes on with the
    same command.
    """
    from longtail.data.builders.clicks import ClickSettings, build_clicks

    ready_to_write(out, folder=True)
    with progress():
        built = build_clicks(
            log,
            out,
            ClickSettings(least=least, test=test, columns=columns, counts=counts, seed=seed),
            titles=titles,
            lookup=offsets,
            propensity=constants(propensity),
            accepted=accept_licence,
            overwrite=overwrite,
            command=command(),
        )
    show(built, json)
