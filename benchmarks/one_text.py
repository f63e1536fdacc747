"""Claim: a loaded tree model predicts the labels of one text in less than 5 milliseconds.

    python benchmarks/one_text.py DATA [DATA ...] [--recipes "parabel" "bonsai" "fastxml"] [--texts 500] [--limit 5]

Trains each recipe, saves and loads it, then predicts the top 5 of single test texts, one call each, after a warm-up.
Prints a table: median and 99th percentile of a call in milliseconds, how much of it is the conversion of the text to
features, the first call after loading, and whether the median is below the limit.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import longtail
from longtail.data.dataset import Rows
from longtail.model import Model
from shared.command import parser_for
from shared.splits import with_test
from shared.tables import header, row

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
    """Median milliseconds to turn a text into features."""
    found = []
    for text in texts:
        rows = Rows(texts=(text,))
        begin = time.perf_counter()
        model.scorer.features.of(rows)  # type: ignore[attr-defined]
        found.append(1000 * (time.perf_counter() - begin))
    return float(np.median(found))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--recipes", nargs="+", default=["parabel", "bonsai", "fastxml"], help="label trees")
    parser.add_argument("--texts", type=int, default=500, help="test texts")
    parser.add_argument("--limit", type=float, default=5.0, help="milliseconds")
    given = parser.parse_args()
    columns = ["median ms", "99% ms", "of it features", "first call ms", "below the limit"]
    print(header(["data", "recipe", *columns], words=2))
    for data in given.data:
        corpus = with_test(data)
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
            verdict = "yes" if median < given.limit else f"no: {median / given.limit:.1f} x"
            figures = [f"{median:.2f}", f"{late:.2f}", f"{reading(model, texts):.2f}", f"{first:.0f}", verdict]
            print(row([corpus.name, f"`{recipe}`", *figures]), flush=True)


if __name__ == "__main__":
    main()
