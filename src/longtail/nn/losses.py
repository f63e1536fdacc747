"""Contrastive losses, as pure functions of a batch's scores.

    scores    (rows, pool)   how well each row matches each item of the pool, usually cosines
    positive  (rows, pool)   every known positive of the row in the pool: bool, or soft targets where 0 = negative
    chosen    (rows,)        the pool column of the positive that the row pulls; by default row i pulls column i
    weights   (rows,)        how much each row counts, such as the soft target of its chosen positive

A known positive that was not chosen is no negative: it is taken out of the pool with -inf. Any finite stand-in fails
some day: 0 is a good score where all others are below it, and -10 is one at a temperature of 0.05. The chosen column
need not be marked. A row without negatives costs nothing and pulls nothing. Half precision is summed in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from longtail.errors import DataError


def triplet(
    scores: Tensor,
    positive: Tensor,
    chosen: Tensor | None = None,
    weights: Tensor | None = None,
    *,
    margin: float = 0.3,  # γ
    negatives: int | None = 10,
    temperature: float | None = 0.1,
) -> Tensor:
    """Hinge on the hardest negatives (NGAME, DEXA): the mean over rows of Σ w_j [s_j - s_chosen + margin]₊.

    Only the `negatives` best-scoring ones of a row count (None: all), and of them only those that violate the margin.
    They share the row's weight of 1 by a softmax of their scores over `temperature`, or equally where that is None.
    The shares are constants to the gradient: they say which negative matters, and are not themselves to be lowered.
    """
    own, rivals = _hardest(scores, positive, chosen, negatives)
    gap = rivals - own + margin
    violates = gap > 0
    if temperature is None:
        share = violates.to(gap.dtype) / violates.sum(1, keepdim=True).clamp(min=1)
    else:
        hardness = (rivals.detach() / temperature).masked_fill(~violates, -math.inf)
        share = torch.softmax(hardness, dim=1).masked_fill(~violates, 0)  # all -inf gives NaN: no violator, no share
    return _mean((share * gap.masked_fill(~violates, 0)).sum(1), weights)


def softmax(
    scores: Tensor,
    positive: Tensor,
    chosen: Tensor | None = None,
    weights: Tensor | None = None,
    *,
    temperature: float = 0.05,
    both: bool = False,
) -> Tensor:
    """In-batch softmax (InfoNCE): the mean over rows of -log softmax(scores / temperature) at the chosen positive.

    With `both`, each pair is also looked at from its item: which of the batch's rows is its own? The two are averaged.
    """
    given = chosen
    scores, positive, chosen = _checked(scores, positive, chosen)
    logits = scores / temperature
    each = _cross_entropy(logits, positive, chosen)
    if both:  # (pairs, rows): each pair's item against every row
        pairs = torch.arange(len(scores), device=scores.device)
        back, known = (
            (table[:, : len(table)] if given is None else table.index_select(1, chosen)).T
            for table in (logits, positive)
        )
        each = (each + _cross_entropy(back, known, pairs)) / 2
    return _mean(each, weights)


def logistic(
    scores: Tensor,
    positive: Tensor,
    chosen: Tensor | None = None,
    weights: Tensor | None = None,
    *,
    margin: float = 0.0,  # Δ
    negatives: int | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Pairwise logistic loss (LEVER, equation 9): log(1 + e^(s_j - s_chosen + Δ)), mean over negatives, then over rows.

    Unlike the hinge it is calibrated: where it is minimal, σ(scale · score + c) is the chance that a pair is right.
    `negatives` keeps the hardest ones of a row (None: all). Cosines span only [-1, 1]: a `scale` above 1 lets the
    chances come near 0 and 1.
    """
    own, rivals = _hardest(scores, positive, chosen, negatives)
    real = rivals > -math.inf
    gap = (rivals - own + margin).masked_fill(~real, 0)
    each = functional.softplus(scale * gap).masked_fill(~real, 0).sum(1) / real.sum(1).clamp(min=1)
    return _mean(each, weights)


def probabilistic(
    scores: Tensor,
    positive: Tensor,
    weights: Tensor | None = None,
    *,
    ceiling: float = 0.9,  # c
    sharpness: float = 1.5,  # d
    negatives: int | None = 2,
    least: float = 0.0,
) -> Tensor:
    """Probabilistic contrastive loss (SiameseXML): the negative log likelihood of p = c · e^(d (score - 1)).

    Scores are cosines, so p is at most c < 1. All positives of the row in the pool count: t · -log p + (1 - t) ·
    -log(1 - p) for a target t. Of the negatives, the `negatives` most likely ones (None: all) whose own loss is at
    least `least`. Sum over the row, mean over rows.
    """
    scores, targets, _ = _checked(scores, positive, None, square=False)
    targets = targets.to(scores.dtype)
    right = sharpness * (1 - scores) - math.log(ceiling)  # -log p
    wrong = -torch.log1p(-ceiling * torch.exp(sharpness * (scores - 1)))  # -log(1 - p)
    known = (targets * right + (1 - targets) * wrong).masked_fill(targets == 0, 0).sum(1)
    rivals = _top(wrong.masked_fill(targets > 0, -math.inf), negatives)
    counted = rivals.masked_fill((rivals < least) | (rivals == -math.inf), 0).sum(1)
    return _mean(known + counted, weights)


def _hardest(scores: Tensor, positive: Tensor, chosen: Tensor | None, negatives: int | None) -> tuple[Tensor, Tensor]:
    """The chosen positive's score (rows, 1) and those of the hardest negatives (rows, k), -inf where it has fewer."""
    scores, positive, chosen = _checked(scores, positive, chosen)
    own = scores.gather(1, chosen[:, None])
    rivals = scores.masked_fill(positive > 0, -math.inf).scatter(1, chosen[:, None], -math.inf)
    return own, _top(rivals, negatives)


def _cross_entropy(logits: Tensor, positive: Tensor, chosen: Tensor) -> Tensor:
    """-log softmax at the chosen column of each row, other positives left out."""
    others = (positive > 0).scatter(1, chosen[:, None], False)
    return functional.cross_entropy(logits.masked_fill(others, -math.inf), chosen, reduction="none")


def _top(scores: Tensor, number: int | None) -> Tensor:
    """The `number` largest of each row, or all where there are no more."""
    return scores if number is None or number >= scores.shape[1] else scores.topk(number, dim=1, sorted=False).values


def _mean(each: Tensor, weights: Tensor | None) -> Tensor:
    return each.mean() if weights is None else (each * weights.to(each.dtype)).mean()


def _checked(
    scores: Tensor, positive: Tensor, chosen: Tensor | None, square: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs, in float32 at least, with row i's column i chosen where nothing else is said."""
    if scores.ndim != 2 or positive.shape != scores.shape:
        raise DataError(
            f"scores and positives must be matrices of one shape, got {tuple(scores.shape)} and {tuple(positive.shape)}"
        )
    if chosen is None:
        if square and scores.shape[0] > scores.shape[1]:
            raise DataError(f"{scores.shape[0]} rows cannot each pull a column of {scores.shape[1]}: pass `chosen`")
        chosen = torch.arange(scores.shape[0], device=scores.device)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide, positive, chosen
