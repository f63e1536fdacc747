"""Trials as jobs: a recipe is trained and judged wherever `--on` says, and its measures are one file.

Trials of a round are drawn together and judged in any order; a trial runs to its end, since nobody waits beside it to
stop it. What is drawn depends on the seed and on the rounds before, so a search that is run again draws the same trials
and finds their files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from longtail.atomic import new_own_file
from longtail.data.corpus import Corpus
from longtail.data.store_convert import stored
from longtail.data.store_reader import read_store
from longtail.errors import JobError
from longtail.jobs import JobFolder, JobRunner
from longtail.read_back import reading_back
from longtail.tuning.judge import Judge
from longtail.tuning.objective import Objective
from longtail.tuning.workers import outcome


class TrialJobs:
    """Judges recipes in jobs."""

    def __init__(
        self, corpus: Corpus, objectives: Sequence[Objective], folds: int | None, seed: int, runner: JobRunner
    ) -> None:
        self.runner, self.data = runner, stored(corpus, runner.folder)
        texts = [one.text for one in objectives]
        self.settings = {"data": str(self.data), "objectives": texts, "folds": folds, "seed": seed}
        name = hashlib.blake2b(json.dumps([self.data.name, texts, folds, seed]).encode(), digest_size=8).hexdigest()
        self.folder = runner.folder / f"trials-{name}"

    def judge(self, recipes: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """Judge recipes.

        Args:
            recipes: as text, each once.

        Returns:
            By recipe what `longtail.tuning.workers.outcome` returns.

        Raises:
            JobError: jobs failed, or what one wrote is damaged.
            JobsLeft: a scheduler must run them.
        """
        names = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in recipes]
        outputs = [self.folder / f"{name}.json" for name in names]
        self.runner.run(JobFolder.write(self.folder, "trial", self.settings, recipes, outputs), "training a round")
        return dict(zip(recipes, map(_read, outputs), strict=True))


def judge_trial(settings: Mapping[str, Any], source: str, output: Path) -> int:
    """The job: train and judge a recipe.

    Args:
        settings: see `TrialJobs`.
        source: the recipe.
        output: the file of its measures, or of why it failed.

    Returns:
        1.
    """
    judge = _judge(settings["data"], tuple(settings["objectives"]), settings["folds"], settings["seed"])
    kind, what = outcome(judge, source, lambda step, value: False)
    with new_own_file(output) as file:
        json.dump({"recipe": source, "kind": kind, "what": what}, file)
    return 1


@lru_cache(maxsize=1)
def _judge(data: str, objectives: tuple[str, ...], folds: int | None, seed: int) -> Judge:
    """The data, mapped and cut once a process."""
    return Judge.of(read_store(Path(data)), tuple(map(Objective.parse, objectives)), folds, seed)


def _read(path: Path) -> tuple[str, Any]:
    with reading_back(path, "remove it and run the command again", JobError):
        found = json.loads(path.read_text(encoding="utf-8"))
        kind, what = found["kind"], found["what"]
        if kind == "done":
            return kind, {str(name): float(value) for name, value in what.items()}
        if kind != "failed" or type(what) is not str:
            raise ValueError("it is no outcome of a trial")
        return kind, what
