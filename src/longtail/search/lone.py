"""NumPy's products on the thread that asks for them, so that each of our threads can make its own.

Where NumPy shares a product out over threads of its own, those keep looking for work for a while after it, on the cores
where ours go on with the result.
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
_inside = 0  # blocks that are open; the first takes the library's threads away, the last gives them back
_before = 1


@contextmanager
def lone_products() -> Iterator[bool]:
    """Within this block a product takes one thread, in the whole process. Yields whether that could be arranged: it
    can with the OpenBLAS that comes with NumPy."""
    global _inside, _before
    library = _library()
    if library is None:
        yield False
        return
    with _lock:
        if _inside == 0:
            _before = library.scipy_openblas_get_num_threads64_()
            library.scipy_openblas_set_num_threads64_(1)
        _inside += 1
    try:
        yield True
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                library.scipy_openblas_set_num_threads64_(_before)


@cache
def _library() -> ctypes.CDLL | None:
    """The matrix library that NumPy brought along; None where it uses another."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*scipy_openblas64_*")):
            library = ctypes.CDLL(str(path))  # loaded already: this only finds it
            if hasattr(library, "scipy_openblas_set_num_threads64_"):
                return library
    return None
