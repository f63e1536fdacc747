"""Intervals of measures, and tests of the difference between recipes, by resampling documents or labels.

Every measure over documents is a ratio of two sums: P@k is hits / (k x documents), PSP@k is weighted hits / the best
possible. A bootstrap resample draws as many documents as there are, with replacement, and divides the sums of what it
drew. Coverage is a ratio of sums over labels, so labels are drawn. All recipes are measured on the same resamples, so
differences are paired. The randomisation test swaps the two recipes on each document with probability 1/2, which
changes the sign of the document's difference, and asks how often the difference is as large as the one observed.

Above `GROUPS` documents, documents are first put in that many random groups of equal size, and groups are drawn: sums
of random groups vary as sums of documents do, so intervals keep their width, and a million documents cost what ten
thousand do. Both are matrix products of draws and sums; nothing loops over documents in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Doubles
from longtail.data.dataset import Dataset
from longtail.metrics.tally import Tally, tally
from longtail.predictions import Predictions

RESAMPLES = 2000
GROUPS = 10_000  # the standard error of a resampled deviation is 1 / sqrt(2 GROUPS) = 0.7%
LEVEL = 0.05  # a difference is shown where the corrected p-value is at most this
BATCH = 50  # resamples drawn at a time: 4 MB of draws, which stay in the cache
BETTER, WORSE, SAME = "better", "worse", "no difference shown"


@dataclass(frozen=True)
class Interval:
    """The middle 95% of a measure over resamples, in percent."""

    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """A recipe minus the first one, in points of a measure."""

    difference: float
    low: float  # the middle 95% of the difference over resamples
    high: float
    p_bootstrap: float  # twice the share of resamples on the other side of 0
    p: float  # of the randomisation test, two-sided
    p_corrected: float  # p after Holm's correction over the recipes
    verdict: str  # BETTER, WORSE or SAME


@dataclass(frozen=True)
class Significance:
    """Intervals and differences of several recipes on the same documents, by measure."""

    intervals: tuple[dict[str, Interval], ...]  # one dict a recipe
    differences: tuple[dict[str, Difference], ...]  # one dict a recipe; that of the first is empty


@dataclass(frozen=True, eq=False)
class Sums:
    """What is resampled: for each unit (document, group or label) the two sums of each measure."""

    names: tuple[str, ...]  # of the measures
    over: Doubles  # (units, recipes, measures)
    under: Doubles  # (units, measures), the same for all recipes


def significance(
    runs: Sequence[Sequence[Predictions]], data: Dataset, ks: Sequence[int], resamples: int = RESAMPLES, seed: int = 0
) -> Significance:
    """Resample documents (for coverage: labels) to find how sure measures and differences are.

    Args:
        runs: for each recipe the predictions of each of its trainings; measures are means over the trainings.
        data: the documents that were predicted.
        ks: each k at which measures are taken.
        resamples: of the bootstrap and of the randomisation test.
        seed: of the draws; the same seed gives the same figures.

    Returns:
        A 95% interval of every measure, and for each recipe but the first its difference to the first.
    """
    by_row, by_label = sums(runs, data, ks, seed)
    intervals: list[dict[str, Interval]] = [{} for _ in runs]
    differences: list[dict[str, Difference]] = [{} for _ in runs]
    for number, part in enumerate((by_row, by_label)):
        observed = 100 * ratios(part.over.sum(axis=0)[None], part.under.sum(axis=0)[None])[0]  # (recipes, measures)
        drawn = 100 * bootstrap(part, resamples, np.random.default_rng([seed, number]))
        paired = drawn[:, 1:] - drawn[:, :1]  # (resamples, recipes - 1, measures)
        p = randomisation_test(part.over[:, 1:] - part.over[:, :1], resamples, np.random.default_rng([seed, number, 1]))
        corrected = np.stack([holm(column) for column in p.T], axis=1) if p.size else p
        ends, paired_ends = (np.quantile(one, [LEVEL / 2, 1 - LEVEL / 2], axis=0) for one in (drawn, paired))
        below, above = (paired <= 0).sum(axis=0), (paired >= 0).sum(axis=0)
        p_bootstrap = np.minimum(2 * (1 + np.minimum(below, above)) / (1 + resamples), 1.0)
        for recipe in range(len(runs)):
            for at, name in enumerate(part.names):
                intervals[recipe][name] = Interval(*ends[:, recipe, at].tolist())
                if recipe:
                    other = recipe - 1
                    low, high = paired_ends[:, other, at].tolist()
                    gap = float(observed[recipe, at] - observed[0, at])
                    shown = bool(corrected[other, at] <= LEVEL) and (low > 0 or high < 0)
                    verdict = SAME if not shown else BETTER if gap > 0 else WORSE
                    ps = [float(one[other, at]) for one in (p_bootstrap, p, corrected)]
                    differences[recipe][name] = Difference(gap, low, high, ps[0], ps[1], ps[2], verdict)
    return Significance(tuple(intervals), tuple(differences))


def sums(runs: Sequence[Sequence[Predictions]], data: Dataset, ks: Sequence[int], seed: int = 0) -> tuple[Sums, Sums]:
    """Collect the sums of each document (or random group of documents) and of each label (or random group of labels).

    Args:
        runs: for each recipe the predictions of each of its trainings.
        data: the documents that were predicted.
        ks: each k at which measures are taken.
        seed: of the groups.

    Returns:
        The sums of documents: P, nDCG, PSP, PSnDCG, R, RP, F1 and MRR; and those of labels: C.
    """
    rows, order = len(data), None
    if rows > GROUPS:
        order = np.random.default_rng([seed, rows]).permutation(rows)
        data = data.take(order)
    units = min(rows, GROUPS)
    sizes = np.diff(np.arange(units + 1) * rows // max(units, 1)).astype(np.float64)
    over, found = [], []
    counted: Tally | None = None
    for recipe in runs:
        tallies = []
        for one in recipe:
            taken = one if order is None else Predictions(one.labels, one.indices[order], one.scores[order])
            counted = tally(taken, data, ks, blocks=units)
            tallies.append((_over(counted), (counted.found > 0).astype(np.float64)))
        over.append(np.mean([rows_of for rows_of, _ in tallies], axis=0))
        found.append(np.mean([labels_of for _, labels_of in tallies], axis=0))
    assert counted is not None
    names = tuple(f"{name}@{k}" for name in _columns() for k in counted.ks)
    by_row = Sums(names, np.stack(over, axis=1), _under(counted, sizes))
    present = np.flatnonzero(counted.positives > 0)
    hit = np.stack(found, axis=1)[present]  # (labels, recipes, ks)
    if len(present) > GROUPS:
        order = np.random.default_rng([seed, len(present), 1]).permutation(len(present))
        starts = np.arange(GROUPS) * len(present) // GROUPS
        hit = np.add.reduceat(hit[order], starts, axis=0)
        each = np.diff(np.append(starts, len(present))).astype(np.float64)
    else:
        each = np.ones(len(present))
    by_label = Sums(tuple(f"C@{k}" for k in counted.ks), hit, np.repeat(each[:, None], len(counted.ks), axis=1))
    return by_row, by_label


def bootstrap(given: Sums, resamples: int, rng: np.random.Generator) -> Doubles:
    """Draw as many units as there are, with replacement, and measure again.

    Args:
        given: the sums of the units.
        resamples: how often.
        rng: draws the units.

    Returns:
        (resamples, recipes, measures), each between 0 and 1.
    """
    units, recipes, measures = given.over.shape
    both = np.concatenate([given.over.reshape(units, -1), given.under], axis=1)
    drawn = np.empty((resamples, recipes, measures))
    for start, weights in _draws(units, resamples, rng):
        total = weights @ both
        part = slice(start, start + len(weights))
        drawn[part] = ratios(total[:, : recipes * measures].reshape(-1, recipes, measures), total[:, -measures:])
    return drawn


def randomisation_test(differences: Doubles, resamples: int, rng: np.random.Generator) -> Doubles:
    """Change signs of the units' differences at random: how often is the sum as far from 0 as the one observed?

    Args:
        differences: (units, recipes, measures), of sums, each recipe minus the first.
        resamples: how often signs are drawn; where there are no more sign patterns than this, each is used once.
        rng: draws the signs.

    Returns:
        (recipes, measures) two-sided p-values.
    """
    units, recipes, measures = differences.shape
    flat = differences.reshape(units, -1)
    observed = np.abs(flat.sum(axis=0))
    least = observed - 1e-9 * np.maximum(np.abs(flat).sum(axis=0), 1e-300)  # rounding must not break ties
    as_far = np.zeros(flat.shape[1], dtype=np.int64)
    if 2**units <= resamples:
        patterns = (np.arange(2**units)[:, None] >> np.arange(units)) & 1
        as_far += (np.abs((2.0 * patterns - 1) @ flat) >= least).sum(axis=0)
        return np.asarray(as_far / len(patterns)).reshape(recipes, measures)
    total, swapped = flat.sum(axis=0), np.empty((BATCH, units))
    for start in range(0, resamples, BATCH):
        size = min(BATCH, resamples - start)
        swapped[:size] = rng.integers(0, 2, (size, units), dtype=np.int8)
        as_far += (np.abs(total - 2 * (swapped[:size] @ flat)) >= least).sum(axis=0)
    return np.asarray((1 + as_far) / (1 + resamples)).reshape(recipes, measures)


def holm(p: Doubles) -> Doubles:
    """Correct p-values for the number of tests: the chance that any of them errs stays below the level.

    Args:
        p: (tests,)

    Returns:
        (tests,) Holm's step-down p-values, at most 1.
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def ratios(over: Doubles, under: Doubles) -> Doubles:
    """Divide sums of recipes by the sums they share; 0 where the divisor is 0.

    Args:
        over: (resamples, recipes, measures)
        under: (resamples, measures)

    Returns:
        (resamples, recipes, measures)
    """
    divisor = np.broadcast_to(under[:, None], over.shape)
    return np.divide(over, divisor, out=np.zeros(over.shape), where=divisor > 0)


def _draws(units: int, resamples: int, rng: np.random.Generator) -> Iterator[tuple[int, Doubles]]:
    """How often each unit is drawn: batches of (resamples, units), each with the number of its first resample."""
    weights = np.empty((BATCH, units))
    for start in range(0, resamples, BATCH):
        size = min(BATCH, resamples - start)
        for row, drawn in enumerate(rng.integers(0, max(units, 1), (size, units), dtype=np.int32)):
            weights[row] = np.bincount(drawn, minlength=units)
        yield start, weights[:size]


def _columns() -> dict[str, tuple[int, int | None]]:
    """The column of `block_sums` above the line, and the one below; None: the number of documents."""
    from longtail.metrics import kernels

    return {
        "P": (kernels.HITS, None),
        "nDCG": (kernels.NDCG, None),
        "PSP": (kernels.GAIN, kernels.BEST_GAIN),
        "PSnDCG": (kernels.SCALED_GAIN, kernels.BEST_SCALED_GAIN),
        "R": (kernels.RECALL, None),
        "RP": (kernels.RPRECISION, None),
        "F1": (kernels.F1, None),
        "MRR": (kernels.RECIPROCAL, None),
    }


def _over(counted: Tally) -> Doubles:
    """(units, measures)"""
    chosen = [counted.block_sums[:, :, over] for over, _ in _columns().values()]
    chosen[0] = chosen[0] / np.array(counted.ks, dtype=np.float64)  # P divides the hits of a document by k
    return np.concatenate(chosen, axis=1)


def _under(counted: Tally, sizes: Doubles) -> Doubles:
    """(units, measures); `sizes` (units,) is the number of documents of each unit."""
    plain = np.repeat(sizes[:, None], len(counted.ks), axis=1)
    return np.concatenate(
        [plain if under is None else counted.block_sums[:, :, under] for _, under in _columns().values()], axis=1
    )
