"""Claim: all measures of 1,000,000 rows x top 100 take seconds, at least 10 times faster than a NumPy loop.

    python benchmarks/metrics.py [--rows 1000000]

The peer is the plain way to write it: a Python loop over rows with NumPy inside, for P, nDCG, PSP and R only.
`evaluate` computes these and seven more. The loop is timed on a sample of the rows and its time scaled to all rows.
Prints the seconds of both, the ratio, and the largest difference on the sample. Exits with an error where the two
disagree, or where the ratio is below 10 with a million rows or more.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from longtail.arrays import Doubles, Ints
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.metrics import evaluate, inverse_propensity
from longtail.predictions import Predictions
from shared.command import parser_for
from shared.timing import best_of

LABELS, PLACES, KS, SAMPLE = 1_000_000, 100, (1, 3, 5, 10, 100), 20_000


def zipf_rows(rng: np.random.Generator, rows: int, width: int) -> Ints:
    """(rows, width) distinct labels a row, in no order; label l is drawn about as often as 1 / (l + 1)."""
    spread = (np.arange(width) + rng.random((rows, width), dtype=np.float32)) / width
    labels = (float(LABELS) ** spread).astype(np.int64) - np.arange(width)
    labels = np.maximum.accumulate(labels, axis=1) + np.arange(width)  # strictly rising: distinct
    return rng.permuted(np.minimum(labels, LABELS - width + np.arange(width)), axis=1).astype(np.int32)


def make(rows: int) -> tuple[Predictions, Dataset]:
    """Predictions that find some of each row's true labels, and the truth: two to five labels a row."""
    rng = np.random.default_rng(0)
    chunks = [zipf_rows(rng, min(50_000, rows - start), PLACES) for start in range(0, rows, 50_000)]
    indices = np.concatenate(chunks)
    scores = np.sort(rng.random((rows, PLACES), dtype=np.float32), axis=1)[:, ::-1]
    row = np.arange(rows)[:, None]
    found = indices[row, (PLACES * rng.random((rows, 3)) ** 3).astype(np.int64)]  # more often near the top
    truth = np.concatenate([found, zipf_rows(rng, rows, 2)], axis=1)
    pairs = (np.ones(truth.size, np.float32), (np.repeat(row, truth.shape[1]), truth.ravel()))
    targets = sparse.csr_array(sparse.coo_array(pairs, shape=(rows, LABELS)))
    targets.data[:] = 1.0
    labels = LabelSet(ids=tuple(map(str, range(LABELS)))).counted(targets)
    nothing = sparse.csr_array((rows, 1), dtype=np.float32)
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows))), features=nothing)
    return Predictions(labels, indices, scores), data


def numpy_loop(predictions: Predictions, data: Dataset, weights: Doubles) -> dict[str, float]:
    """P, nDCG, PSP and R in percent, row by row."""
    largest, rows = max(KS), len(data)
    discounts = 1 / np.log2(np.arange(2, largest + 2))
    sums = np.zeros((len(KS), 5))
    at = np.array(KS) - 1
    for row in range(rows):
        truth = data.targets.indices[data.targets.indptr[row] : data.targets.indptr[row + 1]]
        top = predictions.indices[row, :largest]
        hit = np.isin(top, truth)
        best = np.zeros(largest)
        ranked = np.sort(weights[truth])[::-1][:largest]
        best[: len(ranked)] = ranked
        hits = np.cumsum(hit)[at]
        ideal = np.cumsum(np.where(np.arange(largest) < len(truth), discounts, 0))[at]
        sums[:, 0] += hits
        sums[:, 1] += np.cumsum(hit * discounts)[at] / ideal
        sums[:, 2] += np.cumsum(hit * weights[top])[at]
        sums[:, 3] += np.cumsum(best)[at]
        sums[:, 4] += hits / len(truth)
    named: dict[str, float] = {}
    for step, k in enumerate(KS):
        hits, ndcg, gain, best_gain, recall = sums[step]
        named |= {f"P@{k}": hits / k / rows, f"nDCG@{k}": ndcg / rows}
        named |= {f"PSP@{k}": gain / best_gain, f"R@{k}": recall / rows}
    return {name: 100 * float(value) for name, value in named.items()}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to evaluate")
    rows = parser.parse_args().rows
    predictions, data = make(rows)
    sample = min(rows, SAMPLE)
    few = Predictions(data.labels, predictions.indices[:sample], predictions.scores[:sample])
    few_data = data.take(np.arange(sample))

    fast = evaluate(few, few_data, KS)  # also loads the compiled kernel
    weights = inverse_propensity(data.labels)
    start = time.perf_counter()
    slow = numpy_loop(few, few_data, weights)
    loop_seconds = (time.perf_counter() - start) * rows / sample

    seconds, _, measures = best_of(lambda: evaluate(predictions, data, KS))

    apart = max(abs(fast[name] - value) for name, value in slow.items())
    print(f"{rows:,} rows x top {PLACES}, {LABELS:,} labels, {data.targets.nnz:,} true pairs, k = {KS}")
    print(f"{'NumPy loop, 4 measures':40}{loop_seconds:10.2f} s  timed on {sample:,} rows and scaled")
    print(f"{f'evaluate, {len(measures.values) // len(KS)} measures and bins':40}{seconds:10.2f} s  best of 3")
    print(f"{'ratio (at least 10)':40}{loop_seconds / seconds:10.1f} x")
    print(f"{'largest difference on the sample':40}{apart:10.1e}  points, of {len(slow)} values")
    if apart > 1e-6:
        raise SystemExit("the two disagree")
    if rows >= 1_000_000 and loop_seconds / seconds < 10:  # with few rows the work per label weighs more
        raise SystemExit("the ratio is below 10")


if __name__ == "__main__":
    main()
