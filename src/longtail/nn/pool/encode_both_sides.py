"""The texts of a batch, documents and labels of the pool, through one encoder together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from longtail.arrays import Longs
from longtail.nn.encoders.cuda_graphs import RecordedEncoder, can_replay
from longtail.nn.encoders.device_tokens import packed
from longtail.nn.onevsall.onevsall_task import TextReading
from longtail.nn.training.precision import autocast

Pieces = list[Callable[[], Tensor]]


@dataclass(eq=False)
class BothSides:
    """Encodes documents and labels as one run of tokens where texts can be packed, so that each kernel is launched once
    for all texts of a step; else one side after the other."""

    documents: TextReading
    labels: TextReading
    mini_batch_size: int | None = None  # texts whose activations are in memory at once; None: all of a batch
    replay: bool = True  # replay the encoder's kernels from a CUDA graph where possible
    parts: int = 1  # processes that a batch is divided over

    def __post_init__(self) -> None:
        one, other = self.documents, self.labels
        same = one.encoder is other.encoder
        self.together = bool(one.pack and other.pack and same and self.mini_batch_size is None and self.parts == 1)
        self._replayed: RecordedEncoder | None = None
        replays = self.replay and self.together and not one.compiled
        if replays and can_replay(one.encoder, one.precision, (one.texts, other.texts)):
            self._replayed = RecordedEncoder(one.encoder, one.precision)

    @property
    def replays(self) -> bool:
        """Whether the encoder's kernels are replayed from a CUDA graph."""
        return self._replayed is not None

    def pieces(
        self, rows: Longs, pool: Longs, columns: int | None = None
    ) -> tuple[Pieces, list[int], Callable[[list[Tensor]], Tensor]]:
        """How to encode a batch.

        Args:
            rows: (rows,) documents.
            pool: (pool,) labels.
            columns: of the scores, at least as many as labels; None: as many.

        Returns:
            Functions that each encode a piece of the texts; the texts of each piece; and a function that joins the
            results to (rows + columns, dimension): documents, then labels, then zeros.
        """
        total = len(rows) + (len(pool) if columns is None else columns)
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

            return [whole], [total], lambda encoded: padded(encoded[0][:total], total)
        both = [
            (side, part) for side, given in ((self.documents, rows), (self.labels, pool)) for part in self._cut(given)
        ]
        found: Pieces = [partial(side, part) for side, part in both]
        return found, [len(part) for _, part in both], lambda encoded: padded(torch.cat(encoded), total)

    def _cut(self, rows: Longs) -> list[Longs]:
        size = self.mini_batch_size
        if self.parts > 1:
            size = max(min(size or len(rows), -(-len(rows) // self.parts)), 1)
        return [rows] if size is None else np.split(rows, range(size, len(rows), size))


def padded(vectors: Tensor, rows: int) -> Tensor:
    """Vectors with rows of zeros behind them.

    Args:
        vectors: (fewer rows, dimension).
        rows: of the result.

    Returns:
        (rows, dimension).
    """
    return vectors if len(vectors) == rows else pad(vectors, (0, 0, 0, rows - len(vectors)))
