"""The texts of a batch, documents and labels of the pool, through one encoder in one go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from longtail.arrays import Longs
from longtail.nn.heads.task import TextReading
from longtail.nn.precision import autocast
from longtail.nn.replay import Replayed, can_replay
from longtail.nn.resident import packed

Pieces = list[Callable[[], Tensor]]


@dataclass(eq=False)
class BothSides:
    """Documents and labels as one run of tokens where texts can be packed, else one side after the other: each kernel
    is then launched once for all texts of a step."""

    documents: TextReading
    labels: TextReading
    chunk: int | None = None  # texts whose activations are in memory at once
    replay: bool = True  # launch the encoder's kernels together where they can be

    def __post_init__(self) -> None:
        one, other = self.documents, self.labels
        self.together = bool(one.pack and other.pack and one.encoder is other.encoder and self.chunk is None)
        self._replayed: Replayed | None = None
        replays = self.replay and self.together and not one.compiled
        if replays and can_replay(one.encoder, one.precision, (one.texts, other.texts)):
            self._replayed = Replayed(one.encoder, one.precision)

    @property
    def replays(self) -> bool:
        return self._replayed is not None

    def pieces(
        self, rows: Longs, pool: Longs, columns: int | None = None
    ) -> tuple[Pieces, Callable[[list[Tensor]], Tensor]]:
        """What to encode, piece by piece, and how to put the pieces together: documents, then labels, and what fills
        these up to so many columns."""
        wanted = len(rows) + (len(pool) if columns is None else columns)
        sides = (self.documents.texts, rows), (self.labels.texts, pool)
        run = packed(sides, self._replayed is not None) if self.together else None
        if run is not None:
            ids, layout = run

            def whole() -> Tensor:
                if self._replayed is not None:
                    return self._replayed(ids, layout)
                one = self.documents
                with autocast(one.precision, one.texts.device, one.encoder.settings["kind"]):
                    return one.encoder.packed(ids, layout)

            return [whole], lambda encoded: filled(encoded[0][:wanted], wanted)
        found: Pieces = [partial(self.documents, some) for some in self._cut(rows)]
        found += [partial(self.labels, some) for some in self._cut(pool)]
        return found, lambda encoded: filled(torch.cat(encoded), wanted)

    def _cut(self, rows: Longs) -> list[Longs]:
        return [rows] if self.chunk is None else np.split(rows, range(self.chunk, len(rows), self.chunk))


def filled(vectors: Tensor, wanted: int) -> Tensor:
    """So many rows, the last of them zeros."""
    return vectors if len(vectors) == wanted else pad(vectors, (0, 0, 0, wanted - len(vectors)))
