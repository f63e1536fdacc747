"""What a model card says of the encoder that read the texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from longtail.catalogue import learner_class, written
from longtail.grammar import parse
from longtail.report import words
from longtail.seams import Scorer

MINILM = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class UsedEncoder:
    """The encoder of one fitted part."""

    name: str | None  # as recipes write it; none where it began with the encoder of another model
    found: bool  # by "auto", when the model was trained
    shape: str

    @property
    def words(self) -> str:
        if self.name is None:
            return f"Encoder: that of the model it began with; {self.shape}."
        written = " ".join(words.clean(self.name).replace("`", "'").split())
        name = f"`{written}`" + (f" ({MINILM})" if self.name == "minilm" else "")
        return f"Encoder: {name}{', found by `auto`' if self.found else ''}; {self.shape}."


def encoders(recipe: str, scorer: Scorer) -> Iterator[UsedEncoder]:
    """Those of the model, also of the parts that it joins. They are read off what was fitted: another machine may find
    another one for "auto"."""
    reader = getattr(scorer, "reader", None)
    if reader is not None:
        first = parse(recipe)[0]
        settings = written(first, learner_class(first.name))
        if "encoder" in settings:
            yield _used(settings["encoder"], settings.get("warm"), reader)
        return
    state = scorer.state()
    for name, part in state.parts.items():
        inner = state.settings.get("recipe") if name == "rare" else None  # an ensemble's other model
        yield from encoders(inner if isinstance(inner, str) else recipe, part)


def _used(asked: str, warm: str | None, reader: Any) -> UsedEncoder:
    kind, settings = reader.settings["kind"], reader.settings
    weights = sum(int(array.size) for array in reader.weights.values())
    shape = {"bag": "a mean of word vectors", "gru": "a recurrent net"}.get(kind, "a transformer")
    if "layers" in settings:
        shape += f" of {words.count(settings['layers'])} layers"
    shape += f", {words.count(weights)} weights, {words.count(reader.longest)} tokens of a text read"
    if warm is not None:
        return UsedEncoder(None, False, shape)
    if asked == "auto":
        return UsedEncoder("bag" if kind == "bag" else "minilm", True, shape)
    return UsedEncoder(asked, False, shape)
