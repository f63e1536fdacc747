"""Copies of NumPy arrays on the device, made without waiting for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from longtail.arrays import AnyArray


def to_device(array: AnyArray, device: torch.device, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Copy an array to the device through pinned memory, without waiting for the copy.

    A kernel launched afterwards on the same stream sees the copied values.

    Args:
        array: Any shape; it need not be contiguous.
        device: Where the tensor is to be. On the CPU nothing is copied where the array can be shared.
        dtype: NumPy type to convert to on the host first; None keeps the array's own.

    Returns:
        A tensor of the array's shape on the device.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=dtype))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
