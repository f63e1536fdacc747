"""The vector that each row had in its last training step, so that clustering the rows needs no extra encoding."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longtail.nn.encoders.device_tokens import SHARE, free_bytes


@dataclass(frozen=True, eq=False)
class Bank:
    """Vectors (rows, dimension): on the device where they fit, in half precision on a GPU; else in a file."""

    vectors: Tensor

    @classmethod
    def of(cls, rows: int, dimension: int, device: torch.device, folder: Path | None = None) -> Bank:
        """An empty bank. It takes a quarter of the device's free memory at most; a larger one is a file.

        Args:
            rows: vectors to hold.
            dimension: of each.
            device: where training writes them.
            folder: of the file, which disappears with the bank; None: the system's folder for temporary files.

        Returns:
            A bank of zeros.
        """
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        if rows * dimension * dtype.itemsize <= SHARE * free_bytes(device):
            return cls(torch.zeros((rows, dimension), dtype=dtype, device=device))
        handle = tempfile.NamedTemporaryFile(prefix="longtail-bank-", dir=folder)  # noqa: SIM115
        mapped = np.memmap(handle, dtype=np.float32, mode="w+", shape=(rows, dimension))
        return cls(torch.from_numpy(mapped))  # the file is unlinked when this function ends; the map keeps its data

    def write(self, rows: Tensor, vectors: Tensor) -> None:
        """Store the vectors of some rows.

        Args:
            rows: (rows,) distinct row numbers.
            vectors: (rows, dimension).
        """
        new = vectors.detach().to(self.vectors.dtype)
        if self.vectors.device != new.device:  # a file: the only bank that a step waits for
            rows, new = rows.to(self.vectors.device), new.to(self.vectors.device)
        self.vectors.index_copy_(0, rows, new)

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`."""
        return {"bank": self.vectors}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        self.vectors.copy_(state["bank"])
