"""`longtail convert`: writes a data set of any layout in another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import VALID, Json, Source, print_json, progress, reads_data, ready_to_write, say
from longtail.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtail.data.corpus import Corpus

KINDS = {  # what can be written, and what it is, for people
    "store": "columns in files that are mapped into memory, for data that does not fit; written while it is read",
    "folder": "JSON lines and a corpus.json, which remembers how a table was read",
    "annif": "folders of NAME.txt with NAME.tsv, and a SKOS vocabulary",
    "annif-tsv": "a table without a header for each split, and a SKOS vocabulary",
}


@reads_data
def convert(
    source: Source,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder to write.")],
    to: Annotated[str, typer.Option("--to", metavar="KIND", help="folder, annif, annif-tsv or store.")] = "folder",
    exclude_type: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="Type of concepts to leave out of the vocabulary; may repeat."),
    ] = None,
    exclude_scheme: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="Scheme of concepts to leave out; may repeat.")
    ] = None,
    exclude_collection: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="Collection of concepts to leave out; may repeat.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the data set that is there.")] = False,
    json: Json = False,
) -> None:
    """Write a data set in another layout.

    From a table, `corpus.json` remembers columns, separators and folding: models trained on the folder read new tables
    the same way. Splits stay as they are given; what is missing is held out when the folder is read, as before. A store
    holds the splits as `load` makes them; its texts and matrices stay in their files, whatever is trained on it.
    """
    from longtail.data.write import check_place
    from longtail.errors import DataError, did_you_mean

    if to not in KINDS:
        raise DataError(f"--to must be one of {', '.join(KINDS)}, got {to!r}{did_you_mean(to, KINDS)}")
    check_place(target, overwrite=overwrite)
    ready_to_write(target, folder=True)
    if exclude_type or exclude_scheme or exclude_collection:
        from longtail.data.vocabulary import VocabularyFile

        known = source.vocabulary or VocabularyFile.of_folder(Path(source.data))
        if known is None:
            raise DataError("concepts are left out of a vocabulary; name its file with --vocabulary")
        chosen = replace(
            known,
            exclude_types=tuple(exclude_type or ()),
            exclude_schemes=tuple(exclude_scheme or ()),
            exclude_collections=tuple(exclude_collection or ()),
        )
        source = replace(source, vocabulary=chosen)
    if to == "store":
        with progress():
            corpus = _stored(source, target, overwrite)
        _report(corpus, target, to, json)
        return
    if source.valid_share == VALID:
        source = replace(source, valid_share=0.0)  # held out, by the same ids, when the folder is read
    with progress():
        corpus = source.read()
        _writers()[to](corpus, target, overwrite)
    if corpus.train.languages is not None and to != "folder":
        say("note: an Annif corpus has no place for the languages of documents, so they are left out")
    _report(corpus, target, to, json)


def _report(corpus: Corpus, target: Path, to: str, json: bool) -> None:
    for note in corpus.notes:
        say(f"note: {note}")
    rows = {name: len(getattr(corpus, name)) for name in ("train", "valid", "test")}
    if json:
        print_json({"target": str(target), "to": to, "labels": len(corpus.labels), "rows": rows})
    else:
        sizes = ", ".join(f"{number:,} {name}" for name, number in rows.items() if number)
        typer.echo(f"{corpus.name}: wrote {target} ({sizes}; {counted(len(corpus.labels), 'label')}): {KINDS[to]}")


def _stored(source: Source, target: Path, overwrite: bool) -> Corpus:
    from longtail.data.store_convert import write_store
    from longtail.data.store_reader import read_store

    write_store(
        source.data, target, columns=source.columns, text=source.text, valid_share=source.valid_share,
        test_share=source.test_share, seed=source.seed, propensity=source.propensity, remedies=source.remedies,
        vocabulary=source.vocabulary, overwrite=overwrite, processes=0, language=source.language,
    )  # fmt: skip
    return read_store(target)


def _writers() -> dict[str, Callable[[Corpus, Path, bool], object]]:
    """A writer for each kind."""
    from longtail.data.write import write_folder
    from longtail.data.write_subjects import write_subjects

    return {
        "folder": lambda corpus, path, over: write_folder(corpus, path, overwrite=over, undivided=True),
        "annif": lambda corpus, path, over: write_subjects(corpus, path, overwrite=over),
        "annif-tsv": lambda corpus, path, over: write_subjects(corpus, path, overwrite=over, tables=True),
    }
