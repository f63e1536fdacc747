"""Documents and labels in one run of tokens, against one side after the other; the level of scores before training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from longtail.data import Corpus
from longtail.learners.unidec import Unidec
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.encode import encode
from longtail.nn.onevsall.onevsall_task import TextReading
from longtail.nn.pool.encode_both_sides import BothSides
from longtail.nn.pool.pool_fit import PoolFit
from longtail.nn.pool.pool_losses import bce, level_of

ROWS, POOL = np.array([3, 0, 7, 21, 9]), np.array([1, 4, 8])


def sides(tiny: Corpus, pack: bool, mini_batch_size: int | None = None) -> BothSides:
    towers = PoolFit.begin(Unidec(encoder="tiny", dimension=16, max_tokens=8), tiny.train, tiny.valid, ())
    documents, labels = (
        TextReading(towers.encoder, DeviceTokens(tokens, towers.device, 8), pack=pack)
        for tokens in (towers.documents, towers.labels)
    )
    return BothSides(documents, labels, mini_batch_size)


def test_one_run_of_tokens_is_both_sides(tiny: Corpus) -> None:
    found = []
    for pack in (True, False):
        both = sides(tiny, pack)
        pieces, _, join = both.pieces(ROWS, POOL)
        assert both.together == pack and len(pieces) == (1 if pack else 2)
        documents, labels = join([piece() for piece in pieces]).split([5, 3])
        assert documents.shape == (5, 16) and labels.shape == (3, 16)
        (documents @ labels.T).square().sum().backward()
        encoder = both.documents.encoder
        gradients = torch.cat([weight.grad.flatten() for weight in encoder.parameters() if weight.grad is not None])
        found.append((documents.detach(), labels.detach(), gradients))
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < 1e-5 * other.norm()


def test_mini_batches_are_cut_on_each_side(tiny: Corpus) -> None:
    both = sides(tiny, True, mini_batch_size=2)
    pieces, _, join = both.pieces(ROWS, POOL)
    assert not both.together and [len(piece()) for piece in pieces] == [2, 2, 1, 2, 1]
    documents, labels = join([piece() for piece in pieces]).split([5, 3])
    for cut, whole in ((documents, both.documents(ROWS)), (labels, both.labels(POOL))):
        assert torch.allclose(cut, whole, atol=1e-6)


def test_the_level_makes_one_label_of_the_pool_likely(tiny: Corpus) -> None:
    scores = 6 + 2 * torch.randn(400, 300, generator=torch.Generator().manual_seed(0))
    level = level_of(scores)
    assert level == pytest.approx(math.log(scores.double().exp().mean()), rel=1e-6)
    none = torch.zeros_like(scores)
    assert 0.5 < bce(scores, none, level).item() < 1  # softplus is a little below e^score
    assert bce(scores, none).item() > 50 * bce(scores, none, level).item()


def test_bce_begins_at_the_level_of_its_scores(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("longtail.nn.pool.pool_fit.loss_of", lambda name, rows_weight, level=0.0: asked.append(level))
    monkeypatch.setattr("longtail.nn.pool.pool_fit.train", lambda *_: None)
    learner = Unidec(encoder="tiny", dimension=16, max_tokens=8, classifier_scale=20.0)
    towers = learner.learned(tiny.train, tiny.valid)
    assert towers.heads is not None and towers.table is not None
    encoded = encode(towers.encoder, towers.documents, longest=towers.max_tokens)
    rows = towers.heads.project(encoded, "classifiers")
    expected = level_of(torch.from_numpy(20 * rows @ towers.table.rows().T))
    assert max(asked) == pytest.approx(expected, abs=0.05)
