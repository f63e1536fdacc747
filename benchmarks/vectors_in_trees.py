"""Claim: trees that keep an encoder's vector apart from words predict faster, and gain from its small weights.

    python benchmarks/vectors_in_trees.py DATA --encoder FOLDER [--rows N] [--trees 3] [--feature-weight 0.5]

The same label trees over [tf-idf, unit vector] three times, with the settings of `xrtransformer(levels_of_training=0)`:

- "sparse": weights of the vector are stored like those of words, and small ones of both are dropped;
- "sparse, all": those of the vector are all kept, and stored like those of words;
- "tables": as trees store them: words sparse, the vector's weights as a table of each chunk of classifiers.

The last two answer alike; the largest difference of their scores is printed. Seconds are processor seconds of one
thread, the least of three runs, of the trees alone: the encoder is read once and not timed. MB are of the weights and
their indices. Prints a Markdown table.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import Any

os.environ.setdefault("LONGTAIL_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from shared.command import parser_for
from shared.splits import evenly_spaced, splits
from shared.tables import table

MEASURES = ("P@1", "P@5", "PSP@5", "C@5")
RUNS = 3
BEAM, NEGATIVES = 20, 3
SPARSE = ("features", "starts", "which", "weights")


def seconds_of(work: Any) -> float:
    """The least processor seconds of some runs."""
    found = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def one_by_one(search: Any, forest: Any, rows: list[Any]) -> None:
    """Ask for each row alone."""
    for row in rows:
        search(forest, row, 20, BEAM)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--encoder", required=True, help="folder of a pretrained encoder")
    parser.add_argument("--rows", type=int, default=0, help="training examples, evenly spaced; 0: all")
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--feature-weight", type=float, default=0.5)
    parser.add_argument("--thresholds", type=float, nargs="*", default=[0.1, 0.02])
    options = parser.parse_args()

    import numpy as np
    from scipy import sparse

    from longtail.linear.features.sparse_features import Features
    from longtail.linear.trees.beam_search import ForestMaker, search
    from longtail.linear.trees.hard_negatives import hard_negatives_of
    from longtail.linear.trees.label_clusters import balanced_halves, label_vectors, merge_levels
    from longtail.linear.trees.label_forest import dense_columns_of
    from longtail.linear.trees.train_tree import Training, fit_tree
    from longtail.metrics import evaluate
    from longtail.nn.encoders.build import load_encoder
    from longtail.nn.encoders.text_encoder import TextEncoder
    from longtail.predictions import Predictions

    train, _, test = splits(options.data, None)
    train = evenly_spaced(train, options.rows)
    encoder = TextEncoder.of(*load_encoder(options.encoder, None), 64)
    train, test = (
        replace(part, features=sparse.csr_array(encoder.vectors(part.texts or ()))) for part in (train, test)
    )
    features, rows = Features.learn(train, share=options.feature_weight)
    asked, dense = features.of(test.rows), dense_columns_of(features, rows)
    print(f"{len(train):,} examples, {rows.shape[1] - dense.number:,} words and {dense.number} numbers of a vector\n")
    vectors, shown = label_vectors(train.targets, rows), []
    clusters = [balanced_halves(vectors, 100, seed) for seed in range(options.trees)]
    for threshold in options.thresholds:
        ways = {"sparse": [ForestMaker()], "tables": [ForestMaker(), ForestMaker(dense=dense)]}
        spent = {}
        for way, makers in ways.items():
            begin = time.process_time()
            negatives = hard_negatives_of(rows, NEGATIVES, makers[-1].dense_columns)
            for seed, (order, halves) in enumerate(clusters):
                levels = merge_levels(halves, 16)
                for maker in makers:
                    maker.begin_tree(order, levels)
                training = Training(
                    cost=1.5, weight_threshold=threshold, max_iter=5, seed=seed, path_weight=3 / (3 + NEGATIVES),
                    kept_from=makers[-1].dense_columns.first,
                )  # fmt: skip
                keep = partial(lambda makers, chunk: [maker.keep(chunk) for maker in makers], makers)
                fit_tree(rows, train.targets, order, levels, training, keep, negatives)
            spent[way] = time.process_time() - begin
        kept = [maker.finish() for makers in ways.values() for maker in makers]
        answers = []
        for name, forest in zip(("sparse", "sparse, all", "tables"), kept, strict=True):
            answers.append(search(forest, asked, 20, BEAM))
            labels, scores = answers[-1]
            measured = evaluate(Predictions(test.labels, labels, scores).top(5), test)
            megabytes = sum(getattr(forest, each).nbytes for each in (*SPARSE, "dense")) / 1e6
            alone = partial(one_by_one, search, forest, [asked[row : row + 1] for row in range(100)])
            shown.append(
                [
                    threshold, name, f"{megabytes:.1f}", *(f"{measured[each]:.2f}" for each in MEASURES),
                    f"{seconds_of(partial(search, forest, asked, 20, BEAM)):.2f}",
                    f"{10 * seconds_of(alone):.2f}",
                    f"{spent['sparse' if name == 'sparse' else 'tables']:.1f}",
                ]
            )  # fmt: skip
        same = answers[1][0] == answers[2][0]
        apart = np.abs(answers[1][1] - answers[2][1]).max()
        other = 100 * (1 - same.mean())
        print(f"threshold {threshold}: scores differ by {apart:.1e} at most, labels in {other:.3f}% of places\n")
    head = ["threshold", "stored", "MB", *MEASURES, f"s for {len(test):,}", "ms for one", "s of training"]
    print(table(head, shown))


if __name__ == "__main__":
    main()
