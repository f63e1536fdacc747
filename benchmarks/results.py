"""Recipes on data sets as Markdown tables: P, PSP and coverage at 1, 3 and 5 on the test split, then the points of P@5
that come from each frequency bin.

    python benchmarks/results.py wordnet [DATA ...] [--recipes "centroid" "centroid + rerank" ...]
"""

from __future__ import annotations

import argparse

import longtail

RECIPES = ["bm25", "centroid", "centroid + rerank", "knn", "knn + rerank"]
MEASURES = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
BINS = ["1", "2", "3", "4", "5", "zero-shot"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    options = parser.parse_args()
    print(f"| data | recipe | {' | '.join(MEASURES)} |")
    print("| --- | --- " + "| --: " * len(MEASURES) + "|")
    bins = []
    for data in options.data:
        corpus = longtail.load(data, test_share=0.1)
        for result in longtail.compare(corpus, options.recipes):
            figures = " | ".join(f"{result.measures[name]:.1f}" for name in MEASURES)
            print(f"| {corpus.name} | `{result.recipe}` | {figures} |", flush=True)
            points = {part.name: f"{part.contribution:.1f}" for part in result.measures.bins}
            cells = " | ".join(points.get(name, "") for name in BINS)
            bins.append(f"| {corpus.name} | `{result.recipe}` | {cells} |")
    print("\nPoints of P@5 by frequency bin, the most frequent labels first, each a fifth of the training positives:\n")
    print(f"| data | recipe | {' | '.join(BINS)} |")
    print("| --- | --- " + "| --: " * len(BINS) + "|")
    print("\n".join(bins))


if __name__ == "__main__":
    main()
