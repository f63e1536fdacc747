"""Training over several processes: each encodes its share of every batch, and may hold a range of the labels.

`torchrun` starts them and sets their number in the environment. The vectors of a batch are gathered, every process
computes the loss of all of them or trains its own labels on them, and gradients are summed. The encoder is the same on
every process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from longtail.arrays import AnyArray
from longtail.nn.training.heartbeat import PATIENCE, Heartbeat, connected_store, end_with_torchrun

# A collective may wait long: while the first process trains the model of `init_from`. The heartbeat finds lost ones.
TIMEOUT = timedelta(days=365)
T = TypeVar("T")
_alone: ContextVar[bool] = ContextVar("longtail_alone", default=False)  # one process works for all


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a training, and which of them this is."""

    number: int = 0  # of this process (rank)
    count: int = 1  # of all processes (world size)

    @classmethod
    def here(cls) -> ProcessGroup:
        """Read the group from torch.distributed.

        Returns:
            The group; one process where torch.distributed is not initialised.
        """
        if _alone.get() or not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    def range(self, total: int, number: int | None = None) -> tuple[int, int]:
        """Divide a range evenly over the processes; parts differ by one at most.

        Args:
            total: size of the range.
            number: of the process; None is this one.

        Returns:
            First and one past the last of its part.
        """
        number = self.number if number is None else number
        return total * number // self.count, total * (number + 1) // self.count

    def gather(self, own: Tensor, total: int) -> Tensor:
        """Concatenate the parts of all processes.

        Args:
            own: (own rows, ...), the part of this process.
            total: rows of all parts.

        Returns:
            (total, ...), on every process.
        """
        if self.count == 1:
            return own
        sizes = [last - first for first, last in (self.range(total, number) for number in range(self.count))]
        padded = own.new_zeros((max(sizes), *own.shape[1:]))  # not every backend gathers parts of different size
        padded[: len(own)] = own
        found = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(found, padded)
        return torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place.

        Args:
            tensor: of the same shape on every process.

        Returns:
            The same tensor.
        """
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def sum_gradients(self, module: nn.Module) -> None:
        """Sum the gradients of all parameters over the processes, in one call.

        Args:
            module: the same on every process.
        """
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
        """Copy the weights of the first process to all others.

        Args:
            module: of the same architecture on every process.
        """
        if self.count > 1:
            for tensor in (*module.parameters(), *module.buffers()):
                distributed.broadcast(tensor.data, 0)

    def whole(self, own: AnyArray, total: int, piece_rows: int = 1 << 16, by_first: bool = False) -> AnyArray:
        """Concatenate the parts of all processes on the host, piece by piece through the device.

        Args:
            own: (own rows, ...), the part of this process.
            total: rows of all parts.
            piece_rows: rows of each part that a device holds at a time.
            by_first: only the first process holds all parts.

        Returns:
            (total, ...), on every process; with `by_first` the others get their own part.
        """
        if self.count == 1:
            return own
        device, parts = _device(), [self.range(total, number) for number in range(self.count)]
        kept = self.number == 0 or not by_first
        found = np.empty((total, *own.shape[1:]), dtype=own.dtype) if kept else own
        for start in range(0, max(last - first for first, last in parts), piece_rows):
            piece = own[start : start + piece_rows]
            padded = torch.zeros((piece_rows, *own.shape[1:]), dtype=torch.from_numpy(own).dtype, device=device)
            padded[: len(piece)] = torch.from_numpy(piece).to(device)
            pieces = [torch.empty_like(padded) for _ in parts]
            distributed.all_gather(pieces, padded)
            for (first, last), received in zip(parts, pieces, strict=True):
                low, high = first + start, min(first + start + piece_rows, last)
                if low < high and kept:
                    found[low:high] = received[: high - low].cpu().numpy()
        return found

    def made_by_first(self, make: Callable[[], T]) -> T:
        """Call a function on the first process only; the others wait and receive the result.

        Args:
            make: called on the first process.

        Returns:
            Its result, on every process.
        """
        if self.count == 1:
            return make()
        token = _alone.set(True)  # what it trains must not wait for the others, which wait for it
        try:
            result: list[Any] = [make() if self.number == 0 else None]
        finally:
            _alone.reset(token)
        distributed.broadcast_object_list(result, 0)
        return result[0]  # type: ignore[no-any-return]

    def wait(self) -> None:
        """Wait until every process is here (a barrier)."""
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Run the block on the first process, then on the others, which find the files that it wrote."""
        if self.number > 0:
            self.wait()
        yield
        if self.number == 0:
            self.wait()


ALONE = ProcessGroup()


def started_by_torchrun() -> bool:
    """Check the environment for torchrun's variables.

    Returns:
        Whether torchrun started this process and others.
    """
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def join_process_group(patience: float = PATIENCE) -> Iterator[ProcessGroup]:
    """Join the other processes that torchrun started, each with its own GPU where there are GPUs.

    Args:
        patience: seconds after which a process that gives no sign of life counts as lost.

    Yields:
        The group; of one process without torchrun.

    Raises:
        ProcessLost: another process died. One that only stopped ends this process with the same message.
    """
    if not started_by_torchrun() or distributed.is_initialized():
        yield ProcessGroup.here()
        return
    end_with_torchrun()
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with Heartbeat(rank, count, patience).running():
        store = connected_store("group", rank, count, TIMEOUT)
        backend = "nccl" if gpu else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=TIMEOUT)
        try:
            group = ProcessGroup.here()
            yield group
            group.wait()  # while the first process saves the model, the others watch it
        finally:
            distributed.destroy_process_group()


def _device() -> torch.device:
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
