"""What turns tokens into vectors, by name: learned words, a pretrained transformer, or one from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longtail.errors import DataError, ModelError
from longtail.nn import pretrained
from longtail.nn.extra import at_home, minilm_folder, real_name
from longtail.nn.frugal.bodies import FrugalBag, FrugalInception
from longtail.nn.layouts import Grouped, Packed
from longtail.nn.settings import AT_RANDOM, check_encoder
from longtail.nn.tokenizers import TextTokenizer, learn_words
from longtail.nn.tokens import tokenise
from longtail.nn.transformer import Shape, Transformer
from longtail.nn.words import Bag, Recurrent, inverse_frequency

# Transformers that begin at random: layers, width, heads. The tiny one is for trials and tests.
SCRATCH = {
    "tiny": (2, 64, 2),
    "scratch-mini": (4, 256, 4),
    "scratch-small": (4, 512, 8),
    "scratch-medium": (8, 512, 8),
    "scratch-base": (12, 768, 12),
}
WORDS_WIDTH = 512  # of a bag or gru when no dimension is asked for
DROPOUTS = ("dropout", "dropout_prob")  # how settings that say how much is dropped end
IDF_TEXTS = 200_000  # more texts hardly move a word's idf


class Encoder(nn.Module):
    """Token ids and mask (texts, places) to vectors (texts, dimension) in float32, not yet of length 1.

    `settings` is plain JSON from which `build_encoder` makes the same network; its weights are the state dict.
    """

    def __init__(self, body: nn.Module, width: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = settings
        self.body = body
        asked = settings.get("dimension")
        self.projection = None if asked is None or asked == width else nn.Linear(width, asked, bias=False)
        self.dimension: int = width if asked is None else asked
        self.longest: int | None = settings.get("places")  # the longest text it can read, in tokens
        if self.projection is not None:
            nn.init.orthogonal_(self.projection.weight)  # distances survive as well as they can

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._projected(self.body(ids, mask))

    def packed(self, ids: Tensor, layout: Packed) -> Tensor:
        """The same of texts that follow one another: (tokens,) ids. A transformer spends nothing on padding here."""
        if isinstance(self.body, Transformer):
            return self._projected(self.body.packed(ids, layout))
        return self.forward(layout.pad(ids), layout.mask)

    def grouped(self, ids: Tensor, layout: Grouped) -> Tensor:
        """The same of groups of texts of like length, for a transformer: (tokens,) ids."""
        assert isinstance(self.body, Transformer)
        return self._projected(self.body.packed(ids, layout))

    def _projected(self, pooled: Tensor) -> Tensor:
        if self.projection is None:
            return pooled
        projected: Tensor = self.projection(pooled.to(self.projection.weight.dtype))
        return projected.float()


def build_encoder(settings: dict[str, Any], seed: int = 0) -> Encoder:
    """The network that these settings describe, with random weights that the seed decides."""
    given = dict(settings)
    kind = given.pop("kind", None)
    given.pop("dimension", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            body: Any
            if kind == "transformer":
                body = Transformer(Shape(**given))
            elif kind == "bag":
                body = Bag(**given)
            elif kind == "gru":
                body = Recurrent(**given)
            elif kind == "frugal bag":
                body = FrugalBag(**given)
            elif kind == "inception":
                body = FrugalInception(**given)
            elif kind == "foreign":
                body = pretrained.Foreign(given["config"], given["pooling"])
            else:
                raise ModelError(f"unknown kind of encoder {kind!r}")
        except (TypeError, KeyError) as error:
            raise ModelError(f"settings that no {kind} encoder has: {error}") from None
        return Encoder(body, body.width, settings)


def load_encoder(
    name: str = "auto",
    dimension: int | None = None,
    *,
    texts: Sequence[str] | None = None,
    tokenizer: str | None = None,
    most_words: int = 100_000,
    pooling: str | None = None,
    dropout: float | None = None,
    residual: bool = False,
    seed: int = 0,
) -> tuple[Encoder, TextTokenizer]:
    """The encoder of this name and the tokenizer it reads with.

    name: minilm, bag, gru, tiny, scratch-mini, -small, -medium or -base, a folder, or owner/name on the Hugging Face
    hub; auto is minilm where its package is installed, else bag. `texts` teach bag, gru and those from scratch their
    words, unless `tokenizer` names a folder (or minilm) to read with. `dimension` is the length of the vectors: the
    width of bag and gru, a projection after the others. `pooling` and `dropout` replace those that came with a folder.
    """
    if dimension is not None and dimension < 1:
        raise DataError(f"an encoder's dimension is at least 1, got {dimension}")
    name = real_name(name)
    if name not in ("bag", "gru", *SCRATCH):
        folder = find_folder(name)
        reader = TextTokenizer.from_folder(folder)
        settings, weights = pretrained.read(folder, pooling, dropout)
        encoder = build_encoder({**settings, "dimension": dimension}, seed)
        try:
            encoder.body.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(
                f"the weights in {folder} do not fit its config.json: {str(error).split(':', 1)[1].strip()}"
            ) from None
        return encoder, reader
    reader = _reader(name, tokenizer, texts, most_words)
    if name in SCRATCH:
        layers, width, heads = SCRATCH[name]
        shape = Shape(reader.size, width, layers, heads, inner=4 * width)
        if name == "tiny":
            shape = replace(shape, dropout=0.0, attention_dropout=0.0)
        if dropout is not None:
            shape = replace(shape, dropout=dropout, attention_dropout=dropout)
        shape = replace(shape, pooling=pooling or shape.pooling)
        return build_encoder({"kind": "transformer", **asdict(shape), "dimension": dimension}, seed), reader
    settings = {"vocabulary": reader.size, "width": dimension or WORDS_WIDTH, "dropout": dropout or 0.0}
    if name == "gru":
        return build_encoder({"kind": "gru", **settings}, seed), reader
    encoder = build_encoder({"kind": "bag", **settings, "residual": residual}, seed)
    if texts is not None:
        some = texts[:: -(-len(texts) // IDF_TEXTS)] if len(texts) else texts
        idf = inverse_frequency(tokenise(some, reader, 512, what="texts for idf"), reader.size)
        encoder.body.get_buffer("idf").copy_(torch.from_numpy(idf))
    return encoder, reader


def same_make(name: str, dimension: int | None, settings: dict[str, Any], definition: bytes) -> bool:
    """Whether the encoder of this name, pretrained, would have these settings, whatever its dropout, and this
    tokenizer. Reads no weights."""
    folder = find_folder(name)
    own = {**pretrained.settings_alone(folder), "dimension": dimension}
    if _make(own) != _make(settings):
        return False
    return TextTokenizer.from_folder(folder).to_bytes() == definition


def _make(settings: dict[str, Any]) -> dict[str, Any]:
    """What decides the weights' sizes and what they mean."""
    shape = settings.get("config", settings)
    width = settings.get("dimension") or shape.get("width", shape.get("hidden_size"))
    own = {"kind": settings["kind"], "pooling": settings.get("pooling"), "dimension": width}
    return {key: value for key, value in shape.items() if not key.endswith(DROPOUTS)} | own


def with_dropout(settings: dict[str, Any], dropout: float | None) -> dict[str, Any]:
    """The settings of an encoder with another dropout; none: as they are."""
    if dropout is None:
        return settings
    if "config" in settings:
        return {**settings, "config": with_dropout(settings["config"], dropout)}
    return settings | {key: dropout for key in settings if key.endswith(DROPOUTS)}


def find_folder(name: str) -> Path:
    """The folder that holds the encoder of this name; one on the hub is fetched."""
    check_encoder(name)
    if name in AT_RANDOM:
        raise DataError(
            f"the encoder {name} begins at random and lies in no folder; name minilm, a folder or owner/name"
        )
    if name == "minilm":
        folder = minilm_folder()
        assert folder is not None
        return folder
    return at_home(name) if at_home(name).is_dir() else pretrained.fetch(name)


def _reader(name: str, tokenizer: str | None, texts: Sequence[str] | None, most_words: int) -> TextTokenizer:
    if tokenizer is not None:
        return TextTokenizer.from_folder(find_folder(tokenizer))
    if texts is None:
        raise DataError(f"the encoder {name} learns its words from texts: pass some, or name a tokenizer")
    return learn_words(texts, most_words)
