"""`longtail.auto` beats every single recipe of docs/choosing.md that is given the same time.

    python benchmarks/auto.py DATA [DATA ...] --within 1m 5m 20m

Prints P@1, P@5, PSP@1, PSP@5 and C@5 on test, and the seconds of training: `auto` within each time, then the recipes
that docs/choosing.md names first for a machine without a GPU, and omikuji's Bonsai where it is installed. A recipe that
takes longer than the time of a line is not compared in that line. Nothing is chosen on test.
"""

from __future__ import annotations

import time
from typing import Any

from shared.command import parser_for
from shared.splits import with_test
from shared.tables import cells, header, row

RECIPES = ["bm25", "knn", "parabel", "parabel + rerank", "bonsai", "dismec", "xreg"]
MEASURES = ["P@1", "P@5", "PSP@1", "PSP@5", "C@5"]


def measured(model: Any, corpus: Any) -> Any:
    import longtail

    test = corpus.test
    return longtail.evaluate(model.predict(test.rows, 5, test.excluded), test)


def single(corpus: Any, recipe: str, longest: float) -> tuple[float, Any] | str:
    """Seconds and measures of a recipe; a reason, where its plan or its data rules it out."""
    from longtail import Recipe
    from longtail.errors import LongtailError
    from longtail.plan import DataFacts
    from longtail.warmup import warm_up

    parsed = Recipe.parse(recipe)
    try:
        parsed.check(corpus.train)
    except LongtailError as error:
        return str(error)
    planned = parsed.plan(DataFacts.of(corpus.train)).train_seconds
    if planned > 2 * longest:
        return f"not trained: its plan says {planned:.0f} s"
    warm_up([parsed], corpus.train)
    start = time.perf_counter()
    model = parsed.fit(corpus.train, corpus.valid)
    return time.perf_counter() - start, measured(model, corpus)


def omikuji_bonsai(corpus: Any) -> tuple[float, Any] | str:
    """omikuji's Bonsai-like trees on the same tf-idf features."""
    try:
        import omikuji
    except ImportError:
        return "not installed"
    import tempfile
    from pathlib import Path

    import numpy as np

    import longtail
    from longtail.learners.parabel import Parabel

    start = time.perf_counter()
    features, vectors = Parabel().read(corpus.train)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.txt"
        with file.open("w") as out:
            out.write(f"{vectors.shape[0]} {vectors.shape[1]} {len(corpus.labels)}\n")
            targets = corpus.train.targets
            for one in range(vectors.shape[0]):
                part, inside = slice(*vectors.indptr[one : one + 2]), slice(*targets.indptr[one : one + 2])
                words = zip(vectors.indices[part], vectors.data[part], strict=True)
                labels = ",".join(map(str, targets.indices[inside]))
                out.write(labels + " " + " ".join(f"{column}:{value:.6g}" for column, value in words) + "\n")
        settings = omikuji.Model.default_hyper_param()
        settings.tree_max_depth, settings.cluster_k, settings.cluster_balanced = 3, 100, False
        model = omikuji.Model.train_on_data(str(file), settings)
    seconds, test = time.perf_counter() - start, features.of(corpus.test.rows)
    indices = np.full((test.shape[0], 5), -1, dtype=np.int32)
    scores = np.zeros((test.shape[0], 5), dtype=np.float32)
    for one in range(test.shape[0]):
        part = slice(*test.indptr[one : one + 2])
        found = model.predict(list(zip(test.indices[part].tolist(), test.data[part].tolist(), strict=True)), top_k=5)
        for place, (label, score) in enumerate(found):
            indices[one, place], scores[one, place] = label, score
    predictions = longtail.Predictions(corpus.labels, indices, scores)
    return seconds, longtail.evaluate(predictions, corpus.test)


def main() -> None:
    from longtail.cli.tune import seconds_of

    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--within", nargs="+", default=["1m", "5m", "20m"], metavar="TIME")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    options = parser.parse_args()
    import longtail

    times = [seconds_of(one) for one in options.within]
    for data in options.data:
        corpus = with_test(data)
        print(f"\n{corpus.name}: {len(corpus.train):,} training examples, {len(corpus.labels):,} labels\n")
        print(header(["recipe", *MEASURES, "seconds"]))
        for written, within in zip(options.within, times, strict=True):
            start = time.perf_counter()
            found = longtail.auto(corpus, within)
            seconds = time.perf_counter() - start
            figures = cells(measured(found.model, corpus), MEASURES)
            print(row([f"**auto within {written}**: `{found.recipe}`", *figures, f"{seconds:.1f}"]), flush=True)
        for recipe in options.recipes:
            show(f"`{recipe}`", single(corpus, recipe, max(times)))
        show("omikuji, Bonsai", omikuji_bonsai(corpus))


def show(name: str, found: tuple[float, Any] | str) -> None:
    if isinstance(found, str):
        print(row([f"{name}: {found}", *("" for _ in MEASURES), ""]), flush=True)
        return
    seconds, measures = found
    print(row([name, *cells(measures, MEASURES), f"{seconds:.1f}"]), flush=True)


if __name__ == "__main__":
    main()
