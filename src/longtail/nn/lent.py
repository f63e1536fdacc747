"""Memory of the host that a GPU reads and writes by itself.

A kernel that takes some rows of it fetches these over the bus and no others, and the host need not wait for it.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch
from torch import Tensor

from longtail.errors import RecipeError


class Lent:
    """Zeros in the host's memory, as the host sees them and as the device does, until they are given back.

    The host must wait for the device before it reads what was written there: `torch.cuda.synchronize`.
    """

    def __init__(self, shape: tuple[int, ...], kind: torch.dtype, device: torch.device) -> None:
        size = torch.Size(shape).numel() * kind.itemsize
        try:  # whole pages of its own: the device is lent pages, and each can be lent once
            memory = torch.frombuffer(mmap.mmap(-1, max(size, 1)), dtype=torch.uint8)
        except OSError as error:
            raise _refused(size, error.strerror) from None
        self.host = self.there = memory[:size].view(kind).reshape(shape)
        self._device, self._address = device, memory.data_ptr()
        if device.type == "cuda":
            with torch.cuda.device(device):
                failed = int(_runtime().cudaHostRegister(self._address, memory.nbytes, 0))
            if failed:
                raise _refused(size, f"CUDA error {failed}")
            self.there = torch.as_tensor(_Seen(memory), device=device)[:size].view(kind).reshape(shape)

    def give_back(self) -> None:
        """The device sees it no more; for the host it stays."""
        if self.there is self.host:
            return
        self.there = self.host
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()
            torch.cuda.check_error(int(_runtime().cudaHostUnregister(self._address)))


class _Seen:
    """By which torch takes bytes for the device's: it asks whose memory an address is, and lent memory is known."""

    def __init__(self, host: Tensor) -> None:
        self._host = host  # which stays as long as anyone looks at it
        self.__cuda_array_interface__ = {
            "shape": (host.numel(),), "typestr": "|u1", "data": (host.data_ptr(), False), "version": 3,
        }  # fmt: skip


def _refused(size: int, why: str | None) -> RecipeError:
    return RecipeError(
        f"the GPU cannot be lent {size / 2**30:.1f} GiB of this machine's memory ({why}): for classifiers in half of "
        "it take classifier_precision='bf16', else classifiers_on_host=false"
    )


def _runtime() -> Any:
    return torch.cuda.cudart()
