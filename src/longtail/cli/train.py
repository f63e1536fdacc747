"""`longtail train`: one recipe to one model folder."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.keep import Keep, kept
from longtail.cli.shared import (
    Json,
    Source,
    print_json,
    progress,
    read_recipes,
    reads_data,
    ready_to_write,
    say,
    several,
    speaks,
)

if TYPE_CHECKING:
    from longtail.data.corpus import Corpus
    from longtail.model import Model
    from longtail.report.card import Card


@reads_data
def train(
    source: Source,
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="Recipe such as 'centroid + rerank', or a TOML file with one.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Model folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that stands there.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Train even if the plan says it will not fit.")] = False,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Train one recipe and save the model."""
    recipes = read_recipes([recipe])

    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.comparison import keeping_for, spent_before
    from longtail.errors import ModelError, RecipeError
    from longtail.memory import measure_peak, readable
    from longtail.store import check_place, save, size_on_disk

    if len(recipes) != 1:
        raise RecipeError(f"{recipe} holds {len(recipes)} recipes; train takes one, compare takes several")
    check_place(out, overwrite=overwrite)
    ready_to_write(out, folder=True)
    with several(), kept(recipes, keep), progress(), measure_peak() as peak:
        corpus = source.read()
        if not force:
            refuse_what_will_not_fit(recipes, corpus.train)
        begin = time.perf_counter() - spent_before(recipes[0], keep)
        with keeping_for(recipes[0], keep):
            model = recipes[0].fit(corpus.train, corpus.valid)
        seconds = time.perf_counter() - begin
        if not speaks():
            return
        model = replace(model, text_field=corpus.text_field, id_field=corpus.id_field)
        card = _card(model, corpus, seconds, peak.bytes)
        try:
            save(model, out, overwrite=overwrite, card=card)
        except OSError as error:
            raise ModelError(
                f"{out}: cannot be written ({error.strerror or error}); check the disk and the rights"
            ) from None
    for note in corpus.notes:
        say(f"note: {note}")
    size = size_on_disk(out)
    if json:
        print_json(
            {
                "recipe": str(recipes[0]),
                "model": str(out),
                "train_seconds": seconds,
                "peak_bytes": peak.bytes,
                "model_bytes": size,
                "labels": len(corpus.labels),
                "rows": len(corpus.train),
            }
        )
    else:
        typer.echo(
            f"{recipes[0]}: trained on {len(corpus.train):,} rows and {len(corpus.labels):,} labels "
            f"in {seconds:.1f} s, peak {readable(peak.bytes)}; wrote {out} ({readable(size)})"
        )


def _card(model: Model, corpus: Corpus, seconds: float, peak_bytes: int) -> Card:
    """What the model card says beside the model: the data, the cost, and figures on valid rows."""
    from longtail.metrics import evaluate
    from longtail.report.card import MOST_ROWS, Card
    from longtail.report.card_text import Facts

    facts = Facts(
        data=corpus.name,
        train_rows=len(corpus.train),
        valid_rows=len(corpus.valid),
        train_seconds=seconds,
        peak_bytes=peak_bytes,
        command=shlex.join(["longtail", *sys.argv[1:]]),
    )
    if len(corpus.valid) == 0:
        return Card(facts)
    rows = corpus.valid.take(range(min(len(corpus.valid), MOST_ROWS)))
    return Card(facts).with_measures("valid", evaluate(model.predict(rows.rows, 5, rows.excluded), rows))
