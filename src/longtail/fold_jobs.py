"""Folds as jobs: each is answered by a model that is trained without it, wherever `--on` says.

The training examples go to a store once; a job reads it, trains on the examples of one file of row numbers, and answers
those of another. `longtail.fold_training` is the job. Learners whose own training is cut into jobs are trained fold by
fold instead: their parts are more than the folds.

    FOLDER/data-CHECKSUM/               a store of the examples
    FOLDER/folds-CHECKSUM/jobs.json     see `longtail.jobs`
    FOLDER/folds-CHECKSUM/0.seen.npy, 0.asked.npy, 0.safetensors
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longtail.arrays import AnyArray, Longs
from longtail.atomic import new_path
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.store_convert import stored
from longtail.errors import JobError
from longtail.jobs import JobFolder, current_job_runner
from longtail.read_back import reading_back

Answers = list[tuple[AnyArray, AnyArray]]  # label rows and scores of each member


def folds_run_as_jobs(train: Dataset, valid: Dataset) -> bool:
    """Whether folds of this data can run as jobs here.

    Args:
        train: the training examples.
        valid: what models are validated on.

    Returns:
        False outside of `longtail.jobs.using_jobs`, and where tail methods added rows, which no store holds.
    """
    given = train.origins is not None and valid.origins is not None
    plain = given and not train.origins.any() and not valid.origins.any()  # type: ignore[union-attr]
    return current_job_runner() is not None and plain and valid.labels is train.labels


def answers_by_jobs(
    how: Mapping[str, Any], train: Dataset, valid: Dataset, cuts: Sequence[tuple[Longs, Longs]]
) -> list[Answers]:
    """Train without each fold and answer it, in jobs.

    Args:
        how: settings of `longtail.fold_training.train_fold`.
        train: the training examples.
        valid: what models are validated on.
        cuts: of each fold the rows to train on, and those to answer.

    Returns:
        The answers of each fold.

    Raises:
        JobError: jobs failed, or what one wrote is damaged.
        JobsLeft: a scheduler must run them.
    """
    runner = current_job_runner()
    assert runner is not None
    data = stored(Corpus(name="folds", train=train, valid=valid, test=train.take([])), runner.folder)
    digest = hashlib.blake2b(json.dumps([data.name, how], sort_keys=True).encode(), digest_size=8)
    for rows in (rows for cut in cuts for rows in cut):
        digest.update(rows.tobytes() + b"|")
    folder = runner.folder / f"folds-{digest.hexdigest()}"
    for number, (seen, asked) in enumerate(cuts):
        for name, rows in (("seen", seen), ("asked", asked)):
            path = folder / f"{number}.{name}.npy"
            if not path.exists():
                with new_path(path) as temporary, temporary.open("wb") as file:
                    np.save(file, rows, allow_pickle=False)
    outputs = [folder / f"{number}.safetensors" for number in range(len(cuts))]
    settings = {**how, "data": str(data), "folds": str(folder)}
    runner.run(JobFolder.write(folder, "fold", settings, list(range(len(cuts))), outputs), "training without each fold")
    return [_read(output, len(asked), len(train.labels)) for output, (_, asked) in zip(outputs, cuts, strict=True)]


def _read(path: Any, rows: int, labels: int) -> Answers:
    from safetensors.numpy import load_file

    with reading_back(path, "remove it and run the command again", JobError):
        arrays = load_file(path)
        found = [(arrays[f"{place}.labels"], arrays[f"{place}.scores"]) for place in range(len(arrays) // 2)]
        for indices, scores in found:
            right = indices.dtype == np.int32 and scores.dtype == np.float32 and indices.shape == scores.shape
            if not right or len(indices) != rows or indices.max(initial=-1) >= labels or not np.isfinite(scores).all():
                raise ValueError(f"its answers are not those of {rows:,} documents")
        return found
