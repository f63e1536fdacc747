"""What a search found: every trial, the best recipe or the Pareto front, and how much each setting matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longtail.errors import RecipeError
from longtail.version import __version__

DONE, PRUNED, FAILED = "done", "pruned", "failed"


@dataclass(frozen=True)
class TrialResult:
    """One recipe of the space and how it did."""

    number: int  # from 0, in the order in which they were asked for
    recipe: str
    settings: dict[str, str]  # as the recipe writes them, by part.setting
    state: str  # DONE, PRUNED (worse than others at the same step) or FAILED
    values: tuple[float, ...] = ()  # one an objective
    measures: dict[str, float] | None = None  # in percent, by name
    seconds: float = 0.0
    why: str = ""  # it was pruned or failed


@dataclass(frozen=True)
class Tuning:
    """The result of `longtail.tune`."""

    space: str  # the recipe with ranges and choices
    objectives: tuple[str, ...]  # one; several: a Pareto front
    judged_on: str
    data: str
    seed: int
    trials: tuple[TrialResult, ...]
    importance: tuple[dict[str, float], ...]  # of each objective: the share of every setting; empty: too few trials
    seconds: float  # of this run

    @property
    def done(self) -> tuple[TrialResult, ...]:
        """The trials that have values."""
        return tuple(trial for trial in self.trials if trial.state == DONE)

    @property
    def front(self) -> tuple[TrialResult, ...]:
        """The trials that no other beats in every objective, best first in the first objective."""
        done, seen = self.done, set()
        front = []
        for trial in sorted(done, key=lambda one: (tuple(-value for value in one.values), one.number)):
            beaten = any(_beats(other.values, trial.values) for other in done)
            if not beaten and trial.values not in seen:  # of recipes that do equally well, the first
                seen.add(trial.values)
                front.append(trial)
        return tuple(front)

    @property
    def best(self) -> TrialResult:
        """The best trial; of several objectives, the one that reaches most of what the front has in each of them.

        Ranks would not do: on a front of two objectives, every trial has the same sum of ranks.

        Raises:
            RecipeError: no trial has ended.
        """
        front = self.front
        if not front:
            raise RecipeError("no trial of the search has ended; give it more time or other ranges")
        columns = list(zip(*(one.values for one in front), strict=True))
        spans = [(min(column), max(column) - min(column) or 1.0) for column in columns]

        def reached(one: TrialResult) -> float:
            parts = [(value - low) / span for value, (low, span) in zip(one.values, spans, strict=True)]
            return math.fsum(parts)

        return max(front, key=reached)  # the first of equals

    @property
    def recipe(self) -> str:
        """The best recipe, as `longtail train` takes it."""
        return self.best.recipe

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "recipe": self.recipe,
            "objectives": list(self.objectives),
            "values": list(self.best.values),
            "measures": self.best.measures,
            "front": [{"recipe": one.recipe, "values": list(one.values)} for one in self.front],
            "space": self.space,
            "data": self.data,
            "judged_on": self.judged_on,
            "seed": self.seed,
            "seconds": self.seconds,
            "importance": [dict(one) for one in self.importance],
            "trials": [
                {
                    "number": one.number,
                    "recipe": one.recipe,
                    "settings": one.settings,
                    "state": one.state,
                    "values": list(one.values),
                    "measures": one.measures,
                    "seconds": one.seconds,
                    **({"why": one.why} if one.why else {}),
                }
                for one in self.trials
            ],
            "longtail": __version__,
        }


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """At least as good everywhere and better somewhere."""
    pairs = list(zip(one, other, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
