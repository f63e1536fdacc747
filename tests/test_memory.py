"""What a process keeps of the memory it has freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import longtail
from longtail import recipe
from longtail.data import Corpus

LARGE_BLOCKS = """
import numpy as np
from longtail.memory import keeping_large_blocks, resident_bytes, return_large_blocks

return_large_blocks()
begin, size = resident_bytes(), 100 << 20
with keeping_large_blocks():
    held = np.ones(size, dtype=np.uint8)
    del held
    print(resident_bytes() - begin > 0.9 * size)
print(resident_bytes() - begin < 0.1 * size)
held = np.ones(size, dtype=np.uint8)
del held
print(resident_bytes() - begin < 0.1 * size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="settings of glibc")
def test_large_blocks_are_kept_only_inside() -> None:
    """In a process of its own: other tests leave free memory behind, from which a block is taken."""
    said = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True", "True"]


ONE_POOL = """
from longtail.memory import share_one_pool, threads_that_allocate
print(threads_that_allocate(8), threads_that_allocate(1))
share_one_pool()
print(threads_that_allocate(8), threads_that_allocate(1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="settings of glibc")
def test_few_threads_allocate_from_one_pool() -> None:
    """In a process of its own: it cannot be taken back."""
    said = subprocess.run([sys.executable, "-c", ONE_POOL], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["8 1", "2 1"]


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("centroid", True),
        ("centroid + rows", True),
        ("centroid + lever(teacher='dpr(encoder=\"tiny\", epochs=1)')", False),
        ("dpr(encoder='tiny', epochs=1)", False),
    ],
)
def test_what_cuts_texts_in_threads_keeps_a_pool_each(
    text: str, shares: bool, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    told: list[bool] = []
    monkeypatch.setattr(recipe, "share_one_pool", lambda: told.append(True))
    longtail.Recipe.parse(text).fit(tiny.train, tiny.valid.take(range(0)))
    assert bool(told) == shares
