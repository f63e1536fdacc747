"""Encoders by name: word-vector nets, pretrained transformers, and transformers with random initial weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longtail.errors import DataError, ModelError
from longtail.nn.encoders import pretrained
from longtail.nn.encoders.bag_and_gru import Bag, Recurrent, inverse_frequency
from longtail.nn.encoders.encoder_names import RANDOM_INIT, SCRATCH, check_encoder
from longtail.nn.encoders.layouts import Grouped, Packed
from longtail.nn.encoders.tokenizers import TextTokenizer, learn_words
from longtail.nn.encoders.tokens import tokenise
from longtail.nn.encoders.transformer import Transformer
from longtail.nn.encoders.transformer_layer import Shape
from longtail.nn.encoders.word_vector_encoders import BagEncoder, InceptionEncoder
from longtail.nn.extra import expand_home, minilm_folder, real_name

WORD_VECTOR_WIDTH = 512  # of bag and gru where no dimension is given
DROPOUTS = ("dropout", "dropout_prob")  # the names of all dropout settings end with one of these
IDF_TEXTS = 200_000  # more texts hardly change a word's idf


class Encoder(nn.Module):
    """A network and an optional projection: token ids (texts, places) to unnormalised vectors (texts, dimension).

    `settings` is plain JSON from which `build_encoder` builds the same network; its weights are the state dict.
    """

    def __init__(self, body: nn.Module, width: int, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = settings
        self.body = body
        asked = settings.get("dimension")
        self.projection = None if asked is None or asked == width else nn.Linear(width, asked, bias=False)
        self.dimension: int = width if asked is None else asked
        self.max_tokens: int | None = settings.get("places")  # the longest text it can read, in tokens
        if self.projection is not None:
            nn.init.orthogonal_(self.projection.weight)  # keeps distances as well as a projection can

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode a padded batch.

        Args:
            ids: (texts, places) int64.
            mask: (texts, places) bool, which places hold a token; None: all.

        Returns:
            (texts, dimension) float32, unnormalised.
        """
        return self._projected(self.body(ids, mask))

    def packed(self, ids: Tensor, layout: Packed) -> Tensor:
        """Encode texts that lie one after another; a transformer then computes nothing for padding.

        Args:
            ids: (tokens,) int64.
            layout: Where each text lies.

        Returns:
            (texts, dimension) float32, unnormalised.
        """
        if isinstance(self.body, Transformer):
            return self._projected(self.body.packed(ids, layout))
        return self.forward(layout.pad(ids), layout.mask)

    def grouped(self, ids: Tensor, layout: Grouped) -> Tensor:
        """Encode groups of texts of similar length, by a transformer.

        Args:
            ids: (tokens,) int64.
            layout: Where each group lies.

        Returns:
            (texts, dimension) float32, unnormalised.
        """
        assert isinstance(self.body, Transformer)
        return self._projected(self.body.packed(ids, layout))

    def _projected(self, pooled: Tensor) -> Tensor:
        if self.projection is None:
            return pooled
        projected: Tensor = self.projection(pooled.to(self.projection.weight.dtype))
        return projected.float()


def build_encoder(settings: dict[str, Any], seed: int = 0) -> Encoder:
    """Build the network that the settings describe, with random weights.

    Args:
        settings: Of an `Encoder`.
        seed: Determines the weights; torch's random state is left unchanged.

    Returns:
        The encoder, on the CPU.

    Raises:
        ModelError: The kind is unknown, or its settings are wrong.
    """
    given = dict(settings)
    kind = given.pop("kind", None)
    given.pop("dimension", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            body: Any
            if kind == "transformer":
                body = Transformer(Shape(**given | {"taps": tuple(given.get("taps", ()))}))
            elif kind == "bag":
                body = Bag(**given)
            elif kind == "gru":
                body = Recurrent(**given)
            elif kind == "weighted bag":
                body = BagEncoder(**given)
            elif kind == "inception":
                body = InceptionEncoder(**given)
            elif kind == "foreign":
                body = pretrained.Foreign(given["config"], given["pooling"])
            else:
                raise ModelError(f"unknown kind of encoder {kind!r}")
        except (TypeError, KeyError) as error:
            raise ModelError(f"wrong settings for an encoder of kind {kind}: {error}") from None
        return Encoder(body, body.width, settings)


def load_encoder(
    name: str = "auto",
    dimension: int | None = None,
    *,
    texts: Sequence[str] | None = None,
    tokenizer: str | None = None,
    max_words: int = 100_000,
    pooling: str | None = None,
    dropout: float | None = None,
    residual: bool = False,
    seed: int = 0,
) -> tuple[Encoder, TextTokenizer]:
    """Load or build an encoder, and its tokenizer.

    Args:
        name: minilm, bag, gru, tiny, scratch-mini, -small, -medium or -base, a folder, or owner/name on the Hugging
            Face hub; auto is minilm where its package is installed, else bag.
        dimension: Of the vectors: the width of bag and gru, a projection after the others. None: no projection, or 512.
        texts: From which bag, gru, tiny and scratch-* learn their words, unless `tokenizer` is given.
        tokenizer: A folder (or minilm) whose tokenizer to use for those.
        max_words: How many of the most frequent words to learn.
        pooling: mean, cls or max; None: the folder's own, or mean.
        dropout: None: the folder's own.
        residual: Whether a bag has a residual layer.
        seed: Of random initial weights.

    Returns:
        The encoder on the CPU, and its tokenizer.

    Raises:
        DataError: The name, folder, weights or dimension are wrong, or texts are missing.
        MissingExtra: A package that this encoder needs is not installed.
    """
    if dimension is not None and dimension < 1:
        raise DataError(f"the dimension of an encoder must be at least 1, got {dimension}")
    name = real_name(name)
    if name not in ("bag", "gru", *SCRATCH):
        folder = find_folder(name)
        found = TextTokenizer.from_folder(folder)
        settings, weights = pretrained.read(folder, pooling, dropout)
        encoder = build_encoder({**settings, "dimension": dimension}, seed)
        try:
            encoder.body.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(
                f"the weights in {folder} do not fit its config.json: {str(error).split(':', 1)[1].strip()}"
            ) from None
        return encoder, found
    found = _tokenizer(name, tokenizer, texts, max_words)
    if name in SCRATCH:
        layers, width, heads = SCRATCH[name]
        shape = Shape(found.size, width, layers, heads, inner=4 * width)
        if name == "tiny":
            shape = replace(shape, dropout=0.0, attention_dropout=0.0)
        if dropout is not None:
            shape = replace(shape, dropout=dropout, attention_dropout=dropout)
        shape = replace(shape, pooling=pooling or shape.pooling)
        return build_encoder({"kind": "transformer", **shape.settings(), "dimension": dimension}, seed), found
    settings = {"vocabulary": found.size, "width": dimension or WORD_VECTOR_WIDTH, "dropout": dropout or 0.0}
    if name == "gru":
        return build_encoder({"kind": "gru", **settings}, seed), found
    encoder = build_encoder({"kind": "bag", **settings, "residual": residual}, seed)
    if texts is not None:
        sample = texts[:: -(-len(texts) // IDF_TEXTS)] if len(texts) else texts  # evenly spaced
        idf = inverse_frequency(tokenise(sample, found, 512, what="texts for idf"), found.size)
        encoder.body.get_buffer("idf").copy_(torch.from_numpy(idf))
    return encoder, found


def with_taps(encoder: Encoder, taps: Sequence[int]) -> Encoder:
    """The same transformer with the pooled states of several layers side by side for its vector.

    Args:
        encoder: A transformer without a projection.
        taps: Layers, from 1.

    Returns:
        A new encoder with the same weights, on the CPU, whose vectors are len(taps) times as long.

    Raises:
        DataError: A layer does not exist.
    """
    tapped = build_encoder({**encoder.settings, "taps": list(taps)})
    tapped.load_state_dict(encoder.state_dict())
    return tapped


def same_architecture(name: str, dimension: int | None, settings: dict[str, Any], definition: bytes) -> bool:
    """Compare a pretrained encoder with given settings, without reading weights. Dropout may differ.

    Args:
        name: Of the pretrained encoder.
        dimension: That it would be loaded with.
        settings: Of another `Encoder`.
        definition: Of the other's tokenizer.

    Returns:
        Whether both have the same architecture and the same tokenizer.

    Raises:
        DataError: There is no pretrained encoder of this name.
    """
    folder = find_folder(name)
    own = {**pretrained.settings_alone(folder), "dimension": dimension}
    if _architecture(own) != _architecture(settings):
        return False
    return TextTokenizer.from_folder(folder).to_bytes() == definition


def _architecture(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that determine the shapes of the weights and what is computed from them."""
    shape = settings.get("config", settings)
    width = settings.get("dimension") or shape.get("width", shape.get("hidden_size"))
    own = {"kind": settings["kind"], "pooling": settings.get("pooling"), "dimension": width}
    return {key: value for key, value in shape.items() if not key.endswith(DROPOUTS)} | own


def with_dropout(settings: dict[str, Any], dropout: float | None) -> dict[str, Any]:
    """Replace every dropout in an encoder's settings.

    Args:
        settings: Of an `Encoder`.
        dropout: The new value; None: no change.

    Returns:
        New settings, or the given ones where nothing changes.
    """
    if dropout is None:
        return settings
    if "config" in settings:
        return {**settings, "config": with_dropout(settings["config"], dropout)}
    return settings | {key: dropout for key in settings if key.endswith(DROPOUTS)}


def find_folder(name: str) -> Path:
    """Find the folder of a pretrained encoder; one on the Hugging Face hub is downloaded.

    Args:
        name: minilm, a folder, or owner/name on the hub.

    Returns:
        The folder.

    Raises:
        DataError: There is no such encoder, or it cannot be downloaded.
        MissingExtra: The package of minilm is not installed.
    """
    check_encoder(name)
    if name in RANDOM_INIT:
        raise DataError(
            f"the encoder {name} has random initial weights and no folder; name minilm, a folder or owner/name"
        )
    if name == "minilm":
        folder = minilm_folder()
        assert folder is not None
        return folder
    return expand_home(name) if expand_home(name).is_dir() else pretrained.fetch(name)


def _tokenizer(name: str, tokenizer: str | None, texts: Sequence[str] | None, max_words: int) -> TextTokenizer:
    if tokenizer is not None:
        return TextTokenizer.from_folder(find_folder(tokenizer))
    if texts is None:
        raise DataError(f"the encoder {name} learns its words from texts: pass texts, or name a tokenizer")
    return learn_words(texts, max_words)
