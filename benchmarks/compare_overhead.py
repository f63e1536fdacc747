"""Claim: intervals and tests cost at most 1 s for 10,000 test documents and at most 10 s for a million.

    python benchmarks/compare_overhead.py [--rows 10000 1000000] [--recipes 4]

Makes predictions of several recipes at random and times `significance` on them, after one call that compiles. Prints
seconds, seconds of the processor (fewer where other work runs beside), and those of one `evaluate` of each recipe.
"""

from __future__ import annotations

import time

from shared.command import parser_for
from shared.tables import header, row

LABELS, TRUE, PLACES = 20_000, 3, 5
LIMITS = {10_000: 1.0, 1_000_000: 10.0}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=sorted(LIMITS), help="test documents")
    parser.add_argument("--recipes", type=int, default=4, help="recipes that are compared")
    options = parser.parse_args()
    import numpy as np
    from scipy import sparse

    from longtail.data.dataset import Dataset
    from longtail.data.labels import LabelSet
    from longtail.metrics import evaluate
    from longtail.metrics.significance import significance
    from longtail.predictions import Predictions
    from longtail.search.blas_threads import single_threaded_blas

    rng = np.random.default_rng(0)
    counts = rng.zipf(1.5, LABELS).clip(max=10_000)
    labels = LabelSet(ids=tuple(map(str, range(LABELS))), counts=counts, train_rows=int(counts.sum()) // TRUE)

    def data_of(rows: int) -> Dataset:
        starts = np.arange(0, TRUE * rows + 1, TRUE)
        columns = np.sort(rng.integers(0, LABELS // TRUE, (rows, TRUE)) * TRUE + np.arange(TRUE), axis=1)
        targets = sparse.csr_array((np.ones(TRUE * rows, np.float32), columns.ravel(), starts), shape=(rows, LABELS))
        return Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows))), texts=("x",) * rows)

    def predictions_of(data: Dataset) -> Predictions:
        indices = rng.integers(0, LABELS, (len(data), PLACES)).astype(np.int32)
        hit = rng.random(len(data)) < 0.5
        indices[hit, 0] = data.targets.indices[data.targets.indptr[:-1][hit]]
        scores = np.tile(np.linspace(0.9, 0.5, PLACES, dtype=np.float32), (len(data), 1))
        return Predictions(labels, indices, scores)

    small = data_of(100)
    significance([[predictions_of(small)]], small, (1, 3, 5), resamples=10)  # compiles
    names = ["documents", "recipes", "evaluate, s", "intervals and tests, s", "of the processor, s", "limit, s"]
    print(header(names, words=0))
    for rows in options.rows:
        data = data_of(rows)
        runs = [[predictions_of(data)] for _ in range(options.recipes)]
        start = time.perf_counter()
        for (one,) in runs:
            evaluate(one, data)
        measured = time.perf_counter()
        processor = time.process_time()
        with single_threaded_blas():
            significance(runs, data, (1, 3, 5))
        tested, processor = time.perf_counter(), time.process_time() - processor
        limit = LIMITS.get(rows)
        figures = [f"{value:.2f}" for value in (measured - start, tested - measured, processor)]
        print(row([f"{rows:,}", str(options.recipes), *figures, "" if limit is None else f"{limit:g}"]), flush=True)


if __name__ == "__main__":
    main()
