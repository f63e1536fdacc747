"""Nets of single repetitions, trained apart: here one after the other, or in jobs, to the same bits.

FOLDER/data-CHECKSUM/               a store of the examples
FOLDER/nets-CHECKSUM/jobs.json      see `longtail.jobs`
FOLDER/nets-CHECKSUM/3.safetensors  the net of repetition 3
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from longtail.atomic import new_path
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.store_convert import stored
from longtail.data.store_reader import read_store
from longtail.errors import JobError
from longtail.jobs import JobFolder, JobRunner
from longtail.nn.hashed.hashed_scorer import HashedScorer
from longtail.read_back import reading_back
from longtail.seams import State
from longtail.seams.conforms import conforms

SETTINGS = "longtail"  # of a net, in the header of its file


def nets_by_jobs(
    settings: Mapping[str, Any], nets: int, train: Dataset, valid: Dataset, runner: JobRunner
) -> list[HashedScorer]:
    """Train each net in a job.

    Args:
        settings: of the learner, as JSON values.
        nets: how many there are.
        train: rows to train on.
        valid: rows to validate on; there may be none.
        runner: where the jobs run.

    Returns:
        The nets, whose scores are no probabilities yet.

    Raises:
        JobError: jobs failed, or what one wrote is damaged.
        JobsLeft: a scheduler must run them.
    """
    data = stored(Corpus(name="nets", train=train, valid=valid, test=train.take([])), runner.folder)
    what = json.dumps([data.name, settings], sort_keys=True).encode()
    folder = runner.folder / f"nets-{hashlib.blake2b(what, digest_size=8).hexdigest()}"
    outputs = [folder / f"{number}.safetensors" for number in range(nets)]
    jobs = JobFolder.write(folder, "nets", {"data": str(data), "mach": dict(settings)}, list(range(nets)), outputs)
    runner.run(jobs, "training nets", gpus=True)
    return [_read(output, len(train.labels)) for output in outputs]


@lru_cache(maxsize=1)
def stored_corpus(path: str) -> Corpus:
    """Open the examples, once a process.

    Args:
        path: of the store.

    Returns:
        The data set.
    """
    return read_store(Path(path))


def write_net(scorer: HashedScorer, output: Path) -> None:
    """Write a net.

    Args:
        scorer: the net.
        output: the file.
    """
    from safetensors.numpy import save_file

    state = scorer.state()
    with new_path(output) as temporary:
        save_file(state.tensors, temporary, {SETTINGS: json.dumps(state.settings)})


def _read(path: Path, labels: int) -> HashedScorer:
    from safetensors import safe_open

    with reading_back(path, "remove it and run the command again", JobError):
        with safe_open(path, framework="np") as file:
            settings = json.loads(file.metadata()[SETTINGS])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        conforms(HashedScorer.declared, settings, tensors, {}, labels)
        return HashedScorer.restore(State(settings, tensors))
