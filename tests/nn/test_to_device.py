"""Arrays copied to the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.nn.training.to_device import to_device

CPU = torch.device("cpu")
NUMBERS = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.mark.parametrize("array", [NUMBERS, NUMBERS.T, NUMBERS[:, ::2], NUMBERS[:0], NUMBERS.astype(np.float32)])
def test_values_shape_and_dtype_are_kept(array: np.ndarray) -> None:
    found = to_device(array, CPU)
    assert found.dtype == torch.from_numpy(array.copy()).dtype and found.is_contiguous()
    np.testing.assert_array_equal(found.numpy(), array)


def test_the_dtype_can_be_chosen() -> None:
    assert to_device(NUMBERS, CPU, np.int64).dtype == torch.int64
    assert to_device(NUMBERS / 3, CPU, np.float32).dtype == torch.float32
    np.testing.assert_array_equal(to_device(NUMBERS, CPU, np.int64).numpy(), NUMBERS)


def test_the_cpu_shares_the_array() -> None:
    array = NUMBERS.copy()
    found = to_device(array, CPU)
    array[0, 0] = 99
    assert found[0, 0] == 99


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_host_does_not_wait() -> None:
    array = np.random.default_rng(0).random((1000, 100))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")  # raises where the host waits for the device
    try:
        found = to_device(array, torch.device("cuda"), np.float32)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert found.is_cuda
    np.testing.assert_array_equal(found.cpu().numpy(), array.astype(np.float32))
