"""The top k labels of vectors by a head, chunk by chunk, without holding all scores.

On a GPU one kernel keeps only the largest score of each group of labels. A row's k best labels lie in the k groups
with the largest maxima, so only those groups are scored again, label by label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longtail.nn.onevsall import plain_head as plain
from longtail.nn.onevsall.head import OneVsAllHead

ROWS = 16_384  # of a fused pass: the maxima take 4 bytes a row and group
SPARE = 2  # groups beyond k, since the two passes add in different order and may round differently
COARSE = 64  # groups of a coarse group


def top(head: OneVsAllHead, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the labels with the largest scores.

    Args:
        head: the classifiers.
        vectors: (rows, dimension).
        k: number of labels for each row.

    Returns:
        Labels (int64) and scores (float32), each (rows, min(k, labels)), best first, ties in order of the label.
    """
    k = min(k, head.labels)
    with torch.inference_mode():
        if head.fused and head.weight.dtype.itemsize > 1 and k <= 128:
            from longtail.nn.onevsall import fused_head as fused

            if head.labels >= 4 * fused.GROUP * (k + SPARE):
                parts = [_fused(head, vectors[start : start + ROWS], k) for start in range(0, len(vectors), ROWS)]
                return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        return _plain(head, vectors, k)


def _plain(head: OneVsAllHead, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    padded = head.pad(vectors)
    labels = torch.empty((len(padded), 0), dtype=torch.int64, device=padded.device)
    scores = torch.empty((len(padded), 0), dtype=torch.float32, device=padded.device)
    size = head.chunk(max(len(padded), 1))
    for start in range(0, head.labels, size):
        end = min(start + size, head.labels)
        found = plain.product(padded, head.chunk_weights(start, end).T)
        if head.bias is not None:
            found += head.bias[start:end]
        best, places = found.topk(min(k, end - start), dim=1)
        scores, labels = torch.cat([scores, best], dim=1), torch.cat([labels, places + start], dim=1)
        scores, labels = _first(scores, labels, k)
    return labels, scores


def _fused(head: OneVsAllHead, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    from longtail.nn.onevsall import fused_head as fused

    padded, size = head.pad(vectors), fused.GROUP
    maxima = fused.maxima(head.weight, head.bias, padded)  # (groups, rows)
    groups, wide = len(maxima), k + SPARE
    coarse = torch.nn.functional.pad(maxima, (0, 0, 0, -groups % COARSE), value=float("-inf"))
    coarse = coarse.view(-1, COARSE, len(padded))
    best_coarse = coarse.amax(dim=1).T.topk(min(wide, len(coarse)), dim=1, sorted=False).indices  # (rows, wide)
    candidates = best_coarse[:, :, None] * COARSE + torch.arange(COARSE, device=best_coarse.device)
    candidates = candidates.flatten(1).clamp_(max=groups - 1)
    values = maxima.T.gather(1, candidates)
    values.masked_fill_(_repeated(candidates), float("-inf"))
    chosen = candidates.gather(1, values.topk(min(wide, values.shape[1]), dim=1, sorted=False).indices)
    scores = fused.group_scores(head.weight, head.bias, padded, chosen)
    labels = (chosen[:, :, None] * size + torch.arange(size, device=chosen.device)).flatten(1)
    best, places = scores.topk(k, dim=1, sorted=False)
    scores, labels = _first(best, labels.gather(1, places), k)
    return labels, scores


def _repeated(candidates: Tensor) -> Tensor:
    """Marks duplicates of the last group: numbers past it were clamped to it."""
    last = candidates == candidates.max()
    return last & (last.cumsum(dim=1) > 1)


def _first(scores: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best, ties in order of the label."""
    by_label = labels.argsort(dim=1)
    scores, labels = scores.gather(1, by_label), labels.gather(1, by_label)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :k]
    return scores.gather(1, order), labels.gather(1, order)
