"""Claim: the first run on a machine pays a few seconds for compiling, later ones next to nothing.

    python benchmarks/compile.py ["parabel" "bonsai" ...]

Each recipe learns a few rows and answers them in a fresh process, first with an empty cache of kernels, then with the
one it has filled. Prints processor seconds of both; the compiler uses one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time


def once(recipe: str, texts: bool) -> tuple[float, float]:
    """Processor seconds to train and to answer, in this process."""
    from longtail.recipe import Recipe
    from longtail.warmup import few_rows

    rows = few_rows(texts, not texts)
    made = Recipe.parse(recipe)
    begin = time.process_time()
    model = made.fit(rows, rows)
    middle = time.process_time()
    model.predict(rows.rows, 5)
    return middle - begin, time.process_time() - middle


def apart(recipe: str, given: str, cache: str) -> list[str]:
    command = [sys.executable, __file__, "--once", recipe, given]
    limits = {"NUMBA_CACHE_DIR": cache, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **limits}).stdout
    return [f"{float(seconds):.1f}" for seconds in found.split()]


def main(recipes: list[str]) -> None:
    print("| recipe | rows as | train, empty cache | answer, empty cache | train again | answer again |")
    print("| --- | --- | --: | --: | --: | --: |")
    for recipe in recipes:
        for given in ("features", "texts"):
            with tempfile.TemporaryDirectory() as cache:
                cells = [cell for _ in range(2) for cell in apart(recipe, given, cache)]
            print(f"| `{recipe}` | {given} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(*once(sys.argv[2], sys.argv[3] == "texts"))
    else:
        main(sys.argv[1:] or ["parabel", "bonsai"])
