"""What the learners over a pool of labels share. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.errors import RecipeError
from longtail.nn.settings import Size, TowerSettings
from longtail.plan import Facts, Plan

LOSSES = ("supcon", "decoupled", "infonce", "bce")


@dataclass(frozen=True)
class Picks:
    """How pools are made and what is learned from them, in the terms of `longtail.nn.pool`."""

    positives: int | None  # of a row that are drawn; none: all
    negatives: int  # of a row's mined ones
    refresh: int  # epochs between two clusterings and searches; 0: neither
    cluster: int | None  # rows of a cluster; none: those of a batch
    rows_weight: float  # of the loss from rows to labels; the rest goes from labels to rows
    everything: bool = False  # the pool is all labels


@dataclass(frozen=True)
class TableSettings:
    """How classifiers learn beside the dual encoder."""

    loss: str
    scale: float  # of their scores
    rate: float
    weight: float  # of the dual encoder's loss; the rest is the classifiers'
    precision: str
    on_host: bool
    lengths: bool = True  # while training, scores are products, and of what is of length 1 where not


def check_loss(learner: str, setting: str, name: str) -> None:
    unknown = [part for part in name.split("+") if part not in LOSSES]
    if unknown:
        raise RecipeError(
            f"setting '{setting}' of {learner} is one of {', '.join(LOSSES)} or a sum such as 'decoupled+bce', "
            f"got {name!r}"
        )


def with_heads(plan: Plan, settings: TowerSettings, numbers: int | None, facts: Facts) -> tuple[Plan, int]:
    """The plan where a head's vectors have so many numbers, and how many numbers all labels have then."""
    whole = Size.of(settings.encoder, settings.dimension, facts).width
    own = min(numbers or whole, whole)
    return replace(plan, model_bytes=plan.model_bytes - 4 * (whole - own) * facts.labels), own * facts.labels


def check_pool(settings: TowerSettings, picks: Picks, dropout: float, numbers: int | None) -> None:
    """Refuse what no pool can be made with, and what two heads have no use for."""
    name = settings.name
    if numbers is not None and numbers < 1:
        raise RecipeError(f"setting 'head_dimension' of {name} is at least 1, got {numbers}")
    some = [number for number in (picks.positives, picks.cluster) if number is not None]
    if min(some, default=1) < 1 or picks.negatives < 0 or picks.refresh < 0:
        raise RecipeError(
            f"{name} takes at least 1 of positives and cluster, and 0 or more of negatives and refresh, got "
            f"positives={picks.positives}, cluster={picks.cluster}, negatives={picks.negatives}, "
            f"refresh={picks.refresh}"
        )
    if picks.negatives and not picks.refresh:
        raise RecipeError(f"{name} mines negatives when it refreshes: set refresh above 0, or negatives=0")
    if not 0 <= dropout < 1:
        raise RecipeError(f"setting 'head_dropout' of {name} lies in [0, 1), got {dropout:g}")
    if settings.rows != "documents" or settings.search_dimension is not None or settings.frequency != 0:
        raise RecipeError(
            f"{name} learns from both sides and searches whole vectors without frequencies: leave rows, "
            "search_dimension and frequency as they are (shorter vectors: head_dimension), or use ngame"
        )
