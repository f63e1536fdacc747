"""Label rows, gandalf and other augmentations on learners over words: what each brings, and for which labels.

    python benchmarks/gandalf_linear.py gutenberg --part learners variants --out gandalf_linear.jsonl

Parts: `learners` compares each learner plain, with rows and with gandalf; `variants` compares settings of gandalf and
the other augmentations on one learner (--on); `shares` uses fewer labels as rows, random ones or the rarest; `valid`
compares settings of gandalf and bow on the valid split, to choose from; `links` counts how many labels gandalf links to
one. Prints a table of P, PSP and coverage at 1, 3 and 5 on the test split, and one of the points of P@5 that come from
each frequency bin. With --out the figures of every recipe are stored, and a recipe that is stored is not trained again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from longtail import Corpus, Recipe, evaluate
from longtail.tail.gandalf import Gandalf
from shared.command import parser_for
from shared.splits import with_test
from shared.tables import BINS, MEASURES, append_lines, cells, header, read_lines, row, table

LEARNERS = ["knn", "centroid", "parabel", "bonsai", "dismec"]
TAILS = [
    "",
    " + rows",
    " + gandalf",
    " + gandalf(min_cooccurrence=3)",
    " + gandalf(max_labels=none)",
]  # the last but one by valid
VARIANTS = [
    "",
    "rows",
    "gandalf",
    "gandalf(threshold=0)",
    "gandalf(threshold=0.2)",
    "gandalf(min_cooccurrence=3)",
    "gandalf(max_labels=none)",
    "gandalf(max_soft_targets=5)",
    "gandalf(max_soft_targets=5, min_cooccurrence=3)",
    'gandalf(graph="walk")',
    'gandalf(graph="symmetric")',
    "gandalf(rows_only=true)",
    "gandalf(budget=true)",
    'gandalf(label_share=0.5, label_selection="tail")',
    "gandalf(label_share=0.5)",
    "mixup",
    "labelmixup",
    "synonyms",
    "bow",
]
CHOICES = [
    "",
    "rows",
    *(f"gandalf(threshold={bar}, min_cooccurrence={least})" for bar in (0.1, 0.3, 0.5) for least in (1, 3)),
    "gandalf(max_soft_targets=1)",
    "gandalf(max_soft_targets=3, min_cooccurrence=3)",
    *(f"gandalf(soft_scale={scale}, repeats={times})" for scale in (0.1, 0.3, 0.5) for times in (1, 2)),
    "gandalf(prior_count=2)",
    "gandalf(prior_count=2, soft_scale=0.3)",
    "gandalf(soft_scale=0.5, min_cooccurrence=3)",
    *(f"bow(threshold={bar}, neighbours={nearest})" for bar in (0.3, 0.5, 0.7) for nearest in (5, 15)),
]
LINKED = (
    "gandalf",
    "gandalf(threshold=0)",
    "gandalf(min_cooccurrence=3)",
    "gandalf(max_soft_targets=5)",
    "gandalf(max_labels=none)",
    'gandalf(graph="walk")',
)
SHARES = (0.25, 0.5, 0.75)
FEWER = [
    "",
    *(
        f'gandalf(label_share={share:g}, label_selection="{which}")'
        for which in ("uniform", "tail")
        for share in SHARES
    ),
    "gandalf",
]


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
    print(header(["targets", "other labels a label", "labels with any"]))
    for tail in LINKED:
        method = Recipe.parse(f"parabel + {tail}").tail[0]
        assert isinstance(method, Gandalf)
        links = np.diff(method.soft_targets(corpus.train.targets).indptr) - 1
        print(row([f"`{tail}`", f"{links.mean():.1f}", f"{(links > 0).mean():.0%}"]))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument(
        "--part",
        nargs="+",
        choices=["links", "learners", "variants", "shares", "valid"],
        default=["learners", "variants"],
        help="what to measure",
    )
    parser.add_argument("--learners", nargs="+", default=LEARNERS, help="of the part learners")
    parser.add_argument("--on", default="parabel", help="the learner of variants, shares and valid")
    parser.add_argument("--out", type=Path, help="JSON lines with every recipe's figures")
    options = parser.parse_args()
    stored = read_lines(options.out)
    for data in options.data:
        corpus = with_test(data)
        for part in options.part:
            if part == "links":
                print_links(corpus)
                continue
            split = "valid" if part == "valid" else "test"
            runs = []
            for recipe in recipes(part, options.on, options.learners):
                known = (corpus.name, split, recipe)
                run = next((one for one in stored if (one["data"], one["split"], one["recipe"]) == known), None)
                if run is None:
                    run = measure(corpus, split, recipe)
                    stored.append(run)
                    if options.out:
                        append_lines(options.out, run)
                runs.append(run)
            print(f"\n{corpus.name}, {split}, {corpus.propensity}\n")
            lines = [[f"`{run['recipe']}`", *cells(run, MEASURES), f"{run['seconds']:.0f}"] for run in runs]
            print(table(["recipe", *MEASURES, "s"], lines))
            lines = [[f"`{run['recipe']}`", *cells(run["bins"], BINS)] for run in runs]
            print(f"\n{table(['recipe', *BINS], lines)}", flush=True)


if __name__ == "__main__":
    main()
