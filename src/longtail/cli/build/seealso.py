"""`longtail build seealso`: which pages a page should refer to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.build.options import Constants, Out, Overwrite, Seed, command, show
from longtail.cli.shared import Json, constants, progress, ready_to_write


def seealso(
    out: Out,
    dump: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="XML dump of a wiki: enwiki-...-pages-articles-multistream.xml.bz2."),
    ] = None,
    manpages: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Manual pages instead, such as /usr/share/man.")
    ] = None,
    section: Annotated[
        str, typer.Option(metavar="HEADING", help="Of the section, in the wiki's language.")
    ] = "See also",
    words: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Words of an article's text, behind its title.")
    ] = 200,
    label_words: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Words of a label's text, behind its title.")
    ] = 0,
    least: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Training examples of a label.")] = 1,
    test: Annotated[float, typer.Option(metavar="SHARE", help="Share of the articles that become test.")] = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From "See also" sections, as in LF-WikiSeeAlso-320K.

    A document is an article without the section, its labels are the articles that the section names. Self and
    reciprocal pairs are excluded. A build that was stopped goes on with the same command.
    """
    from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
    from longtail.errors import DataError

    source = manpages if dump is None else dump
    if source is None or (dump is not None and manpages is not None):
        raise DataError("give the XML dump of a wiki, or --manpages with a folder of manual pages")
    ready_to_write(out, folder=True)
    with progress():
        built = build_seealso(
            source,
            out,
            SeeAlsoSettings(section, words, label_words, least, test, seed),
            manpages=dump is None,
            propensity=constants(propensity),
            overwrite=overwrite,
            command=command(),
        )
    show(built, json)
