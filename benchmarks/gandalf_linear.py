"""Label rows, gandalf and what it is compared with, on learners over words: tables of P, PSP and coverage at 1, 3 and 5
on the test split, then of the points of P@5 that come from each frequency bin.

    python benchmarks/gandalf_linear.py gutenberg --part learners variants --out gandalf_linear.jsonl

`learners`: each learner plain, with rows and with gandalf. `variants`: settings of gandalf and the other augmentations,
on one learner (--on). `shares`: fewer labels as rows, drawn by chance or the rarest first. `valid`: the settings of
gandalf and bow, measured on the valid split, to choose from. With --out every recipe's figures are kept, and a recipe
that is there is not trained again. `links`: how many labels gandalf links to one.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import longtail
from longtail.data import Corpus
from longtail.metrics import evaluate
from longtail.recipe import Recipe
from longtail.tail.gandalf import Gandalf

LEARNERS = ["knn", "centroid", "parabel", "bonsai", "dismec"]
TAILS = ["", " + rows", " + gandalf", " + gandalf(least=3)", " + gandalf(longest=none)"]  # the last but one by valid
VARIANTS = [
    "",
    "rows",
    "gandalf",
    "gandalf(threshold=0)",
    "gandalf(threshold=0.2)",
    "gandalf(least=3)",
    "gandalf(longest=none)",
    "gandalf(most=5)",
    "gandalf(most=5, least=3)",
    'gandalf(graph="walk")',
    'gandalf(graph="symmetric")',
    "gandalf(rows_only=true)",
    "gandalf(budget=true)",
    'gandalf(share=0.5, which="tail")',
    "gandalf(share=0.5)",
    "mixup",
    "labelmixup",
    "synonyms",
    "bow",
]
CHOICES = [
    "",
    "rows",
    *(f"gandalf(threshold={bar}, least={least})" for bar in (0.1, 0.3, 0.5) for least in (1, 3)),
    "gandalf(most=1)",
    "gandalf(most=3, least=3)",
    *(f"gandalf(scale={scale}, times={times})" for scale in (0.1, 0.3, 0.5) for times in (1, 2)),
    "gandalf(doubt=2)",
    "gandalf(doubt=2, scale=0.3)",
    "gandalf(scale=0.5, least=3)",
    *(f"bow(threshold={bar}, nearest={nearest})" for bar in (0.3, 0.5, 0.7) for nearest in (5, 15)),
]
LINKED = ("gandalf", "gandalf(threshold=0)", "gandalf(least=3)", "gandalf(most=5)", "gandalf(longest=none)",
          'gandalf(graph="walk")')  # fmt: skip
SHARES = (0.25, 0.5, 0.75)
FEWER = [
    "",
    *(f'gandalf(share={share:g}, which="{which}")' for which in ("uniform", "tail") for share in SHARES),
    "gandalf",
]
MEASURES = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
BINS = ["1", "2", "3", "4", "5", "zero-shot"]


def recipes(part: str, on: str, learners: list[str]) -> list[str]:
    if part == "learners":
        return [f"{name}{tail}" for name in learners for tail in TAILS]
    tails = {"variants": VARIANTS, "shares": FEWER, "valid": CHOICES}[part]
    return [f"{on} + {tail}" if tail else on for tail in tails]


def measure(corpus: Corpus, split: str, recipe: str) -> dict[str, Any]:
    begin = time.perf_counter()
    model = Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    seconds = time.perf_counter() - begin
    asked = corpus.valid if split == "valid" else corpus.test
    found = evaluate(model.predict(asked.rows, 5, asked.excluded), asked)
    figures = {name: round(found[name], 3) for name in MEASURES}
    bins = {one.name: round(one.contribution, 3) for one in found.bins}
    return {
        "data": corpus.name,
        "split": split,
        "recipe": recipe,
        "seconds": round(seconds, 1),
        **figures,
        "bins": bins,
    }


def print_links(corpus: Corpus) -> None:
    few = float((corpus.labels.counts <= 2).mean())
    longest = np.diff(corpus.train.targets.indptr)
    print(
        f"\n{corpus.name}: {few:.0%} of the labels have at most two training rows; of {len(longest):,} rows "
        f"{np.count_nonzero(longest > 100)} have more than 100 labels, the longest {longest.max():,}\n"
    )
    print("| targets | other labels a label | labels with any |\n| --- | --: | --: |")
    for tail in LINKED:
        method = Recipe.parse(f"parabel + {tail}").tail[0]
        assert isinstance(method, Gandalf)
        links = np.diff(method.soft_targets(corpus.train.targets).indptr) - 1
        print(f"| `{tail}` | {links.mean():.1f} | {(links > 0).mean():.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument(
        "--part",
        nargs="+",
        choices=["links", "learners", "variants", "shares", "valid"],
        default=["learners", "variants"],
    )
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--on", default="parabel", help="the learner of variants, shares and valid")
    parser.add_argument("--out", type=Path, help="JSON lines with every recipe's figures")
    options = parser.parse_args()
    kept = (
        [json.loads(line) for line in options.out.read_text().splitlines()]
        if options.out and options.out.exists()
        else []
    )
    for data in options.data:
        corpus = longtail.load(data, test_share=0.1)
        for part in options.part:
            if part == "links":
                print_links(corpus)
                continue
            split = "valid" if part == "valid" else "test"
            rows = []
            for recipe in recipes(part, options.on, options.learners):
                known = (corpus.name, split, recipe)
                row = next((one for one in kept if (one["data"], one["split"], one["recipe"]) == known), None)
                if row is None:
                    row = measure(corpus, split, recipe)
                    kept.append(row)
                    if options.out:
                        with options.out.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                rows.append(row)
            print(f"\n{corpus.name}, {split}, {corpus.propensity}\n")
            print(f"| recipe | {' | '.join(MEASURES)} | s |\n| --- |{' --: |' * (len(MEASURES) + 1)}")
            for row in rows:
                cells = [f"{row[name]:.1f}" for name in MEASURES]
                print(f"| `{row['recipe']}` | {' | '.join(cells)} | {row['seconds']:.0f} |")
            print(f"\n| recipe | {' | '.join(BINS)} |\n| --- |{' --: |' * len(BINS)}")
            for row in rows:
                cells = [f"{row['bins'][name]:.1f}" if name in row["bins"] else "" for name in BINS]
                print(f"| `{row['recipe']}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
