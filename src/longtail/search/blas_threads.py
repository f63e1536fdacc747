"""NumPy's matrix products on the calling thread, so that each of our threads can compute its own.

Where OpenBLAS splits a product over its own threads, those spin for a while after the product, on the cores where our
threads go on with the result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

_lock = Lock()
_open_blocks = 0  # the first block sets OpenBLAS to one thread, the last restores the number
_threads_before = 1


@contextmanager
def single_threaded_blas() -> Iterator[bool]:
    """Limit matrix products to one thread within this block, in the whole process.

    Yields:
        Whether that worked: it does with the OpenBLAS that comes with NumPy.
    """
    global _open_blocks, _threads_before
    library = _library()
    if library is None:
        yield False
        return
    with _lock:
        if _open_blocks == 0:
            _threads_before = library.scipy_openblas_get_num_threads64_()
            library.scipy_openblas_set_num_threads64_(1)
        _open_blocks += 1
    try:
        yield True
    finally:
        with _lock:
            _open_blocks -= 1
            if _open_blocks == 0:
                library.scipy_openblas_set_num_threads64_(_threads_before)


@cache
def _library() -> ctypes.CDLL | None:
    """The OpenBLAS inside NumPy's package; None where NumPy uses another library."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*scipy_openblas64_*")):
            library = ctypes.CDLL(str(path))  # NumPy loaded it already: this returns the same handle
            if hasattr(library, "scipy_openblas_set_num_threads64_"):
                return library
    return None
