"""Recipes judged on rows held out of train: this is how settings are chosen, test has no part in it.

    python benchmarks/held_out.py DATA [DATA ...] --recipes "bonsai(rivals=0, passes=8)" "bonsai" [--parts 3]

One tenth of train, another one for each part, and valid are the rows to answer; each part has a seed of its own. Prints
means over the parts, how far they stand from the first recipe's, and CPU seconds in one thread or several.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
from scipy import sparse

import longtail
from longtail import Recipe
from longtail.data.dataset import Dataset
from longtail.grammar import Setting
from longtail.linear.text import Features
from longtail.metrics import evaluate

MEASURES = [f"{name}@{k}" for name in ("P", "PSP") for k in (1, 3, 5)] + ["C@5"]
TENTHS = 10


def parts(corpus: longtail.Corpus, number: int) -> list[tuple[Dataset, Dataset]]:
    """Rows to learn from and rows to answer, over the same features."""
    features, train = Features.learn(corpus.train)
    valid = features.of(corpus.valid.rows)
    order = np.random.default_rng(99).permutation(len(corpus.train))
    found = []
    for part in range(number):
        held = np.sort(order[part::TENTHS])
        rest = np.setdiff1d(order, held)
        rows = sparse.csr_array(sparse.vstack([train[held], valid]))
        targets = sparse.csr_array(sparse.vstack([corpus.train.targets[held], corpus.valid.targets]))
        found.append(
            (
                data(corpus.labels, train[rest], sparse.csr_array(corpus.train.targets[rest])),
                data(corpus.labels, rows, targets),
            )
        )
    return found


def data(labels: longtail.LabelSet, rows: sparse.csr_array, targets: sparse.csr_array) -> Dataset:
    return Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows.shape[0]))), features=rows)


def judge(recipe: str, train: Dataset, asked: Dataset, seed: int) -> list[float]:
    """The measures, and CPU seconds of training and of answering."""
    first, *rest = Recipe.parse(recipe).parts
    made = Recipe((replace(first, settings=(*first.settings, Setting("seed", seed))), *rest))
    begin = time.process_time()
    model = made.fit(train, train.take([]))
    trained = time.process_time()
    answers = model.predict(asked.rows, 5)
    done = time.process_time()
    measures = evaluate(answers, asked)
    return [*(measures[name] for name in MEASURES), trained - begin, done - trained]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="+", required=True)
    parser.add_argument("--parts", type=int, default=3, choices=range(1, TENTHS + 1))
    options = parser.parse_args()
    columns = ["data", "recipe", *MEASURES, "P@1, each part", "train CPU s", "answer CPU s"]
    print(f"| {' | '.join(columns)} |\n| --- | --- {'| --: ' * (len(columns) - 2)}|", flush=True)
    for name in options.data:
        corpus = longtail.load(name, test_share=0.1)
        given = parts(corpus, options.parts)
        few = given[0][0].take(range(300))
        first: np.ndarray | None = None
        for recipe in options.recipes:
            Recipe.parse(recipe).fit(few, few).predict(few.rows, 5)  # kernels are there before the clock runs
            found = np.array([judge(recipe, *rows, 100 * part) for part, rows in enumerate(given)])
            first = found if first is None else first
            mean, gain = found.mean(axis=0), (found - first).mean(axis=0)
            figures = [f"{mean[at]:.1f} ({gain[at]:+.2f})" for at in range(len(MEASURES))]
            figures += [" ".join(f"{one:+.2f}" for one in (found - first)[:, 0])]
            figures += [f"{seconds:.1f}" for seconds in mean[len(MEASURES) :]]
            print(f"| {corpus.name} | `{recipe}` | {' | '.join(figures)} |", flush=True)
            print(f"{corpus.name}, {recipe}", file=sys.stderr)


if __name__ == "__main__":
    main()
