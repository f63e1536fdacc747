"""Contrastive losses, as pure functions of a batch's scores.

    scores    (rows, pool)   how well each row matches each item of the pool, usually cosines
    positive  (rows, pool)   every known positive of the row in the pool: bool, or soft targets where 0 = negative
    chosen    (rows,)        the pool column of each row's chosen positive; by default column i for row i
    weights   (rows,)        weights of the rows, such as the soft target of the chosen positive

A known positive that was not chosen is no negative: it is masked with -inf. A finite mask value fails: 0 is a high
score where all others are negative, and so is -10 at a temperature of 0.05. The chosen column need not be marked in
`positive`. A row without negatives has no loss and no gradient. Scores in half precision are summed in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from longtail.errors import DataError
from longtail.nn.training.thread_invariant import softplus


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
    """Hinge loss on the hardest negatives (NGAME, DEXA): the mean over rows of Σ w_j [s_j - s_chosen + margin]₊.

    Only negatives that violate the margin count. Their weights w_j sum to 1 in each row and are constants: no gradient
    flows through them.

    Args:
        scores: (rows, pool).
        positive: (rows, pool), see above.
        chosen: (rows,), see above.
        weights: (rows,), see above.
        margin: by which the chosen positive should score above negatives.
        negatives: of a row that count, the highest-scoring ones; None: all.
        temperature: of the softmax over scores that gives w_j; None: equal weights.

    Returns:
        The loss, a scalar.
    """
    own, rivals = _hardest(scores, positive, chosen, negatives)
    gap = rivals - own + margin
    violates = gap > 0
    if temperature is None:
        share = violates.to(gap.dtype) / violates.sum(1, keepdim=True).clamp(min=1)
    else:
        hardness = (rivals.detach() / temperature).masked_fill(~violates, -math.inf)
        share = torch.softmax(hardness, dim=1).masked_fill(~violates, 0)  # a row without violators is NaN
    return _mean((share * gap.masked_fill(~violates, 0)).sum(1), weights)


def hardest_pairs(
    scores: Tensor,
    positive: Tensor,
    chosen: Tensor | None = None,
    weights: Tensor | None = None,
    *,
    margin: float = 0.2,  # γ
    positives: int = 3,
    negatives: int = 5,
) -> Tensor:
    """Hinge loss of each row's hardest positives against its hardest negatives (NGAME's classifiers).

    Of the pairs (p, n) of the lowest-scoring positives and the highest-scoring negatives, those with a hinge
    h = s_n - s_p + margin above 0 count, with weights softmax(h), which are constants. The mean over rows of Σ w h.

    Args:
        scores: (rows, pool).
        positive: (rows, pool), see above.
        chosen: (rows,), a positive too.
        weights: (rows,), see above.
        margin: by which positives should score above negatives.
        positives: of a row that count at most.
        negatives: of a row that count at most.

    Returns:
        The loss, a scalar.
    """
    scores, positive, chosen = _checked(scores, positive, chosen)
    known = (positive > 0).scatter(1, chosen[:, None], True)
    lowest = -_top((-scores).masked_fill(~known, -math.inf), positives)  # inf where a row has fewer
    highest = _top(scores.masked_fill(known, -math.inf), negatives)
    gap = (highest[:, None, :] - lowest[:, :, None] + margin).flatten(1)  # (rows, pairs)
    violates = gap > 0
    hinge = gap.masked_fill(~violates, 0)
    share = torch.softmax(hinge.detach().masked_fill(~violates, -math.inf), dim=1).masked_fill(~violates, 0)
    return _mean((share * hinge).sum(1), weights)


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

    Args:
        scores: (rows, pool).
        positive: (rows, pool), see above.
        chosen: (rows,), see above.
        weights: (rows,), see above.
        temperature: that scores are divided by.
        both: whether the loss is averaged with that of the other direction, where each chosen item chooses its row
            among the rows of the batch.

    Returns:
        The loss, a scalar.
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

    Unlike the hinge it is calibrated without a margin: at its minimum over all negatives, σ(scale · score + c) is the
    probability that a pair is right. A margin, as the paper's own settings have one, shifts that.

    Args:
        scores: (rows, pool).
        positive: (rows, pool), see above.
        chosen: (rows,), see above.
        weights: (rows,), see above.
        margin: Δ.
        negatives: of a row that count, the highest-scoring ones; None: all.
        scale: of the scores. Cosines lie in [-1, 1]; a scale above 1 lets probabilities come near 0 and 1.

    Returns:
        The loss, a scalar.
    """
    own, rivals = _hardest(scores, positive, chosen, negatives)
    real = rivals > -math.inf
    gap = (rivals - own + margin).masked_fill(~real, 0)
    each = softplus(scale * gap).masked_fill(~real, 0).sum(1) / real.sum(1).clamp(min=1)
    return _mean(each, weights)


def probabilistic(
    scores: Tensor,
    positive: Tensor,
    weights: Tensor | None = None,
    *,
    ceiling: float = 0.9,  # c
    sharpness: float = 1.5,  # d
    negatives: int | None = 2,
    min_loss: float = 0.0,
) -> Tensor:
    """Probabilistic contrastive loss (SiameseXML): the negative log likelihood of p = c · e^(d (score - 1)).

    All positives of a row in the pool count: a target t adds t · -log p + (1 - t) · -log(1 - p). The loss is summed
    over a row's positives and negatives, and averaged over rows.

    Args:
        scores: (rows, pool) cosines.
        positive: (rows, pool), see above.
        weights: (rows,), see above.
        ceiling: c < 1, the largest probability.
        sharpness: d.
        negatives: of a row that count, the most probable ones; None: all.
        min_loss: negatives whose own loss is lower do not count.

    Returns:
        The loss, a scalar.
    """
    scores, targets, _ = _checked(scores, positive, None, square=False)
    targets = targets.to(scores.dtype)
    right = sharpness * (1 - scores) - math.log(ceiling)  # -log p
    wrong = -torch.log1p(-ceiling * torch.exp(sharpness * (scores - 1)))  # -log(1 - p)
    known = (targets * right + (1 - targets) * wrong).masked_fill(targets == 0, 0).sum(1)
    rivals = _top(wrong.masked_fill(targets > 0, -math.inf), negatives)
    counted = rivals.masked_fill((rivals < min_loss) | (rivals == -math.inf), 0).sum(1)
    return _mean(known + counted, weights)


def _hardest(scores: Tensor, positive: Tensor, chosen: Tensor | None, negatives: int | None) -> tuple[Tensor, Tensor]:
    """Scores of the chosen positives (rows, 1) and of the hardest negatives (rows, k), -inf where a row has fewer."""
    scores, positive, chosen = _checked(scores, positive, chosen)
    own = scores.gather(1, chosen[:, None])
    rivals = scores.masked_fill(positive > 0, -math.inf).scatter(1, chosen[:, None], -math.inf)
    return own, _top(rivals, negatives)


def _cross_entropy(logits: Tensor, positive: Tensor, chosen: Tensor) -> Tensor:
    """-log softmax at the chosen column of each row, without its other positives."""
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
    """The inputs, in float32 at least; column i is chosen for row i where `chosen` is None."""
    if scores.ndim != 2 or positive.shape != scores.shape:
        raise DataError(
            f"scores and positives must be matrices of one shape, got {tuple(scores.shape)} and {tuple(positive.shape)}"
        )
    if chosen is None:
        if square and scores.shape[0] > scores.shape[1]:
            raise DataError(f"{scores.shape[0]} rows cannot each choose a column of {scores.shape[1]}: pass `chosen`")
        chosen = torch.arange(scores.shape[0], device=scores.device)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide, positive, chosen
