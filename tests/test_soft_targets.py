"""How often soft targets are right: against a slow count over documents that are labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Dataset, LabelSet
from longtail.soft_targets import EDGES, labels_as_documents, right_by_size
from longtail.tail.gandalf import Gandalf

LABELS = 30


def data(rows: int, seed: int) -> Dataset:
    """Documents with random labels; in half of them the text is that of a label, which they do not have."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, LABELS)) < np.linspace(0.02, 0.4, LABELS)).astype(np.float32)
    texts = [f"Label  {row % LABELS}" if row % 2 else f"document {row}" for row in range(rows)]
    dense[np.arange(rows)[1::2], np.arange(rows)[1::2] % LABELS] = 0
    labels = LabelSet(ids=tuple(map(str, range(LABELS))), texts=tuple(f"label {row}" for row in range(LABELS)))
    targets = sparse.csr_array(dense)
    ids = tuple(f"{seed}-{row}" for row in range(rows))
    return Dataset(labels=labels.counted(targets), targets=targets, ids=ids, texts=tuple(texts))


def test_shares_are_those_of_a_slow_count() -> None:
    train, valid = data(200, 0), data(60, 1)
    graph = Gandalf(threshold=0.1).soft_targets(train.targets).toarray()
    cases = []
    for part in (train, valid):
        dense = part.targets.toarray()
        for row in range(1, len(part), 2):
            label = row % LABELS
            cases += [
                (graph[label, other], dense[row, other] > 0)
                for other in range(LABELS)
                if other != label and graph[label, other] > 0
            ]
    found = right_by_size(train, valid)
    assert sum(one.count for one in found) == len(cases)
    for one in found:
        last = one.high == EDGES[-1]
        mine = [right for weight, right in cases if one.low <= weight < one.high or (last and weight == 1)]
        assert (one.count, one.right) == (len(mine), pytest.approx(np.mean(mine)))


def test_excluded_pairs_name_documents_too_and_shared_texts_name_none() -> None:
    train = data(10, 0)
    excluded = sparse.csr_array(([True, True], ([0, 1], [4, 1])), shape=train.targets.shape)
    rows, labels = labels_as_documents(replace(train, excluded=excluded))
    pairs = list(zip(rows.tolist(), labels.tolist(), strict=True))
    assert pairs == [(0, 4), (1, 1), (3, 3), (5, 5), (7, 7), (9, 9)]
    twice = replace(train.labels, texts=("label 3", *train.labels.texts[1:]))
    assert 3 not in labels_as_documents(train.over(twice))[0]


def test_nothing_is_said_where_no_document_is_a_label() -> None:
    train = data(200, 0)
    assert right_by_size(replace(train, texts=tuple(f"document {row}" for row in range(200)))) == ()
    assert right_by_size(train.take([])) == ()
