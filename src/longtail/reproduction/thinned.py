"""A data set with fewer training examples, for tables that ask how much a method needs of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail.data.corpus import Corpus, hashed
from longtail.progress import note


def thinned(corpus: Corpus, examples_per_label: float) -> Corpus:
    """Keep so many training examples that a label has this number of them on average.

    The hash of its id decides whether an example is kept, so a smaller set is part of every larger one. Valid is
    cut by the same share; test and the label set stay, and the counts of labels are those of the examples kept.

    Args:
        corpus: the data.
        examples_per_label: pairs of an example and a label, divided by the labels.

    Returns:
        The smaller data set; the given one where it has no more examples.
    """
    wanted = examples_per_label * len(corpus.labels)
    if corpus.train.targets.nnz <= wanted:
        note(f"{corpus.name} has no more than {examples_per_label:g} examples a label: all are kept")
        return corpus
    order = np.argsort(hashed(corpus.train.ids, "thinned"), kind="stable")
    pairs = np.cumsum(np.diff(corpus.train.targets.indptr)[order])
    kept = max(int(np.searchsorted(pairs, wanted, side="right")), 1)
    train = corpus.train.take(np.sort(order[:kept]))
    first = np.argsort(hashed(corpus.valid.ids, "thinned"), kind="stable")
    share = kept / len(corpus.train)
    valid = corpus.valid.take(np.sort(first[: round(share * len(corpus.valid))]))
    labels = corpus.labels.counted(train.targets)
    return replace(
        corpus,
        train=train.over(labels),
        valid=valid.over(labels),
        test=corpus.test.over(labels),
        notes=(*corpus.notes, f"{kept:,} training examples: {examples_per_label:g} a label in the mean"),
    )
