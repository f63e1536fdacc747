"""Memory asked for before it is needed, so that rows visited in random order are there when their turn comes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from longtail.linear.compiling import INNER

READ, NEAR, DATA = 0, 3, 1  # what LLVM's prefetch is told: for reading, into the nearest cache, not instructions
LINE = 16  # numbers of 4 bytes in a line of the cache
SOON = 6  # rows ahead whose words are asked for; where these stand is asked for as many rows before


def _fetch(typing: Any, array: Any, place: Any) -> Any:
    """Begin to load what stands at `place` of the contiguous `array`, counted as if it were flat. Nothing waits for it,
    and a place that can not be loaded is passed over."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, given[0])
        line = builder.bitcast(builder.gep(held.data, [given[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, word, word, word])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")  # type: ignore[no-untyped-call]
        builder.call(call, [line, *(word(number) for number in (READ, NEAR, DATA))])
        return context.get_dummy_value()

    return types.void(array, place), generate


fetch: Any = intrinsic(_fetch)


@njit(**INNER)
def look_ahead(  # type: ignore[no-untyped-def]
    order, position, begins, ends, columns, values, lengths, t_starts, t_child, t_value, yes, no, weights, lanes
):
    """Ask for what the rows after this one in `order` need: in random order each would wait for memory a dozen times.

    The arrays are those of `solve`. Twelve rows ahead: where a row stands; six ahead: the row; one ahead: its weights.
    """
    wide = no.shape[1]
    if position + 2 * SOON < len(order):
        row = order[position + 2 * SOON]
        fetch(begins, row)
        fetch(ends, row)
        fetch(lengths, row)
        fetch(t_starts, row)
        for lane in range(0, lanes, LINE):
            fetch(no, row * wide + lane)
    if position + SOON < len(order):
        row = order[position + SOON]
        for entry in range(begins[row], ends[row], LINE):
            fetch(columns, entry)
            fetch(values, entry)
        fetch(t_child, t_starts[row])
        fetch(t_value, t_starts[row])
        fetch(yes, t_starts[row])
    if position + 1 < len(order):
        row = order[position + 1]
        for entry in range(begins[row], ends[row]):
            for lane in range(0, lanes, LINE):
                fetch(weights, columns[entry] * wide + lane)
