"""Scorers that several members of one combination need are fitted once.

`parabel` beside `parabel + rerank`, or `ngame` beside `memory("ngame")`: the same learner on the same rows. A
combination opens a block with `sharing_fits` and says how often each scorer is wanted. A recipe that fits inside the
block asks `shared_fit` first. A scorer is let go after its last use, so that members need not all lie in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from longtail.data.dataset import Dataset
from longtail.seams.scorer import Scorer


@dataclass(eq=False)
class _SharedFits:
    """Scorers that were fitted on these rows, by what makes them."""

    train: Dataset
    valid: Dataset
    wanted: Counter[str]  # uses that are still to come
    kept: dict[str, Scorer] = field(default_factory=dict)


_shared: ContextVar[_SharedFits | None] = ContextVar("longtail_shared_fits", default=None)


@contextmanager
def sharing_fits(train: Dataset, valid: Dataset, wanted: Iterable[str]) -> Iterator[None]:
    """Share scorers between the fits inside this block. A block inside another one over the same rows is part of it.

    Args:
        train: the rows that members are fitted on.
        valid: the rows that members choose and calibrate on.
        wanted: what makes each scorer that is fitted inside the block, as often as it is needed.

    Yields:
        Nothing.
    """
    around = _shared.get()
    if around is not None and around.train is train and around.valid is valid:
        yield
        return
    token = _shared.set(_SharedFits(train, valid, Counter(wanted)))
    try:
        yield
    finally:
        _shared.reset(token)


def shared_fit(parts: str, train: Dataset, valid: Dataset, fit: Callable[[], Scorer]) -> Scorer:
    """Fit a scorer, or return the one that another member fitted.

    Args:
        parts: what makes it, with all settings: the learner and the tail methods, without those that only re-rank.
        train: rows to learn from.
        valid: rows to choose and calibrate on.
        fit: fits it.

    Returns:
        The scorer.
    """
    shared = _shared.get()
    if shared is None or shared.train is not train or shared.valid is not valid:
        return fit()
    scorer = shared.kept.pop(parts, None)
    if scorer is None:
        scorer = fit()
    shared.wanted[parts] -= 1
    if shared.wanted[parts] > 0:
        shared.kept[parts] = scorer
    return scorer
