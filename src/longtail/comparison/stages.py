"""Fitted stages on disk: trained once for all recipes of a comparison, and once for all runs of the same command.

Each stage has a folder, named after its recipe and a hash of recipe, data and release: `model/` is the fitted model,
`stage.json` its time and memory, and `00-.../` the checkpoints of an encoder in training. A fold has `fold.safetensors`
instead of a model. The model is written first and `stage.json` last, so a stage with `stage.json` is complete.

In a checkpoint directory every stage stays. Without one a temporary folder holds those that another recipe of the
comparison needs, rather than memory: models in memory would count in the peak of the recipes after them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from longtail.atomic import new_own_file, new_path
from longtail.data.dataset import Dataset
from longtail.data.fingerprint import fingerprint
from longtail.errors import ModelError
from longtail.memory import measure_peak
from longtail.metrics.calibration import Teaching
from longtail.model import Model
from longtail.model_files import write_model
from longtail.nn.training.checkpoint import FILE as CHECKPOINT
from longtail.nn.training.checkpoint import checkpointing
from longtail.predictions import Predictions
from longtail.progress import collecting, emit, note
from longtail.read_back import reading_back, typed
from longtail.report.result import SharedStage
from longtail.store import load
from longtail.version import __version__

STAGE, MODEL, FOLD, LOG = "stage.json", "model", "fold.safetensors", "trained.jsonl"
Fitted = TypeVar("Fitted")
AGAIN = "remove the folder to train again"
QUICK = 1.0  # seconds to fit a re-ranker that is fitted again rather than kept


@dataclass(eq=False)
class DiskStages:
    """See `longtail.reuse.StageStore`. Counts what the current recipe took from others, between `begin` and `end`."""

    folder: Path
    keep_all: bool  # a checkpoint directory; else only stages that are needed again are written
    needed: Callable[[str], bool] = lambda name: False  # whether a recipe that is still to come has the stage
    recipe: str = ""  # that is trained now
    shared: list[SharedStage] = field(default_factory=list)
    peak: int = 0  # of the stages that were taken
    reused_seconds: float = 0.0  # what the stages that were taken had cost
    overhead_seconds: float = 0.0  # of hashing, writing and reading
    in_fold: bool = False

    def begin(self, recipe: str) -> None:
        """Start to count for a recipe.

        Args:
            recipe: as it is shown.
        """
        self.recipe, self.shared, self.peak = recipe, [], 0
        self.reused_seconds = self.overhead_seconds = 0.0

    def model(self, name: str, train: Dataset, valid: Dataset, fit: Callable[[], Model]) -> Model:
        """Take a stage from its folder, or fit it and leave it there.

        Args:
            name: of the stage.
            train: the training rows.
            valid: the valid split.
            fit: trains it.

        Returns:
            The model.
        """
        if self.in_fold:  # the fold's predictions are kept, not its models
            return fit()
        place = self._place(name, train, valid)
        facts = self._finished(place)
        if facts is not None:
            began = time.perf_counter()
            model = replace(load(place / MODEL, known=train.labels), labels=train.labels)
            self.overhead_seconds += time.perf_counter() - began
            self._take(facts)
            return model
        model, facts = self._timed(place, fit)
        # A model with a re-ranker repeats the model without: not worth its space where re-ranking was quick to learn.
        if (self.keep_all or self.needed(name)) and (" | " not in name or facts["seconds"] > QUICK):
            began = time.perf_counter()
            self._write(place, name, facts, lambda: write_model(model, place / MODEL, {}, overwrite=True))
            self.overhead_seconds += time.perf_counter() - began
        return model

    def fold(self, name: str, train: Dataset, valid: Dataset, predict: Callable[[], Predictions]) -> Predictions:
        """Take the predictions of a fold from its folder, or make them and leave them there.

        Args:
            name: of the stage and the fold.
            train: all training rows.
            valid: the valid split.
            predict: trains on the other folds and predicts.

        Returns:
            The predictions.
        """
        if self.in_fold:
            return predict()
        place = self._place(name, train, valid)
        facts = self._finished(place)
        if facts is not None:
            with reading_back(place / FOLD, AGAIN):
                arrays = load_file(place / FOLD)
                if arrays["indices"].dtype != np.int32 or not np.isfinite(arrays["scores"]).all():
                    raise ValueError("its label rows or scores are no such numbers")
                found = Predictions(train.labels, arrays["indices"], arrays["scores"])
            self._take(facts)
            return found
        self.in_fold = True
        try:
            found, facts = self._timed(place, predict)
        finally:
            self.in_fold = False
        arrays = {"indices": np.ascontiguousarray(found.indices), "scores": np.ascontiguousarray(found.scores)}
        self._write(place, name, facts, lambda: write_tensors(place / FOLD, arrays, {}))
        return found

    def _place(self, name: str, train: Dataset, valid: Dataset) -> Path:
        began = time.perf_counter()
        key = f"{__version__}\n{name}\n{fingerprint(train)}\n{fingerprint(valid)}"
        self.overhead_seconds += time.perf_counter() - began
        return self.folder / folder_name(name, key)

    def _finished(self, place: Path) -> dict[str, Any] | None:
        if not (place / STAGE).exists():
            return None
        with reading_back(place / STAGE, AGAIN):
            facts: dict[str, Any] = json.loads((place / STAGE).read_text(encoding="utf-8"))
            teachings = typed(tuple[Teaching, ...], facts["teachings"])
            numbers = {name: facts[name] for name in ("seconds", "peak_bytes")}
            if not isinstance(facts["recipe"], str) or not all(
                isinstance(one, int | float) for one in numbers.values()
            ):
                raise ValueError("its recipe is no text, or its time and memory are no numbers")
            return {"recipe": facts["recipe"], **numbers, "teachings": teachings}

    def _take(self, facts: dict[str, Any]) -> None:
        """Counts a stage that is not trained again, and repeats what its training logged."""
        self.reused_seconds += facts["seconds"]
        self.peak = max(self.peak, facts["peak_bytes"])
        if facts["recipe"] != self.recipe:
            self.shared.append(SharedStage(facts["recipe"], facts["seconds"]))
        for teaching in facts["teachings"]:
            emit(teaching)

    def _timed(self, place: Path, work: Callable[[], Fitted]) -> tuple[Fitted, dict[str, Any]]:
        """The result of the work, and the facts of the stage. Checkpoints go into its folder."""
        before = seconds_in(place) if self.keep_all else 0.0
        self.reused_seconds += before
        began, overhead, reused = time.perf_counter(), self.overhead_seconds, self.reused_seconds
        checkpoints = checkpointing(place) if self.keep_all else nullcontext()
        with measure_peak() as peak, collecting() as events, checkpoints:
            found = work()
        seconds = time.perf_counter() - began
        for event in events:
            emit(event)
        return found, {
            "recipe": self.recipe,
            "seconds": seconds - (self.overhead_seconds - overhead) + (self.reused_seconds - reused) + before,
            "peak_bytes": peak.bytes,
            "teachings": [asdict(event) for event in events if isinstance(event, Teaching)],
        }

    def _write(self, place: Path, name: str, facts: dict[str, Any], write: Callable[[], object]) -> None:
        try:
            place.mkdir(parents=True, exist_ok=True)
            write()
            with new_own_file(place / STAGE) as file:
                json.dump({"stage": name, **facts}, file, ensure_ascii=False, indent=1)
            with (self.folder / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps({"stage": name, "folder": place.name, "recipe": self.recipe}) + "\n")
        except OSError as error:
            if self.keep_all:
                raise ModelError(
                    f"{place}: cannot be written ({error.strerror or error}); free some disk space and run the same "
                    "again: it goes on from what is there"
                ) from None
            shutil.rmtree(place, ignore_errors=True)
            note(f"note: no room in {self.folder} for what recipes share ({error.strerror or error}); trained again")
            return
        for checkpoint in place.glob(f"*/{CHECKPOINT}"):  # the model is there: what its training needed can go
            checkpoint.unlink(missing_ok=True)


def folder_name(name: str, key: str, digest_size: int = 6) -> str:
    """Name a folder or file so that a person recognises it and no other key has it.

    Args:
        name: what it is about.
        key: everything that it depends on.
        digest_size: bytes of the hash of the key.

    Returns:
        Letters, digits and hyphens.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"{plain}-{hashlib.blake2b(key.encode('utf-8', 'surrogatepass'), digest_size=digest_size).hexdigest()}"


def seconds_in(folder: Path) -> float:
    """Add up the time of the epochs that an earlier run has finished and this one goes on from.

    Args:
        folder: of a stage, or of a recipe's checkpoints.

    Returns:
        Seconds.
    """
    from longtail.nn.training.history import FILE, History

    done = [History.read(file.parent) for file in folder.glob(f"*/{FILE}")]
    return sum(float(line.get("seconds", 0)) for history in done for line in history.lines)


def write_tensors(path: Path, arrays: dict[str, Any], facts: dict[str, str]) -> None:
    """Write arrays to a file that appears whole or not at all.

    Args:
        path: the file.
        arrays: contiguous, by name.
        facts: texts by name, for the header.

    Raises:
        OSError: it cannot be written.
    """
    try:
        with new_path(path) as temporary:
            save_file(arrays, temporary, metadata=facts)
    except SafetensorError as error:  # wraps the error of a full disk
        raise OSError(str(error)) from None
