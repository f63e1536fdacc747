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
from longtail.nn.settings import SEARCHES, Search
from longtail.predictions import ranked
from longtail.progress import stage
from longtail.seams import State
from longtail.threads import over_rows

if TYPE_CHECKING:
    import torch

    from longtail.nn.encoders import Encoder
    from longtail.nn.tokenizers import TextTokenizer
    from longtail.search.approximate import Approximate
    from longtail.search.exact import Exact


SINGLE = 16  # rows of a call up to which each waits for its search; more share one matrix product
NEAR = 8  # known labels that show where a new one moves
WIDE = 256  # rows made wider at once


@dataclass(frozen=True, eq=False)
class Reader:
    """Texts to unit vectors: an encoder and its tokenizer as plain data."""

    settings: dict[str, Any]  # of the encoder
    weights: dict[str, AnyArray]
    definition: Bytes  # of the tokenizer
    longest: int  # tokens of a text that are read
    cut: int | None = None  # numbers of a vector that are kept, from the first on; none: all

    @classmethod
    def of(cls, encoder: Encoder, tokenizer: TextTokenizer, longest: int, cut: int | None = None) -> Reader:
        weights = {name: tensor.detach().cpu().numpy().copy() for name, tensor in encoder.state_dict().items()}
        return cls(encoder.settings, weights, np.frombuffer(tokenizer.to_bytes(), dtype=np.uint8), longest, cut)

    def vectors(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """(texts, dimension), of length 1 after the cut."""
        return self.shaped(self.lengthy(texts, what))

    def shaped(self, encoded: Floats) -> Floats:
        """What is searched, given what the encoder says."""
        return unit(encoded[:, : self.cut])

    def lengthy(self, texts: Sequence[str], what: str = "texts") -> Floats:
        """(texts, dimension), of the length the encoder gives them."""
        from longtail.nn.encode import encode
        from longtail.nn.tokens import tokenise

        encoder, tokenizer = self._ready
        return encode(encoder, tokenise(texts, tokenizer, self.longest), prepared=True, what=what)

    def there(self, texts: Sequence[str], what: str = "texts") -> torch.Tensor:
        """What `vectors` says, left on the device that reads, for those who search there. Readers of another shape say
        how in their own words."""
        from longtail.nn.encode import encode_there
        from longtail.nn.tokens import tokenise
        from longtail.search.device import shorten

        encoder, tokenizer = self._ready
        encoded = encode_there(encoder, tokenise(texts, tokenizer, self.longest), prepared=True, what=what)
        vectors: torch.Tensor = shorten(encoded[:, : self.cut].contiguous())
        return vectors

    def fresh(self, dropout: float | None = None) -> tuple[Encoder, TextTokenizer]:
        """The encoder once more, to be trained on, and its tokenizer; on the host. Dropout: none, as it was."""
        require("an encoder")
        import torch

        from longtail.nn.encoders import build_encoder, with_dropout
        from longtail.nn.tokenizers import TextTokenizer

        tokenizer = TextTokenizer.from_bytes(self.definition.tobytes())
        encoder = build_encoder(with_dropout(self.settings, dropout))
        try:
            encoder.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights.items()})
        except RuntimeError as error:
            raise ValueError(f"weights that do not fit the encoder: {error}") from None
        return encoder, tokenizer

    @cached_property
    def _ready(self) -> tuple[Encoder, TextTokenizer]:
        from longtail.nn.encode import for_inference
        from longtail.nn.precision import best_device

        encoder, tokenizer = self.fresh()
        return for_inference(encoder.to(best_device())), tokenizer

    def tensors(self) -> dict[str, AnyArray]:
        return {"tokenizer": self.definition, **{f"encoder.{name}": array for name, array in self.weights.items()}}

    @classmethod
    def restore(cls, settings: dict[str, Any], longest: int, cut: int | None, tensors: dict[str, AnyArray]) -> Reader:
        weights = {
            name.removeprefix("encoder."): array for name, array in tensors.items() if name.startswith("encoder.")
        }
        if not isinstance(settings, dict) or not isinstance(longest, int) or longest < 1:
            raise ValueError("the settings of the encoder are not whole")
        return cls(settings, weights, tensors["tokenizer"], longest, cut)


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
    search: Search = "auto"
    kind: ClassVar[str] = "tower.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        vectors = self.reader.vectors(rows.texts)
        quick = self.search == "approximate" or (self.search == "auto" and len(rows) <= SINGLE)
        found, products = self._quick[0].top(self._asked(vectors), k) if quick else self.nearest(vectors, k)
        scores = np.where(found < 0, np.float32(0), self.odds.of(products))
        return ranked(found, scores)  # equal after rounding: by label row

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each vector (rows, dimension), and their products; none is missed."""
        return self._exact.top(self._asked(vectors), k)

    @property
    def label_vectors(self) -> Floats:
        """(labels, dimension), of length 1."""
        lengths = np.sqrt(np.einsum("rd,rd->r", self.labels, self.labels))  # float32: there may be millions of labels
        vectors: Floats = self.labels / np.maximum(lengths, np.float32(1e-12))[:, None]
        return vectors

    def row_vectors(self, rows: Rows) -> Floats:
        """(rows, dimension), of length 1."""
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        return self.reader.vectors(rows.texts)

    def rows_there(self, rows: Rows) -> torch.Tensor:
        """The same, on the device that reads."""
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        return self.reader.there(rows.texts)

    @property
    def searching(self) -> str:
        """How the labels of a few texts are found, and why; builds the graph where it is one."""
        return self._quick[1]

    def _asked(self, vectors: Floats) -> Floats:
        if self.bias is None:
            return vectors
        return np.concatenate([vectors, np.ones((len(vectors), 1), dtype=np.float32)], axis=1)

    @cached_property
    def _exact(self) -> Exact:
        from longtail.nn.precision import best_device
        from longtail.search.exact import Exact

        searched = self.labels if self.bias is None else np.concatenate([self.labels, self.bias[:, None]], axis=1)
        return Exact(searched, device=str(best_device()))

    @cached_property
    def _quick(self) -> tuple[Exact | Approximate, str]:
        """For a few texts at a time, where each waits for its own search. Not saved: it is built anew after loading."""
        from longtail.search.approximate import build
        from longtail.search.choose import choose

        exact = self._exact
        if self.search == "approximate":
            kind, reason = "hnsw", "approximate search: the recipe asks for it"
        else:
            labels, dimension = exact.vectors.shape
            choice = choose(labels, dimension, queries=None, device=exact.device)
            kind, reason = choice.kind, choice.reason
        if kind == "exact":
            return exact, reason
        with stage(reason):
            index = build(exact.vectors, "hnsw")
        return index, f"{reason}; {index}"

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
            "cut": self.reader.cut,
            "search": self.search,
        }
        bias = {} if self.bias is None else {"bias": self.bias}
        return State(settings, {**self.reader.tensors(), "labels": self.labels, **bias})

    @classmethod
    def restore(cls, state: State) -> TowerScorer:
        settings, labels, bias = state.settings, state.tensors["labels"], state.tensors.get("bias")
        cut, how = settings["cut"], settings["search"]
        reader = Reader.restore(settings["encoder"], settings["longest"], cut, state.tensors)
        slope, offset = (float(value) for value in settings["odds"])
        if labels.ndim != 2 or labels.dtype != np.float32 or not np.isfinite(labels).all():
            raise ValueError("the label vectors are not one finite vector a label")
        if cut is not None and cut != labels.shape[1]:
            raise ValueError(f"label vectors of {labels.shape[1]} numbers where {cut} are kept")
        if how not in SEARCHES:
            raise ValueError(f"a search called {how!r}")
        if bias is not None and (bias.shape != labels.shape[:1] or not np.isfinite(bias).all()):
            raise ValueError("the biases are not one finite number a label")
        length, moved = float(settings["length"]), bool(settings["moved"])
        return cls(reader, labels, Odds(slope, offset), bias, length, moved, how)


def unit(vectors: AnyArray) -> Floats:
    """Vectors of length 1. Reckoned in float64, some rows at a time, so that what is wide stays in the cache."""
    shortened = np.empty(vectors.shape, dtype=np.float32)

    def work(low: int, high: int) -> None:
        for begin in range(low, high, WIDE):
            here = slice(begin, min(begin + WIDE, high))
            some = vectors[here].astype(np.float64)
            lengths = np.sqrt(np.einsum("rd,rd->r", some, some))[:, None]
            shortened[here] = some / np.maximum(lengths, 1e-12)

    over_rows(work, len(vectors), least=WIDE)
    return shortened
