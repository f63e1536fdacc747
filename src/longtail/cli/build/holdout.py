"""`longtail build holdout`: a data set some of whose labels lose their training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.build.options import Overwrite, command, show
from longtail.cli.shared import Json, Source, progress, reads_data, ready_to_write


@reads_data
def holdout(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Data folder to write.")],
    labels: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the labels that lose their training examples.")
    ] = 0.1,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Hold labels out: a generalised zero-shot split of any data set.

    A seeded draw of the labels with a test positive leaves train and valid; test keeps them. `compare` then measures
    labels with and without training rows apart, and their harmonic mean.
    """
    from longtail.data.builders.holdout import build_holdout
    from longtail.data.builders.output import check_out

    check_out(out, overwrite)
    ready_to_write(out, folder=True)
    with progress():
        built = build_holdout(
            source.read(test=True),
            out,
            share=labels,
            seed=source.seed,
            overwrite=overwrite,
            command=command(),
        )
    show(built, json)
