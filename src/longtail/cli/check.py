"""`longtail check`: describes data and finds what is wrong with it, before training."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli.shared import Json, Source, console, print_json, progress, reads_data, say

if TYPE_CHECKING:
    from longtail.data.corpus import Corpus
    from longtail.data.mending import Fault
    from longtail.inspection import Inspection


@reads_data
def check(
    source: Source,
    encoder: Annotated[
        str,
        typer.Option(metavar="NAME", help="Encoder whose vocabulary is tried on the texts; auto: minilm, if there."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Describe a data set and list what is wrong with it.

    The data is read to its end: faults are listed by kind, with how many there are, where the first are, and the option
    that mends them. Every command that reads data takes these options.

    Exit code 0: no errors, perhaps warnings. 1: the data has errors. 2: there is no such data.
    """
    from longtail.data.mending import Remedies, mending
    from longtail.errors import DataError
    from longtail.inspection import inspect
    from longtail.soft_targets import right_by_size

    faults: list[Fault] = []
    try:
        with progress(), mending(source.remedies or Remedies(), collect=True) as mender:
            assert mender is not None
            try:
                corpus = source.read()
            finally:
                faults = list(mender.faults.values())
            _verify(Path(source.data))
            found = inspect(corpus)
            right = right_by_size(corpus.train, corpus.valid)
            broken = _broken(encoder, corpus)
            found = replace(found, warnings=(*found.warnings, *broken))
    except DataError as error:
        if not Path(source.data).exists():
            raise
        if json:
            nothing: dict[str, Any] = {"name": source.data, "facts": {}, "bands": {}, "notes": [], "warnings": []}
            print_json({**nothing, "errors": [str(error)], "faults": [asdict(fault) for fault in faults]})
        else:
            for fault in faults:
                if not fault.mended:
                    say(f"{_error(fault)} (counted as far as the data was read)")
            say(f"error: {error}")
        raise typer.Exit(1) from None
    open_faults = [fault for fault in faults if not fault.mended]
    suggested = _remedies(source, corpus, open_faults)
    if json:
        print_json(
            {
                "name": corpus.name,
                "facts": found.facts,
                "bands": found.bands,
                "notes": list(corpus.notes),
                "warnings": list(found.warnings),
                "errors": [*(fault.line() for fault in open_faults), *found.errors],
                "faults": [asdict(fault) for fault in faults],
                "remedies": suggested,
                "right_by_size": [asdict(one) for one in right],
            }
        )
    else:
        _show(corpus, found)
        for note in corpus.notes:
            typer.echo(f"note: {note}")
        if right:
            shares = ", ".join(map(str, right))
            typer.echo(
                f"note: soft targets of gandalf that are right on documents that are the label, by size: {shares}"
            )
        for warning in found.warnings:
            typer.echo(f"warning: {warning}")
        for fault in open_faults:
            typer.echo(_error(fault))
        for problem in found.errors:
            typer.echo(f"error: {problem}")
        if suggested:
            typer.echo(f"to mend them: longtail check {shlex.quote(source.data)} {suggested}")
            typer.echo("the same options go with every command that reads data")
        if not found.warnings and not found.errors and not open_faults:
            typer.echo("no warnings, no errors")
    raise typer.Exit(1 if found.errors or open_faults else 0)


def _verify(folder: Path) -> None:
    """Compare a store with its checksums, which no other command does: that reads every byte."""
    from longtail.data.store_layout import is_store
    from longtail.data.store_reader import verify_store

    if is_store(folder):
        verify_store(folder)


def _error(fault: Fault) -> str:
    first = f"; the first: {fault.first}" if fault.first else ""
    return f"error: {fault.line()}: mend with {fault.remedy}{first}"


def _broken(encoder: str, corpus: Corpus) -> list[str]:
    """Whether the vocabulary of an encoder breaks the texts to pieces. One with random weights has none yet."""
    from longtail.nn.extra import expand_home, is_hub_name, minilm_folder, real_name, require

    name = real_name(encoder)
    if corpus.train.texts is None or (encoder == "auto" and (name == "bag" or find_spec("tokenizers") is None)):
        return []
    require(f"check --encoder {encoder}", "tokenizers")
    from longtail.nn.encoders.broken_words import broken_words
    from longtail.nn.encoders.encoder_names import RANDOM_INIT, check_encoder

    check_encoder(name)
    if name in RANDOM_INIT:
        return []
    folder = minilm_folder() if name == "minilm" else expand_home(name)
    if is_hub_name(name) and not expand_home(name).is_dir():
        from longtail.nn.encoders.pretrained import fetch

        folder = fetch(name)
    assert folder is not None
    found = broken_words(folder, corpus.train.texts)
    warning = None if found is None else found.warning(name)
    return [] if warning is None else [warning]


def _show(corpus: Corpus, found: Inspection) -> None:
    from rich.table import Table

    from longtail.report.zipf import zipf_text

    screen = console()
    table = Table(title=corpus.name, title_justify="left", show_header=False)
    for name, value in found.facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    screen.print(table)
    shares = Table(title="Labels by frequency", title_justify="left")
    for column in ("band", "of the labels", "of the positives"):
        shares.add_column(column, justify="left" if column == "band" else "right")
    for name, share in found.bands.items():
        shares.add_row(name, f"{share['labels']:.1f}%", f"{share['positives']:.1f}%")
    screen.print(shares)
    screen.print(zipf_text(corpus.labels, width=min(60, max(screen.width - 15, 20))))


def _remedies(source: Source, corpus: Corpus, open_faults: list[Fault]) -> str:
    """The options that mend what was found, as they are typed, with those that were given; "" where nothing is left."""
    from longtail.data.mended_labels import likely_no_labels, twins
    from longtail.data.mending import Remedies, remedies_named

    given = source.remedies or Remedies()
    wanted = remedies_named(open_faults)
    if not given.drop_duplicates and "--drop-duplicates" not in wanted and _copies(corpus):
        wanted.append("--drop-duplicates")
    if not given.fold_labels and twins(corpus.labels.ids):
        wanted.append("--fold-labels")
    missing = likely_no_labels(corpus.labels)
    if missing and not given.ignore_labels:
        wanted.append(f"--ignore-labels {shlex.quote(','.join(missing[:10]))}")
    if not wanted:
        return ""
    had = [f"--encoding {given.encoding}"] if given.encoding != "utf-8" else []
    had += [f"--skip-bad-rows {shlex.quote(given.skip_bad_rows)}"] if given.skip_bad_rows else []
    had += ["--drop-duplicates"] if given.drop_duplicates else []
    had += ["--fold-labels"] if given.fold_labels else []
    had += [f"--ignore-labels {shlex.quote(','.join(given.ignore_labels))}"] if given.ignore_labels else []
    had += [f"--min-count {given.min_count}"] if given.min_count > 1 else []
    columns = source.columns
    text = ",".join(columns.text) if isinstance(columns.text, tuple) else columns.text
    described = {"--text-column": text, "--label-column": columns.labels, "--id-column": columns.id}
    described |= {"--language-column": columns.language}
    described |= {"--label-shape": columns.shape, "--text": source.text}
    if columns.separator != "|":
        described["--label-separator"] = columns.separator
    if source.vocabulary is not None:
        described |= {"--vocabulary": str(source.vocabulary.path), "--language": source.vocabulary.language}
    elif source.language is not None:
        described["--language"] = source.language
    options = [f"{option} {shlex.quote(value)}" for option, value in described.items() if value is not None]
    return " ".join([*options, *had, *wanted])


def _copies(corpus: Corpus) -> bool:
    """Whether a row of train has the text and labels of an earlier one."""
    texts = corpus.train.texts
    if texts is None:
        return False
    starts, columns = corpus.train.targets.indptr.tolist(), corpus.train.targets.indices
    keys = ((text, columns[begin:end].tobytes()) for text, begin, end in zip(texts, starts, starts[1:], strict=False))
    seen: set[tuple[str, bytes]] = set()
    return any(key in seen or seen.add(key) for key in keys)  # type: ignore[func-returns-value]
