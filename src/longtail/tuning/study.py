"""Optuna: its TPE sampler and its median pruner.

The sampler is seeded anew for every trial by the seed and the number of trials before it. So a search that was killed
goes on with the trials that it would have had, which a sampler whose random state is lost would not.
"""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.data.corpus import Corpus
from longtail.errors import DataError
from longtail.read_back import reading_back
from longtail.tuning.found import DONE, FAILED, PRUNED, TrialResult
from longtail.tuning.objective import Objective
from longtail.tuning.search_space import NumberRange, SearchSpace
from longtail.tuning.trial_journal import AGAIN, JOURNAL, check_trials, require_optuna

LEAST_FOR_IMPORTANCE = 5  # trials


@dataclass(frozen=True, eq=False)
class AskedTrial:
    """A trial that runs."""

    trial: Any  # Optuna's
    recipe: str
    prunable: bool

    def report(self, step: int, value: float) -> bool:
        """Tell Optuna the value so far.

        Args:
            step: see `longtail.tuning.judge`.
            value: of the objective.

        Returns:
            Whether to stop.
        """
        if not self.prunable:
            return False
        self.trial.report(value, step)
        return bool(self.trial.should_prune())


class Study:
    """The trials of a search, in memory or in a file."""

    def __init__(self, space: SearchSpace, objectives: tuple[Objective, ...], seed: int, storage: Any = None) -> None:
        optuna = require_optuna()
        self.space, self.objectives, self.seed = space, objectives, seed
        self.optuna = optuna
        self._ended: dict[int, TrialResult] = {}  # trials that have ended do not change
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.study = optuna.create_study(
                storage=storage,
                study_name="tune",
                directions=["maximize"] * len(objectives),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
                load_if_exists=True,
            )
        self.distributions = {
            one.name: (
                optuna.distributions.CategoricalDistribution(list(range(int(one.size))))
                if not isinstance(one, NumberRange)
                else optuna.distributions.IntDistribution(int(one.low), int(one.high), log=one.log)
                if one.whole
                else optuna.distributions.FloatDistribution(one.low, one.high, log=one.log)
            )
            for one in space.dimensions
        }

    def resume(self, identity: dict[str, Any], folder: Path) -> None:
        """Take up what an earlier run has left: trials that were running when it ended are tried again.

        Args:
            identity: JSON values that the earlier run must agree with.
            folder: of the journal, for the message.

        Raises:
            DataError: it belongs to another search, or is damaged.
        """
        with reading_back(folder / JOURNAL, AGAIN, DataError):
            self._resume(identity, folder)
            self.results()

    def _resume(self, identity: dict[str, Any], folder: Path) -> None:
        found = self.study.user_attrs.get("identity")
        if found is None:
            self.study.set_user_attr("identity", identity)
        elif found != identity:
            different = "; ".join(
                f"{name} {found.get(name)!r} there, {identity.get(name)!r} here"
                for name in {**identity, **found}
                if found.get(name) != identity.get(name)
            )
            raise DataError(
                f"belongs to another search: {different}. Give the same recipe, objective and data, or another "
                "--checkpoint-dir",
                folder,
            )
        check_trials(self.study.get_trials(deepcopy=False), self.space, self.objectives)
        for trial in self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,)):
            outcome = trial.user_attrs.get("outcome")
            if outcome is not None:  # it had ended, and only Optuna had not been told
                self._report(trial.number, *outcome)
                continue
            self.study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)
            if set(trial.params) == set(self.distributions):
                self.study.enqueue_trial(trial.params)

    def ask(self, running: int, limit: float) -> AskedTrial:
        """Draw the settings of the next trial.

        Args:
            running: trials that run now.
            limit: of trials in all; a space that has no more recipes is tried as a whole, without a sampler.

        Returns:
            The trial.
        """
        number = self.finished + running
        self.study.sampler = self.optuna.samplers.TPESampler(seed=_seed_of(self.seed, number))
        if self.space.size <= limit:
            left = self._untried()
            if left and not self._waiting():
                self.study.enqueue_trial(left[0])
        trial = self.study.ask(self.distributions)
        return AskedTrial(trial, self.space.recipe(trial.params), prunable=len(self.objectives) == 1)

    def known(self, recipe: str) -> dict[str, float] | None:
        """Find the measures of a recipe that was tried before: rounded settings may come twice.

        Args:
            recipe: as text.

        Returns:
            The measures, or None.
        """
        return next(
            (one.measures for one in self.results() if one.state == DONE and one.recipe == recipe and one.measures),
            None,
        )

    def settle(self, asked: AskedTrial, kind: str, what: Any) -> TrialResult | None:
        """Tell Optuna how a trial ended.

        Args:
            asked: the trial.
            kind: see `longtail.tuning.workers.outcome`, or "died".
            what: the measures, or why.

        Returns:
            The result; None where time was up: the trial then counts as running, and is tried again on resuming.
        """
        if kind == "time":
            return None
        if kind == "done":
            try:
                [objective.of(what) for objective in self.objectives]
            except DataError as error:
                kind, what = "failed", str(error)
        if kind == "died":
            why = f"its process ended with code {what}; memory may have run out, which fewer --processes would help"
            kind, what = "failed", why
        asked.trial.set_user_attr("outcome", [kind, what])
        self._report(asked.trial.number, kind, what)
        return next(one for one in self.results() if one.number == asked.trial.number)

    def _report(self, number: int, kind: str, what: Any) -> None:
        states = self.optuna.trial.TrialState
        if kind == "done":
            self.study.tell(number, [objective.of(what) for objective in self.objectives])
            return
        # A sampler of one objective takes a pruned trial for a bad one, and would draw near a failed one again.
        bad = kind == "pruned" or len(self.objectives) == 1
        self.study.tell(number, state=states.PRUNED if bad else states.FAIL)

    @property
    def finished(self) -> int:
        """How many trials have ended; those that were interrupted do not count."""
        return len(self.results())

    def results(self) -> list[TrialResult]:
        """The trials that have ended, in the order in which they were asked for."""
        found = []
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished() or "outcome" not in trial.user_attrs:  # it runs, or was interrupted
                continue
            if trial.number in self._ended:
                found.append(self._ended[trial.number])
                continue
            kind, what = trial.user_attrs["outcome"]
            measures = what if kind == "done" else None
            self._ended[trial.number] = TrialResult(
                number=trial.number,
                recipe=self.space.recipe(trial.params),
                settings={one.name: one.written(trial.params[one.name]) for one in self.space.dimensions},
                state={"done": DONE, "pruned": PRUNED}.get(kind, FAILED),
                values=tuple(trial.values) if kind == "done" else (),
                measures=measures,
                seconds=float((measures or {}).get("seconds", _seconds(trial))),
                why="" if kind == "done" else what,
            )
            found.append(self._ended[trial.number])
        return found

    def importance(self) -> tuple[dict[str, float], ...]:
        """Measure how much each setting matters to each objective, by PED-ANOVA over the trials that ended.

        Returns:
            One an objective: shares that add up to 1, largest first; empty where there are too few trials.
        """
        done = [one for one in self.results() if one.state == DONE]
        found: list[dict[str, float]] = []
        for place in range(len(self.objectives)):
            if len(done) < LEAST_FOR_IMPORTANCE or len({one.values[place] for one in done}) < 2:
                found.append({})
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna calls the method experimental
                try:
                    shares = self.optuna.importance.get_param_importances(
                        self.study,
                        evaluator=self.optuna.importance.PedAnovaImportanceEvaluator(),
                        target=lambda trial, place=place: -trial.values[place],  # it asks what makes this one low
                    )
                except (ValueError, RuntimeError):  # no setting was drawn with two values
                    shares = {}
            found.append({name: float(share) for name, share in shares.items()})
        return tuple(found)

    def _untried(self) -> list[dict[str, Any]]:
        """The recipes of a finite space that no trial has, in an order that the seed decides."""
        states = self.optuna.trial.TrialState
        tried = [
            trial.params
            for trial in self.study.get_trials(deepcopy=False)
            if trial.state == states.RUNNING or "outcome" in trial.user_attrs
        ]
        grid = self.space.grid()
        random.Random(self.seed).shuffle(grid)
        return [values for values in grid if values not in tried]

    def _waiting(self) -> bool:
        states = (self.optuna.trial.TrialState.WAITING,)
        return bool(self.study.get_trials(deepcopy=False, states=states))


def _seconds(trial: Any) -> float:
    return trial.duration.total_seconds() if trial.duration is not None else 0.0


def _seed_of(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=4).digest(), "little")


def identity_of(
    corpus: Corpus, space: SearchSpace, objectives: tuple[Objective, ...], folds: int | None, seed: int
) -> dict[str, Any]:
    """Describe a search, so that only the same one resumes it.

    Args:
        corpus: the data.
        space: what is searched.
        objectives: what is maximised.
        folds: of train; None: judged on valid.
        seed: of the search.

    Returns:
        JSON values by name.
    """
    digest = hashlib.blake2b(digest_size=8)
    for data in (corpus.train, corpus.valid):
        for array in (data.targets.indptr, data.targets.indices, data.targets.data):
            digest.update(array.tobytes())
        digest.update(data.language.encode())
        digest.update(" ".join(data.languages or ()).encode())
        for text in data.texts or ():
            digest.update(text.encode("utf-8", "surrogatepass"))
    return json.loads(  # type: ignore[no-any-return]
        json.dumps(
            {
                "recipe": " ".join(space.text.split()),
                "objectives": [objective.text for objective in objectives],
                "folds": folds,
                "seed": seed,
                "data": f"{corpus.name} ({digest.hexdigest()})",
            }
        )
    )
