"""`longtail train`: trains one recipe and writes a model folder."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.checkpoints import CheckpointDir, checkpoint_messages
from longtail.cli.on import check_train_on, jobs_beside, jobs_on
from longtail.cli.shared import (
    Json,
    Source,
    print_json,
    progress,
    read_recipes,
    reads_data,
    ready_to_write,
    say,
    speaks,
)
from longtail.cli.torchrun import Patience, joined, written_by_an_earlier_attempt
from longtail.cli.train_within import train_within
from longtail.cli.tune import seconds_of
from longtail.cutoff import Cutoff, CutoffChoice
from longtail.errors import DataError, ModelError, RecipeError, counted, what_to_do

if TYPE_CHECKING:
    from longtail.data.corpus import Corpus
    from longtail.model import Model
    from longtail.report.card import Card


@reads_data
def train(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Model folder to write.")],
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="[RECIPE]", help="Recipe such as 'centroid + rerank', or a TOML file with one."),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Without a recipe: train the best model within 90s, 10m or 1h30m."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that is there.")] = False,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="Choose and calibrate on valid, then train again on train and valid together."),
    ] = False,
    choose_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Choose on valid which labels are predicted, and store it: f1, precision=0.9, labels=3, or two.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Train even if the plan says it will not fit.")] = False,
    checkpoint_dir: CheckpointDir = None,
    patience: Patience = 600.0,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Train trees and folds in jobs: on processes, files (for a scheduler), ray or ray://host:port.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train a recipe, or find one within a time, and save the model."""
    if within is not None:
        if recipe is not None:
            raise RecipeError(
                f"--within finds a recipe, and {recipe!r} is given; leave out one of them. The settings of a recipe "
                "within a time: longtail tune"
            )
        unused = {
            "--refit": refit,
            "--force": force,
            "--choose-threshold": choose_threshold is not None,
            "--checkpoint-dir": checkpoint_dir is not None,
        }
        unused["--on"] = on is not None
        for option in (name for name, given in unused.items() if given):
            raise RecipeError(f"--within does not go with {option}; train the recipe that it prints with {option}")
        train_within(source, seconds_of(within), out, overwrite, json)
        return
    if recipe is None:
        raise RecipeError("give a recipe such as 'parabel + rerank', or --within 10m to have one found in that time")
    recipes = read_recipes([recipe])
    choice = None if choose_threshold is None else CutoffChoice.parse(choose_threshold)

    from longtail.cli.plan import refuse_what_will_not_fit
    from longtail.comparison import checkpointing_for, seconds_spent_before
    from longtail.memory import measure_peak, readable
    from longtail.store import check_place, save, size_on_disk

    if len(recipes) != 1:
        raise RecipeError(f"{recipe} has {len(recipes)} recipes; train takes one, compare takes several")
    overwrite = overwrite or written_by_an_earlier_attempt(out)
    check_place(out, overwrite=overwrite)
    ready_to_write(out, folder=True)
    if on is not None:
        check_train_on(on, recipes[0])
    with (
        joined(patience),
        jobs_on(on, jobs_beside(out)),
        checkpoint_messages(recipes, checkpoint_dir),
        progress(),
        measure_peak() as peak,
    ):
        corpus = source.read()
        if choice is not None and len(corpus.valid) == 0:
            raise DataError(f"{corpus.name} has no valid examples to choose a threshold on; give a --valid-share")
        if not force:
            refuse_what_will_not_fit(recipes, corpus.train)
        begin = time.perf_counter() - seconds_spent_before(recipes[0], checkpoint_dir)
        with checkpointing_for(recipes[0], checkpoint_dir):
            chosen = model = recipes[0].fit(corpus.train, corpus.valid)
            if refit and len(corpus.valid):
                model = recipes[0].refit(chosen, corpus.train_and_valid())
        seconds = time.perf_counter() - begin
        if not speaks():
            return
        model = replace(model, text_field=corpus.text_field, id_field=corpus.id_field, table=corpus.table)
        model = replace(model, language_field=corpus.language_field)
        model = replace(model, doubts=chosen.with_doubts(corpus.train, corpus.valid).doubts)
        if choice is not None:
            model = replace(model, cutoff=_cutoff(chosen, corpus, choice))
        # What was trained on valid cannot be measured on it: the card shows the model before.
        card = _card(chosen, corpus, seconds, peak.bytes, refit and len(corpus.valid) > 0)
        try:
            save(model, out, overwrite=overwrite, card=card)
        except OSError as error:
            raise ModelError(f"{out}: cannot be written ({error.strerror or error}); {what_to_do(error)}") from None
    for note in corpus.notes:
        say(f"note: {note}")
    size = size_on_disk(out)
    rows = len(corpus.train) + (len(corpus.valid) if refit else 0)
    if json:
        print_json(
            {
                "recipe": str(recipes[0]),
                "model": str(out),
                "train_seconds": seconds,
                "peak_bytes": peak.bytes,
                "model_bytes": size,
                "labels": len(corpus.labels),
                "rows": rows,
                **({} if model.cutoff is None else {"cutoff": model.cutoff.as_json()}),
            }
        )
    else:
        typer.echo(
            f"{recipes[0]}: trained on {counted(rows, 'example')} with {counted(len(corpus.labels), 'label')} "
            f"in {seconds:.1f} s, peak {readable(peak.bytes)}; wrote {out} ({readable(size)})"
        )
        if model.cutoff is not None:
            at_most = "" if model.cutoff.most is None else f", at most {model.cutoff.most} a document"
            least = f"{model.cutoff.threshold:g}{at_most}"
            typer.echo(f"predicts labels from a score of {least}: {model.cutoff.chosen} on valid")


def _cutoff(model: Model, corpus: Corpus, choice: CutoffChoice) -> Cutoff:
    """Chosen before --refit trains on valid too: its scores for valid would be too good."""
    from longtail.metrics import choose_cutoff
    from longtail.predictions import CANDIDATES

    valid = corpus.valid
    return choose_cutoff(model.predict(valid.rows, CANDIDATES, valid.excluded), valid, choice)


def _card(model: Model, corpus: Corpus, seconds: float, peak_bytes: int, refit: bool) -> Card:
    """The facts of the model card that the model itself does not hold: the data, the cost, and figures on valid."""
    from longtail.metrics import evaluate
    from longtail.report.card import MAX_EXAMPLES, Card
    from longtail.report.card_text import CardFacts

    facts = CardFacts(
        data=corpus.name,
        train_rows=len(corpus.train) + (len(corpus.valid) if refit else 0),
        valid_rows=len(corpus.valid),
        train_seconds=seconds,
        peak_bytes=peak_bytes,
        command=shlex.join(["longtail", *sys.argv[1:]]),
        refit=refit,
    )
    if len(corpus.valid) == 0:
        return Card(facts)
    valid = corpus.valid.take(range(min(len(corpus.valid), MAX_EXAMPLES)))
    return Card(facts).with_measures("valid", evaluate(model.predict(valid.rows, 5, valid.excluded), valid))
