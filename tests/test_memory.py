"""What a process keeps of the memory it has freed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from longtail.memory import keeping_large_blocks, resident_bytes, return_large_blocks


@pytest.mark.skipif(sys.platform != "linux", reason="how glibc is told")
def test_large_blocks_are_kept_only_inside() -> None:
    return_large_blocks()
    begin, size = resident_bytes(), 100 << 20
    with keeping_large_blocks():
        held = np.ones(size, dtype=np.uint8)
        del held
        assert resident_bytes() - begin > 0.9 * size
    assert resident_bytes() - begin < 0.1 * size
    held = np.ones(size, dtype=np.uint8)
    del held
    assert resident_bytes() - begin < 0.1 * size
