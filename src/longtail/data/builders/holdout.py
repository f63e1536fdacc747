"""A generalised zero-shot split of any data set: some labels lose their training rows and keep their test positives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.arrays import Bools
from longtail.data.builders.output import Built, sizes
from longtail.data.corpus import Corpus, held_out
from longtail.data.dataset import Dataset
from longtail.data.write import write_folder, write_repository
from longtail.errors import DataError, counted


def build_holdout(
    corpus: Corpus,
    out: Path,
    *,
    share: float = 0.1,
    seed: int = 0,
    overwrite: bool = False,
    command: str = "",
) -> Built:
    """Writes a data set some of whose labels have no training row.

    Args:
        corpus: the data set; it needs test rows.
        out: the folder to write.
        share: of the labels that have a train row and a test positive.
        seed: of the draw.
        overwrite: replaces a data set that longtail wrote.
        command: that builds it again, for `corpus.json`.

    Returns:
        The counts of the set.

    Raises:
        DataError: the share is not between 0 and 1, or there is nothing to hold out.
    """
    if not 0 < share < 1:
        raise DataError(f"--labels must be between 0 and 1, got {share:g}")
    if len(corpus.test) == 0:
        raise DataError(
            f"{corpus.name} has no test examples, which would measure unseen labels; add some: --test-share 0.2"
        )
    made = without_labels(corpus, drawn_labels(corpus, share, seed))
    facts = {"source": corpus.name, "command": command}
    write = write_repository if corpus.train.texts is None else write_folder
    write(made, out, overwrite=overwrite, facts=facts)
    unseen = made.labels.counts == 0
    positives = int(unseen[made.test.targets.indices].sum())
    counts = sizes(len(made.train), len(made.test), len(made.labels), made.train.targets.nnz, made.test.targets.nnz)
    counts |= {"labels held out": made.held_out_labels, "test positives of unseen labels": positives}
    lost = len(corpus.train) - len(made.train)
    notes = (
        (f"{counted(lost, 'training example had', 'training examples had')} no other label: left out",) if lost else ()
    )
    return Built(out, counts, None, notes)


def drawn_labels(corpus: Corpus, share: float, seed: int) -> Bools:
    """Draws the labels to hold out, by a seeded hash of their ids.

    Args:
        corpus: the data set.
        share: of the labels that have a train row and a test positive.
        seed: of the draw.

    Returns:
        (labels,) True where a label is held out.

    Raises:
        DataError: fewer than two labels have both.
    """
    tested = np.bincount(corpus.test.targets.indices, minlength=len(corpus.labels)) > 0
    able = np.flatnonzero(tested & (corpus.labels.counts > 0))
    if len(able) < 2:
        raise DataError(f"{corpus.name}: fewer than two labels have a training example and a test positive")
    drawn = np.zeros(len(corpus.labels), dtype=np.bool_)
    drawn[able[held_out([corpus.labels.ids[label] for label in able], share, f"labels:{seed}")]] = True
    return drawn


def without_labels(corpus: Corpus, drawn: Bools) -> Corpus:
    """Takes labels away from train and valid, and rows that have no other label.

    Args:
        corpus: the data set.
        drawn: (labels,) True where a label is taken away.

    Returns:
        The new data set, over the same labels, counted anew.
    """
    train, valid = (_without(part, drawn) for part in (corpus.train, corpus.valid))
    both = sparse.vstack([train.targets, valid.targets], format="csr")
    labels = corpus.labels.counted(both)
    return replace(
        corpus,
        name=f"{corpus.name}-holdout",
        train=train.over(labels),
        valid=valid.over(labels),
        test=corpus.test.over(labels),
        held_out_labels=int(drawn.sum()),
        notes=(),
    )


def _without(data: Dataset, drawn: Bools) -> Dataset:
    kept = ~drawn[data.targets.indices]
    rows = np.repeat(np.arange(len(data)), np.diff(data.targets.indptr))[kept]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(data)))])
    targets = sparse.csr_array((data.targets.data[kept], data.targets.indices[kept], starts), shape=data.targets.shape)
    had, has = np.diff(data.targets.indptr) > 0, np.diff(targets.indptr) > 0
    return replace(data, targets=targets).take(np.flatnonzero(has | ~had))
