"""What a recipe takes, against what `longtail plan` foretold: memory and time of training, a fresh process each.

    python benchmarks/plan.py wordnet [DATA ...] [--recipes "bm25" "centroid" "knn"] [--rows 3000] [--runs 1]

Prints one row a data set and recipe: measured peak over the loaded data, planned / measured, seconds, the same for
predictions. The table "labels, learner, memory, time" of the README is this script's output. `--rows` trains on so
many rows spread over train, for learners that would take hours on all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time


def measure(data: str, recipe: str, most: int) -> dict[str, float]:
    """Train and predict once in this process."""
    import numpy as np

    import longtail
    from longtail.memory import measure_peak, release, resident_bytes
    from longtail.plan import Facts
    from longtail.store import size_on_disk
    from longtail.warmup import warm_up

    corpus = longtail.load(data, test_share=0.1)
    train = corpus.train
    if 0 < most < len(train):
        train = train.take(np.linspace(0, len(train) - 1, most).astype(np.int64))
    made = longtail.Recipe.parse(recipe)
    planned = made.plan(Facts.of(train))
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
    import tempfile
    from pathlib import Path

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="+", default=["bm25", "centroid", "knn"])
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
    print(f"| {' | '.join(columns)} |")
    print("| --- " * len(columns) + "|")
    for data in options.data:
        for recipe in options.recipes:
            command = [sys.executable, __file__, data, "--recipes", recipe, "--rows", str(options.rows), "--one"]
            best: dict[str, float] | None = None
            for _ in range(options.runs):
                found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                best = found if best is None or found["train"] < best["train"] else best
            assert best is not None
            print(
                f"| {data.rstrip('/').rsplit('/', 1)[-1]} | {best['rows']:,} | {best['labels']:,} | {recipe} "
                f"| {readable(best['peak'])} | {best['planned_peak'] / best['peak']:.2f} x "
                f"| {readable(best['model'])} | {best['planned_model'] / best['model']:.2f} x "
                f"| {readable_seconds(best['train'])} | {best['planned_train'] / best['train']:.2f} x "
                f"| {readable_seconds(best['predict'])} | {best['planned_predict'] / best['predict']:.2f} x |",
                flush=True,
            )


if __name__ == "__main__":
    main()
