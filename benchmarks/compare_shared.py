"""Claim: eight recipes that share stages are compared at least twice as fast as by eight single runs.

    python benchmarks/compare_shared.py DATA [--recipes ...] [--processor]

Compares the recipes in one call, then each in a call of its own, in this process, after kernels are compiled. Prints
the seconds of both and their ratio, and whether all measures are equal. With `--processor` all seconds of the two are
those of the processor, which other work on the machine changes little.
"""

from __future__ import annotations

import time

from shared.command import parser_for
from shared.splits import with_test

RECIPES = [
    "parabel",
    "parabel + rerank",
    "parabel + rerank(strength=0.5)",
    "parabel + calibrate",
    "parabel + rerank + calibrate",
    "parabel + centroid",
    "parabel + ranknet",
    "parabel + ranknet + calibrate",
]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="recipes that share stages")
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    options = parser.parse_args()
    import longtail
    from longtail.warmup import warm_up

    clock = time.process_time if options.processor else time.perf_counter
    corpus = with_test(options.data)
    warm_up([longtail.Recipe.parse(recipe) for recipe in options.recipes], corpus.train)
    start = clock()
    together = longtail.compare(corpus, options.recipes)
    middle = clock()
    print(f"{corpus.name}, together: {middle - start:.0f} s", flush=True)
    alone = [longtail.compare(corpus, [recipe])[0] for recipe in options.recipes]
    end = clock()
    for one in together:
        shared = sum(part.seconds for part in one.shared)
        print(f"  {one.recipe}: {one.train_seconds - shared:.1f} s of its own, {shared:.1f} s by others")
    same = [one.measures.values for one in together] == [one.measures.values for one in alone]
    print(f"{len(alone)} single runs: {end - middle:.0f} s, {(end - middle) / (middle - start):.2f} times as long")
    print(f"all measures equal: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
