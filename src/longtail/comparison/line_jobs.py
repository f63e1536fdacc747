"""Lines of a comparison as jobs: one recipe with one seed is trained and measured wherever `--on` says.

A job writes the file of a finished training, as a comparison in one process does; the comparison then finds them. Jobs
share no stage: `parabel` and `parabel + rerank` both train the trees, on different machines at the same time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from longtail.comparison.entries import reseeded
from longtail.comparison.finished import result_file, write_result
from longtail.comparison.single_run import run
from longtail.data.corpus import Corpus
from longtail.data.store_convert import stored
from longtail.data.store_reader import read_store
from longtail.jobs import JobFolder, JobRunner
from longtail.recipe import Recipe
from longtail.warmup import warm_up


def train_lines(
    lines: Sequence[tuple[Recipe, int]], corpus: Corpus, ks: Sequence[int], folder: Path, runner: JobRunner
) -> None:
    """Train recipes in jobs.

    Args:
        lines: recipes and their seeds.
        corpus: the data.
        ks: the k of the measures.
        folder: of finished trainings.
        runner: where the jobs run.

    Raises:
        JobError: jobs failed; the others are done.
        JobsLeft: a scheduler must run them.
    """
    data = stored(corpus, runner.folder)
    name = hashlib.blake2b(f"{data.name} {list(ks)}".encode(), digest_size=8).hexdigest()
    jobs = JobFolder.write(
        runner.folder / f"comparison-{name}",
        "comparison",
        {"data": str(data), "at": list(ks)},
        [{"recipe": str(recipe), "seed": seed} for recipe, seed in lines],
        [result_file(folder, recipe, seed, corpus) for recipe, seed in lines],
    )
    runner.run(jobs, "training recipes")


def train_line(settings: Mapping[str, Any], source: Mapping[str, Any], output: Path) -> int:
    """The job: train a recipe and measure it.

    Args:
        settings: see `train_lines`.
        source: the recipe and its seed.
        output: the file of the finished training.

    Returns:
        The number of examples that are answered.
    """
    corpus, recipe = _corpus(settings["data"]), Recipe.parse(source["recipe"])
    warm_up([reseeded(recipe, source["seed"])], corpus.train)
    result = run(recipe, corpus, settings["at"], seed=source["seed"])
    write_result(output, result)
    return len(result.predictions)


@lru_cache(maxsize=1)
def _corpus(path: str) -> Corpus:
    """The data, mapped once a process."""
    return read_store(Path(path))
