"""Recipes compared on held-out training rows: this is how settings are chosen, without the test split.

    python benchmarks/held_out.py DATA [DATA ...] --recipes "bonsai(hard_negatives=0, max_iter=8)" "bonsai" [--parts 3]

In each part, a different tenth of train is held out; the recipes train on the rest and predict that tenth and the valid
split. Each part has its own seed. Prints a table: the mean of each measure over the parts, its difference from the
first recipe, that difference of P@1 in each part, and CPU seconds of training and prediction.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
from scipy import sparse

import longtail
from longtail import Dataset, Recipe, evaluate
from longtail.grammar import Setting
from shared.command import parser_for
from shared.splits import with_test
from shared.tables import at_ks, header, row

MEASURES = [*at_ks("P", "PSP"), "C@5"]
TENTHS = 10


def parts(corpus: longtail.Corpus, number: int) -> list[tuple[Dataset, Dataset]]:
    """Rows to train on and rows to predict, over the same features."""
    from longtail.linear.features.sparse_features import Features

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


def measure(recipe: str, train: Dataset, asked: Dataset, seed: int) -> list[float]:
    """The measures, and CPU seconds of training and of prediction."""
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
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--recipes", nargs="+", required=True, help="recipes; the others are compared with the first")
    parser.add_argument(
        "--parts", type=int, default=3, choices=range(1, TENTHS + 1), help="parts, each with its own tenth"
    )
    options = parser.parse_args()
    columns = [*MEASURES, "P@1, each part", "train CPU s", "predict CPU s"]
    print(header(["data", "recipe", *columns], words=2), flush=True)
    for name in options.data:
        corpus = with_test(name)
        given = parts(corpus, options.parts)
        few = given[0][0].take(range(300))
        first: np.ndarray | None = None
        for recipe in options.recipes:
            Recipe.parse(recipe).fit(few, few).predict(few.rows, 5)  # kernels are compiled before the clock starts
            found = np.array([measure(recipe, *rows, 100 * part) for part, rows in enumerate(given)])
            first = found if first is None else first
            mean, gain = found.mean(axis=0), (found - first).mean(axis=0)
            figures = [f"{mean[at]:.1f} ({gain[at]:+.2f})" for at in range(len(MEASURES))]
            figures += [" ".join(f"{one:+.2f}" for one in (found - first)[:, 0])]
            figures += [f"{seconds:.1f}" for seconds in mean[len(MEASURES) :]]
            print(row([corpus.name, f"`{recipe}`", *figures]), flush=True)
            print(f"{corpus.name}, {recipe}", file=sys.stderr)


if __name__ == "__main__":
    main()
