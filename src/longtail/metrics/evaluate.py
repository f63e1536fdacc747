"""Compute every measure of one set of predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longtail.arrays import Doubles, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, counted
from longtail.metrics.frequency import equi_volume_bins
from longtail.metrics.measures import Bin, Measures
from longtail.metrics.tally import Tally, check_places, tally
from longtail.predictions import Predictions


def evaluate(
    predictions: Predictions,
    data: Dataset,
    ks: Sequence[int] = (1, 3, 5),
    bins: int = 5,
    bins_at: int = 5,
) -> Measures:
    """Measure predictions against the targets of `data`, for each k, in percent.

    A label is relevant to a row where its target is above 0, soft or not. Predictions count in the order
    they have. Pairs in `data.excluded` and repeated labels are dropped, and the predictions behind them
    move up; missing places are misses; a row without true labels counts as a row without hits.
    y are the true labels of a row, q is the inverse propensity, and DCG discounts by 1 / log2(place + 1):

    P@k: mean of hits / k.  R@k: mean of hits / |y|.  RP@k: mean of hits / min(k, |y|).
    F1@k: mean of 2 hits / (labels predicted in the top k + |y|).  MRR@k: mean of 1 / place of the first hit, or 0.
    nDCG@k: mean of DCG / ideal DCG of min(k, |y|) hits.
    PSP@k: sum of q over all hits / the same sum of the best possible ranking: one ratio of sums, not a mean.
    PSnDCG@k: the same ratio of sums with discounts, each row divided by the ideal DCG of min(k, |y|) hits.
    C@k (coverage): labels hit at least once / labels with a positive in this data.
    macroP, macroR, macroF1@k: mean over all labels of the label set, 0 where undefined.
    ECE@k: sum over 15 equal-width score bins of share of predictions x |mean score - hit rate|; only where
    every score lies in [0, 1].

    The bins (`equi_volume_bins`, and zero-shot where a label was never seen in training) show which labels
    P@bins_at comes from. Cost: one parallel pass over the places; counts of 8 bytes a label, k and core.
    Example: `evaluate(model.predict(test.rows, 100), test)["PSP@5"]`.

    Args:
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets and excluded pairs.
        ks: each k at which to measure.
        bins: number of frequency bins.
        bins_at: the k of the bins.

    Returns:
        The measures, keyed as `P@1`, with the bins and notes about the predictions.

    Raises:
        DataError: rows or label sets do not match, the data has no rows, or `ks`, `bins` or `bins_at` are below 1.
    """
    if bins_at < 1:
        raise DataError(f"bins_at must be a k of 1 or more, got {bins_at}")
    bin_of = equi_volume_bins(data.labels, bins)
    check_places(ks)
    tallied = tally(predictions, data, [*ks, bins_at])
    steps = {k: tallied.ks.index(k) for k in map(int, ks)}
    columns = {**_row_measures(tallied), **_label_measures(tallied)}
    if tallied.cells is not None:
        columns["ECE"] = _calibration_error(tallied.cells)
    percent = {
        f"{name}@{k}": 100.0 * float(column[step]) for name, column in columns.items() for k, step in steps.items()
    }
    at = tallied.ks.index(bins_at)
    return Measures(
        values=percent,
        bins=_bins(data.labels, bin_of, bins, tallied.found[:, at], tallied.positives, tallied.rows * bins_at),
        bins_at=bins_at,
        propensity=data.labels.propensity,
        rows=tallied.rows,
        notes=tuple(_notes(tallied, predictions.places)),
    )


def _row_measures(tallied: Tally) -> dict[str, Doubles]:
    """Means and ratios over rows, each with one value a k."""
    from longtail.metrics import kernels

    sums, rows = tallied.sums, tallied.rows
    return {
        "P": sums[:, kernels.HITS] / (rows * np.array(tallied.ks, dtype=np.float64)),
        "nDCG": sums[:, kernels.NDCG] / rows,
        "PSP": _ratio(sums[:, kernels.GAIN], sums[:, kernels.BEST_GAIN]),
        "PSnDCG": _ratio(sums[:, kernels.SCALED_GAIN], sums[:, kernels.BEST_SCALED_GAIN]),
        "R": sums[:, kernels.RECALL] / rows,
        "RP": sums[:, kernels.RPRECISION] / rows,
        "F1": sums[:, kernels.F1] / rows,
        "MRR": sums[:, kernels.RECIPROCAL] / rows,
    }


def _label_measures(tallied: Tally) -> dict[str, Doubles]:
    """Coverage and macro means over labels, each with one value a k."""
    found, predicted, positives = tallied.found, tallied.predicted, tallied.positives[:, None]
    labels = max(1, len(found))
    return {
        "C": (found > 0).sum(axis=0) / max(1, int((positives > 0).sum())),
        "macroP": _ratio(found, predicted).sum(axis=0) / labels,
        "macroR": _ratio(found, positives).sum(axis=0) / labels,
        "macroF1": _ratio(2 * found, predicted + positives).sum(axis=0) / labels,  # 2TP / (2TP + FP + FN)
    }


def _calibration_error(cells: Doubles) -> Doubles:
    """One value a k: share x |mean score - hit rate| is |scores - hits| / all predictions."""
    number, scores, hits = np.moveaxis(cells, -1, 0)
    return _ratio(np.abs(scores - hits).sum(axis=1), number.sum(axis=1))


def _ratio(over: Doubles | Longs, under: Doubles | Longs) -> Doubles:
    """over / under, and 0 where under is 0."""
    return np.divide(over, under, out=np.zeros(over.shape, dtype=np.float64), where=under > 0)


def _bins(labels: LabelSet, bin_of: Ints, bins: int, found: Longs, positives: Longs, places: int) -> tuple[Bin, ...]:
    """The bins from most to least frequent; zero-shot last, if there are such labels."""
    numbers = [*range(bins), -1] if (bin_of < 0).any() else list(range(bins))
    result = []
    for number in numbers:
        members = np.flatnonzero(bin_of == number)
        counts, hits, true = labels.counts[members], found[members], positives[members]
        result.append(
            Bin(
                name="zero-shot" if number < 0 else str(number + 1),
                low=int(counts.min()) if len(counts) else 0,
                high=int(counts.max(initial=0)),
                labels=len(members),
                positives=int(true.sum()),
                contribution=100.0 * int(hits.sum()) / places,
                recall=100.0 * int(hits.sum()) / max(1, int(true.sum())),
                coverage=100.0 * int((hits > 0).sum()) / max(1, int((true > 0).sum())),
            )
        )
    return tuple(result)


def _notes(tally: Tally, places: int) -> list[str]:
    """Facts about the predictions that a reader of the measures should know."""
    largest = tally.ks[-1]
    notes = []
    if largest > places:
        notes.append(
            f"the predictions have {counted(places, 'place')}, fewer than k = {largest}: the missing are misses"
        )
    elif tally.short:
        notes.append(
            f"{tally.short} of {tally.rows} examples have fewer than {largest} predictions: the missing are misses"
        )
    if tally.repeated:
        notes.append(
            f"{counted(tally.repeated, 'prediction repeats', 'predictions repeat')} a label of their example: dropped"
        )
    if tally.unlabelled:
        notes.append(f"{tally.unlabelled} of {tally.rows} examples have no true label and count as misses")
    if tally.lost:
        notes.append(
            f"{counted(tally.lost, 'true label is', 'true labels are')} excluded for their example and can never be hit"
        )
    if tally.cells is None:
        notes.append("no ECE: some scores lie outside [0, 1], so they are not probabilities")
    return notes
