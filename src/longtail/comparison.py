"""Recipes on the same data, the same split, the same measures."""

from __future__ import annotations

import gc
import hashlib
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from longtail.data.corpus import Corpus
from longtail.errors import DataError
from longtail.memory import measure_peak, release
from longtail.metrics import evaluate
from longtail.metrics.calibration import Teaching
from longtail.nn.checkpoint import keeping
from longtail.progress import hearing, stage
from longtail.recipe import Recipe
from longtail.report.result import Result
from longtail.store import size_on_disk
from longtail.tail.calibrate import Chances
from longtail.warmup import warm_up


def compare(
    corpus: Corpus, recipes: Sequence[Recipe | str], ks: Sequence[int] = (1, 3, 5), keep: str | Path | None = None
) -> list[Result]:
    """Train each recipe on train (and valid, where it chooses or calibrates), measure it on test.

    With `keep`, checkpoints of encoders in training go to a folder a recipe there, and a comparison that was stopped
    goes on from them; the time told is then that since it went on.
    """
    return list(each(corpus, recipes, ks, keep))


def each(
    corpus: Corpus, recipes: Sequence[Recipe | str], ks: Sequence[int] = (1, 3, 5), keep: str | Path | None = None
) -> Iterator[Result]:
    """What `compare` gives, one after the other as they are done."""
    if isinstance(recipes, str):
        raise DataError(f"compare takes a list of recipes; put the one in brackets: [{recipes!r}]")
    parsed = [recipe if isinstance(recipe, Recipe) else Recipe.parse(recipe) for recipe in recipes]
    if not parsed:
        raise DataError("compare needs at least one recipe")
    if len(corpus.test) == 0:
        raise DataError(f"{corpus.name} has no test rows to compare on; add a test split, or hold one out of train")
    for recipe in parsed:
        recipe.check(corpus.train)  # all of them before the first is trained
    warm_up(parsed, corpus.train)  # once a machine; it must not be charged to the first recipe
    for recipe in parsed:
        yield run(recipe, corpus, ks, keep)


def run(recipe: Recipe, corpus: Corpus, ks: Sequence[int] = (1, 3, 5), keep: str | Path | None = None) -> Result:
    """One recipe: trained, saved to learn its size, and measured on test."""
    test, spent = corpus.test, spent_before(recipe, keep)
    gc.collect()
    release()
    with measure_peak() as peak, stage(str(recipe)):
        begin = time.perf_counter()
        with keeping_for(recipe, keep), hearing() as told:
            model = recipe.fit(corpus.train, corpus.valid)
        trained = time.perf_counter()
        predictions = model.predict(test.rows, max(*ks, 5), test.excluded)
        predicted = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model_bytes = size_on_disk(model.save(Path(folder) / "model"))
    uncalibrated = None
    if model.rerankers and isinstance(model.rerankers[-1], Chances):
        before = replace(model, rerankers=model.rerankers[:-1]).predict(test.rows, max(*ks, 5), test.excluded)
        uncalibrated = evaluate(before, test, ks=tuple(ks))
    return Result(
        recipe=str(recipe),
        measures=evaluate(predictions, test, ks=tuple(ks)),
        predictions=predictions,
        train_seconds=spent + trained - begin,
        predict_seconds=predicted - trained,
        peak_bytes=peak.bytes,
        model_bytes=model_bytes,
        row_norms=model.row_norms(),
        uncalibrated=uncalibrated,
        teaching=next((fact for fact in told if isinstance(fact, Teaching)), None),  # re-rankers may fit it again
    )


def keeping_for(recipe: Recipe, keep: str | Path | None) -> AbstractContextManager[None]:
    """Checkpoints in the recipe's own folder under `keep`; none without one."""
    return nullcontext() if keep is None else keeping(kept_at(recipe, keep))


def spent_before(recipe: Recipe, keep: str | Path | None) -> float:
    """Seconds of the epochs that an earlier run has done, from whose checkpoints this one goes on."""
    if keep is None:
        return 0.0
    from longtail.nn.history import FILE, History

    done = [History.read(file.parent) for file in kept_at(recipe, keep).glob(f"*/{FILE}")]
    return sum(float(line.get("seconds", 0)) for history in done for line in history.lines)


def kept_at(recipe: Recipe, keep: str | Path) -> Path:
    """A folder name that a person recognises, and that no other recipe has."""
    written = str(recipe)
    plain = re.sub(r"[^a-z0-9]+", "-", written.lower())[:40].strip("-")
    return Path(keep) / f"{plain}-{hashlib.blake2b(written.encode(), digest_size=4).hexdigest()}"
