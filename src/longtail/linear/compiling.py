"""What makes Numba compile faster.

It makes millions of small objects, and the search for cycles among them takes a sixth of the time: nobody looks for
garbage meanwhile. Every function also gets a shell for callers from C, and one for callers from Python; a kernel has
no use for the first, and a part of one for neither.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from numba.core import event

from longtail.selection import ZERO as ZERO

KERNEL: dict[str, Any] = {"nogil": True, "cache": True, "no_cfunc_wrapper": True}
INNER: dict[str, Any] = {**KERNEL, "cache": False, "no_cpython_wrapper": True}  # part of what calls it, cached there
ONE = np.int64(1)  # as `ZERO`: a bare 1 is a type of its own to Numba


class _WithoutCollection(event.Listener):
    """Compiling holds one lock, so starts and ends are nested and never interleave."""

    depth, was_on = 0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.was_on:
            gc.enable()


event.register("numba:compile", _WithoutCollection())  # type: ignore[no-untyped-call]
