"""Where the tests of the Triton kernels run: on a GPU, or on the CPU in Triton's interpreter.

The interpreter is chosen when triton is imported, so tests import this module first. It runs a kernel's own lines with
NumPy: it finds wrong arithmetic, masks and addresses, but not what a compiler or a GPU makes of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
RECIPROCAL = "rcp.approx.ftz.f32 $0, $1;"
if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
    assert "triton" not in sys.modules, "triton was imported before its interpreter could be chosen"
    os.environ["TRITON_INTERPRET"] = "1"
if find_spec("triton") is None and os.environ.get("LONGTAIL_NEEDS_TRITON"):
    raise ModuleNotFoundError("LONGTAIL_NEEDS_TRITON is set, but triton is not installed")
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: pip install triton")


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    """What the kernels use and the interpreter, or torch on a CPU, lacks or gets wrong in triton 3.7 to 3.9.

    It truncates float32 to lower precisions and mistakes small float8 numbers. It multiplies the bit patterns of
    matrices in bfloat16. It has no inline assembly. In 3.9 it refuses a mask made of a scalar and a block. Torch on a
    CPU has no matrix product with another type of result.
    """
    if ON_GPU or find_spec("triton") is None:
        yield
        return
    from triton.runtime import interpreter as module

    builder, library = module.InterpreterBuilder, torch.library.Library("aten", "IMPL")
    multiply, load, store = builder.create_dot, builder.create_masked_load, builder.create_masked_store

    def create_dot(self: Any, left: Any, right: Any, *more: Any) -> Any:
        return multiply(self, widened(left), widened(right), *more)

    def create_masked_load(self: Any, places: Any, mask: Any, *more: Any, **named: Any) -> Any:
        return load(self, places, as_bool(mask), *more, **named)

    def create_masked_store(self: Any, places: Any, values: Any, mask: Any, *more: Any, **named: Any) -> Any:
        return store(self, places, values, as_bool(mask), *more, **named)

    def create_inline_asm(self: Any, assembly: str, _: Any, values: list[Any], *more: Any) -> Any:
        assert assembly == RECIPROCAL, f"the interpreter knows no {assembly!r}"
        with np.errstate(over="ignore"):
            found = module.TensorHandle(np.float32(1) / values[0].data, values[0].dtype)
        return SimpleNamespace(get_result=lambda _: found)

    def product(left: Tensor, right: Tensor, kind: torch.dtype) -> Tensor:
        return left.to(kind) @ right.to(kind)

    def widened(handle: Any) -> Any:
        kind = handle.dtype.scalar
        if kind != module.tl.bfloat16:
            return handle
        bits = converted(handle.data, kind, module.tl.float32, None)
        return module.TensorHandle(bits.view(np.float32), module.tl.float32)

    def as_bool(mask: Any) -> Any:
        tensor = isinstance(mask, module.TensorHandle)  # that of a descriptor is NumPy's before 3.9, and right
        return module.TensorHandle(mask.data.astype(bool), mask.dtype) if tensor else mask

    library.impl("mm.dtype", product, "CPU")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_convert_float", converted)
        for method in (create_dot, create_masked_load, create_masked_store, create_inline_asm):
            patch.setattr(builder, method.__name__, method)
        yield
    library._destroy()


def converted(numbers: Any, given: Any, wanted: Any, _: Any) -> Any:
    """Bits of floating-point numbers of one of triton's types as those of another: to the nearest, as torch has it."""
    source, target = KINDS[given.name], KINDS[wanted.name]
    held = torch.frombuffer(bytearray(numbers.tobytes()), dtype=source).to(target)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[target.itemsize]
    return held.view(torch.uint8).numpy().view(unsigned).reshape(numbers.shape)


KINDS = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
}
