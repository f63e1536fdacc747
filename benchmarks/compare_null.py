"""Claim: two seeds of one recipe are rarely told apart: a difference is shown in at most 7% of 200 tests at 5%.

    python benchmarks/compare_null.py wordnet [--recipe "parabel(trees=1)"] [--seeds 5] [--times 200] [--rows 1500]

Trains the recipe with several seeds, then draws documents of the test split, without repetition, and tests two of the
seeds against each other on them. Prints the share of tests that show a difference, by measure, and how far the seeds
are apart on the whole split. The documents drawn are few beside the split: two models do differ a little, and many
documents show it, rightly.
"""

from __future__ import annotations

from itertools import combinations, cycle, islice

from shared.command import parser_for
from shared.splits import with_test
from shared.tables import header, row

MEASURES = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5", "C@1", "C@5")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--recipe", default="parabel(trees=1)", help="a recipe that draws random numbers")
    parser.add_argument("--seeds", type=int, default=5, help="trainings; each test takes two")
    parser.add_argument("--times", type=int, default=200, help="tests")
    parser.add_argument("--rows", type=int, default=1500, help="documents of a test")
    options = parser.parse_args()
    import numpy as np

    import longtail
    from longtail.metrics.significance import SAME, significance
    from longtail.predictions import Predictions
    from longtail.search.blas_threads import single_threaded_blas

    corpus = with_test(options.data)
    (result,) = longtail.compare(corpus, [options.recipe], seeds=options.seeds)
    rng, shown = np.random.default_rng(0), dict.fromkeys(MEASURES, 0)
    pairs = cycle(combinations(result.all_predictions, 2))
    with single_threaded_blas():
        for pair in islice(pairs, options.times):
            rows = np.sort(rng.permutation(len(corpus.test))[: options.rows])
            taken = [[Predictions(one.labels, one.indices[rows], one.scores[rows])] for one in pair]
            found = significance(taken, corpus.test.take(rows), (1, 5)).differences[1]
            for name in MEASURES:
                shown[name] += found[name].verdict != SAME
    print(f"{options.times} tests of two seeds of `{options.recipe}` on {options.rows} documents of {corpus.name}\n")
    print(header(["measure", "difference shown", "deviation of the seeds"], words=1))
    for name in MEASURES:
        print(row([name, f"{100 * shown[name] / options.times:.1f}%", f"{result.deviation(name):.2f}"]))
    worst = max(shown.values()) / options.times
    print(f"\nlargest share {100 * worst:.1f}%, at most 7.0% wanted: {'ok' if worst <= 0.07 else 'MISSED'}")


if __name__ == "__main__":
    main()
