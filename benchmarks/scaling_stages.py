"""Where the time of training a label tree goes as labels grow in number: CPU seconds of each stage, in one thread.

    LONGTAIL_THREADS=1 python benchmarks/scaling_stages.py [ROWS LABELS [LABELS ...]]

The same Zipf data as `scaling.py`; the better of two trainings. A stage's seconds include those of the stages it calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import longtail.learners.parabel as learner
import longtail.linear.tree as tree
from longtail import Recipe
from longtail.linear.beam import ForestMaker
from longtail.linear.node_rows import LevelTargets
from zipf_data import zipf_data

STAGES = {  # what is wrapped, and what it is called in the table
    (learner, "label_vectors"): "vectors of labels",
    (learner, "halve"): "halving labels",
    (tree, "_raised"): "targets of nodes",
    (LevelTargets, "__init__"): "sorting them by node",
    (LevelTargets, "of"): "gathering targets",
    (tree, "_node_rows"): "gathering rows",
    (tree, "fit_children"): "classifiers",
    (tree, "_packed"): "dropping small weights",
    (ForestMaker, "keep"): "keeping the rest",
}
spent: dict[str, float] = {}


def timed(work: Callable[..., Any], name: str) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        begin = time.process_time()
        found = work(*given, **named)
        spent[name] = spent.get(name, 0.0) + time.process_time() - begin
        return found

    return run


def measure(recipe: Recipe, rows: int, labels: int) -> dict[str, float]:
    train, _ = zipf_data(rows, labels, 100)
    runs = []
    for _ in range(2):
        spent.clear()
        begin = time.process_time()
        recipe.fit(train, train.take([]))
        runs.append({"all": time.process_time() - begin, **spent})
    return min(runs, key=lambda run: run["all"])


def main(rows: int, sizes: list[int]) -> None:
    recipe = Recipe.parse("parabel(trees=1)")
    few, _ = zipf_data(2_000, 500, 100)
    recipe.fit(few, few)  # kernels come from Numba's cache, or are compiled into it
    for (home, name), told in STAGES.items():
        setattr(home, name, timed(getattr(home, name), told))
    names = ["all", *STAGES.values()]
    print(f"| labels | {' | '.join(names)} |\n{'| --: ' * (len(names) + 1)}|")
    for labels in sizes:
        found = measure(recipe, rows, labels)
        print(f"| {labels:,} | {' | '.join(f'{found.get(name, 0.0):.2f}' for name in names)} |", flush=True)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]] or [200_000, 1_000, 3_000, 10_000, 30_000, 100_000, 500_000]
    main(numbers[0], numbers[1:])
