"""Numba compiles faster while nobody looks for garbage: it makes millions of small objects, and the search for cycles
among them takes a sixth of the time. Files with large kernels import this one."""

from __future__ import annotations

import gc
from typing import Any

from numba.core import event


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
