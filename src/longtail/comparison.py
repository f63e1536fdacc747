"""Recipes on the same data, the same split, the same measures."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from longtail.data.corpus import Corpus
from longtail.errors import DataError
from longtail.memory import measure_peak, release
from longtail.metrics import evaluate
from longtail.progress import stage
from longtail.recipe import Recipe
from longtail.report.result import Result
from longtail.store import size_on_disk
from longtail.warmup import warm_up


def compare(corpus: Corpus, recipes: Sequence[Recipe | str], ks: Sequence[int] = (1, 3, 5)) -> list[Result]:
    """Train each recipe on train (and valid, where it chooses or calibrates), measure it on test."""
    parsed = [recipe if isinstance(recipe, Recipe) else Recipe.parse(recipe) for recipe in recipes]
    if not parsed:
        raise DataError("compare needs at least one recipe")
    if len(corpus.test) == 0:
        raise DataError(f"{corpus.name} has no test rows to compare on; add a test split, or hold one out of train")
    for recipe in parsed:
        recipe.check(corpus.train)  # all of them before the first is trained
    warm_up(parsed, corpus.train)  # once a machine; it must not be charged to the first recipe
    return [run(recipe, corpus, ks) for recipe in parsed]


def run(recipe: Recipe, corpus: Corpus, ks: Sequence[int] = (1, 3, 5)) -> Result:
    """One recipe: trained, saved to learn its size, and measured on test."""
    test = corpus.test
    release()
    with measure_peak() as peak, stage(str(recipe)):
        begin = time.perf_counter()
        model = recipe.fit(corpus.train, corpus.valid)
        trained = time.perf_counter()
        predictions = model.predict(test.rows, max(*ks, 5), test.excluded)
        predicted = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model_bytes = size_on_disk(model.save(Path(folder) / "model"))
    return Result(
        recipe=str(recipe),
        measures=evaluate(predictions, test, ks=tuple(ks)),
        predictions=predictions,
        train_seconds=trained - begin,
        predict_seconds=predicted - trained,
        peak_bytes=peak.bytes,
        model_bytes=model_bytes,
        row_norms=model.row_norms(),
    )
