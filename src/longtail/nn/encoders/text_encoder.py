"""A trained encoder and its tokenizer as plain data. Loads torch only to encode texts.

Weights and tokenizer are saved in the model, so that loading it needs neither the hub nor the folder that the encoder
came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.arrays import AnyArray, Bytes, Floats
from longtail.errors import ModelError
from longtail.nn.extra import require
from longtail.threads import over_rows

if TYPE_CHECKING:
    import torch

    from longtail.nn.encoders.build import Encoder
    from longtail.nn.encoders.tokenizers import TextTokenizer
    from longtail.nn.encoders.tokens import Tokens

BLOCK = 256  # vectors normalised at once, so that their float64 copy stays in the cache


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A trained encoder and its tokenizer as plain data: texts to unit vectors.

    It is part of saved models. The network is built and moved to the device at the first use.
    """

    settings: dict[str, Any]  # of the encoder, for `build_encoder`
    weights: dict[str, AnyArray]  # of the encoder, by name
    definition: Bytes  # of the tokenizer, as `TextTokenizer.to_bytes`
    max_tokens: int  # tokens of a text that are read
    cut: int | None = None  # keep only so many first numbers of each vector; None: all

    @classmethod
    def of(cls, encoder: Encoder, tokenizer: TextTokenizer, max_tokens: int, cut: int | None = None) -> TextEncoder:
        """Copy a network and its tokenizer.

        Args:
            encoder: The trained network, on any device.
            tokenizer: Its tokenizer.
            max_tokens: Tokens of a text that are read.
            cut: Keep only so many first numbers of each vector; None: all.

        Returns:
            The copy.
        """
        weights = {name: tensor.detach().cpu().numpy().copy() for name, tensor in encoder.state_dict().items()}
        return cls(encoder.settings, weights, np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8), max_tokens, cut)

    def vectors(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """Encode texts as unit vectors.

        Args:
            texts: The texts.
            what: What they are, for the progress line.

        Returns:
            (texts, dimension) float32, of unit norm after `cut`.
        """
        return self.shaped(self.unnormalised(texts, what))

    def shaped(self, encoded: Floats) -> Floats:
        """Cut and normalise.

        Args:
            encoded: (texts, dimension) float32, from `unnormalised`.

        Returns:
            Vectors as `vectors` returns them.
        """
        return normalised(encoded[:, : self.cut])

    def unnormalised(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """Encode texts.

        Args:
            texts: The texts.
            what: What they are, for the progress line.

        Returns:
            (texts, dimension) float32 as the network computes them, neither cut nor normalised.
        """
        from longtail.nn.encoders.encode import encode

        encoder, tokenizer = self.ready
        found = encode(encoder, self._tokens(texts, tokenizer), prepared=True, what=what)
        if not np.isfinite(found).all():  # finite weights may still have products that are not
            raise ModelError("the encoder's vectors are not finite; its weights are damaged, train the model again")
        return found

    def encode_to_device(self, texts: Sequence[str], what: str = "texts") -> torch.Tensor:
        """Encode texts as unit vectors that stay on the device, for a search there. Subclasses that change `shaped`
        must override it.

        Args:
            texts: The texts.
            what: What they are, for the progress line.

        Returns:
            (texts, dimension) float32, the same as `vectors`.
        """
        from longtail.nn.encoders.encode import encode_to_device
        from longtail.search.device import normalise_

        encoder, tokenizer = self.ready
        encoded = encode_to_device(encoder, self._tokens(texts, tokenizer), prepared=True, what=what)
        vectors: torch.Tensor = normalise_(encoded[:, : self.cut].contiguous())
        return vectors

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """Cut texts into tokens, without running the network.

        Args:
            texts: The texts.

        Returns:
            Their tokens.
        """
        return self._tokens(texts, self.ready[1])

    def _tokens(self, texts: Sequence[str], tokenizer: TextTokenizer) -> Tokens:
        """The tokens of texts. The network reads its table of word vectors at their ids."""
        from longtail.nn.encoders.tokens import tokenise

        tokens = tokenise(texts, tokenizer, self.max_tokens)
        words = self._vocabulary
        if words is not None and max(int(tokens.ids.max(initial=0)), tokens.pad) >= words:
            raise ModelError(f"the tokenizer has tokens that the encoder, with its {words} word vectors, does not know")
        return tokens

    @property
    def _vocabulary(self) -> int | None:
        """How many tokens the network knows; None where only the network knows."""
        found = self.settings.get("config", self.settings)
        size = found.get("vocabulary", found.get("vocab_size"))
        return size if isinstance(size, int) else None

    def fresh(self, dropout: float | None = None) -> tuple[Encoder, TextTokenizer]:
        """Build the network anew, for further training.

        Args:
            dropout: None: as it was.

        Returns:
            The encoder on the CPU, and its tokenizer.

        Raises:
            MissingExtra: torch or tokenizers is not installed.
            ModelError: The settings or the tokenizer are damaged, or the weights do not fit the settings.
        """
        require("an encoder")
        import torch

        from longtail.nn.encoders.build import build_encoder, with_dropout
        from longtail.nn.encoders.pretrained import check_size
        from longtail.nn.encoders.tokenizers import TextTokenizer

        tokenizer = TextTokenizer.from_bytes(self.definition.tobytes())
        weights = {  # which are copied below; torch warns of an array that cannot be written
            name: torch.from_numpy(array if array.flags.writeable else array.copy())
            for name, array in self.weights.items()
        }
        if self.settings.get("kind") == "foreign":
            check_size(self.settings["config"], weights)
        encoder = build_encoder(with_dropout(self.settings, dropout))
        try:
            encoder.load_state_dict(weights)
        except RuntimeError as error:
            problem = str(error).replace("\n", " ")
            raise ModelError(f"the weights do not fit the encoder's settings: {problem}") from None
        return encoder, tokenizer

    @cached_property
    def ready(self) -> tuple[Encoder, TextTokenizer]:
        """The network for inference, on the device, and its tokenizer."""
        from longtail.nn.encoders.encode import for_inference
        from longtail.nn.training.precision import best_device

        encoder, tokenizer = self.fresh()
        return for_inference(encoder.to(best_device())), tokenizer

    def tensors(self) -> dict[str, AnyArray]:
        """The arrays to save, by name, for `restore`."""
        return {"tokenizer": self.definition, **{f"encoder.{name}": array for name, array in self.weights.items()}}

    @classmethod
    def restore(
        cls, settings: dict[str, Any], max_tokens: int, cut: int | None, tensors: dict[str, AnyArray]
    ) -> TextEncoder:
        """Restore a saved encoder, which is as `ENCODER` declares.

        Args:
            settings: Of the encoder.
            max_tokens: Tokens of a text that are read.
            cut: Keep only so many first numbers of each vector; None: all.
            tensors: Those of `tensors`; others are ignored.

        Returns:
            The encoder.
        """
        weights = {
            name.removeprefix("encoder."): array for name, array in tensors.items() if name.startswith("encoder.")
        }
        return cls(settings, weights, tensors["tokenizer"], max_tokens, cut)


def normalised(vectors: AnyArray) -> Floats:
    """Scale vectors to unit norm, computed in float64.

    Args:
        vectors: (rows, dimension); a zero vector stays zero.

    Returns:
        (rows, dimension) float32.
    """
    scaled = np.empty(vectors.shape, dtype=np.float32)

    def work(low: int, high: int) -> None:
        for begin in range(low, high, BLOCK):
            block = slice(begin, min(begin + BLOCK, high))
            doubles = vectors[block].astype(np.float64)
            norms = np.sqrt(np.einsum("rd,rd->r", doubles, doubles))[:, None]
            scaled[block] = doubles / np.maximum(norms, 1e-12)

    over_rows(work, len(vectors), least=BLOCK)
    return scaled
