"""Which tail methods go on which learner, checked before any data is read."""

from __future__ import annotations

from collections.abc import Sequence

from longtail import catalogue, grammar
from longtail.errors import RecipeError
from longtail.seams import Learner, MovesLabels, TailMethod, acts_in_vain, goes_on


def check_pairs(parts: Sequence[grammar.Part], learner: Learner, tail: Sequence[TailMethod]) -> None:
    """Refuse tail methods that cannot act on the learner, or beside each other.

    Args:
        parts: of the recipe, as written.
        learner: the first of them.
        tail: the others.

    Raises:
        RecipeError: a method needs what the learner does not offer, would change nothing, or two take the same place.
    """
    for part, method in zip(parts[1:], tail, strict=True):
        missing = sorted(method.needs - learner.offers)
        if missing:
            able = [name for name in catalogue.LEARNERS if goes_on(method, catalogue.learner_class(name))]
            instead = f"use it on {', '.join(able)}" if able else "no learner of this release offers it"
            raise RecipeError(
                f"{part.name} needs {', '.join(missing)}, which {parts[0].name} does not offer; {instead}. "
                "All pairs: longtail methods"
            )
        if acts_in_vain(method, learner):
            raise RecipeError(
                f"{part.name} changes training examples, and {parts[0].name} does not learn from them, so the model "
                "would be the same without it; use it on a learner that does, or take a method that re-ranks. "
                "All pairs: longtail methods"
            )
    moving = [part.name for part, method in zip(parts[1:], tail, strict=True) if isinstance(method, MovesLabels)]
    if len(moving) > 1:
        raise RecipeError(
            f"{' and '.join(moving)} each put a tower on the labels, which has room for one; keep the last"
        )
