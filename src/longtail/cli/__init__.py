"""The `longtail` command.

One file per command, named as the command is; each imports the library only when it runs, so that help answers at once.
Start reading here at `main`, then `train.py`.

    shared.py        the options that describe data, recipes as written, progress, JSON and messages
    checkpoints.py   --checkpoint-dir of train and compare
    train_within.py  train without a recipe
    predict_on.py    predict in jobs
    torchrun.py      several processes that train one model together
    bars.py          stages of the work as progress bars
    check, convert, plan, compare, train, tune, predict, evaluate, methods, presets, reproduce, neighbours, serve,
    export, index, job       commands
    build/           one more command, with a file for each kind of data set

May import every room. The docstring of a command is its help on the screen.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer

from longtail import __version__
from longtail.cli import (
    build,
    check,
    compare,
    convert,
    evaluate,
    export,
    index,
    job,
    methods,
    neighbours,
    plan,
    predict,
    presets,
    reproduce,
    serve,
    train,
    tune,
)
from longtail.errors import LongtailError

app = typer.Typer(
    name="longtail",
    help="Find the right few labels among millions, including the rare ones.",
    epilog="Start with:  longtail compare wordnet bm25 centroid 'centroid + rerank'",
    rich_markup_mode=None,  # plain help looks the same everywhere and wraps at the edge of the terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longtail {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; works with every command."),
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("check")(check.check)
app.command("convert")(convert.convert)
app.command("plan")(plan.plan)
app.command("compare")(compare.compare)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("methods")(methods.methods)
app.command("reproduce")(reproduce.reproduce)
app.command("presets")(presets.presets)
app.command("neighbours")(neighbours.neighbours)
app.command("serve")(serve.serve)
app.command("export")(export.export)
app.command("index")(index.index)
app.command("job")(job.job)
app.add_typer(build.app, name="build")


def main() -> NoReturn:
    """Entry point. Every error becomes one line on standard error and exit code 2."""
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1 or bool(os.environ.get("LONGTAIL_DEBUG"))
    signal.signal(signal.SIGTERM, _stop)  # unwinds the stack, so that temporary files are removed
    _mend_streams()
    # Where colorama is installed, Numba makes it write a colour code to the terminal at exit.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    if not debug and not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        _run(arguments)
        sys.stdout.flush()
    except typer.Exit as leave:
        _leave(leave.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        _leave(130)
    except BrokenPipeError:  # `longtail predict ... | head`
        _leave(141)
    except Exception as error:
        if debug:
            raise
        _fail(_message(error, arguments))
    _leave(0)


def _run(arguments: list[str]) -> None:
    command = typer.main.get_command(app)
    if "_LONGTAIL_COMPLETE" in os.environ:
        command(arguments, prog_name="longtail")  # a shell asks for completions
    with command.make_context("longtail", arguments) as context:
        command.invoke(context)


def _message(error: Exception, arguments: list[str]) -> str:
    if isinstance(error, LongtailError):
        return str(error)
    if hasattr(error, "format_message"):  # a wrong option or argument
        return _usage(error, arguments)
    if isinstance(error, MemoryError) or _torch_lacks_memory(error):
        return "out of memory; `longtail plan` estimates what a recipe needs"
    if isinstance(error, OSError):
        return (
            f"{error.filename}: {error.strerror or error}"
            if error.filename
            else f"{error.strerror or error}; check the disk"
        )
    if "cannot cache function" in str(error):  # Numba, where neither the package nor the home folder can be written
        return "there is no folder for compiled code; set NUMBA_CACHE_DIR to one that can be written"
    return f"{type(error).__name__}: {error} (a bug in longtail: please report it with the output of --debug)"


def _torch_lacks_memory(error: Exception) -> bool:
    """By name and message, because torch may not be installed: only the error of a GPU has a class of its own."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def _usage(error: Any, arguments: list[str]) -> str:
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path if context else 'longtail'} --help"
    if "+" in arguments:
        hint = "put a recipe in quotes, such as 'centroid + rerank'"
    return f"{error.format_message().rstrip('.')} ({hint})"


def _fail(message: str) -> NoReturn:
    print("error: " + "".join(map(_printable, message)), file=sys.stderr)
    _leave(2)


def _printable(letter: str) -> str:
    """Escapes line ends and terminal commands that data may hold, so that a message is one plain line."""
    if letter.isprintable():
        return letter
    return " " if letter in "\r\n" else letter.encode("unicode_escape").decode()


def _leave(code: int) -> NoReturn:
    """Exits. Output that a closed pipe or a full disk did not take causes no second error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _mend_streams() -> None:
    """Replaces closed streams by empty ones, and writes letters that the terminal lacks as escapes."""
    for name in ("stdin", "stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
        elif name == "stdout" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
