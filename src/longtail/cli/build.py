"""`longtail build`: data sets from hierarchies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import Json, constants, print_json, progress, say

if TYPE_CHECKING:
    from longtail.data.hierarchy import Hierarchy

app = typer.Typer(help="Build a data set.", no_args_is_help=True)
hierarchy = typer.Typer(
    help="From a hierarchy: documents are nodes, labels are their ancestors up to a depth.", no_args_is_help=True
)
app.add_typer(hierarchy, name="hierarchy")

Out = Annotated[Path, typer.Option("--out", "-o", help="Data folder to write.")]
Depth = Annotated[int, typer.Option(min=1, help="How many steps up an ancestor may be.")]
TestShare = Annotated[float, typer.Option(help="Share of the documents that become test rows.")]
Seed = Annotated[int, typer.Option(help="Seed of the split.")]
Constants = Annotated[str, typer.Option("--propensity", metavar="A,B", help="Propensity constants to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a data folder that stands there.")]


@hierarchy.command()
def wordnet(
    folder: Annotated[Path, typer.Argument(help="Folder with data.noun and data.verb, such as /usr/share/wordnet.")],
    out: Out,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From WordNet's database files: synset lemmas and gloss to hypernyms."""
    from longtail.data.wordnet_files import read_wordnet

    with progress():
        found = read_wordnet(folder)
        _write(found, out, depth, test_share, seed, propensity, overwrite, json)


@hierarchy.command()
def edges(
    edges: Annotated[Path, typer.Argument(help="Tab-separated file: child, parent.")],
    out: Out,
    names: Annotated[Path | None, typer.Option(help="Tab-separated file: id, name and, optionally, text.")] = None,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.55,1.5",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From two columns: child and parent."""
    from longtail.data.edges import read_edges

    with progress():
        found = read_edges(edges, names)
        _write(found, out, depth, test_share, seed, propensity, overwrite, json)


@hierarchy.command()
def wikipedia(
    folder: Annotated[
        Path, typer.Argument(help="Folder with the category, categorylinks and page .sql.gz files of a dump.")
    ],
    out: Out,
    depth: Depth = 3,
    test_share: TestShare = 0.2,
    seed: Seed = 0,
    propensity: Constants = "0.5,0.4",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """From a Wikipedia category dump (add the linktarget file where the dump has one)."""
    from longtail.data.wikipedia import read_wikipedia

    with progress():
        found = read_wikipedia(folder)
        _write(found, out, depth, test_share, seed, propensity, overwrite, json)


def _write(
    found: Hierarchy, out: Path, depth: int, test_share: float, seed: int, propensity: str, overwrite: bool, json: bool
) -> None:
    from longtail.data.hierarchy import build
    from longtail.data.write import write_folder
    from longtail.errors import DataError

    if out.exists() and not overwrite:
        raise DataError(f"{out} exists; choose another name, or pass --overwrite to replace it")
    corpus = build(
        found,
        depth=depth,
        test_share=test_share,
        seed=seed,
        propensity=constants(propensity),
    )
    write_folder(corpus, out, overwrite=overwrite)
    sizes = {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)}
    if json:
        print_json({"data": str(out), "rows": sizes, "labels": len(corpus.labels), "notes": list(corpus.notes)})
        return
    for note in corpus.notes:
        say(f"note: {note}")
    rows = ", ".join(f"{number:,} {name}" for name, number in sizes.items())
    typer.echo(f"wrote {out}: {rows} rows and {len(corpus.labels):,} labels")
