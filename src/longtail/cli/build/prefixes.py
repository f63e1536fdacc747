"""`longtail build prefixes`: query completion from a query log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.build.options import Accept, Constants, Counts, Out, Overwrite, Seed, command, show
from longtail.cli.shared import Json, constants, progress, ready_to_write


def prefixes(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="The log: user-ct-test-collection-01.txt.gz and the others."),
    ],
    out: Out,
    labels: Annotated[
        str,
        typer.Option(metavar="SPLIT", help="Labels: suffixes that occur in 'test', as published, or often in 'train'."),
    ] = "test",
    least: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Examples of a label, with --labels train.")] = 2,
    suffixes: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="How many suffixes, the most frequent, may be labels.")
    ] = 10_000_000,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Keep what the published notebook loses or completes wrongly.")
    ] = False,
    train_days: Annotated[
        str, typer.Option(metavar="FROM,UNTIL", help="Days of train; the second is the first day behind them.")
    ] = "2006-03-01,2006-05-18",
    test_days: Annotated[str, typer.Option(metavar="FROM,UNTIL", help="Days of test.")] = "2006-05-25,2006-06-01",
    counts: Counts = False,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    accept_licence: Accept = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From a query log such as AOL's, as LF-AOL-270K was made.

    A document is the beginning of a query, its labels are the endings that complete it. Numbers of persons are dropped
    while the log is read. A build that was stopped goes on with the same command.
    """
    from longtail.data.builders.prefixes import PrefixSettings, build_prefixes

    given = PrefixSettings(
        suffixes=suffixes,
        labels=labels,
        least=least,
        counts=counts,
        as_published=as_published,
        train_days=_days(train_days, "--train-days"),
        test_days=_days(test_days, "--test-days"),
        seed=seed,
    )
    ready_to_write(out, folder=True)
    with progress():
        built = build_prefixes(
            logs,
            out,
            given,
            propensity=constants(propensity),
            accepted=accept_licence,
            overwrite=overwrite,
            command=command(),
        )
    show(built, json)


def _days(written: str, option: str) -> tuple[str, str]:
    import datetime

    from longtail.errors import DataError

    try:
        first, last = (datetime.date.fromisoformat(day).isoformat() for day in written.split(","))
    except ValueError:
        raise DataError(f"{option} takes two days such as 2006-03-01,2006-05-18, got {written!r}") from None
    return first, last
