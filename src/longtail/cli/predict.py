"""`longtail predict`: reads texts, writes their labels."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from longtail.atomic import new_file
from longtail.cli.predict_csv import PredictionTable
from longtail.cli.shared import Dial, as_json, progress, ready_to_write, say
from longtail.cutoff import Cutoff

if TYPE_CHECKING:
    from longtail.model import Model

FOLDER_CHUNK = 64  # documents of a folder predicted at a time: each may be a book


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder that train wrote.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="File of texts, table with the columns of training, or folder of NAME.txt; -: standard input.",
        ),
    ] = "-",
    k: Annotated[
        int | None,
        typer.Option("-k", metavar="NUMBER", min=1, help="Most labels of a text; default: 5, or as the model stores."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Leave out labels that score less; default: as --choose-threshold stored."),
    ] = None,
    dial: Dial = 0.0,
    database: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="PostgreSQL database to search, which longtail index has loaded."),
    ] = None,
    table: Annotated[str, typer.Option(metavar="NAME", help="Table of the database.")] = "longtail_labels",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default: standard output.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say of each label who proposed it, or which words it looked at.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Predict a folder in jobs: on processes, files, ray or ray://host:port."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="jsonl or csv, which keeps the input's columns; default: by --out."),
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Encoding of the files; auto: found per file, and per line if mixed.")
    ] = "utf-8",
    skip_bad_rows: Annotated[
        str | None, typer.Option(metavar="FILE", help="Leave out rows that cannot be read, and write them to FILE.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Language of texts that tell none, for models that learned a column of them."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON list instead of one object per line.")] = False,
) -> None:
    """Predict the labels of texts.

    Each line of the input (also .gz or .xz) is a text, or a JSON object with "text" and, optionally, "title", "id",
    "exclude" (ids of labels that must not be predicted for it) and "vector" (for models that were trained on vectors).
    Each line of the output is a JSON object with the labels of one text, best first; with --format csv, or
    --out NAME.csv, a line of a table with the columns of the input, the labels, their scores, and why the model is
    unsure where it is. A table is read in the encoding of training unless --encoding names another.
    """
    from longtail.answers import CHUNK, answer_lines, in_chunks, lines_of
    from longtail.data.mending import Remedies, mending
    from longtail.errors import DataError
    from longtail.store import load

    if threshold is not None and not math.isfinite(threshold):
        raise DataError(f"--threshold must be a score such as 0.5, got {threshold}")
    if format not in (None, "jsonl", "csv"):
        raise DataError(f"--format must be jsonl or csv, got {format!r}")
    if on is None and out is not None:
        _check_name(out, format)
    as_table = format == "csv" or (format is None and out is not None and out.suffix.lower() == ".csv" and on is None)
    if as_table and (why or json or on is not None):
        raise DataError("a CSV holds labels and scores; leave out --why, --json and --on, or pass --format jsonl")
    asked = Remedies(encoding, skip_bad_rows)
    if skip_bad_rows is not None:
        ready_to_write(Path(skip_bad_rows))
    if on is not None:
        from longtail.cli.predict_on import predict_on

        unused = {"--why": why, "--json": json, "--database": database is not None}
        unused |= {"--encoding": encoding != "utf-8", "--skip-bad-rows": skip_bad_rows is not None}
        unused |= {"--language": language is not None}
        for option in (name for name, given in unused.items() if given):
            raise DataError(f"{option} does not go with --on, which writes one file a shard; leave one of them out")
        stored = load(model).cutoff
        predict_on(on, model, source, out, *_asked(k, threshold, stored), dial)
        return
    if out is not None:
        ready_to_write(out)
        if source != "-" and out.exists() and Path(source).exists() and out.samefile(source):
            raise DataError("is the input file, which would be lost; give another name to --out", out)
    loaded = load(model)
    loaded.check_dial(dial, "--dial")
    spoken = _spoken(language, loaded)
    places, least = _asked(k, threshold, loaded.cutoff)
    if database is not None:
        from longtail.export.database import searching
        from longtail.search.database import VectorTable

        loaded = searching(loaded, VectorTable(database, table))
    name = "standard input" if source == "-" else source
    lines = _standard_input() if source == "-" else lines_of(Path(source), loaded)
    typed = source == "-" and sys.stdin.isatty()
    if typed:
        say("type or paste texts, one per line; end with Ctrl-D")
    # Progress bars would break into the output on the same screen.
    quiet = typed or (out is None and sys.stdout.isatty())
    remedies = asked if loaded.table is None else loaded.table.remedies(asked)
    with mending(remedies) as mender, nullcontext() if quiet else progress(), _writing(out) as file:
        between = "[\n" if json else ""
        table_file = PredictionTable(file, source, loaded.labels) if as_table else None
        for chunk in in_chunks(lines, 1 if typed else FOLDER_CHUNK if Path(source).is_dir() else CHUNK):
            for answer in answer_lines(loaded, chunk, places, least, dial, name, why, spoken):
                if table_file is not None:
                    table_file.write(answer)
                    continue
                file.write(between + as_json(answer) + ("" if json else "\n"))
                between = ",\n" if json else ""
            file.flush()
        if json:
            file.write("\n]\n" if between == ",\n" else "[]\n")
    for note in () if mender is None else mender.notes():
        say(f"note: {note}")


def _spoken(language: str | None, model: Model) -> str:
    """The code of --language; an error where the model cannot follow it."""
    from longtail.data.text_language import text_language
    from longtail.errors import DataError

    code = text_language(language)
    if language is not None and model.language_field is None:
        raise DataError(
            "--language is for models that learned the languages of documents from a column (train --language-column); "
            "this one reads all texts as it was trained; leave it out"
        )
    return code


def _check_name(out: Path, format: str | None) -> None:
    """Raises `DataError` where the name of the output promises something else than is written."""
    from longtail.errors import DataError

    packed, table = out.suffix.lower() in (".gz", ".xz"), out.suffix.lower() in (".tsv", ".xlsx", ".parquet")
    if packed or (table and format is None):
        kinds = "JSON lines (name.jsonl) or a CSV (name.csv), not packed"
        raise DataError(f"predict writes {kinds}; give such a name to --out", out)


def _asked(k: int | None, threshold: float | None, stored: Cutoff | None) -> tuple[int, float | None]:
    """Most labels and least score: as asked for, else as the model stores, else 5 labels of any score."""
    if stored is None or threshold is not None:
        return k or 5, threshold
    return k or stored.k, stored.threshold


def _standard_input() -> Iterator[tuple[int, str]]:
    from longtail.data.limits import MAX_LINE
    from longtail.errors import DataError

    stream, number = sys.stdin.buffer, 0  # bytes, so that the encoding of the locale plays no role
    while raw := stream.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE:
            raise DataError(
                f"the line is longer than {MAX_LINE} bytes, the most that a line may have; split it",
                "standard input",
                number,
            )
        try:
            line = raw.removesuffix(b"\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            wrong = (
                f"byte 0x{raw[error.start]:02x} is not UTF-8; convert the text, for example: iconv -f latin1 -t utf-8"
            )
            raise DataError(wrong, "standard input", number) from None
        yield number, line.removesuffix("\r")


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears once it is complete."""
    from longtail.errors import DataError, what_to_do

    if path is None:
        yield sys.stdout
        return
    try:
        with new_file(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error}); {what_to_do(error)}", path) from None
