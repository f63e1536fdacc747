"""Recipes on data sets, as the tables of the result pages.

    python benchmarks/results.py wordnet [DATA ...] [--recipes "centroid" "centroid + rerank" ...] [--rows 8000]

Prints two tables: P, PSP and coverage at 1, 3 and 5 on the test split, and the points of P@5 that come from each
frequency bin of the labels. With --rows, training sees so many evenly spaced examples, and valid and test are a quarter
of that; label counts stay those of the whole set.
"""

from __future__ import annotations

from dataclasses import replace

import longtail
from shared.command import parser_for
from shared.splits import evenly_spaced, with_test
from shared.tables import BINS, MEASURES, cells, header, row, table

RECIPES = ["bm25", "centroid", "centroid + rerank", "knn", "knn + rerank"]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="recipes to compare")
    parser.add_argument("--rows", type=int, default=0, help="examples to train on; all without it")
    options = parser.parse_args()
    print(header(["data", "recipe", *MEASURES], words=2))
    bins = []
    for data in options.data:
        corpus = with_test(data)
        if rows := options.rows:
            parts = (corpus.train, rows), (corpus.valid, rows // 4), (corpus.test, rows // 4)
            train, valid, test = (evenly_spaced(*part) for part in parts)
            corpus = replace(corpus, train=train, valid=valid, test=test)
        for result in longtail.compare(corpus, options.recipes):
            name = [corpus.name, f"`{result.recipe}`"]
            print(row([*name, *cells(result.measures, MEASURES)]), flush=True)
            bins.append([*name, *cells({part.name: part.contribution for part in result.measures.bins}, BINS)])
    print("\nPoints of P@5 by frequency bin, the most frequent labels first, each a fifth of the training positives:\n")
    print(table(["data", "recipe", *BINS], bins, words=2))


if __name__ == "__main__":
    main()
