"""The best labels of each row by a head, without ever holding all scores: chunks stream by and the best stay.

On a GPU one kernel keeps only the largest score of each group of labels. A row's k best labels lie in the k groups
with the largest, so only those groups are scored again, label by label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.nn.heads import plain
from longtail.nn.heads.head import Head

ROWS = 16_384  # of a fused pass: its largest scores take 4 bytes a row and group
SPARE = 2  # more groups than labels asked for: the two passes sum in different order
COARSE = 64  # groups of groups


def top(head: Head, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Labels int64 and scores float32 (rows, min(k, labels)), best first, equal scores in order of the label."""
    k = min(k, head.labels)
    with torch.inference_mode():
        if head.fused and head.weight.dtype.itemsize > 1 and k <= 128:
            from longtail.nn.heads import fused

            if head.labels >= 4 * fused.GROUP * (k + SPARE):
                parts = [_fused(head, vectors[begin : begin + ROWS], k) for begin in range(0, len(vectors), ROWS)]
                return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        return _plain(head, vectors, k)


def _plain(head: Head, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    ready = head.ready(vectors)
    labels = torch.empty((len(ready), 0), dtype=torch.int64, device=ready.device)
    scores = torch.empty((len(ready), 0), dtype=torch.float32, device=ready.device)
    size = head.chunk(max(len(ready), 1))
    for begin in range(0, head.labels, size):
        end = min(begin + size, head.labels)
        found = plain.product(ready, head.multiplied(begin, end).T)
        if head.bias is not None:
            found += head.bias[begin:end]
        best, places = found.topk(min(k, end - begin), dim=1)
        scores, labels = torch.cat([scores, best], dim=1), torch.cat([labels, places + begin], dim=1)
        scores, labels = _first(scores, labels, k)
    return labels, scores


def _fused(head: Head, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    from longtail.nn.heads import fused

    ready, size = head.ready(vectors), fused.GROUP
    largest = fused.maxima(head.weight, head.bias, ready)  # (groups, rows)
    groups, some = len(largest), k + SPARE
    coarse = torch.nn.functional.pad(largest, (0, 0, 0, -groups % COARSE), value=float("-inf"))
    coarse = coarse.view(-1, COARSE, len(ready))
    far = coarse.amax(dim=1).T.topk(min(some, len(coarse)), dim=1, sorted=False).indices  # (rows, some)
    near = far[:, :, None] * COARSE + torch.arange(COARSE, device=far.device)
    near = near.flatten(1).clamp_(max=groups - 1)
    values = largest.T.gather(1, near)
    values.masked_fill_(_repeated(near), float("-inf"))
    chosen = near.gather(1, values.topk(min(some, values.shape[1]), dim=1, sorted=False).indices)
    scores = fused.group_scores(head.weight, head.bias, ready, chosen)
    labels = (chosen[:, :, None] * size + torch.arange(size, device=far.device)).flatten(1)
    best, places = scores.topk(k, dim=1, sorted=False)
    scores, labels = _first(best, labels.gather(1, places), k)
    return labels, scores


def _repeated(near: Tensor) -> Tensor:
    """Places past the last group were put to it: they do not count again."""
    last = near == near.max()
    return last & (last.cumsum(dim=1) > 1)


def _first(scores: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best, equal ones in order of the label."""
    by_label = labels.argsort(dim=1)
    scores, labels = scores.gather(1, by_label), labels.gather(1, by_label)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :k]
    return scores.gather(1, order), labels.gather(1, order)
