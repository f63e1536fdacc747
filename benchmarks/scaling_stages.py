"""Where the time of training a label tree goes as the number of labels grows: CPU seconds of each stage.

    python benchmarks/scaling_stages.py [ROWS [LABELS ...]]     # default 200,000 rows, 1,000 to 500,000 labels

Trains on the Zipf data of `scaling.py`, in one thread, under Python's profiler; the faster of two trainings counts.
Prints one line for each number of labels. The seconds of a stage include those of the stages that it calls.
"""

from __future__ import annotations

import cProfile
import os
import time
from collections.abc import Callable
from typing import Any

from longtail import Recipe
from shared.command import parser_for
from shared.tables import header, row
from shared.zipf import zipf_data

LABELS = [1_000, 3_000, 10_000, 30_000, 100_000, 500_000]


def stages() -> dict[str, Callable[..., Any]]:
    """The function of each column of the table."""
    from longtail.linear.solvers import coordinate_descent as solve
    from longtail.linear.trees import label_clusters as cluster
    from longtail.linear.trees import train_tree as tree
    from longtail.linear.trees.beam_search import ForestMaker
    from longtail.linear.trees.node_rows import LevelTargets

    return {
        "vectors of labels": cluster.label_vectors,
        "halving labels": cluster.balanced_halves,
        "targets of nodes": tree._node_targets,
        "sorting them by node": LevelTargets.__init__,
        "gathering targets": LevelTargets.of,
        "gathering rows": tree._node_rows,
        "classifiers": solve.fit_children,
        "dropping small weights": tree._packed,
        "storing the rest": ForestMaker.keep,
    }


def measure(recipe: Recipe, rows: int, labels: int) -> dict[str, float]:
    train, _ = zipf_data(rows, labels, 100)
    names = {function.__code__: name for name, function in stages().items()}
    runs = []
    for _ in range(2):
        profile = cProfile.Profile(time.process_time)
        begin = time.process_time()
        profile.runcall(recipe.fit, train, train.take([]))
        spent = {"all": time.process_time() - begin}
        spent |= {names[entry.code]: entry.totaltime for entry in profile.getstats() if entry.code in names}
        runs.append(spent)
    return min(runs, key=lambda run: run["all"])


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=200_000, help="training rows")
    parser.add_argument("labels", type=int, nargs="*", default=LABELS, help="numbers of labels, one training each")
    options = parser.parse_args()
    os.environ["LONGTAIL_THREADS"] = "1"  # the profiler sees one thread
    recipe = Recipe.parse("parabel(trees=1)")
    few, _ = zipf_data(2_000, 500, 100)
    recipe.fit(few, few)  # kernels are compiled, or loaded from Numba's cache
    names = ["all", *stages()]
    print(header(["labels", *names], words=0))
    for labels in options.labels:
        found = measure(recipe, options.rows, labels)
        print(row([f"{labels:,}", *(f"{found.get(name, 0.0):.2f}" for name in names)]), flush=True)


if __name__ == "__main__":
    main()
