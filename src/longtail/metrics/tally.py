"""Count predictions against the truth in one pass: every measure is computed from these counts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Doubles, Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import DataError, counted
from longtail.metrics.propensity import inverse_propensity
from longtail.predictions import Predictions
from longtail.threads import thread_count

BLOCKS = 256  # rows are summed in this many blocks unless asked otherwise, on any number of cores
MIN_ROWS = 1024  # a worker with fewer rows costs more than it saves
TALLY_BYTES = 2**30  # for the counts of all workers; with many labels fewer workers run


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over rows and counts per label, each for the top k of every k."""

    ks: tuple[int, ...]  # rising
    rows: int
    sums: Doubles  # (ks, sums) columns as named in `kernels`
    cells: Doubles | None  # (ks, score bins, 3) predictions, scores, hits; None: some scores lie outside [0, 1]
    predicted: Longs  # (labels, ks) rows with the label in the top k
    found: Longs  # (labels, ks) those of them where the label is true
    positives: Longs  # (labels,) rows where the label is true
    repeated: int  # places dropped because the row has the same label earlier
    short: int  # rows with fewer predictions than the largest k
    lost: int  # true pairs that are excluded and so can never be hit
    unlabelled: int  # rows without a true label
    block_sums: Doubles  # (blocks, ks, sums) the sums of each block of consecutive rows


def tally(predictions: Predictions, data: Dataset, ks: Sequence[int], blocks: int = BLOCKS) -> Tally:
    """Count hits in one pass. Empty places, excluded pairs and repeated labels do not use up a place.

    Args:
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets and excluded pairs.
        ks: each k at which to count.
        blocks: of consecutive rows, equal in size up to one row; with as many blocks as rows each row is a block.

    Returns:
        Sums over rows and counts per label, for each k in rising order.

    Raises:
        DataError: rows or label sets do not match, the data has no rows, or a k is not a whole number of 1 or more.
    """
    _check(predictions, data, ks)
    from longtail.metrics import kernels  # Numba takes a while to import

    rising = tuple(sorted(set(ks)))
    rows, labels, steps = len(data), len(data.labels), len(rising)
    truth_starts, truth = _parts(data.targets, rows)
    excluded_starts, excluded = _parts(data.excluded, rows)
    true_labels = np.diff(truth_starts)
    # beyond the last prediction and the last true label only the divisor of P changes
    reach = np.minimum(rising, max(predictions.places, int(true_labels.max()), 1)).astype(np.int64)
    discounts = 1.0 / np.log2(np.arange(2, reach[-1] + 2, dtype=np.float64))
    ideal = np.concatenate([[0.0], np.cumsum(discounts)])
    calibrated = _are_probabilities(predictions)

    workers = _workers(rows, bytes_each=labels * (8 * steps + 8))
    sums = np.zeros((blocks, steps, kernels.SUMS), dtype=np.float64)
    events = np.zeros((blocks, kernels.EVENTS), dtype=np.int64)
    cells = np.zeros((blocks, steps, kernels.SCORE_BINS, 3), dtype=np.float64)
    tallies = np.zeros((workers, labels, steps, 2), dtype=np.int32)
    weights = inverse_propensity(data.labels)
    row_labels = kernels.RowLabels(*_read_only(truth_starts, truth, excluded_starts, excluded))
    hit_weights = kernels.HitWeights(*_read_only(weights, discounts, ideal, reach))

    def work(worker: int) -> None:
        into = kernels.Counted(sums, events, cells, tallies[worker])
        found = predictions.indices, predictions.scores
        kernels.tally_rows(*found, calibrated, row_labels, hit_weights, into, worker, workers)

    if workers == 1:
        work(0)
    else:
        with ThreadPoolExecutor(workers) as pool:  # the kernel releases the interpreter lock
            list(pool.map(work, range(workers)))
    counted = tallies.sum(axis=0, dtype=np.int64).cumsum(axis=1)
    event_counts = events.sum(axis=0)
    return Tally(
        ks=rising,
        rows=rows,
        sums=sums.sum(axis=0),
        cells=cells.sum(axis=0).cumsum(axis=0) if calibrated else None,
        predicted=counted[:, :, 0],
        found=counted[:, :, 1],
        positives=np.bincount(truth, minlength=labels).astype(np.int64),
        repeated=int(event_counts[kernels.REPEATED]),
        short=int(event_counts[kernels.SHORT]),
        lost=int(event_counts[kernels.LOST]),
        unlabelled=int((true_labels == 0).sum()),
        block_sums=sums,
    )


def _check(predictions: Predictions, data: Dataset, ks: Sequence[int]) -> None:
    if len(data) == 0:
        raise DataError("there is nothing to measure: the data has no examples; choose a split with some")
    if len(predictions) != len(data):
        raise DataError(
            f"{counted(len(predictions), 'prediction')} for {counted(len(data), 'document')}; "
            "predict the same ones, in the same order"
        )
    if predictions.labels is not data.labels and predictions.labels.ids != data.labels.ids:
        raise DataError(
            f"the predictions are over another label set ({len(predictions.labels)} labels) than the data "
            f"({len(data.labels)} labels); predict with a model of this data set"
        )
    check_places(ks)


def check_places(ks: Sequence[int]) -> None:
    """Check that each k can be measured at.

    Args:
        ks: the values of k.

    Raises:
        DataError: there is none, or one is not a whole number of 1 or more.
    """
    if not ks or any(k != int(k) or k < 1 for k in ks):
        raise DataError(f"measures at k need whole numbers k of 1 or more, got {list(ks)}")


def _parts(matrix: Matrix | None, rows: int) -> tuple[Longs, Ints]:
    """Row starts and label rows of a CSR array; None counts as an empty array."""
    if matrix is None:
        return np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    starts: Longs = np.ascontiguousarray(matrix.indptr, dtype=np.int64)
    columns: Ints = np.ascontiguousarray(matrix.indices, dtype=np.int32)
    return starts, columns


def _read_only(*arrays: AnyArray) -> list[AnyArray]:
    """The same numbers in views that cannot be written to, as arrays in the kernel's named tuples must be."""
    views = [array.view() for array in arrays]
    for view in views:
        view.setflags(write=False)
    return views


def _workers(rows: int, bytes_each: int) -> int:
    """The number of threads: fewer than the cores where there are few rows or many labels."""
    return max(1, min(thread_count(), BLOCKS, rows // MIN_ROWS, TALLY_BYTES // max(1, bytes_each)))


def _are_probabilities(predictions: Predictions) -> bool:
    scores = predictions.scores
    if scores.size == 0 or (scores.min() >= 0 and scores.max() <= 1):
        return True
    scores = scores[predictions.indices >= 0]  # the score of an empty place means nothing
    return scores.size == 0 or bool(scores.min() >= 0 and scores.max() <= 1)
