"""The labels that an encoder takes for a row's own and that are not: where vectors lie, without a way back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Longs, Matrix
from longtail.nn.resident import sent
from longtail.progress import stage
from longtail.search.device import hold, search_there
from longtail.search.exact import top_k

ROWS = 1024  # that ask at once
BLOCK = 1 << 16  # rows whose right items are taken out at once


def nearest_wrong(rows: Tensor, items: Tensor, targets: Matrix, some: int, device: torch.device) -> Longs:
    """The nearest items of each row that are none of its targets: (rows, some), nearest first, -1 where there are
    fewer. A row with more targets than 99 of 100 have may get fewer."""
    spare = int(np.quantile(np.diff(targets.indptr), 0.99))
    wide = min(some + spare, len(items))
    mined = np.empty((len(rows), min(some, wide)), dtype=np.int64)
    held = None if str(device) == "cpu" else hold(items, False, str(device))
    with torch.inference_mode(), stage("mining", total=len(rows)) as advance:
        for low in range(0, len(rows), BLOCK):
            high = min(low + BLOCK, len(rows))
            if held is None:
                found = torch.from_numpy(top_k(rows[low:high].numpy(), items.numpy(), wide)[0].astype(np.int64))
            else:
                parts = [search_there(held, part.to(device), wide, wide)[0] for part in rows[low:high].split(ROWS)]
                found = torch.cat(parts)
            mined[low:high] = _wrong(found, targets, low, high, len(items), some).cpu().numpy()
            advance(high - low)
    return mined


def _wrong(found: Tensor, targets: Matrix, low: int, high: int, items: int, some: int) -> Tensor:
    """What is found of rows low to high, without their targets, the first `some` of it."""
    begin, end = targets.indptr[low], targets.indptr[high]
    row_of = np.repeat(np.arange(high - low, dtype=np.int64), np.diff(targets.indptr[low : high + 1]))
    known = sent(row_of * items + targets.indices[begin:end], found.device).sort().values
    if len(known):
        keys = torch.arange(high - low, device=found.device)[:, None] * items + found
        place = torch.searchsorted(known, keys).clamp_(max=len(known) - 1)
        found = found.masked_fill(known[place] == keys, -1)
    order = (found < 0).to(torch.uint8).argsort(dim=1, stable=True)[:, :some]
    return found.gather(1, order)
