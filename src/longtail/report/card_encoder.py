"""The line of a model card about the encoder that the model uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from longtail.catalogue import learner_class, written
from longtail.drawing import words
from longtail.errors import counted
from longtail.grammar import parse
from longtail.seams import Scorer

MINILM = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class UsedEncoder:
    """The encoder of one fitted part."""

    name: str | None  # as recipes write it; None where training started from the encoder of another model
    chosen_by_auto: bool  # the recipe says "auto"
    architecture: str

    @property
    def words(self) -> str:
        """The line of the card."""
        if self.name is None:
            return f"Encoder: trained on from that of another model; {self.architecture}."
        written = " ".join(words.clean(self.name).replace("`", "'").split())
        name = f"`{written}`" + (f" ({MINILM})" if self.name == "minilm" else "")
        return f"Encoder: {name}{', chosen by `auto`' if self.chosen_by_auto else ''}; {self.architecture}."


def encoders(recipe: str, scorer: Scorer) -> Iterator[UsedEncoder]:
    """Finds the encoders of a fitted model, those of its members too.

    They are read off the fitted parts, because "auto" may choose another encoder on another machine.

    Args:
        recipe: the recipe that the model was fitted from.
        scorer: what its learner returned.

    Yields:
        Each encoder; none for a model without one.
    """
    encoder = getattr(scorer, "encoder", None)
    if encoder is not None:
        first = parse(recipe)[0]
        settings = written(first, learner_class(first.name))
        if "encoder" in settings:
            yield _used(settings["encoder"], settings.get("init_from"), encoder)
        return
    state = scorer.state()
    for name, part in state.parts.items():
        # An ensemble's model for rare labels, a member of fuse, and the encoder of a memory have recipes of their own.
        inner = state.settings.get("recipe") if name in ("rare", "scorer", "encoder") else None
        yield from encoders(inner if isinstance(inner, str) else recipe, part)


def _used(asked: str, init_from: str | None, encoder: Any) -> UsedEncoder:
    kind, settings = encoder.settings["kind"], encoder.settings
    weights = sum(int(array.size) for array in encoder.weights.values())
    architecture = {"bag": "a mean of word vectors", "gru": "a recurrent net"}.get(kind, "a transformer")
    if "layers" in settings:
        architecture += f" of {counted(settings['layers'], 'layer')}"
    architecture += (
        f", {words.count(weights)} weights, reads the first {words.count(encoder.max_tokens)} tokens of a text"
    )
    if init_from is not None:
        return UsedEncoder(None, False, architecture)
    if asked == "auto":
        return UsedEncoder("bag" if kind == "bag" else "minilm", True, architecture)
    return UsedEncoder(asked, False, architecture)
