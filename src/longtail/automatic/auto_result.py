"""What `auto` tried and found: a table, JSON, a section of the model card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.drawing import words
from longtail.metrics.measures import Measures
from longtail.model import Model
from longtail.version import __version__

TRAINED, SKIPPED, STOPPED, FAILED, LEFT_OUT = "trained", "skipped", "stopped", "failed", "left out"
SHOWN = ("P@1", "PSP@5")


def worth(measures: Measures) -> float:
    """Tell what recipes are chosen by.

    Args:
        measures: on valid.

    Returns:
        P@1 + PSP@5.
    """
    return sum(measures[name] for name in SHOWN)


@dataclass(frozen=True)
class Tried:
    """One recipe and what became of it."""

    recipe: str
    state: str  # TRAINED, SKIPPED or STOPPED (no time), FAILED, or LEFT_OUT (the data or the machine does not allow it)
    planned: float | None = None  # seconds, as the plan said before any was trained
    seconds: float | None = None  # seconds it took
    measures: Measures | None = None  # on valid
    why: str = ""  # why it was not trained

    @property
    def worth(self) -> float:
        """What recipes are chosen by: P@1 + PSP@5 on valid."""
        return 0.0 if self.measures is None else worth(self.measures)

    def as_json(self) -> dict[str, Any]:
        """Write the fields as JSON values.

        Returns:
            By name; `why` only where there is a reason.
        """
        return {
            "recipe": self.recipe,
            "state": self.state,
            "planned_seconds": self.planned,
            "seconds": self.seconds,
            "measures": None if self.measures is None else dict(self.measures.values),
            **({"why": self.why} if self.why else {}),
        }


@dataclass(frozen=True)
class AutoResult:
    """The result of `longtail.auto`."""

    model: Model
    chosen: Tried  # the recipe of the model
    tried: tuple[Tried, ...]  # members in the order of their training, then combinations, then what was not trained
    looked_at: str  # sizes, texts, languages, GPU
    within: float  # seconds that were allowed
    seconds: float  # seconds that it took
    train_rows: int
    valid_rows: int
    notes: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        """The recipe that trains the same model again, as `longtail train` takes it."""
        return self.model.recipe

    @property
    def measures(self) -> Measures | None:
        """Figures of the model's recipe on valid; None where there is no valid example."""
        return self.chosen.measures

    def rows(self) -> list[tuple[str, ...]]:
        """Write the lines of the table.

        Returns:
            For each recipe: recipe, seconds, P@1, PSP@5, what became of it.
        """
        return [
            (
                one.recipe,
                "" if one.seconds is None else f"{one.seconds:.1f}",
                *("" if one.measures is None else words.percent(one.measures[name]) for name in SHOWN),
                "chosen" if one is self.chosen else one.state + (f": {one.why}" if one.why else ""),
            )
            for one in self.tried
        ]

    def how(self) -> str:
        """Say how the recipe was found, for the model card.

        Returns:
            Paragraphs of Markdown.
        """
        header = ["| recipe | seconds | P@1 | PSP@5 | |", "| --- | ---: | ---: | ---: | --- |"]
        table = ["| `{}` | {} | {} | {} | {} |".format(*map(_cell, row)) for row in self.rows()]
        took = f"Found in {words.seconds(self.seconds)}, with {words.seconds(self.within)} given."
        judged = (
            "Each recipe was judged by P@1 + PSP@5 on the valid examples; a combination that learns on them, by two "
            "that each learn on one half and are judged on the other."
        )
        repeat = f"The same model again:\n\n```\nlongtail train DATA {_quoted(self.recipe)} --out model\n```"
        parts = [f"{took} Looked at: {self.looked_at}.", judged, "\n".join([*header, *table]), *self.notes, repeat]
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Write everything but the model.

        Returns:
            JSON values by name.
        """
        return {
            "recipe": self.recipe,
            "within_seconds": self.within,
            "seconds": self.seconds,
            "measures": None if self.measures is None else dict(self.measures.values),
            "looked_at": self.looked_at,
            "tried": [one.as_json() for one in self.tried],
            "notes": list(self.notes),
            "longtail": __version__,
        }


def _cell(text: str) -> str:
    return words.clean(text).replace("|", "\\|").replace("`", "'")


def _quoted(recipe: str) -> str:
    """The recipe as one word of a shell."""
    return "'" + recipe.replace("'", "'\\''") + "'"
