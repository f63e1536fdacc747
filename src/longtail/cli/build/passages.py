"""`longtail build passages`: retrieval collections with passages as labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.build.options import Accept, Constants, Counts, Out, Overwrite, Seed, command, show
from longtail.cli.shared import Json, constants, progress, ready_to_write


def passages(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="MS MARCO's collection.tsv, queries.*.tsv, qrels.*.tsv, or a BEIR set."),
    ],
    out: Out,
    labels: Annotated[
        str, typer.Option(metavar="WHICH", help="'all' passages, or those 'seen' in a judgement of train or test.")
    ] = "all",
    collection: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Passages elsewhere: id <tab> text, or JSON lines.")
    ] = None,
    queries: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Queries elsewhere; may be given several times.")
    ] = None,
    train_qrels: Annotated[Path | None, typer.Option(metavar="FILE", help="Judgements of train, elsewhere.")] = None,
    valid_qrels: Annotated[Path | None, typer.Option(metavar="FILE", help="Judgements of valid, if any.")] = None,
    test_qrels: Annotated[Path | None, typer.Option(metavar="FILE", help="Judgements of test, elsewhere.")] = None,
    test: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of the queries that become test, where none are judged for train."),
    ] = None,
    counts: Counts = False,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    accept_licence: Accept = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From MS MARCO, TREC files or a BEIR folder.

    A document is a query, its labels are the passages that answer it. Nearly all passages of MS MARCO are zero-shot
    labels: measure recall and MRR, and take methods that read label texts.
    """
    from longtail.data.builders.passages import PassageFiles, build_passages, find_files
    from longtail.data.builders.requirements import UNKNOWN
    from longtail.errors import DataError

    if collection and queries and test_qrels:
        files = PassageFiles(collection, tuple(queries), train_qrels, test_qrels, UNKNOWN, valid_qrels)
    elif any((collection, queries, train_qrels, valid_qrels, test_qrels)):
        raise DataError(
            "give --collection, --queries, --test-qrels and --train-qrels (or --test, which draws test); or only the "
            "folder"
        )
    else:
        files = find_files(folder)
    ready_to_write(out, folder=True)
    with progress():
        built = build_passages(
            files,
            out,
            labels=labels,
            test=test,
            counts=counts,
            seed=seed,
            propensity=constants(propensity),
            accepted=accept_licence,
            overwrite=overwrite,
            command=command(),
        )
    show(built, json)
