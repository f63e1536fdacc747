"""`longtail build`: data sets from hierarchies and from the raw files of published sets.

One file per command, as for the commands above. Start reading at `passages.py`.

    options.py    the options that all builders have, and how a result is printed
    hierarchy, prefixes, clicks, passages, seealso, holdout      the commands

May import what the other commands may.
"""

from __future__ import annotations

import typer

from longtail.cli.build import clicks, hierarchy, holdout, passages, prefixes, seealso

app = typer.Typer(help="Build a data set.", invoke_without_command=True)
app.add_typer(hierarchy.app, name="hierarchy")


@app.callback()
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("prefixes")(prefixes.prefixes)
app.command("clicks")(clicks.clicks)
app.command("passages")(passages.passages)
app.command("seealso")(seealso.seealso)
app.command("holdout")(holdout.holdout)
