"""Finished trainings on disk: the predictions and costs of one recipe with one seed. Measures are computed again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from longtail.arrays import AnyArray
from longtail.comparison.entries import Entry, SavedModel, SavedPredictions
from longtail.comparison.stages import folder_name, write_tensors
from longtail.data.corpus import Corpus
from longtail.data.fingerprint import fingerprint
from longtail.dial import DialPoint
from longtail.errors import ModelError
from longtail.metrics import evaluate
from longtail.metrics.calibration import Teaching
from longtail.metrics.generalised import evaluate_split
from longtail.predictions import Predictions
from longtail.read_back import reading_back, typed
from longtail.report.result import Result, SharedStage
from longtail.version import __version__

RESULTS = "results"


def result_file(folder: Path, entry: Entry, seed: int, corpus: Corpus) -> Path:
    """Name the file of one finished training.

    Args:
        folder: the checkpoint directory.
        entry: a recipe as written, or something saved.
        seed: that is added to its seeds.
        corpus: the data.

    Returns:
        The file, whether it is there or not.
    """
    name = str(entry)
    if isinstance(entry, SavedModel):  # another model may be saved there later
        name += (entry.folder / "manifest.json").read_text(encoding="utf-8")
    elif isinstance(entry, SavedPredictions):
        with entry.file.open("rb") as file:
            name += hashlib.file_digest(file, "sha256").hexdigest()
    data = "\n".join(fingerprint(one) for one in (corpus.train, corpus.valid, corpus.test))
    key = f"{__version__}\n{name}\n{seed}\n{data}"
    return folder / RESULTS / f"{folder_name(f'{entry}-seed-{seed}', key)}.safetensors"


def write_result(file: Path, result: Result) -> None:
    """Write a finished training.

    Args:
        file: from `result_file`.
        result: of one seed.

    Raises:
        ModelError: the file cannot be written.
    """
    arrays: dict[str, Any] = {"indices": result.predictions.indices, "scores": result.predictions.scores}
    if result.row_norms is not None:
        arrays["row_norms"] = result.row_norms
    if result.uncalibrated_predictions is not None:
        before = result.uncalibrated_predictions
        arrays |= {"uncalibrated_indices": before.indices, "uncalibrated_scores": before.scores}
    facts = {
        "recipe": result.recipe,
        "seed": result.seeds[0],
        "train_seconds": result.train_seconds,
        "predict_seconds": result.predict_seconds,
        "peak_bytes": result.peak_bytes,
        "model_bytes": result.model_bytes,
        "teaching": None if result.teaching is None else asdict(result.teaching),
        "dial": [asdict(point) for point in result.dial],
        "shared": [asdict(one) for one in result.shared],
        "notes": result.notes,
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        write_tensors(file, arrays, {"longtail": json.dumps(facts)})
    except OSError as error:
        raise ModelError(
            f"{file}: cannot be written ({error.strerror or error}); free some disk space and run the same again"
        ) from None


def read_result(file: Path, corpus: Corpus, ks: tuple[int, ...]) -> Result | None:
    """Read a finished training.

    Args:
        file: from `result_file`.
        corpus: the data.
        ks: the k of the measures.

    Returns:
        The result; None where there is no such file, or where it has fewer predictions than the largest k needs.

    Raises:
        ModelError: the file cannot be read.
    """
    if not file.exists():
        return None
    with reading_back(file, "remove it to train again"):
        with safe_open(file, framework="numpy") as opened:
            facts = json.loads(opened.metadata()["longtail"])
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return _result(facts, arrays, corpus, ks)


def _result(facts: dict[str, Any], arrays: dict[str, Any], corpus: Corpus, ks: tuple[int, ...]) -> Result | None:
    """A finished training from what its file holds; None where it has fewer predictions than the largest k needs."""
    predictions = _predictions(corpus, arrays["indices"], arrays["scores"])
    if predictions.places < min(max(*ks, 5), len(corpus.labels)):
        return None
    before = None
    if "uncalibrated_indices" in arrays:
        before = _predictions(corpus, arrays["uncalibrated_indices"], arrays["uncalibrated_scores"])
    times = ("train_seconds", "predict_seconds", "peak_bytes", "model_bytes", "seed")
    if not isinstance(facts["recipe"], str) or not all(isinstance(facts[name], int | float) for name in times):
        raise ValueError("its recipe is no text, or its times and sizes are no numbers")
    return Result(
        recipe=facts["recipe"],
        measures=evaluate_split(predictions, corpus.test, ks, corpus.held_out_labels),
        predictions=predictions,
        train_seconds=facts["train_seconds"],
        predict_seconds=facts["predict_seconds"],
        peak_bytes=facts["peak_bytes"],
        model_bytes=facts["model_bytes"],
        row_norms=arrays.get("row_norms"),
        teaching=typed(Teaching | None, facts["teaching"]),
        uncalibrated=None if before is None else evaluate(before, corpus.test, ks=ks),
        uncalibrated_predictions=before,
        dial=typed(tuple[DialPoint, ...], facts["dial"]),
        seeds=(facts["seed"],),
        shared=typed(tuple[SharedStage, ...], facts["shared"]),
        notes=typed(tuple[str, ...], facts["notes"]),
    )


def _predictions(corpus: Corpus, indices: AnyArray, scores: AnyArray) -> Predictions:
    """Predictions of the test rows. Raises where the arrays are none."""
    if indices.dtype != np.int32 or scores.dtype != np.float32 or len(indices) != len(corpus.test):
        raise ValueError(f"its predictions are not those of {len(corpus.test):,} documents")
    if not np.isfinite(scores).all():
        raise ValueError("its scores are not finite")
    return Predictions(corpus.labels, indices, scores)
