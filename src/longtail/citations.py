"""Which papers a recipe cites: those of its parts, of a teacher inside it, and of a pretrained encoder."""

from __future__ import annotations

from contextlib import suppress

from longtail.catalogue import learner_class, tail_class, written
from longtail.errors import RecipeError
from longtail.grammar import parse
from longtail.nn.extra import real_name
from longtail.papers import MINILM, SENTENCE_BERT, Paper

WITHIN = ("tail_model", "teacher", "init_from")  # settings that may hold another recipe


def papers_of(recipe: str, auto: str | None = None) -> list[Paper]:
    """The papers behind a recipe.

    Args:
        recipe: As it is written.
        auto: The encoder that the name "auto" stands for; none: what it is on this machine.

    Returns:
        Each paper once, in the order of the parts.

    Raises:
        RecipeError: The recipe cannot be read.
    """
    return list(dict.fromkeys(_papers(recipe, auto or real_name("auto"))))


def _papers(recipe: str, auto: str) -> list[Paper]:
    learner, *tail = parse(recipe)
    found: list[Paper] = []
    for part in (learner, *tail):
        kind = learner_class(part.name) if part is learner else tail_class(part.name)
        settings = written(part, kind)
        found += kind.cites(settings) if hasattr(kind, "cites") else getattr(kind, "papers", ())
        encoder = settings.get("encoder")
        if "minilm" in (encoder, auto if encoder == "auto" else ""):
            found += (SENTENCE_BERT, MINILM)
        for inner in (*(settings.get(name) for name in WITHIN), *settings.get("members", ())):
            if isinstance(inner, str):
                # What is no recipe is the folder of a saved model, whose own card names its papers.
                with suppress(RecipeError):
                    found += _papers(inner, auto)
    return found
