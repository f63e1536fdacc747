"""`longtail build hierarchy`: data sets from hierarchies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.build.options import Constants, Out, Overwrite, Seed
from longtail.cli.shared import Json, constants, print_json, progress, ready_to_write, say
from longtail.errors import counted

if TYPE_CHECKING:
    from longtail.data.hierarchy import Hierarchy

app = typer.Typer(
    help="Build from a hierarchy.\n\nIts nodes are the documents; the labels of a document are its ancestors.",
    invoke_without_command=True,
)


@app.callback()
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Depth = Annotated[int, typer.Option(metavar="STEPS", min=1, help="How many steps up ancestors are labels.")]
TestShare = Annotated[float, typer.Option(metavar="SHARE", help="Share of the documents that become the test split.")]


@app.command()
def wordnet(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder with data.noun and data.verb, such as /usr/share/wordnet."),
    ],
    out: Out,
    words: Annotated[
        bool,
        typer.Option("--words", help="Take words as documents; labels are the hypernyms of all their meanings."),
    ] = False,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From WordNet's database files.

    The text of a document is a synset's lemmas and gloss, its labels are the hypernyms.
    """
    from longtail.data.wordnet_files import by_words, read_wordnet

    def read() -> Hierarchy:
        return by_words(read_wordnet(folder)) if words else read_wordnet(folder)

    _build(read, out, depth, test_share, seed, propensity, overwrite, json)


@app.command()
def edges(
    edges: Annotated[Path, typer.Argument(metavar="FILE", help="Tab-separated file: child, parent.")],
    out: Out,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tab-separated file: id, name and, optionally, text.")
    ] = None,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From a file of two columns: child and parent."""
    from longtail.data.edges import read_edges

    _build(lambda: read_edges(edges, names), out, depth, test_share, seed, propensity, overwrite, json)


@app.command()
def wikipedia(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder with the category, categorylinks and page .sql.gz files of one dump; newer dumps also need "
            "linktarget.",
        ),
    ],
    out: Out,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.5,0.4",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From Wikipedia's category dump."""
    from longtail.data.wikipedia import read_wikipedia

    _build(lambda: read_wikipedia(folder), out, depth, test_share, seed, propensity, overwrite, json)


def _build(
    read: Callable[[], Hierarchy],
    out: Path,
    depth: int,
    test_share: float,
    seed: int,
    propensity: str,
    overwrite: bool,
    json: bool,
) -> None:
    from longtail.data.hierarchy import build
    from longtail.data.write import check_place, write_folder
    from longtail.errors import DataError

    wanted = constants(propensity)
    if not 0 < test_share < 1:
        raise DataError(f"--test-share must be between 0 and 1, got {test_share:g}")
    if out.exists() and not overwrite:
        raise DataError(f"{out} exists; choose another name, or pass --overwrite to replace it")
    check_place(out, overwrite=overwrite)
    ready_to_write(out, folder=True)
    with progress():
        corpus = build(read(), depth=depth, test_share=test_share, seed=seed, propensity=wanted)
        write_folder(corpus, out, overwrite=overwrite)
    sizes = {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)}
    for note in corpus.notes:
        say(f"note: {note}")
    if json:
        print_json({"data": str(out), "rows": sizes, "labels": len(corpus.labels), "notes": list(corpus.notes)})
    else:
        examples = ", ".join(f"{number:,} {name}" for name, number in sizes.items())
        typer.echo(f"wrote {out}: {examples} examples and {counted(len(corpus.labels), 'label')}")
