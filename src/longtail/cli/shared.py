"""What the commands share: options that describe data, progress on the terminal, JSON on standard output."""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from longtail.data.corpus import Corpus
    from longtail.recipe import Recipe

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@dataclass(frozen=True)
class Source:
    """The data set that the data options of a command describe."""

    data: str
    text: str | None
    text_column: str | None
    label_column: str | None
    id_column: str | None
    label_separator: str
    propensity: str | None
    seed: int

    def read(self, test_share: float | None = None) -> Corpus:
        from longtail.data.read import Columns, load

        columns = Columns(
            text=self.text_column, labels=self.label_column, id=self.id_column, separator=self.label_separator
        )
        return load(
            self.data,
            columns=columns,
            text=self.text,
            seed=self.seed,
            test_share=test_share,
            propensity=constants(self.propensity),
        )


def _source(
    data: Annotated[str, typer.Argument(help="A data folder or file, or 'wordnet', which ships with longtail.")],
    text: Annotated[str | None, typer.Option(help="Fields that make a row's text: title, text or title+text.")] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Text column(s) of a CSV, TSV or Parquet file, comma separated.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Label column of a table.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Id column of a table.")] = None,
    label_separator: Annotated[str, typer.Option(help="What stands between the labels in a cell.")] = "|",
    propensity: Annotated[
        str | None, typer.Option(metavar="A,B", help="Propensity constants; default: the data set's own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits that are held out of train.")] = 0,
) -> Source:
    return Source(data, text, text_column, label_column, id_column, label_separator, propensity, seed)


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
    from longtail.errors import DataError
    from longtail.recipe import Recipe

    recipes: list[Recipe] = []
    for word in words:
        if word.endswith(".toml"):
            try:
                content = Path(word).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"the recipe file cannot be read ({error})", word) from None
            recipes.extend(Recipe.from_toml(content, word))
        else:
            recipes.append(Recipe.parse(word))
    return recipes


def console(*, errors: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=errors, highlight=False)


def say(message: str) -> None:
    """A line for a person, on standard error, so that standard output stays clean."""
    typer.echo(message, err=True)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


@contextmanager
def progress() -> Iterator[None]:
    """Bars on standard error while work runs, when a person is watching."""
    from longtail.progress import listening

    screen = console(errors=True)
    if not screen.is_terminal:
        yield
        return
    from longtail.cli.bars import Bars

    with Bars(screen) as bars, listening(bars):
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
