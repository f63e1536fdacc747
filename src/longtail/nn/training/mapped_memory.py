"""Host memory that is mapped to a GPU, which reads and writes it directly.

A kernel that uses some rows of a mapped table moves only these rows over the bus. The host neither gathers them nor
waits, so a training step costs nearly the same wherever the table lies.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from longtail.errors import RecipeError

# Private memory can lie in large pages, of which mapping and the device's lookups need 512 times fewer.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class MappedMemory:
    """Zeros in host memory, as a tensor of the host (`host`) and as a tensor of the device (`there`).

    Before the host reads what the device wrote, it must wait for it: `torch.cuda.synchronize`. On a CPU both tensors
    are the same. `give_back` ends the mapping.

    Args:
        shape: Of the tensors.
        kind: Their dtype.
        device: The device to map to.

    Raises:
        RecipeError: The memory cannot be taken, or the GPU cannot map it.
    """

    def __init__(self, shape: tuple[int, ...], kind: torch.dtype, device: torch.device) -> None:
        size = torch.Size(shape).numel() * kind.itemsize
        try:  # whole pages of its own: pages are what is mapped, and each can be mapped only once
            pages = mmap.mmap(-1, max(size, 1), **PRIVATE)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with suppress(OSError):  # a kernel without large pages
                    pages.madvise(mmap.MADV_HUGEPAGE)
            memory = torch.frombuffer(pages, dtype=torch.uint8)
        except OSError as error:
            raise _refused(size, error.strerror) from None
        self.host = self.there = memory[:size].view(kind).reshape(shape)
        self._device, self._address = device, memory.data_ptr()
        if device.type == "cuda":
            memory.zero_()  # by all threads; mapping would ask for one page after the other
            with torch.cuda.device(device):
                failed = int(_runtime().cudaHostRegister(self._address, memory.nbytes, 0))
            if failed:
                raise _refused(size, f"CUDA error {failed}")
            self.there = torch.as_tensor(_DeviceView(memory), device=device)[:size].view(kind).reshape(shape)

    def give_back(self) -> None:
        """Unmap the memory from the device. The host's tensor stays as it is."""
        if self.there is self.host:
            return
        self.there = self.host
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()
            torch.cuda.check_error(int(_runtime().cudaHostUnregister(self._address)))


class _DeviceView:
    """Lets torch treat host bytes as the device's: it looks up whose memory an address is, and finds the mapping."""

    def __init__(self, host: Tensor) -> None:
        self._host = host  # keeps the memory alive as long as the view
        self.__cuda_array_interface__ = {
            "shape": (host.numel(),), "typestr": "|u1", "data": (host.data_ptr(), False), "version": 3,
        }  # fmt: skip


def _refused(size: int, why: str | None) -> RecipeError:
    return RecipeError(
        f"{size / 2**30:.1f} GiB of this machine's memory cannot be mapped to the GPU ({why}): set "
        "classifier_precision='bf16', which needs half of it, or classifiers_on_host=false"
    )


def _runtime() -> Any:
    return torch.cuda.cudart()
