"""A data set small enough to see through: every label has a word of its own, and rows name their labels."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

import browsing
from longtail.data import Corpus, Dataset, LabelSet, make_corpus

WORDS = ("apple", "bridge", "castle", "dragon", "engine", "forest", "guitar", "harbour", "island", "jungle")


# The same examples every time, so that a change fails for what it changes. `--hypothesis-profile=hunt` looks further.
# No deadline: the first example of a test may wait for a kernel, or for a busy machine.
settings.register_profile("house", derandomize=True, deadline=None)
settings.register_profile("hunt", derandomize=False, max_examples=1000, deadline=None)
settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    # One thread a test worker: the machine's cores are taken by the workers.
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("LONGTAIL_THREADS", "1")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests wait for processes, browsers and clocks a part of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return round(1.5 * cores)


def pytest_collection_finish() -> None:
    # A comparison collects garbage before every recipe, and would walk through all that the tests have imported.
    gc.freeze()


def rows(labels: LabelSet, name: str, wanted: list[list[int]], seed: int) -> Dataset:
    """Rows whose text holds the words of their labels among words that mean nothing."""
    rng = np.random.default_rng(seed)
    texts = [
        " ".join(rng.permutation([WORDS[label] for label in row] + [str(rng.choice(["of", "the", "and"]))]))
        for row in wanted
    ]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in wanted])])
    targets = sparse.csr_array(
        (np.ones(starts[-1], np.float32), np.concatenate(wanted).astype(np.int32), starts), (len(wanted), len(labels))
    )
    return Dataset(
        labels=labels, targets=targets, ids=tuple(f"{name}-{row}" for row in range(len(wanted))), texts=texts
    )


def make_tiny(seed: int = 0) -> Corpus:
    """400 training rows over 10 labels: the first is common, the last ones rare."""
    above = sparse.csr_array(([1.0, 1.0], ([9, 8], [8, 7])), shape=(10, 10), dtype=np.float32)  # L9 < L8 < L7
    labels = LabelSet(
        ids=tuple(f"L{row}" for row in range(10)), texts=tuple(f"a {word}" for word in WORDS), broader=above
    )
    rng = np.random.default_rng(seed)
    odds = 1 / np.arange(1, 11)
    odds /= odds.sum()

    def draw(number: int) -> list[list[int]]:
        return [sorted(rng.choice(10, size=2, replace=False, p=odds).tolist()) for _ in range(number)]

    train = rows(labels, "train", draw(400) + [[label] for label in range(10)], seed)
    return make_corpus(
        name="tiny",
        train=train,
        valid=rows(labels, "valid", draw(60), seed + 1),
        test=rows(labels, "test", draw(60), seed + 2),
    )


@pytest.fixture(scope="module")  # while it runs, the process has an event loop, which other tests may not want
def browser() -> Iterator[Any]:
    yield from browsing.launched()


@pytest.fixture(scope="session")
def tiny() -> Corpus:
    return make_tiny()


@pytest.fixture(scope="session")
def numbers(tiny: Corpus) -> Corpus:
    """The same rows as sparse features without texts: a column for each label's word, and some noise."""

    def as_features(data: Dataset, seed: int) -> sparse.csr_array:
        rng = np.random.default_rng(seed)
        noise = sparse.csr_array((rng.random((len(data), 5)) < 0.3).astype(np.float32) * np.float32(0.3))
        return sparse.hstack([data.targets, noise], format="csr")

    def bare(data: Dataset, labels: LabelSet, seed: int) -> Dataset:
        return Dataset(labels=labels, targets=data.targets, ids=data.ids, features=as_features(data, seed))

    kept = LabelSet(
        ids=tiny.labels.ids,
        features=sparse.csr_array(np.eye(10, 15, dtype=np.float32)),
        counts=tiny.labels.counts,
        train_rows=tiny.labels.train_rows,
    )
    return Corpus(
        name="numbers", train=bare(tiny.train, kept, 0), valid=bare(tiny.valid, kept, 1), test=bare(tiny.test, kept, 2)
    )
