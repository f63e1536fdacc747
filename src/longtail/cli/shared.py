"""What the commands share: options that describe data, progress on the terminal, JSON on standard output."""

from __future__ import annotations

import inspect
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.data.corpus import Corpus
    from longtail.data.labels import Propensity
    from longtail.data.table import Columns
    from longtail.recipe import Recipe

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
HELD_OUT = 0.1  # of train, as test, where a command needs test rows and the data has none


@dataclass(frozen=True)
class Source:
    """The data set that the data options of a command describe."""

    data: str
    columns: Columns
    text: str | None
    test_share: float | None
    propensity: Propensity | None
    seed: int

    def read(self, *, test: bool = False) -> Corpus:
        """Read it; with `test`, a data set without test rows gets some out of its train rows."""
        from longtail.data.read import load

        return load(
            self.data,
            columns=self.columns,
            text=self.text,
            seed=self.seed,
            test_share=self.test_share or (HELD_OUT if test else None),
            propensity=self.propensity,
        )


def _source(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Data folder or file, or 'wordnet', which ships with longtail."),
    ],
    text: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="What makes a row's text: title, text or title+text.")
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Text columns of a CSV, TSV or Parquet file, separated by commas."),
    ] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Label column of such a file.")] = None,
    id_column: Annotated[str | None, typer.Option(metavar="NAME", help="Id column of such a file.")] = None,
    label_separator: Annotated[str, typer.Option(metavar="MARK", help="What separates the labels of a cell.")] = "|",
    test_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help=f"Share of train to hold out as test where there is no test split; compare: {HELD_OUT}, others: none.",
        ),
    ] = None,
    propensity: Annotated[
        str | None, typer.Option(metavar="A,B", help="Propensity constants; default: the data set's own.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the splits that are held out of train.")] = 0,
) -> Source:
    """Everything wrong with the options themselves is said here, before anything is read."""
    from longtail.data.facts import check_text_field
    from longtail.data.read import Columns
    from longtail.errors import DataError

    if not data:
        raise DataError("the path of the data is empty; give a folder, a file, or 'wordnet'")
    if text is not None:
        check_text_field(text)
    if test_share is not None and not 0 < test_share < 1:
        raise DataError(f"--test-share lies between 0 and 1, got {test_share:g}")
    columns = Columns(text=text_column, labels=label_column, id=id_column, separator=label_separator)
    return Source(data, columns, text, test_share, constants(propensity), seed)


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe data. Its parameter `source` becomes the argument DATA and, after
    the command's own options, everything that says how to read it."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    describing = dict(inspect.signature(_source, eval_str=True).parameters)
    asked = {("data" if name == "source" else name): parameter for name, parameter in own.items()}
    asked = {**asked, **describing}
    signature = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in asked.values()]

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


def read_recipes(words: list[str]) -> list[Recipe]:
    """Recipes as written, or the recipes of a TOML file."""
    from longtail.errors import DataError, RecipeError
    from longtail.recipe import Recipe

    if "+" in words:
        raise RecipeError("put each recipe in quotes, such as 'centroid + rerank'")
    recipes: list[Recipe] = []
    for word in words:
        if word.endswith(".toml"):
            try:
                content = Path(word).read_text(encoding="utf-8")
            except OSError as error:
                raise DataError(
                    f"the recipe file cannot be read ({error.strerror or error}); check the path", word
                ) from None
            except UnicodeDecodeError:
                raise DataError("the recipe file is not UTF-8 text; convert it first", word) from None
            try:
                recipes.extend(Recipe.from_toml(content, word))
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
    """Refuse before the long work what could not be written after it."""
    from longtail.errors import DataError

    if not folder and path.is_dir():
        raise DataError("is a folder; give the name of a file to write", path)
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if not parent.is_dir():
        raise DataError(f"cannot be written, because {parent} is not a folder; give another path", path)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot be written, because {parent} is not yours to write in; give another path", path)


def console(*, errors: bool = False) -> Console:
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `main`, as with everything else that is printed

    # Names from data are no markup: [/b] would be an error, :cat: a picture.
    return Screen(stderr=errors, highlight=False, markup=False, emoji=False)


def say(message: str) -> None:
    """A line for a person, on standard error, so that standard output stays clean."""
    typer.echo(message, err=True)


def print_json(value: Any) -> None:
    typer.echo(as_json(value, indent=2))


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON with letters as they are, or as escapes where standard output cannot carry them."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        written.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, indent=indent)
    return written


@contextmanager
def progress() -> Iterator[None]:
    """Bars on standard error while work runs, when a person is watching, and the lines that stay in any case."""
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
    """Whether this process prints and writes: of several that torchrun started, the first."""
    return int(os.environ.get("RANK", "0")) == 0 or int(os.environ.get("WORLD_SIZE", "1")) == 1


@contextmanager
def several() -> Iterator[None]:
    """Work together with the other processes that torchrun started; nothing where there are none."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    from longtail.nn.heads.ranks import joined

    with joined():
        yield


def versions() -> dict[str, str]:
    """What produced a report."""
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
