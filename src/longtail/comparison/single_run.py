"""One line of a comparison: a recipe is trained and measured, a saved model or a file of predictions is measured."""

from __future__ import annotations

import gc
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from longtail.comparison.entries import Entry, Saved, SavedModel, reseeded
from longtail.comparison.finished import read_result, result_file, write_result
from longtail.comparison.stages import DiskStages
from longtail.data.corpus import Corpus
from longtail.dial import dial_curve
from longtail.memory import measure_peak, release
from longtail.metrics import evaluate
from longtail.metrics.calibration import Teaching
from longtail.metrics.generalised import evaluate_split
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import collecting, stage
from longtail.recipe import Recipe
from longtail.report.result import Result
from longtail.reuse import reusing
from longtail.store import size_on_disk


def run(
    recipe: Recipe,
    corpus: Corpus,
    ks: Sequence[int] = (1, 3, 5),
    checkpoint_dir: str | Path | None = None,
    seed: int = 0,
) -> Result:
    """Train one recipe and measure it on test.

    Args:
        recipe: the recipe.
        corpus: the data; it needs test rows.
        ks: the k of P@k and the other measures.
        checkpoint_dir: a folder for checkpoints, see `compare`.
        seed: added to the seeds of the recipe.

    Returns:
        Measures, predictions, times, memory, and the size that the saved model would have.
    """
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    with stages_in(folder) as stages:
        return run_line(recipe, seed, corpus, tuple(ks), folder, stages)


def run_line(
    entry: Entry, seed: int, corpus: Corpus, ks: tuple[int, ...], folder: Path | None, stages: DiskStages
) -> Result:
    """Run one line of a comparison with one seed: read it from the folder, or train it and leave it there.

    Args:
        entry: a recipe, a saved model or a file of predictions.
        seed: added to the seeds of a recipe.
        corpus: the data; it needs test rows.
        ks: the k of P@k and the other measures.
        folder: of finished trainings; none: nothing is kept.
        stages: what earlier lines have trained.

    Returns:
        What was measured.
    """
    file = None if folder is None else result_file(folder, entry, seed, corpus)
    found = None if file is None else read_result(file, corpus, ks)
    if found is not None:
        return found
    gc.collect()
    release()
    result = _trained(entry, seed, corpus, ks, stages) if isinstance(entry, Recipe) else _measured(entry, corpus, ks)
    if file is not None:
        write_result(file, result)
    return result


def _trained(entry: Recipe, seed: int, corpus: Corpus, ks: tuple[int, ...], stages: DiskStages) -> Result:
    test, recipe, places = corpus.test, reseeded(entry, seed), max(*ks, 5)
    stages.begin(str(entry))
    with measure_peak() as peak, stage(str(recipe)):
        start = time.perf_counter()
        with reusing(stages), collecting() as events:
            model = recipe.fit(corpus.train, corpus.valid)
        trained = time.perf_counter()
        # The dial moves the best CANDIDATES labels, and its curve takes no second prediction.
        wanted = max(places, CANDIDATES) if model.probabilities else places
        candidates = model.predict(test.rows, wanted, test.excluded)
        predicted = time.perf_counter()
    predictions = candidates.top(places)
    before: Predictions | None = None
    if model.rerankers and model.probabilities:
        before = replace(model, rerankers=model.rerankers[:-1]).predict(test.rows, places, test.excluded)
    return Result(
        recipe=str(entry),
        measures=evaluate_split(predictions, test, ks, corpus.held_out_labels),
        predictions=predictions,
        train_seconds=max(trained - start - stages.overhead_seconds, 0.0) + stages.reused_seconds,
        predict_seconds=predicted - trained,
        peak_bytes=max(peak.bytes, stages.peak),
        model_bytes=model.saved_bytes(),
        row_norms=model.row_norms(),
        uncalibrated=None if before is None else evaluate(before, test, ks=ks),
        uncalibrated_predictions=before,
        dial=dial_curve(candidates, test) if model.probabilities else (),
        # The first one: for re-rankers the teacher may be trained again, on folds, which reports it again.
        teaching=next((event for event in events if isinstance(event, Teaching)), None),
        seeds=(seed,),
        shared=tuple(stages.shared),
    )


def _measured(entry: Saved, corpus: Corpus, ks: tuple[int, ...]) -> Result:
    model = entry.model if isinstance(entry, SavedModel) else None
    with measure_peak() as peak, stage(str(entry)):
        start = time.perf_counter()
        places = max(*ks, 5)
        candidates = entry.predict(corpus.test, max(places, CANDIDATES) if model and model.probabilities else places)
        seconds = time.perf_counter() - start
    predictions = candidates.top(places)
    return Result(
        recipe=str(entry),
        measures=evaluate_split(predictions, corpus.test, ks, corpus.held_out_labels),
        predictions=predictions,
        train_seconds=math.nan,
        predict_seconds=seconds if model else math.nan,
        peak_bytes=peak.bytes,
        model_bytes=size_on_disk(entry.folder) if isinstance(entry, SavedModel) else entry.file.stat().st_size,
        row_norms=model.row_norms() if model and model.labels.ids == corpus.labels.ids else None,
        dial=dial_curve(candidates, corpus.test) if model and model.probabilities else (),
        notes=entry.notes(corpus),
    )


@contextmanager
def stages_in(folder: Path | None) -> Iterator[DiskStages]:
    """Keep the stages of a comparison in the checkpoint directory, or in a folder that is removed at the end.

    Args:
        folder: the checkpoint directory, if there is one.

    Yields:
        The stages.
    """
    if folder is not None:
        yield DiskStages(folder, keep_all=True)
        return
    with tempfile.TemporaryDirectory(prefix="longtail-", ignore_cleanup_errors=True) as temporary:
        yield DiskStages(Path(temporary), keep_all=False)
