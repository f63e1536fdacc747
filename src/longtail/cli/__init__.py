"""The `longtail` command. Each command is one file and imports the library only when it runs."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import typer

from longtail import __version__
from longtail.cli import build, check, compare, evaluate, methods, plan, predict, train
from longtail.errors import LongtailError

app = typer.Typer(
    name="longtail",
    help="Find the right few labels among millions, including the rare ones.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longtail {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    pass


app.command("check")(check.check)
app.command("compare")(compare.compare)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("plan")(plan.plan)
app.command("methods")(methods.methods)
app.add_typer(build.app, name="build")


def main() -> NoReturn:
    """Entry point: expected errors become one line on standard error and exit code 2."""
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1 or bool(os.environ.get("LONGTAIL_DEBUG"))
    signal.signal(signal.SIGTERM, _stop)  # unwind, so that temporary files go
    try:
        app(args=arguments)
    except LongtailError as error:
        if debug:
            raise
        _fail(str(error))
    except BrokenPipeError:  # `longtail predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except MemoryError:
        if debug:
            raise
        _fail("out of memory; `longtail plan` tells what a recipe needs")
    except OSError as error:
        if debug:
            raise
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(0)


def _fail(message: str) -> NoReturn:
    print("error: " + " ".join(message.split("\n")), file=sys.stderr)
    sys.exit(2)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
