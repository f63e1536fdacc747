"""`longtail train --within`: finds a recipe, trains it and writes a model folder, all in a given time."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from longtail.cli.shared import Source, console, print_json, progress, ready_to_write, say
from longtail.errors import DataError, ModelError, RecipeError, what_to_do

if TYPE_CHECKING:
    from longtail.automatic import AutoResult
    from longtail.data.corpus import Corpus
    from longtail.report.card import Card


def train_within(source: Source, within: float, out: Path, overwrite: bool, json: bool) -> None:
    """Trains the best model that fits in a time. Reading the data counts; the recipe alone goes to standard output."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("train --within works in one process; run it without torchrun, or give a recipe")
    from longtail.automatic import auto
    from longtail.memory import measure_peak, readable
    from longtail.store import check_place, save, size_on_disk

    check_place(out, overwrite=overwrite)
    ready_to_write(out, folder=True)
    began = time.perf_counter()
    with progress(), measure_peak() as peak:
        corpus = source.read()
        reading = time.perf_counter() - began
        if reading >= within:
            raise DataError(f"reading {source.data} took {reading:.0f} s, and --within gives {within:g} s; give more")
        found = auto(corpus, within - reading)
        try:
            save(found.model, out, overwrite=overwrite, card=_card(found, corpus, peak.bytes))
        except OSError as error:
            raise ModelError(f"{out}: cannot be written ({error.strerror or error}); {what_to_do(error)}") from None
    seconds, size = time.perf_counter() - began, size_on_disk(out)
    for note in corpus.notes:
        say(f"note: {note}")
    for note in found.notes:
        say(f"note: {note}")
    if json:
        cost = {"train_seconds": seconds, "peak_bytes": peak.bytes, "model_bytes": size}
        sizes = {"labels": len(corpus.labels), "rows": found.train_rows}
        print_json({**found.as_json(), "model": str(out), **cost, **sizes})
        return
    console(errors=True).print(_table(found))
    say(f"{seconds:.1f} s of {within:g} s, peak {readable(peak.bytes)}; wrote {out} ({readable(size)})")
    typer.echo(found.recipe)


def _table(found: AutoResult) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption="P@1 and PSP@5 in percent, on valid", caption_justify="left")
    table.add_column("recipe", overflow="fold", ratio=3)
    for name in ("seconds", "P@1", "PSP@5"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold", ratio=2)
    for row in found.rows():
        table.add_row(*row)
    return table


def _card(found: AutoResult, corpus: Corpus, peak_bytes: int) -> Card:
    from longtail.report.card import Card
    from longtail.report.card_text import CardFacts

    facts = CardFacts(
        data=corpus.name,
        train_rows=found.train_rows,
        valid_rows=found.valid_rows,
        train_seconds=found.seconds,
        peak_bytes=peak_bytes,
        command=shlex.join(["longtail", *sys.argv[1:]]),
        how_found=found.how(),
    )
    return Card(facts) if found.measures is None else Card(facts).with_measures("valid", found.measures)
