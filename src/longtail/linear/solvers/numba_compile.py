"""Options that make Numba compile faster.

The compiler makes millions of small objects, and garbage collection takes a sixth of its time, so it is off meanwhile.
Numba also wraps every function for callers from C and for callers from Python. A kernel does not need the first
wrapper, and an inner function needs neither.

Kernels are written for the compiler, too:

- Numba spends most of its time on types: a little for every operation, more for slices, array expressions, sorting and
  new arrays. These stay in NumPy, and kernels get their scratch arrays as arguments.
- Numba's own functions are compiled again for each set of options, so kernels use few sets.
- A count that starts at a bare 0 makes Numba type the whole function once more, and compile again what the count is
  passed to. Counts start at `ZERO`.
- A constant such as `np.float32(1)` is a call that Numba resolves wherever it stands, so kernels share named constants,
  and a value that is read twice gets a name.
- Parts of a kernel are functions without wrappers. LLVM inlines them: Numba would take longer to do it.
- A signed index that does not come from a `range` is tested for being negative, which keeps a loop from being
  vectorised. Indices in hot loops are unsigned.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from numba.core import event

from longtail.selection import ZERO as ZERO

KERNEL: dict[str, Any] = {"nogil": True, "cache": True, "no_cfunc_wrapper": True}
INNER: dict[str, Any] = {**KERNEL, "cache": False, "no_cpython_wrapper": True}  # cached with the kernels that call it
ONE = np.int64(1)  # as `ZERO`: to Numba, a bare 1 is a type of its own


class _WithoutCollection(event.Listener):
    """Turns garbage collection off. Compiling holds one lock, so starts and ends are nested and never interleave."""

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
