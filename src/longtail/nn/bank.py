"""The vector that each row had when training last saw it, so that clustering the rows costs no encoding."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longtail.nn.resident import SHARE, free_bytes


@dataclass(frozen=True, eq=False)
class Bank:
    """Vectors (rows, dimension) on the device where they fit, in half precision there; else in a file."""

    vectors: Tensor

    @classmethod
    def of(cls, rows: int, dimension: int, device: torch.device, folder: Path | None = None) -> Bank:
        """An empty bank; of the device's memory it takes a quarter at most. Beyond, it is a file in `folder` (default:
        the system's folder for temporary files) that is gone with the bank."""
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        if rows * dimension * dtype.itemsize <= SHARE * free_bytes(device):
            return cls(torch.zeros((rows, dimension), dtype=dtype, device=device))
        handle = tempfile.NamedTemporaryFile(prefix="longtail-bank-", dir=folder)  # noqa: SIM115
        held = np.memmap(handle, dtype=np.float32, mode="w+", shape=(rows, dimension))
        return cls(torch.from_numpy(held))  # the file has lost its name when this function ends; the map keeps it

    def write(self, rows: Tensor, vectors: Tensor) -> None:
        """The vectors of these rows (no row twice)."""
        new = vectors.detach().to(self.vectors.dtype)
        if self.vectors.device != new.device:  # a file: the only bank for which a step waits
            rows, new = rows.to(self.vectors.device), new.to(self.vectors.device)
        self.vectors.index_copy_(0, rows, new)

    def state(self) -> dict[str, Tensor]:
        return {"bank": self.vectors}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.vectors.copy_(state["bank"])
