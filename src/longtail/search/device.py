"""Exact search by torch on another device, with the same answers as on the processor: equal scores by row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.errors import DataError, MissingExtra, WillNotFit

PIECE = 1 << 16  # vectors compared at once: 1,024 queries take 0.5 GiB of sortable scores
RUN = 32  # neighbouring vectors of which the best is found first
LOW = 0xFFFFFFFF


class Held(NamedTuple):
    """Vectors on a device."""

    single: Any  # (rows, dimension) float32
    half: Any  # the same in bfloat16, or None


def hold(vectors: Any, half: bool, device: str) -> Held:
    """Copy vectors to the device. A tensor that lies there is held as it is."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "nn", f"searching on {device!r}") from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device!r}: this machine has no GPU that torch can use; pass device='cpu'")
    lies = isinstance(vectors, torch.Tensor)
    refuse_too_many(len(vectors), vectors.shape[1], (2 if half else 0) + (0 if lies else 4), device)
    if lies:
        single = (vectors if vectors.device.type == torch.device(device).type else vectors.to(device)).float()
        bad = torch.nonzero(~torch.isfinite(single.sum(dim=1)))
        if len(bad):
            raise DataError(f"vectors: row {int(bad[0])} holds a number that is not finite; encode it again")
        return Held(single, single.bfloat16() if half else None)
    single = torch.empty(vectors.shape, dtype=torch.float32, device=device)
    for begin in range(0, len(vectors), PIECE):
        piece = np.array(vectors[begin : begin + PIECE], dtype=np.float32)  # torch dislikes what it may not write
        single[begin : begin + len(piece)] = torch.from_numpy(piece)
    return Held(single, single.bfloat16() if half else None)


def refuse_too_many(rows: int, dimension: int, each: int, device: str) -> None:
    """Vectors that will not fit on a GPU, with so many bytes a number."""
    import torch

    if not device.startswith("cuda"):
        return
    free, needed = torch.cuda.mem_get_info(device)[0], rows * dimension * each + (2 << 30)
    if needed > free:
        raise WillNotFit(
            f"searching {rows:,} vectors of {dimension} on {device!r} needs {needed / 2**30:.1f} GiB, "
            f"{free / 2**30:.1f} are free: search on the cpu, or cut the vectors to a smaller dimension"
        )


def shorten(vectors: Any) -> Any:
    """A tensor of vectors, each to length 1, in place. Reckoned in float64, some rows at a time."""
    import torch

    with torch.inference_mode():
        for begin in range(0, len(vectors), PIECE):
            piece = vectors[begin : begin + PIECE]
            some = piece.double()
            piece.copy_(some / some.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return vectors


def search(held: Held, queries: Floats, k: int, wide: int) -> tuple[Ints, Floats]:
    """The best k rows of each query; in half precision the best k of the `wide` that it found."""
    import torch

    rows, scores = search_there(held, torch.tensor(queries, device=held.single.device), k, wide)
    return rows.int().cpu().numpy(), scores.cpu().numpy()


def search_there(held: Held, asked: Any, k: int, wide: int) -> tuple[Any, Any]:
    """The same of queries that lie on the device: rows (queries, k) int64 and scores, left there. Nothing is waited
    for."""
    import torch

    with torch.inference_mode(), _full_precision():
        best = None
        for begin in range(0, len(held.single), PIECE):
            here = slice(begin, begin + PIECE)
            if held.half is None:
                found = _best_keys(asked, held.single[here], begin, wide)
            else:  # a shortlist, which is scored anew: what ties here need not stand in order
                scores = asked.to(held.half.dtype) @ held.half[here].T
                values, rows = scores.topk(min(wide, scores.shape[1]), dim=1, sorted=False)
                found = _keys(values.float(), rows + begin)
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
            scores = torch.einsum("qwd,qd->qw", held.single[rows], asked)
            best = _keys(scores, rows)
        best = best.topk(k, dim=1).values
        bits = (best >> 32).int()
        scores = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(torch.float32)
        return LOW - (best & LOW), scores


def _best_keys(asked: Any, vectors: Any, begin: int, wide: int) -> Any:
    """Keys (queries, `wide` or all) of the vectors with the highest scores, in any order; rows count from `begin`.

    The best lie in runs of neighbours whose own best are the best: one pass over the scores finds those, and only what
    is in them is sorted. Of equal runs the earlier comes first, as it does of equal scores, so none is missed.
    """
    import torch

    number = len(vectors)
    runs = -(-number // RUN)
    if wide * RUN * 2 > number:  # nothing to leave out
        keys = _keys(asked @ vectors.T, begin)
        return keys.topk(min(wide, number), dim=1, sorted=False).values
    scores = asked.new_empty((len(asked), runs * RUN))
    scores[:, number:] = -torch.inf
    torch.mm(asked, vectors.T, out=scores[:, :number])
    scores = scores.view(len(asked), runs, RUN)
    chosen = LOW - (_keys(scores.amax(2), 0).topk(wide, dim=1, sorted=False).values & LOW)  # (queries, wide) runs
    places = chosen[:, :, None] * RUN + torch.arange(RUN, device=asked.device)
    inside = scores.gather(1, chosen[:, :, None].expand(-1, -1, RUN))
    keys = _keys(inside.flatten(1), begin + places.flatten(1))
    return keys.topk(wide, dim=1, sorted=False).values


def _keys(scores: Any, rows: Any) -> Any:
    """Integers in the order of (score, earlier row): a top-k over them knows no ties, so it is the same everywhere.

    `rows` is where the columns begin, or the row of each entry.
    """
    import torch

    if isinstance(rows, int):
        rows = torch.arange(rows, rows + scores.shape[1], device=scores.device)
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32) | (LOW - rows)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Products of float32 in float32, even where training allows less."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
