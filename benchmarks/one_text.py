"""How long one text waits for its labels: a loaded tree model, warm, one text a call.

    python benchmarks/one_text.py DATA [DATA ...] [--recipes "parabel" "bonsai" "fastxml"] [--texts 500] [--limit 5]

Trains each recipe, saves and loads it, then predicts the top 5 of single test texts, one call each. Prints median and
99th percentile of a call in milliseconds, how much of it goes into reading the text, and whether it is under the limit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import longtail
from longtail.data.dataset import Rows
from longtail.model import Model

WARM = 50  # calls before the first that counts


def waits(model: Model, texts: list[str]) -> np.ndarray:
    """Milliseconds of each call."""
    found = []
    for text in texts[:WARM] + texts:
        begin = time.perf_counter()
        model.predict([text], 5)
        found.append(1000 * (time.perf_counter() - begin))
    return np.array(found[WARM:])


def reading(model: Model, texts: list[str]) -> float:
    """Milliseconds until the words of a text are counted and weighed: the median."""
    found = []
    for text in texts:
        rows = Rows(texts=(text,))
        begin = time.perf_counter()
        model.scorer.features.of(rows)  # type: ignore[attr-defined]
        found.append(1000 * (time.perf_counter() - begin))
    return float(np.median(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--recipes", nargs="+", default=["parabel", "bonsai", "fastxml"])
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--limit", type=float, default=5.0, help="milliseconds")
    given = parser.parse_args()
    print("| data | recipe | median ms | 99% ms | of it reading | first call ms | under the limit |")
    print("| --- | --- | --: | --: | --: | --: | --- |")
    for data in given.data:
        corpus = longtail.load(data, test_share=0.1)
        texts = list(corpus.test.texts or ())[: given.texts]
        for recipe in given.recipes:
            with tempfile.TemporaryDirectory() as folder:
                trained = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
                model = longtail.load_model(trained.save(Path(folder) / "model"))
            begin = time.perf_counter()
            model.predict(texts[:1], 5)
            first = 1000 * (time.perf_counter() - begin)
            found = waits(model, texts)
            median, late = np.percentile(found, [50, 99])
            said = "yes" if median < given.limit else f"no: {median / given.limit:.1f} x"
            read = reading(model, texts)
            print(f"| {corpus.name} | `{recipe}` | {median:.2f} | {late:.2f} | {read:.2f} | {first:.0f} | {said} |")


if __name__ == "__main__":
    main()
