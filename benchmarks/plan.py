"""Claim: `longtail plan` predicts the memory and time that a recipe then takes.

    python benchmarks/plan.py wordnet [DATA ...] [--recipes "bm25" "centroid" "knn"] [--rows 3000] [--runs 3]

Trains each recipe in a new process, several times; the fastest run counts. Prints one line for each data set and
recipe: peak memory over the loaded data, size of the model, seconds of training and of 1,000 predictions, each with
planned / measured. `--rows` trains on so many evenly spaced rows, for learners that would take hours on all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared.command import parser_for
from shared.splits import evenly_spaced, with_test
from shared.tables import header, row


def measure(data: str, recipe: str, most: int) -> dict[str, float]:
    """Train and predict once in this process."""
    import longtail
    from longtail.memory import measure_peak, release, resident_bytes
    from longtail.plan import DataFacts
    from longtail.store import size_on_disk
    from longtail.warmup import warm_up

    corpus = with_test(data)
    train = evenly_spaced(corpus.train, most)
    made = longtail.Recipe.parse(recipe)
    planned = made.plan(DataFacts.of(train, len(corpus.valid)))
    warm_up([made], train)
    release()
    before = resident_bytes()
    with measure_peak(0.002) as peak:
        begin = time.perf_counter()
        model = made.fit(train, corpus.valid)
        trained = time.perf_counter() - begin
    rows = corpus.test.rows[: min(len(corpus.test), 10_000)]
    begin = time.perf_counter()
    model.predict(rows, 5)
    predicted = (time.perf_counter() - begin) / len(rows) * 1000
    with tempfile.TemporaryDirectory() as folder:
        size = size_on_disk(model.save(Path(folder) / "model"))
    return {
        "rows": len(train),
        "labels": len(corpus.labels),
        "peak": peak.bytes - before,
        "planned_peak": planned.train_bytes,
        "model": size,
        "planned_model": planned.model_bytes,
        "train": trained,
        "planned_train": planned.train_seconds,
        "predict": predicted,
        "planned_predict": planned.predict_seconds,
    }


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--recipes", nargs="+", default=["bm25", "centroid", "knn"], help="recipes")
    parser.add_argument("--rows", type=int, default=0, help="of train, at most; 0: all")
    parser.add_argument("--runs", type=int, default=3, help="of which the fastest counts, since machines are shared")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.data[0], options.recipes[0], options.rows)))
        return
    from longtail.memory import readable
    from longtail.plan import readable_seconds

    columns = ["data", "rows", "labels", "recipe", "memory", "planned", "model", "planned"]
    columns += ["training", "planned", "1,000 rows", "planned"]
    print(header(columns, words=len(columns)))
    for data in options.data:
        for recipe in options.recipes:
            command = [sys.executable, __file__, data, "--recipes", recipe, "--rows", str(options.rows), "--one"]
            best: dict[str, float] | None = None
            for _ in range(options.runs):
                found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                best = found if best is None or found["train"] < best["train"] else best
            assert best is not None
            line: list[object] = [Path(data).name, f"{best['rows']:,}", f"{best['labels']:,}", recipe]
            for what, words in (
                ("peak", readable),
                ("model", readable),
                ("train", readable_seconds),
                ("predict", readable_seconds),
            ):
                line += [words(best[what]), f"{best[f'planned_{what}'] / best[what]:.2f} x"]
            print(row(line), flush=True)


if __name__ == "__main__":
    main()
