"""One training over several processes: each holds a range of the labels and reads its share of every batch.

Started with `torchrun`, whose environment says how many there are. Vectors are gathered, every process streams its
own labels, and the gradient of the vectors is summed; the encoder is the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from longtail.arrays import AnyArray

PATIENCE = timedelta(days=1)  # the others wait while the first trains what a warm start begins with
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    number: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """As torch.distributed was begun; one process where it was not."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    def range(self, total: int, number: int | None = None) -> tuple[int, int]:
        """Where the part of a process begins and ends, of this one if none is named. Parts differ by one at most."""
        number = self.number if number is None else number
        return total * number // self.count, total * (number + 1) // self.count

    def gather(self, own: Tensor, total: int) -> Tensor:
        """The parts (own, ...) of all processes one after another: (total, ...), on every process."""
        if self.count == 1:
            return own
        sizes = [last - first for first, last in (self.range(total, number) for number in range(self.count))]
        sent = own.new_zeros((max(sizes), *own.shape[1:]))  # parts of one size: not every backend takes others
        sent[: len(own)] = own
        found = [torch.empty_like(sent) for _ in sizes]
        distributed.all_gather(found, sent)
        return torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def sum_gradients(self, module: nn.Module) -> None:
        """Every parameter's gradient summed over all processes, in one go."""
        if self.count == 1:
            return
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
        flat = self.sum(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def same(self, module: nn.Module) -> None:
        """Give every process the weights that the first has."""
        if self.count > 1:
            for tensor in (*module.parameters(), *module.buffers()):
                distributed.broadcast(tensor.data, 0)

    def whole(self, own: AnyArray, total: int, some: int = 1 << 16) -> AnyArray:
        """The rows (own, ...) of all processes, on every host; a device holds only some rows of each at a time."""
        if self.count == 1:
            return own
        device, parts = _device(), [self.range(total, number) for number in range(self.count)]
        found = np.empty((total, *own.shape[1:]), dtype=own.dtype)
        for begin in range(0, max(last - first for first, last in parts), some):
            piece = own[begin : begin + some]
            sent = torch.zeros((some, *own.shape[1:]), dtype=torch.from_numpy(own).dtype, device=device)
            sent[: len(piece)] = torch.from_numpy(piece).to(device)
            pieces = [torch.empty_like(sent) for _ in parts]
            distributed.all_gather(pieces, sent)
            for (first, last), got in zip(parts, pieces, strict=True):
                low, high = first + begin, min(first + begin + some, last)
                if low < high:
                    found[low:high] = got[: high - low].cpu().numpy()
        return found

    def made_by_first(self, make: Callable[[], T]) -> T:
        """What the first process makes, on every process; the others wait for it."""
        if self.count == 1:
            return make()
        held: list[Any] = [make() if self.number == 0 else None]
        distributed.broadcast_object_list(held, 0)
        return held[0]  # type: ignore[no-any-return]

    def wait(self) -> None:
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process goes through the block, then the others: what it leaves in a folder, they find."""
        if self.number > 0:
            self.wait()
        yield
        if self.number == 0:
            self.wait()


ALONE = Ranks()


def started_by_torchrun() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the other processes that torchrun started, each with a GPU of its own where there are any."""
    if not started_by_torchrun() or distributed.is_initialized():
        yield Ranks.here()
        return
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if gpu else "gloo", timeout=PATIENCE)
    try:
        yield Ranks.here()
    finally:
        distributed.destroy_process_group()


def _device() -> torch.device:
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
