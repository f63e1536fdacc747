"""What fits that train an encoder share: checks, token limits, checkpoint identity, measures and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data import Corpus
from longtail.errors import DataError
from longtail.learners.astec import Astec
from longtail.learners.dpr import Dpr
from longtail.learners.renee import Renee
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.encoder_fit import EncoderFit, token_cache, training_texts
from longtail.nn.onevsall.onevsall_fit import OneVsAllFit
from longtail.nn.shallow.shallow_fit import ShallowFit

SMALL: dict[str, Any] = {"dimension": 16, "batch_size": 64, "epochs": 2}


def start(kind: str, corpus: Corpus, **more: Any) -> EncoderFit:
    if kind == "dual":
        return DualEncoderFit.begin(Dpr(encoder="bag", **SMALL, **more), corpus.train, corpus.valid, ())
    if kind == "onevsall":
        return OneVsAllFit.begin(Renee(encoder="bag", **SMALL, **more), corpus.train, corpus.valid, ())
    own = Astec(**SMALL, **more)
    return ShallowFit.begin(own, corpus.train, corpus.valid, (), own.body)


KINDS = ["dual", "onevsall", "shallow"]


@pytest.mark.parametrize("kind", KINDS)
def test_identity_is_that_of_settings_and_data(kind: str, tiny: Corpus) -> None:
    whole = start(kind, tiny).identity()
    assert start(kind, tiny).identity() == whole
    seed = start(kind, tiny, seed=3).identity()
    assert {name for name in whole if whole[name] != seed[name]} >= {"seed"} and seed["data"] == whole["data"]
    targets = tiny.train.targets.copy()
    targets.data[0] = 0.5
    other = replace(tiny, train=replace(tiny.train, targets=targets))
    assert start(kind, other).identity()["data"] != whole["data"]
    texts = ("another text", *(tiny.train.texts or ())[1:])
    other = replace(tiny, train=replace(tiny.train, texts=texts))
    assert start(kind, other).identity()["data"] != whole["data"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_shared_settings_reach_the_training_loop(kind: str, tiny: Corpus) -> None:
    fit = start(kind, tiny, warmup=0.25, schedule="cosine", validate_every=3, patience=4, seed=5)
    config = fit.training_config(7, keep_best=False)
    assert (config.epochs, config.warmup, config.schedule, config.validate_every) == (7, 0.25, "cosine", 3)
    assert (config.patience, config.seed, config.keep_best) == (4, 5, False)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_and_labels_are_needed(kind: str, tiny: Corpus) -> None:
    bare = replace(tiny.train, texts=None, features=sparse.csr_array(np.eye(len(tiny.train), dtype=np.float32)))
    with pytest.raises(DataError, match="reads texts; the training examples have only features"):
        start(kind, replace(tiny, train=bare))
    empty = replace(tiny.train, targets=sparse.csr_array(tiny.train.targets.shape, dtype=np.float32))
    with pytest.raises(DataError, match="no example of train has a label"):
        start(kind, replace(tiny, train=empty))
    assert training_texts("dpr", tiny.train) is tiny.train.texts
    assert token_cache() is None  # outside of a checkpoint directory


def test_the_lower_limit_of_tokens_counts(tiny: Corpus) -> None:
    fit = DualEncoderFit.begin(Dpr(encoder="tiny", max_tokens=8, **SMALL), tiny.train, tiny.valid, ())
    assert fit.max_tokens == 8
    fit.encoder.max_tokens = 5
    assert fit.max_tokens == 5 and fit.held_out[1].lengths.max() <= 5


def test_measures_leave_out_excluded_pairs(tiny: Corpus) -> None:
    """The best label of every row is excluded; the second one, which is right, moves up."""
    right = np.array([row.indices[0] for row in map(tiny.valid.targets.__getitem__, ([n] for n in range(60)))])
    wrong = np.array([next(label for label in range(10) if row[label] == 0) for row in tiny.valid.targets.toarray()])
    excluded = sparse.csr_array((np.ones(60, np.float32), (np.arange(60), wrong)), shape=(60, 10))
    asked: list[int] = []

    def find(k: int) -> tuple[Ints, Floats]:
        asked.append(k)
        labels = np.stack([wrong, right], axis=1).astype(np.int32)[:, :k]
        return labels, np.tile(np.array([0.9, 0.5], np.float32)[:k], (60, 1))

    plain, without = (
        start("dual", replace(tiny, valid=replace(tiny.valid, excluded=pairs))) for pairs in (None, excluded)
    )
    assert plain.measure(find)["P@1"] == 0
    assert without.measure(find)["P@1"] == 100
    assert asked == [1, 2]
    assert set(without.measure(find, ("P@1", "PSP@1"))) == {"P@1", "PSP@1"}


def test_calibration_needs_valid_rows(tiny: Corpus) -> None:
    fit = start("dual", tiny)
    assert isinstance(fit, DualEncoderFit)
    uncalibrated = start("dual", replace(tiny, valid=tiny.valid.take([])))
    assert isinstance(uncalibrated, DualEncoderFit)
    before, after = uncalibrated.scorer().calibration, fit.scorer().calibration
    assert (before.scale, before.offset) == (20.0, -10.0)  # 1 / temperature, and 1/2 at a cosine of 1/2
    assert after != before
    assert uncalibrated.evaluation is None and fit.evaluation is not None
