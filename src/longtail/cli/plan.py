"""`longtail plan`: estimates the memory and time of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.cli.shared import (
    Json,
    Source,
    console,
    print_json,
    progress,
    read_recipes,
    reads_data,
    say,
)

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset
    from longtail.recipe import Recipe


@reads_data
def plan(
    source: Source,
    recipes: Annotated[
        list[str], typer.Argument(metavar="RECIPES", help="Recipes to plan for, or TOML files of recipes.")
    ],
    json: Json = False,
) -> None:
    """Estimate the memory and time of recipes."""
    parsed = read_recipes(recipes)

    from longtail.memory import available_bytes, readable
    from longtail.plan import DataFacts, readable_seconds

    with progress():
        corpus = source.read()
    facts, free = DataFacts.of(corpus.train, len(corpus.valid)), available_bytes()
    plans = [recipe.plan(facts) for recipe in parsed]
    if json:
        rows = [
            {
                "recipe": str(recipe),
                "train_bytes": planned.train_bytes,
                "model_bytes": planned.model_bytes,
                "train_seconds": planned.train_seconds,
                "predict_seconds_per_1000": planned.predict_seconds,
                "available_bytes": free,
                "fits": planned.train_bytes <= free,
                "steps": dict(planned.steps),
            }
            for recipe, planned in zip(parsed, plans, strict=True)
        ]
        print_json(rows)
        return
    from rich.table import Table

    data = "the data itself stays in its files" if corpus.is_mapped else "the data itself is not counted"
    table = Table(caption=f"{readable(free)} of memory are free; {data}; predict 1,000: time for 1,000 documents")
    table.add_column("recipe", overflow="fold")
    for name in ("memory", "model", "training", "predict 1,000", "fits"):
        table.add_column(name, justify="right", no_wrap=True)
    for recipe, planned in zip(parsed, plans, strict=True):
        table.add_row(
            str(recipe),
            readable(planned.train_bytes),
            readable(planned.model_bytes),
            readable_seconds(planned.train_seconds),
            readable_seconds(planned.predict_seconds),
            "yes" if planned.train_bytes <= free else "no",
        )
    console().print(table)
    for note in corpus.notes:
        say(f"note: {note}")


def refuse_what_will_not_fit(recipes: Sequence[Recipe], train: Dataset) -> None:
    """Raises `WillNotFit`, with alternatives, before a recipe takes more memory than there is."""
    from longtail.catalogue import LEARNERS
    from longtail.errors import WillNotFit
    from longtail.memory import available_bytes, readable
    from longtail.plan import DataFacts
    from longtail.recipe import Recipe

    facts, free = DataFacts.of(train), available_bytes()
    for recipe in recipes:
        planned = recipe.plan(facts)
        if planned.train_bytes <= free:
            continue
        others = {name: Recipe.parse(name).plan(facts).train_bytes for name in LEARNERS}
        fitting = [f"{name} ({readable(size)})" for name, size in others.items() if size <= free]
        instead = f"these fit: {', '.join(fitting)}" if fitting else "use fewer examples or a larger machine"
        largest = max(planned.steps, key=lambda step: step[1], default=("training", 0))[0]
        raise WillNotFit(
            f"{recipe} needs about {readable(planned.train_bytes)} to train (most of it for {largest}), but only "
            f"{readable(free)} are free; {instead}; or train anyway with --force"
        )
