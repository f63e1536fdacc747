"""The settings that learners over a pool of labels share. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longtail.errors import RecipeError
from longtail.nn.dual.dual_settings import DualEncoderSettings, Size
from longtail.plan import DataFacts, Plan

LOSSES = ("supcon", "decoupled", "infonce", "pickone", "bce", "plainbce")


@dataclass(frozen=True)
class PoolSettings:
    """How the pool of a batch is made, and the two directions of its loss."""

    positives: int | None  # of a row that are drawn, at most; None: all
    negatives: int  # mined labels of a row that are drawn
    refresh_every: int  # epochs between two clusterings and searches; 0: random batches, nothing mined
    cluster_size: int | None  # rows of a cluster; None: those of a batch
    rows_weight: float  # of the loss from rows to labels; the loss from labels to rows has the rest of 1
    all_labels: bool = False  # the pool is all labels


@dataclass(frozen=True)
class TableSettings:
    """How classifiers learn beside the dual encoder."""

    loss: str
    scale: float  # of their scores
    learning_rate: float
    encoder_loss_weight: float  # weight of the dual encoder's loss; the classifiers' loss has the rest of 1
    precision: str
    on_host: bool
    norms: bool = True  # scores are products in training; False: cosines


def check_loss(learner: str, setting: str, name: str) -> None:
    """Refuse the name of a loss that does not exist.

    Args:
        learner: its name, for the error.
        setting: its name, for the error.
        name: of a loss, or of a sum of losses.

    Raises:
        RecipeError: a part of the name is none of `LOSSES`.
    """
    unknown = [part for part in name.split("+") if part not in LOSSES]
    if unknown:
        raise RecipeError(
            f"setting '{setting}' of {learner} is one of {', '.join(LOSSES)} or a sum such as 'decoupled+bce', "
            f"got {name!r}"
        )


def with_heads(
    plan: Plan, settings: DualEncoderSettings, head_dimension: int | None, facts: DataFacts
) -> tuple[Plan, int]:
    """The plan of a dual encoder whose vectors end in a head.

    Args:
        plan: without the head.
        settings: of the learner.
        head_dimension: of the head's vectors; None: the encoder's.
        facts: of the data.

    Returns:
        The plan with smaller vectors, and how many numbers the vectors of all labels have.
    """
    whole = Size.of(settings.encoder, settings.dimension, facts).width
    own = min(head_dimension or whole, whole)
    return replace(plan, model_bytes=plan.model_bytes - 4 * (whole - own) * facts.labels), own * facts.labels


def check_pool(settings: DualEncoderSettings, pool: PoolSettings, dropout: float, head_dimension: int | None) -> None:
    """Refuse settings that no pool can be made with, and those that have no effect where there are heads.

    Args:
        settings: of the learner.
        pool: how its pools are made.
        dropout: of its heads.
        head_dimension: of their vectors.

    Raises:
        RecipeError: a setting is out of range or has no effect.
    """
    name = settings.name
    lowest = {"positives": 1, "cluster_size": 1, "negatives": 0, "refresh_every": 0}
    for setting, bound in lowest.items():
        value = getattr(pool, setting)
        if value is not None and value < bound:
            raise RecipeError(f"setting '{setting}' of {name} is at least {bound}, got {value}")
    if head_dimension is not None and head_dimension < 1:
        raise RecipeError(f"setting 'head_dimension' of {name} is at least 1, got {head_dimension}")
    if pool.negatives and not pool.refresh_every:
        raise RecipeError(f"{name} mines negatives when it refreshes: set refresh_every above 0, or negatives=0")
    if not 0 <= dropout < 1:
        raise RecipeError(f"setting 'head_dropout' of {name} lies in [0, 1), got {dropout:g}")
    if settings.anchors != "documents" or settings.search_dimension is not None or settings.frequency_weight != 0:
        raise RecipeError(
            f"{name} learns in both directions and searches whole vectors without frequencies: leave anchors, "
            "search_dimension and frequency_weight as they are (shorter vectors: head_dimension), or use ngame"
        )
