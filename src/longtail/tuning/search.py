"""`tune`: asks for settings, trains, judges, stops in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from longtail.data.corpus import Corpus
from longtail.errors import DataError, RecipeError, counted
from longtail.jobs import current_job_runner
from longtail.progress import Measured, measured, note, stage
from longtail.recipe import Recipe
from longtail.tuning.found import DONE, FAILED, PRUNED, TrialResult, Tuning
from longtail.tuning.judge import Judge
from longtail.tuning.objective import Objective
from longtail.tuning.search_space import SearchSpace
from longtail.tuning.study import AskedTrial, Study, identity_of
from longtail.tuning.trial_jobs import TrialJobs
from longtail.tuning.trial_journal import journal, require_optuna
from longtail.tuning.workers import Worker, next_message, outcome, pool

OBJECTIVE = "P@1 + PSP@5"  # head and tail
TRIALS = 20  # where neither trials nor time are given
FAILURES = 3  # trials that fail before any ends: then something other than a setting is wrong


def tune(
    corpus: Corpus,
    recipe: str,
    *,
    objective: str = OBJECTIVE,
    pareto: Sequence[str] | None = None,
    trials: int | None = None,
    within: float | None = None,
    folds: int | None = None,
    processes: int = 1,
    checkpoint_dir: str | Path | None = None,
    seed: int = 0,
) -> Tuning:
    """Search for the settings of a recipe, judged on valid or by folds of train, never on test.

        found = longtail.tune(corpus, "parabel(cost=0.5..4 log, trees=1|3)", trials=20)
        model = longtail.Recipe.parse(found.recipe).fit(corpus.train, corpus.valid)

    Args:
        corpus: the data.
        recipe: with a range `low..high`, `low..high log` or a choice `first|second` in the place of values.
        objective: a weighted sum of measures, to be maximised.
        pareto: two or more such sums instead, each maximised; the result is their Pareto front.
        trials: recipes to train, those of earlier runs in `checkpoint_dir` included; default: 20, or with `within` as
            many as fit.
        within: seconds. No trial starts that would not end in time, judged by the trials before; networks that still
            train when time is up stop after their epoch.
        folds: of train to judge by; default: judge on valid.
        processes: recipes in training at a time; inside `longtail.jobs.using_jobs`, of a round of jobs, of which all
            are drawn before the first is judged and none is stopped early.
        checkpoint_dir: keeps the trials: the same call goes on from there.
        seed: of the sampler and the splits.

    Returns:
        The trials, the best recipe and the Pareto front.

    Raises:
        RecipeError: the recipe has no range, or one does not suit its setting; every trial failed.
        DataError: an objective cannot be read, or there is nothing to judge on.
        MissingExtra: Optuna is not installed.
    """
    space = SearchSpace.parse(recipe)
    objectives = tuple(Objective.parse(one) for one in (pareto or [objective]))
    require_optuna()
    _check(pareto, trials, within, processes)
    limit = trials if trials is not None else TRIALS if within is None else 10_000
    begin = time.time()
    judge = replace(Judge.of(corpus, objectives, folds, seed), deadline=None if within is None else begin + within)
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    with journal(folder) as storage:
        study = Study(space, objectives, seed, storage)
        if folder is not None:
            study.resume(identity_of(corpus, space, objectives, folds, seed), folder)
            if study.finished:
                note(f"{folder} has {counted(study.finished, 'finished trial')}; the search goes on after them")
        Recipe.parse(space.corners()[0]).check(corpus.train)  # what the data lacks is no matter of settings
        runner = current_job_runner()
        jobs = None if runner is None else TrialJobs(corpus, objectives, folds, seed, runner)
        _Search(study, judge, min(limit, space.size), processes, jobs).run()
        return Tuning(
            space=space.text,
            objectives=tuple(one.text for one in objectives),
            judged_on="valid" if folds is None else f"{folds} folds of train",
            data=corpus.name,
            seed=seed,
            trials=tuple(study.results()),
            importance=study.importance(),
            seconds=time.time() - begin,
        )


class _Search:
    """The loop over trials."""

    def __init__(self, study: Study, judge: Judge, limit: float, processes: int, jobs: TrialJobs | None = None) -> None:
        self.study, self.judge, self.limit, self.jobs = study, judge, limit, jobs
        self.processes = int(min(processes, max(limit - study.finished, 1)))
        self.out_of_time = False
        before = [one.values[0] for one in study.results() if one.state == DONE]  # of an earlier run in this folder
        self.best: float | None = max(before, default=None)

    def run(self) -> None:
        """Trains until the limit or the deadline."""
        total = self.limit - self.study.finished
        with stage("tuning", total=int(total) if total < 10_000 else None, timed=False) as advance:
            if self.jobs is not None:
                self._in_jobs(self.jobs, advance)
            elif self.processes > 1:
                with pool(self.judge, self.processes) as workers:
                    self._in_processes(workers, advance)
            else:
                while self._may_start(running=0):
                    asked = self.study.ask(0, self.limit)
                    known = self.study.known(asked.recipe)
                    kind, what = ("done", known) if known else outcome(self.judge, asked.recipe, asked.report)
                    self._settle(asked, kind, what)
                    advance(1)
        if not any(one.state == DONE for one in self.study.results()):
            self._nothing_found()

    def _in_jobs(self, jobs: TrialJobs, advance: Callable[[int], None]) -> None:
        """Round after round: what is drawn depends on the rounds before, and not on which trial ends first."""
        while self._may_start(running=0):
            asked: list[AskedTrial] = []
            while len(asked) < self.processes and self._may_start(len(asked)):
                asked.append(self.study.ask(len(asked), self.limit))
            recipes = [one.recipe for one in asked if not self.study.known(one.recipe)]
            judged = jobs.judge(list(dict.fromkeys(recipes))) if recipes else {}
            for one in asked:
                known = self.study.known(one.recipe)
                self._settle(one, *(("done", known) if known else judged[one.recipe]))
                advance(1)

    def _in_processes(self, workers: list[Worker], advance: Callable[[int], None]) -> None:
        busy: dict[Worker, AskedTrial] = {}
        while True:
            for place, worker in enumerate(workers):
                while worker not in busy and self._may_start(len(busy)):
                    asked = self.study.ask(len(busy), self.limit)
                    known = self.study.known(asked.recipe)
                    if known:
                        self._settle(asked, "done", known)
                        advance(1)
                        continue
                    if not worker.process.is_alive():
                        workers[place] = worker = Worker(self.judge)
                    worker.connection.send(asked.recipe)
                    busy[worker] = asked
            if not busy:
                return
            worker, (kind, what) = next_message(list(busy))
            if kind == "step":
                worker.connection.send(busy[worker].report(*what))
                continue
            self._settle(busy.pop(worker), kind, what)
            advance(1)

    def _may_start(self, running: int) -> bool:
        results = self.study.results()
        if self.out_of_time or len(results) + running >= self.limit:
            return False
        if self.judge.deadline is None:
            return True
        # The trial that is likely: half of those before took less.
        likely = median([one.seconds for one in results if one.state == DONE and one.seconds] or [0.0])
        return time.time() + likely <= self.judge.deadline

    def _settle(self, asked: AskedTrial, kind: str, what: object) -> None:
        result = self.study.settle(asked, kind, what)
        if result is None:
            self.out_of_time = True
            return
        note(f"trial {result.number + 1}: {self._words(result)}  {result.recipe}")
        if result.state == DONE:
            values = {one.text: value for one, value in zip(self.study.objectives, result.values, strict=True)}
            measured(Measured("tune", result.number + 1, 0, {**(result.measures or {}), **values}))
        results = self.study.results()
        if len(results) >= FAILURES and all(one.state == FAILED for one in results):
            self._nothing_found()

    def _words(self, result: TrialResult) -> str:
        if result.state == PRUNED:
            return result.why
        if result.state == FAILED:
            return f"failed ({result.why})"
        if len(result.values) > 1:
            return ", ".join(f"{value:.2f}" for value in result.values)
        value = result.values[0]
        better = self.best is None or value > self.best
        self.best = value if better or self.best is None else self.best
        return f"{value:.2f}{', the best so far' if better else ''}"

    def _nothing_found(self) -> None:
        failed = [one for one in self.study.results() if one.state == FAILED]
        if failed:
            raise RecipeError(f"{counted(len(failed), 'trial')} failed and none ended; the last: {failed[-1].why}")
        raise RecipeError("no trial ended in the time that was given; give more (--within), or a quicker recipe")


def _check(pareto: Sequence[str] | None, trials: int | None, within: float | None, processes: int) -> None:
    if pareto is not None and (isinstance(pareto, str) or len(pareto) < 2):
        raise DataError(f"a Pareto front needs two objectives such as 'P@1' and 'PSP@5', got {pareto!r}")
    if trials is not None and trials < 1:
        raise DataError(f"the number of trials must be 1 or more, got {trials}")
    if within is not None and not 0 < within < float("inf"):
        raise DataError(f"the time must be above 0 seconds, got {within}")
    if processes < 1:
        raise DataError(f"the number of processes must be 1 or more, got {processes}")
