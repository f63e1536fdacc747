"""What a dual encoder leaves behind: the encoder, and a vector for each label. Loads torch only to read texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longtail.arrays import AnyArray, Bytes, Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.nn.blend import Odds
from longtail.nn.extra import require
from longtail.predictions import ranked
from longtail.seams import State

if TYPE_CHECKING:
    from longtail.nn.encoders import Encoder
    from longtail.nn.tokenizers import TextTokenizer
    from longtail.search.exact import Exact


NEAR = 8  # known labels that show where a new one moves


@dataclass(frozen=True, eq=False)
class Reader:
    """Texts to unit vectors: an encoder and its tokenizer as plain data."""

    settings: dict[str, Any]  # of the encoder
    weights: dict[str, AnyArray]
    definition: Bytes  # of the tokenizer
    longest: int  # tokens of a text that are read

    @classmethod
    def of(cls, encoder: Encoder, tokenizer: TextTokenizer, longest: int) -> Reader:
        weights = {name: tensor.detach().cpu().numpy().copy() for name, tensor in encoder.state_dict().items()}
        return cls(encoder.settings, weights, np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8), longest)

    def vectors(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """(texts, dimension), of length 1."""
        from longtail.nn.encode import encode
        from longtail.nn.tokens import tokenise

        encoder, tokenizer = self._ready
        return unit(encode(encoder, tokenise(texts, tokenizer, self.longest), what=what))

    @cached_property
    def _ready(self) -> tuple[Encoder, TextTokenizer]:
        require("an encoder")
        import torch

        from longtail.nn.encoders import build_encoder
        from longtail.nn.precision import best_device
        from longtail.nn.tokenizers import TextTokenizer

        tokenizer = TextTokenizer.from_bytes(self.definition.tobytes())
        encoder = build_encoder(self.settings)
        try:
            encoder.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights.items()})
        except RuntimeError as error:
            raise ValueError(f"weights that do not fit the encoder: {error}") from None
        return encoder.to(best_device()).eval(), tokenizer

    def tensors(self) -> dict[str, AnyArray]:
        return {"tokenizer": self.definition, **{f"encoder.{name}": array for name, array in self.weights.items()}}

    @classmethod
    def restore(cls, settings: dict[str, Any], longest: int, tensors: dict[str, AnyArray]) -> Reader:
        weights = {
            name.removeprefix("encoder."): array for name, array in tensors.items() if name.startswith("encoder.")
        }
        if not isinstance(settings, dict) or not isinstance(longest, int) or longest < 1:
            raise ValueError("the settings of the encoder are not whole")
        return cls(settings, weights, tensors["tokenizer"], longest)


@dataclass(frozen=True, eq=False)
class TowerScorer:
    """The labels whose vectors have the largest product with the row's, plus a number of their own where frequency
    counts. Scores are chances, learned on held-out rows, in the same order."""

    reader: Reader
    labels: Floats  # (labels, dimension)
    odds: Odds
    bias: Floats | None = None  # (labels,)
    length: float = 1.0  # of the vector of a label that is only known by its text
    moved: bool = False  # labels stand where a label tower moved them, not where their texts alone would
    kind: ClassVar[str] = "tower.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, products = self.nearest(self.reader.vectors(rows.texts), k)
        return ranked(found, self.odds.of(products))  # equal after rounding: by label row

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each vector (rows, dimension), and their products."""
        if self.bias is not None:
            vectors = np.concatenate([vectors, np.ones((len(vectors), 1), dtype=np.float32)], axis=1)
        return self._index.top(vectors, k)

    @cached_property
    def _index(self) -> Exact:
        from longtail.nn.precision import best_device
        from longtail.search.exact import Exact

        searched = self.labels if self.bias is None else np.concatenate([self.labels, self.bias[:, None]], axis=1)
        return Exact(searched, device=str(best_device()))

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> TowerScorer:
        """The same model with more labels, told from their texts; `known` are the texts of those it has.

        Where a label tower moved the labels, a new one moves as the known labels did whose texts are nearest to its.
        """
        new = self.reader.vectors(texts, "new labels")
        if self.moved:
            from longtail.search.exact import top_k

            plain = self.reader.vectors(known, "labels")
            near = top_k(new, plain, NEAR)[0]  # (new, NEAR)
            new = unit(new + (unit(self.labels) - plain)[near].mean(axis=1))
        labels = np.concatenate([self.labels, np.float32(self.length) * new])
        bias = None if self.bias is None else np.concatenate([self.bias, np.zeros(len(new), dtype=np.float32)])
        return replace(self, labels=labels, bias=bias)

    def state(self) -> State:
        settings = {
            "encoder": self.reader.settings,
            "longest": self.reader.longest,
            "odds": [self.odds.slope, self.odds.offset],
            "length": self.length,
            "moved": self.moved,
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        return State(settings, {**self.reader.tensors(), "labels": self.labels, **bias})

    @classmethod
    def restore(cls, state: State) -> TowerScorer:
        settings, labels, bias = state.settings, state.tensors["labels"], state.tensors.get("bias")
        reader = Reader.restore(settings["encoder"], settings["longest"], state.tensors)
        slope, offset = (float(value) for value in settings["odds"])
        if labels.ndim != 2 or labels.dtype != np.float32 or not np.isfinite(labels).all():
            raise ValueError("the label vectors are not one finite vector a label")
        if bias is not None and (bias.shape != labels.shape[:1] or not np.isfinite(bias).all()):
            raise ValueError("the biases are not one finite number a label")
        return cls(reader, labels, Odds(slope, offset), bias, float(settings["length"]), bool(settings["moved"]))


def unit(vectors: AnyArray) -> Floats:
    """Vectors of length 1."""
    lengths = np.sqrt(np.einsum("rd,rd->r", vectors, vectors, dtype=np.float64))[:, None]
    shortened: Floats = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return shortened
