"""Shared by the commands: options that describe data, recipes as written, progress, JSON and messages."""

from __future__ import annotations

import inspect
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.data.corpus import Corpus
    from longtail.data.labels import Propensity
    from longtail.data.mending import Remedies
    from longtail.data.table import Columns
    from longtail.data.table_facts import TableFacts
    from longtail.data.vocabulary import VocabularyFile
    from longtail.recipe import Recipe

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
At = Annotated[str, typer.Option("--at", metavar="K,K", help="Values of k in P@k and so on, separated by commas.")]
Dial = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        help="Rank by probability x (inverse propensity)^NUMBER: 0 to 1, or up to 2; more lifts rare labels.",
    ),
]
VALID = 0.05  # share of train that becomes valid, where the data has none
HELD_OUT = 0.1  # share of train that becomes test, where a command needs a test split and the data has none


@dataclass(frozen=True)
class Source:
    """The data set that the data options of a command describe."""

    data: str
    columns: Columns
    text: str | None
    test_share: float | None
    propensity: Propensity | None
    seed: int
    valid_share: float = VALID
    remedies: Remedies | None = None
    vocabulary: VocabularyFile | None = None
    language: str | None = None  # of the documents

    def read(self, *, test: bool = False) -> Corpus:
        """Reads the data set.

        Args:
            test: holds out part of train as test, where the data set has no test split.

        Returns:
            The data set.
        """
        from longtail.data.read import load

        return load(
            self.data,
            columns=self.columns,
            text=self.text,
            seed=self.seed,
            valid_share=self.valid_share,
            test_share=self.test_share or (HELD_OUT if test else None),
            propensity=self.propensity,
            remedies=self.remedies,
            vocabulary=self.vocabulary,
            language=self.language,
        )


def read_like(source: Source, table: TableFacts | None, language: str | None = None) -> Source:
    """The data as a model read its training table, but for the columns that are asked for.

    `language`: the field of JSON lines that had the language of a document.
    """
    from longtail.data.read import Remedies, columns_of, has_field

    found = columns_of(source.data, table)
    if found is None or table is None:
        columns = source.columns
        if language is None or columns.language is not None or not has_field(source.data, language):
            return source
        return replace(source, columns=replace(columns, language=language))
    return replace(source, columns=source.columns.over(found), remedies=table.remedies(source.remedies or Remedies()))


def _source(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Data folder or file, or 'wordnet', which ships with longtail."),
    ],
    text: Annotated[
        str | None,
        typer.Option(metavar="FIELDS", help="Fields of the text: title, text, title+text, or title/text (apart)."),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Text columns of a CSV, TSV, Parquet or Excel file, separated by commas."),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Label column of such a file, or several: 'a,b' or 'tag_*'.")
    ] = None,
    label_shape: Annotated[
        str | None,
        typer.Option(metavar="SHAPE", help="list in a cell, columns, one-hot, or pairs: a row for each label."),
    ] = None,
    id_column: Annotated[str | None, typer.Option(metavar="NAME", help="Id column of such a file.")] = None,
    language_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column, or field of JSON lines, with the language of each document: de."),
    ] = None,
    label_separator: Annotated[str, typer.Option(metavar="MARK", help="Separator between the labels of a cell.")] = "|",
    test_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help=f"Share of train to hold out as test where there is no test split; compare: {HELD_OUT}, others: 0.",
        ),
    ] = None,
    valid_share: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of train to hold out as valid where there is none; 0: train on all."),
    ] = VALID,
    propensity: Annotated[
        str | None, typer.Option(metavar="A,B", help="Propensity constants; default: the data set's own.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the splits that are held out of train.")] = 0,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Encoding of the files; auto: found per file, and per line if mixed.")
    ] = "utf-8",
    skip_bad_rows: Annotated[
        str | None, typer.Option(metavar="FILE", help="Leave out rows that cannot be read, and write them to FILE.")
    ] = None,
    drop_duplicates: Annotated[
        bool, typer.Option("--drop-duplicates", help="Leave out rows with the text and labels of an earlier one.")
    ] = False,
    fold_labels: Annotated[
        bool, typer.Option("--fold-labels", help="Join labels that differ only in case, spaces or Unicode form.")
    ] = False,
    ignore_labels: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Words that are no labels, separated by commas: 'N/A,none,-'.")
    ] = None,
    min_count: Annotated[int, typer.Option(metavar="NUMBER", help="Training examples that a label needs.")] = 1,
    vocabulary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels by URI or name: SKOS (.ttl, .nt, .rdf), or .tsv.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Of documents and label names; with a vocabulary: of its names (de,en: further ones)."
        ),
    ] = None,
) -> Source:
    """Checks the options before anything is read."""
    from longtail.data.corpus_facts import check_text_field
    from longtail.data.mending import Remedies
    from longtail.data.read import Columns, VocabularyFile
    from longtail.errors import DataError

    if not data:
        raise DataError("the path of the data is empty; give a folder, a file, or 'wordnet'")
    if text is not None:
        check_text_field(text)
    if test_share is not None and not 0 < test_share < 1:
        raise DataError(f"--test-share must be between 0 and 1, got {test_share:g}")
    if not 0 <= valid_share < 1:
        raise DataError(f"--valid-share must be at least 0 and below 1, got {valid_share:g}")
    columns = Columns(
        text=text_column, labels=label_column, id=id_column, separator=label_separator, shape=label_shape,
        language=language_column,
    )  # fmt: skip
    if skip_bad_rows is not None:
        ready_to_write(Path(skip_bad_rows))
    ignored = tuple(word.strip() for word in (ignore_labels or "").split(",") if word.strip())
    remedies = Remedies(encoding, skip_bad_rows, drop_duplicates, fold_labels, ignored, min_count)
    subjects = None if vocabulary is None else VocabularyFile(vocabulary, language)
    if language is not None and vocabulary is None:
        subjects = VocabularyFile.of_folder(Path(data), language)
    spoken = language if subjects is None else None  # a vocabulary may name in German what English documents are about
    return Source(data, columns, text, test_share, constants(propensity), seed, valid_share, remedies, subjects, spoken)


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that describe data.

    Its parameter `source` becomes the argument DATA and, after the command's own options, those of `_source`.
    """
    own = dict(inspect.signature(command, eval_str=True).parameters)
    describing = dict(inspect.signature(_source, eval_str=True).parameters)
    parameters = {("data" if name == "source" else name): parameter for name, parameter in own.items()}
    parameters = {**parameters, **describing}
    signature = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]

    def run(**given: Any) -> None:
        source = _source(**{name: given.pop(name) for name in describing})
        command(source=source, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return run


def constants(written: str | None) -> Any:
    """ "0.6,2.6" as propensity constants."""
    from longtail.data.labels import Propensity
    from longtail.errors import DataError

    if written is None:
        return None
    try:
        a, b = (float(number) for number in written.split(","))
    except ValueError:
        raise DataError(f"--propensity takes two numbers such as 0.55,1.5, got {written!r}") from None
    return Propensity(a, b)


def places_of(at: str) -> tuple[int, ...]:
    """The values of k that --at gives."""
    from longtail.errors import DataError

    words = at.split(",")
    if not all(word.strip().isdecimal() and 0 < int(word) < 2**31 for word in words):
        raise DataError(f"--at takes whole numbers above 0 such as 1,3,5, got {at!r}")
    return tuple(sorted({int(word) for word in words}))


def read_recipes(words: list[str]) -> list[Recipe]:
    """Recipes as written, or the recipes of a TOML file."""
    from longtail.data.files import whole_text
    from longtail.errors import RecipeError
    from longtail.recipe import Recipe

    if "+" in words:
        raise RecipeError("put each recipe in quotes, such as 'centroid + rerank'")
    recipes: list[Recipe] = []
    for word in words:
        if word.endswith(".toml"):
            try:
                recipes.extend(Recipe.from_toml(whole_text(Path(word)), word))
            except RecipeError as error:
                raise RecipeError(f"{word}: {error}") from None
            continue
        try:
            recipes.append(Recipe.parse(word))
        except RecipeError as error:
            if not word or not Path(word).exists():
                raise
            raise RecipeError(f"{error}; {word} is a path: DATA comes first, and recipe files end in .toml") from None
    return recipes


def ready_to_write(path: Path, *, folder: bool = False) -> None:
    """Raises `DataError` before the long work, where its result could not be written."""
    from longtail.errors import DataError

    if not folder and path.is_dir():
        raise DataError("is a folder; give the name of a file to write", path)
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if not parent.is_dir():
        raise DataError(f"cannot be written, because {parent} is not a folder; give another path", path)
    if hasattr(os, "statvfs") and os.statvfs(parent).f_flag & os.ST_RDONLY:
        raise DataError(
            f"cannot be written, because {parent} is on a file system that is mounted read-only; give another path",
            path,
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot be written, because you may not write in {parent}; give another path", path)


def console(*, errors: bool = False) -> Console:
    """The screen for tables, on standard output or standard error."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `main` handles it, as for all other output

    # Names from data are not markup: [/b] would be an error, :cat: a picture.
    return Screen(stderr=errors, highlight=False, markup=False, emoji=False)


def say(message: str) -> None:
    """Prints a message on standard error, so that standard output has only results."""
    typer.echo(message, err=True)


def print_json(value: Any) -> None:
    """Prints a value as JSON."""
    typer.echo(as_json(value, indent=2))


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON with letters as they are, or as escapes where the encoding of standard output lacks them."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        written.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, indent=indent)
    return written


@contextmanager
def progress() -> Iterator[None]:
    """Progress bars on a terminal's standard error while work runs; elsewhere only notes."""
    from longtail.cli.bars import Bars, Notes
    from longtail.progress import listening

    screen = console(errors=True)
    if not speaks():
        yield
    elif screen.is_terminal:
        with Bars(screen) as bars, listening(bars):
            yield
    else:
        with listening(Notes(say)):
            yield


def speaks() -> bool:
    """Whether this process prints and writes: of several that torchrun started, only the first does."""
    return int(os.environ.get("RANK", "0")) == 0 or int(os.environ.get("WORLD_SIZE", "1")) == 1


def versions() -> dict[str, str]:
    """Versions of everything that a report depends on."""
    import numba
    import numpy
    import scipy

    from longtail import __version__

    return {
        "longtail": __version__,
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "SciPy": scipy.__version__,
        "Numba": numba.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
