"""The job of a fold: train without it, answer it. `longtail.fold_jobs` writes the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from longtail import catalogue
from longtail.arrays import AnyArray, Longs
from longtail.atomic import new_path
from longtail.data.corpus import Corpus
from longtail.data.store_reader import read_store
from longtail.errors import JobError
from longtail.predictions import CANDIDATES
from longtail.read_back import reading_back
from longtail.recipe import Recipe


def train_fold(settings: Mapping[str, Any], source: int, output: Path) -> int:
    """Train on all other folds, and answer one.

    Args:
        settings: the store, the folder of row numbers, and either a recipe with the number of tail methods that the
            model has so far, or the settings of `fuse`, whose members answer apart.
        source: the number of the fold.
        output: the file of answers.

    Returns:
        The number of examples that are answered.

    Raises:
        JobError: what the job reads is damaged or not there.
    """
    from safetensors.numpy import save_file

    corpus, folder = _corpus(settings["data"]), Path(settings["folds"])
    seen, asked = (_rows(folder / f"{source}.{name}.npy", len(corpus.train)) for name in ("seen", "asked"))
    train, unseen = corpus.train.take(seen), corpus.train.take(asked)
    if "fuse" in settings:
        own = {**settings["fuse"], "members": tuple(settings["fuse"]["members"])}
        learner: Any = Recipe.of(catalogue.learner_class("fuse")(**own)).fitted_learner
        answers = learner.fold_answers(train, corpus.valid, unseen, min(own["candidates"], len(train.labels)))
    else:
        model = Recipe.parse(settings["recipe"]).fit_first(train, corpus.valid, settings["methods"])
        found = model.predict(unseen.rows, CANDIDATES, unseen.excluded)
        answers = [(found.indices, found.scores)]
    arrays: dict[str, AnyArray] = {}
    for place, (labels, scores) in enumerate(answers):
        arrays[f"{place}.labels"] = np.ascontiguousarray(labels, dtype=np.int32)
        arrays[f"{place}.scores"] = np.ascontiguousarray(scores, dtype=np.float32)
    with new_path(output) as temporary:
        save_file(arrays, temporary)
    return len(asked)


@lru_cache(maxsize=1)
def _corpus(path: str) -> Corpus:
    """The examples, mapped once a process."""
    return read_store(Path(path))


def _rows(path: Path, rows: int) -> Longs:
    with reading_back(path, "remove its folder and run the command again", JobError):
        found: Longs = np.load(path, mmap_mode="r", allow_pickle=False)  # a header is believed as far as the file goes
    if found.dtype != np.int64 or found.ndim != 1 or (len(found) and not 0 <= found.min() <= found.max() < rows):
        raise JobError(f"{path}: names other rows than there are; remove its folder and run the command again")
    return found
