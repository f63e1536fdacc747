"""Exact search on a GPU through torch, with the same results as on the CPU: ties in order of the row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.errors import DataError, MissingExtra, WillNotFit

PIECE = 1 << 16  # vectors compared at once: 1,024 queries take 0.5 GiB of sortable scores
RUN = 32  # consecutive vectors whose maximum is found first
LOW = 0xFFFFFFFF  # the low half of a 64-bit key


class DeviceVectors(NamedTuple):
    """Vectors on a device."""

    single: Any  # (rows, dimension) float32
    half: Any  # the same in bfloat16, or None


def vectors_on(vectors: Any, half: bool, device: str) -> DeviceVectors:
    """Copy vectors to the device.

    Args:
        vectors: (rows, dimension), an array or a tensor; a tensor that is on the device already is not copied.
        half: whether to make a bfloat16 copy as well.
        device: as torch names it.

    Returns:
        The vectors on the device.

    Raises:
        MissingExtra: torch is not installed.
        DataError: there is no such GPU, or a number is NaN or infinite.
        WillNotFit: the GPU has too little free memory.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "nn", f"searching on {device!r}") from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device!r}: this machine has no GPU that torch can use; pass device='cpu'")
    is_tensor = isinstance(vectors, torch.Tensor)
    refuse_too_many(len(vectors), vectors.shape[1], (2 if half else 0) + (0 if is_tensor else 4), device)
    if is_tensor:
        single = (vectors if vectors.device.type == torch.device(device).type else vectors.to(device)).float()
        bad = torch.nonzero(~torch.isfinite(single.sum(dim=1)))
        if len(bad):
            raise DataError(f"vectors: row {int(bad[0])} holds a number that is not finite; encode it again")
        return DeviceVectors(single, single.bfloat16() if half else None)
    single = torch.empty(vectors.shape, dtype=torch.float32, device=device)
    for start in range(0, len(vectors), PIECE):
        piece = np.array(vectors[start : start + PIECE], dtype=np.float32)  # a copy: torch warns of read-only arrays
        single[start : start + len(piece)] = torch.from_numpy(piece)
    return DeviceVectors(single, single.bfloat16() if half else None)


def refuse_too_many(rows: int, dimension: int, each: int, device: str) -> None:
    """Raise where vectors will not fit on a GPU.

    Args:
        rows: number of vectors.
        dimension: of a vector.
        each: bytes a number.
        device: as torch names it; only GPUs are checked.

    Raises:
        WillNotFit: the GPU has too little free memory.
    """
    import torch

    if not device.startswith("cuda"):
        return
    free, needed = torch.cuda.mem_get_info(device)[0], rows * dimension * each + (2 << 30)
    if needed > free:
        raise WillNotFit(
            f"searching {rows:,} vectors of {dimension} on {device!r} needs {needed / 2**30:.1f} GiB, "
            f"{free / 2**30:.1f} are free: search on the cpu, or cut the vectors to a smaller dimension"
        )


def normalise_(vectors: Any) -> Any:
    """Normalise vectors to unit norm in place, computed in float64 piece by piece.

    Args:
        vectors: (rows, dimension) tensor.

    Returns:
        The same tensor.
    """
    import torch

    with torch.inference_mode():
        for start in range(0, len(vectors), PIECE):
            piece = vectors[start : start + PIECE]
            wide = piece.double()
            piece.copy_(wide / wide.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return vectors


def search(held: DeviceVectors, queries: Floats, k: int, wide: int) -> tuple[Ints, Floats]:
    """Find the best k rows for each query.

    Args:
        held: the vectors on the device.
        queries: (queries, dimension) float32.
        k: number of rows for each query.
        wide: size of the shortlist that half precision finds and float32 scores again; k without half precision.

    Returns:
        Rows (int32) and scores (float32), each (queries, k), best first, ties in order of the row.
    """
    import torch

    rows, scores = search_on_device(held, torch.tensor(queries, device=held.single.device), k, wide)
    return rows.int().cpu().numpy(), scores.cpu().numpy()


def search_on_device(held: DeviceVectors, queries: Any, k: int, wide: int) -> tuple[Any, Any]:
    """Like `search`, with queries and results on the device and without synchronising with it.

    Args:
        held: the vectors on the device.
        queries: (queries, dimension) float32 tensor on the device.
        k: number of rows for each query.
        wide: size of the shortlist, as in `search`.

    Returns:
        Tensors on the device: rows (int64) and scores (float32), each (queries, k), best first.
    """
    import torch

    with torch.inference_mode(), _full_precision():
        best = None
        for start in range(0, len(held.single), PIECE):
            here = slice(start, start + PIECE)
            if held.half is None:
                found = _best_keys(queries, held.single[here], start, wide)
            else:  # the shortlist is scored again in float32, so the order of ties does not matter here
                scores = queries.to(held.half.dtype) @ held.half[here].T
                values, rows = scores.topk(min(wide, scores.shape[1]), dim=1, sorted=False)
                found = _keys(values.float(), rows + start)
            best = (
                found
                if best is None
                else torch.cat([best, found], dim=1)
                .topk(min(wide, best.shape[1] + found.shape[1]), dim=1, sorted=False)
                .values
            )
        assert best is not None
        if held.half is not None:
            rows = LOW - (best & LOW)
            scores = torch.einsum("qwd,qd->qw", held.single[rows], queries)
            best = _keys(scores, rows)
        best = best.topk(k, dim=1).values
        bits = (best >> 32).int()
        scores = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(torch.float32)
        return LOW - (best & LOW), scores


def _best_keys(queries: Any, vectors: Any, start: int, wide: int) -> Any:
    """Keys (queries, `wide` or all) of the vectors with the highest scores, in any order; rows count from `start`.

    The best `wide` vectors lie in the `wide` runs with the highest maxima. One pass over the scores finds those runs,
    and only their scores are sorted. Ties between runs go to the earlier run, as ties between scores go to the earlier
    row, so none is missed.
    """
    import torch

    number = len(vectors)
    runs = -(-number // RUN)
    if wide * RUN * 2 > number:  # the runs would cover most of the vectors
        keys = _keys(queries @ vectors.T, start)
        return keys.topk(min(wide, number), dim=1, sorted=False).values
    scores = queries.new_empty((len(queries), runs * RUN))
    scores[:, number:] = -torch.inf
    torch.mm(queries, vectors.T, out=scores[:, :number])
    scores = scores.view(len(queries), runs, RUN)
    chosen = LOW - (_keys(scores.amax(2), 0).topk(wide, dim=1, sorted=False).values & LOW)  # (queries, wide) runs
    places = chosen[:, :, None] * RUN + torch.arange(RUN, device=queries.device)
    inside = scores.gather(1, chosen[:, :, None].expand(-1, -1, RUN))
    keys = _keys(inside.flatten(1), start + places.flatten(1))
    return keys.topk(wide, dim=1, sorted=False).values


def _keys(scores: Any, rows: Any) -> Any:
    """Integers that sort by score, then by earlier row. They have no ties, so a top-k is the same on any device.

    `rows` is the row of the first column, or the row of each entry.
    """
    import torch

    if isinstance(rows, int):
        rows = torch.arange(rows, rows + scores.shape[1], device=scores.device)
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32) | (LOW - rows)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Compute float32 products in float32, even where training allows TF32."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
