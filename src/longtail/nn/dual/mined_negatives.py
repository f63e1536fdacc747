"""Hard negatives: the nearest items of a row that are none of its positives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Longs, Matrix
from longtail.nn.training.to_device import to_device
from longtail.progress import stage
from longtail.search.device import search_on_device, vectors_on
from longtail.search.exact import top_k

ROWS = 1024  # rows searched at once on a device
BLOCK = 1 << 16  # rows whose positives are removed at once


def nearest_wrong(rows: Tensor, items: Tensor, targets: Matrix, shortlist: int, device: torch.device) -> Longs:
    """The nearest items of each row that are none of its targets, without gradients.

    Args:
        rows: (rows, dimension) unit vectors.
        items: (items, dimension) unit vectors.
        targets: csr (rows, items).
        shortlist: items of a row, at most.
        device: where to search.

    Returns:
        (rows, shortlist) items, nearest first, -1 where there are fewer. Rows among the 1% with the most targets may
        get fewer.
    """
    spare = int(np.quantile(np.diff(targets.indptr), 0.99))
    wide = min(shortlist + spare, len(items))
    mined = np.empty((len(rows), min(shortlist, wide)), dtype=np.int64)
    held = None if str(device) == "cpu" else vectors_on(items, False, str(device))
    with torch.inference_mode(), stage("mining", total=len(rows)) as advance:
        for low in range(0, len(rows), BLOCK):
            high = min(low + BLOCK, len(rows))
            if held is None:
                found = torch.from_numpy(top_k(rows[low:high].numpy(), items.numpy(), wide)[0].astype(np.int64))
            else:
                parts = [search_on_device(held, part.to(device), wide, wide)[0] for part in rows[low:high].split(ROWS)]
                found = torch.cat(parts)
            mined[low:high] = _without_targets(found, targets, low, high, len(items), shortlist).cpu().numpy()
            advance(high - low)
    return mined


def _without_targets(found: Tensor, targets: Matrix, low: int, high: int, items: int, shortlist: int) -> Tensor:
    """The items found for rows low to high without their targets, the first `shortlist` of them."""
    begin, end = targets.indptr[low], targets.indptr[high]
    row_of = np.repeat(np.arange(high - low, dtype=np.int64), np.diff(targets.indptr[low : high + 1]))
    known = to_device(row_of * items + targets.indices[begin:end], found.device).sort().values
    if len(known):
        keys = torch.arange(high - low, device=found.device)[:, None] * items + found
        place = torch.searchsorted(known, keys).clamp_(max=len(known) - 1)
        found = found.masked_fill(known[place] == keys, -1)
    order = (found < 0).to(torch.uint8).argsort(dim=1, stable=True)[:, :shortlist]
    return found.gather(1, order)
