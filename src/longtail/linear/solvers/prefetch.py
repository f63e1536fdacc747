"""Memory that is prefetched, so that rows visited in random order are in the cache when their turn comes.

Each pass visits the rows of a node in a new random order, and in a large node every row would wait for memory a dozen
times. Visiting rows in runs, as they lie in memory, was fast but learned less in as many passes, even where both the
runs and the rows within them were shuffled. So the order stays random, and what the next rows need is fetched ahead.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from longtail.linear.solvers.numba_compile import INNER

READ, NEAR, DATA = 0, 3, 1  # arguments of LLVM's prefetch: for reading, into the nearest cache, not instructions
LINE = 16  # numbers of 4 bytes in a cache line
SOON = 6  # rows ahead whose entries are prefetched; their starts are prefetched as many rows earlier


def _prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Begin to load element `place` of the contiguous `array`, counted as if it were flat. Nothing waits for it, and an
    address that cannot be loaded is ignored."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, given[0])
        address = builder.bitcast(builder.gep(held.data, [given[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")  # type: ignore[no-untyped-call]
        builder.call(call, [address, *(word(number) for number in (READ, NEAR, DATA))])
        return context.get_dummy_value()

    return types.void(array, place), generate


prefetch: Any = intrinsic(_prefetch)


@njit(**INNER)
def prefetch_rows(order, position, rows, targets, squared_norms, negative, positive, weights, lanes):  # type: ignore[no-untyped-def]
    """Prefetch what the next rows in `order` need: in random order each row would wait for memory a dozen times.

    Twelve rows ahead, where the row begins; six ahead, the row; one ahead, its weights.

    Args:
        order: rows in the order of their visits (rows,).
        position: the current place in `order`.
        rows: the `NodeRows` of the solver.
        targets: its `ChildTargets`.
        squared_norms: of each row (rows,).
        negative: dual variables (rows, lanes).
        positive: what stands beside the entries of `targets` (entries,).
        weights: (features + 1, lanes).
        lanes: how many lanes are in use.
    """
    width = negative.shape[1]
    if position + 2 * SOON < len(order):
        row = order[position + 2 * SOON]
        prefetch(rows.begins, row)
        prefetch(rows.ends, row)
        prefetch(squared_norms, row)
        prefetch(targets.starts, row)
        for lane in range(0, lanes, LINE):
            prefetch(negative, row * width + lane)
    if position + SOON < len(order):
        row = order[position + SOON]
        for entry in range(rows.begins[row], rows.ends[row], LINE):
            prefetch(rows.columns, entry)
            prefetch(rows.values, entry)
        prefetch(targets.children, targets.starts[row])
        prefetch(targets.values, targets.starts[row])
        prefetch(positive, targets.starts[row])
    if position + 1 < len(order):
        row = order[position + 1]
        for entry in range(rows.begins[row], rows.ends[row]):
            for lane in range(0, lanes, LINE):
                prefetch(weights, rows.columns[entry] * width + lane)
