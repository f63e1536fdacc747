"""Recipes on the same data, the same split, the same measures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from longtail.comparison.entries import Entry, parse_entry, read_seeds, reseeded
from longtail.comparison.finished import result_file
from longtail.comparison.line_jobs import train_lines
from longtail.comparison.single_run import run_line, stages_in
from longtail.comparison.stages import folder_name, seconds_in
from longtail.comparison.uncertainty import judged
from longtail.data.corpus import Corpus
from longtail.drawing import words
from longtail.errors import DataError
from longtail.jobs import current_job_runner
from longtail.nn.training.checkpoint import checkpointing
from longtail.progress import note
from longtail.recipe import Recipe
from longtail.report.result import Result, joined
from longtail.warmup import warm_up

ONCE = "trained once: none of its parts draws random numbers"


def compare(
    corpus: Corpus,
    recipes: Sequence[Entry | str],
    ks: Sequence[int] = (1, 3, 5),
    checkpoint_dir: str | Path | None = None,
    seeds: int | Sequence[int] = 1,
) -> list[Result]:
    """Train each recipe on train (and valid, where it chooses or calibrates), and measure it on test.

    Recipes that share a stage, such as `parabel` and `parabel + rerank`, train it once.

    Args:
        corpus: the data; it needs test rows.
        recipes: recipes, parsed or as text, folders of saved models, or files of predictions.
        ks: the k of P@k and the other measures.
        checkpoint_dir: a folder for everything that is finished: the same call goes on from there after it was
            stopped, and with more recipes it trains only those.
        seeds: how often each recipe is trained, or with which seeds; they are added to the seeds of the recipe.

    Returns:
        One result a recipe, in their order, with intervals and the difference to the first recipe.

    Raises:
        DataError: there is no recipe or no test row, or the data lacks what a recipe needs.
    """
    return judged(list(each(corpus, recipes, ks, checkpoint_dir, seeds)), corpus, ks)


def each(
    corpus: Corpus,
    recipes: Sequence[Entry | str],
    ks: Sequence[int] = (1, 3, 5),
    checkpoint_dir: str | Path | None = None,
    seeds: int | Sequence[int] = 1,
) -> Iterator[Result]:
    """Do what `compare` does, and yield each result as soon as it is there, without intervals and differences.

    Args:
        corpus: the data; it needs test rows.
        recipes: recipes, parsed or as text, folders of saved models, or files of predictions.
        ks: the k of P@k and the other measures.
        checkpoint_dir: a folder for everything that is finished, see `compare`.
        seeds: how often each recipe is trained, or with which seeds.

    Yields:
        One result a recipe, in their order.

    Raises:
        DataError: there is no recipe or no test row, or the data lacks what a recipe needs.
    """
    if isinstance(recipes, str):
        raise DataError(f"compare takes a list of recipes; put the one in brackets: [{recipes!r}]")
    entries = [parse_entry(recipe) for recipe in recipes]
    if not entries:
        raise DataError("compare needs at least one recipe")
    if len(corpus.test) == 0:
        raise DataError(f"{corpus.name} has no test examples to compare on; add a test split, or hold one out of train")
    chosen = read_seeds(seeds if isinstance(seeds, int) else list(seeds))
    wanted = [(entry, seed) for entry in entries for seed in seeds_of(entry, chosen)]
    for entry, seed in wanted:  # all of them before the first is trained
        if isinstance(entry, Recipe):
            reseeded(entry, seed).check(corpus.train)
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    to_train = [entry for entry, seed in wanted if isinstance(entry, Recipe)]
    runner = current_job_runner()
    if runner is not None:
        folder = folder or runner.folder
        train_lines([(one, seed) for one, seed in wanted if isinstance(one, Recipe)], corpus, ks, folder, runner)
    if folder is not None:
        to_train = [one for one, seed in wanted if isinstance(one, Recipe) and not _is_there(folder, one, seed, corpus)]
    warm_up(to_train, corpus.train)  # compiled once a machine; the first recipe's time must not include it
    with stages_in(folder) as stages:
        pending = Counter(name for entry, seed in wanted for name in _stage_names(entry, seed))
        stages.needed = lambda name: pending[name] > 0
        for entry in entries:
            runs = []
            for seed in seeds_of(entry, chosen):
                pending.subtract(_stage_names(entry, seed))
                runs.append(run_line(entry, seed, corpus, tuple(ks), folder, stages))
            result = joined(runs)
            if len(chosen) > 1 and len(runs) == 1:
                result = replace(result, notes=(*result.notes, ONCE))
            note(f"done: {_line(result)}")
            yield result


def seeds_of(entry: Entry, seeds: Sequence[int]) -> tuple[int, ...]:
    """List the seeds that a recipe is trained with.

    Args:
        entry: a recipe or a saved model.
        seeds: of the comparison.

    Returns:
        The seeds; only the first for a saved model and for a recipe that draws no random numbers.
    """
    random = isinstance(entry, Recipe) and reseeded(entry, 1) != entry
    return tuple(seeds) if random else tuple(seeds[:1])


def _is_there(folder: Path, entry: Entry, seed: int, corpus: Corpus) -> bool:
    return result_file(folder, entry, seed, corpus).exists()


def _stage_names(entry: Entry, seed: int) -> tuple[str, ...]:
    return reseeded(entry, seed).stages if isinstance(entry, Recipe) else ()


def _line(result: Result) -> str:
    """What is printed as soon as a recipe is done."""
    figures = [
        f"{name} {words.percent(result.measures.values[name])}"
        + (f" ± {words.percent(result.deviation(name))}" if result.runs else "")
        for name in ("P@1", "PSP@5", "C@5")
        if name in result.measures.values
    ]
    trained = "" if math.isnan(result.train_seconds) else f", trained in {words.seconds(result.train_seconds)}"
    shared = sum(one.seconds for one in result.shared)
    return f"{words.clean(result.recipe)}: {', '.join(figures)}{trained}" + (
        f", of which {words.seconds(shared)} by another recipe" if result.shared else ""
    )


def checkpointing_for(recipe: Recipe, checkpoint_dir: str | Path | None) -> AbstractContextManager[None]:
    """Write checkpoints of trainings inside the block.

    Args:
        recipe: the recipe that is trained.
        checkpoint_dir: the folder that holds a folder for each recipe; none: no checkpoints.

    Returns:
        A context manager.
    """
    return nullcontext() if checkpoint_dir is None else checkpointing(checkpoint_dir_of(recipe, checkpoint_dir))


def seconds_spent_before(recipe: Recipe, checkpoint_dir: str | Path | None) -> float:
    """Add up the time of the epochs that an earlier run has finished and this one goes on from.

    Args:
        recipe: the recipe.
        checkpoint_dir: the folder that holds a folder for each recipe; none: no checkpoints.

    Returns:
        Seconds.
    """
    return 0.0 if checkpoint_dir is None else seconds_in(checkpoint_dir_of(recipe, checkpoint_dir))


def checkpoint_dir_of(recipe: Recipe, checkpoint_dir: str | Path) -> Path:
    """Name the folder of a recipe's checkpoints in `longtail train`.

    Args:
        recipe: the recipe.
        checkpoint_dir: the folder that holds a folder for each recipe.

    Returns:
        A folder inside it: a person recognises it, and no other recipe has it.
    """
    return Path(checkpoint_dir) / folder_name(str(recipe), str(recipe), digest_size=4)
