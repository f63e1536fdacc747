"""Claim: the first run on a machine spends a few seconds on compiling kernels, later runs next to none.

    python benchmarks/compile.py ["parabel" "bonsai" ...]

Each recipe trains on a few rows and predicts them in a new process, first with an empty cache of kernels, then with the
cache that the first process filled. Prints a table of CPU seconds for both; the compiler uses one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from shared.command import parser_for
from shared.tables import header, row


def once(recipe: str, texts: bool) -> tuple[float, float]:
    """CPU seconds to train and to predict, in this process."""
    from longtail.recipe import Recipe
    from longtail.warmup import few_rows

    rows = few_rows(texts, not texts)
    made = Recipe.parse(recipe)
    begin = time.process_time()
    model = made.fit(rows, rows)
    middle = time.process_time()
    model.predict(rows.rows, 5)
    return middle - begin, time.process_time() - middle


def in_new_process(recipe: str, given: str, cache: str) -> list[str]:
    command = [sys.executable, __file__, "--once", given, recipe]
    limits = {"NUMBA_CACHE_DIR": cache, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **limits}).stdout
    return [f"{float(seconds):.1f}" for seconds in found.split()]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("recipes", nargs="*", default=["parabel", "bonsai"])
    parser.add_argument("--once", choices=("texts", "features"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(*once(options.recipes[0], options.once == "texts"))
        return
    columns = ["train, empty cache", "predict, empty cache", "train again", "predict again"]
    print(header(["recipe", "rows as", *columns], words=2))
    for recipe in options.recipes:
        for given in ("features", "texts"):
            with tempfile.TemporaryDirectory() as cache:
                cells = [cell for _ in range(2) for cell in in_new_process(recipe, given, cache)]
            print(row([f"`{recipe}`", given, *cells]), flush=True)


if __name__ == "__main__":
    main()
