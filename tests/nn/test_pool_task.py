"""The task over pools: against a plain loop, in mini-batches, killed and resumed, and refreshed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from lines import Lines
from longtail.data import Corpus
from longtail.errors import RecipeError
from longtail.learners.unidec import Unidec
from longtail.nn.encoders.encode import encode
from longtail.nn.pool.pool_fit import PoolFit
from longtail.nn.pool.pool_losses import bce, level_of, loss_of
from longtail.nn.pool.pool_scorer import PoolScorer
from longtail.nn.pool.pool_settings import TableSettings
from longtail.nn.pool.pool_task import PoolTask
from longtail.nn.training.checkpoint import checkpointing
from longtail.nn.training.task import StepHooks
from longtail.progress import listening

SMALL: dict[str, Any] = {
    "encoder": "tiny", "batch_size": 32, "epochs": 2, "dimension": 16, "max_tokens": 8, "dropout": 0.0,
    "head_dropout": 0.0, "refresh_every": 1, "negatives": 2,
}  # fmt: skip


def begun(tiny: Corpus, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[PoolFit, PoolTask]:
    """Towers and their task, caught before it is trained."""
    own = Unidec(**{**SMALL, **settings})
    towers = PoolFit.begin(own, tiny.train, tiny.valid, ())
    towers.add_heads(own.head_dropout, classifiers=True, predict_by="both")
    caught: list[PoolTask] = []
    monkeypatch.setattr("longtail.nn.pool.pool_fit.train", lambda task, *_: caught.append(task))
    table = TableSettings(
        own.classifier_loss, own.classifier_scale, own.classifier_learning_rate, own.encoder_loss_weight, "fp32", False
    )
    towers.learn_pools(own.loss, own.pool, own.head_learning_rate, table)
    return towers, caught[0]


def gradients(task: PoolTask) -> dict[str, np.ndarray]:
    return {
        f"{name}.{key}": parameter.grad.numpy().copy()
        for name, module in task.modules.items()
        for key, parameter in module.named_parameters()
        if parameter.grad is not None
    }


def test_a_step_is_the_papers_loss(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    towers, task = begun(
        tiny, monkeypatch, encoder_loss_weight=0.3, classifier_scale=2.0, classifier_loss="decoupled+bce"
    )
    assert isinstance(task, StepHooks) and task.heads is not None and task.classifiers is not None
    task.begin_epoch(0)
    batch = next(task.batches(0, 0))
    before = task.classifiers.table.rows()
    queries = task.heads.project(encode(towers.encoder, towers.documents, longest=towers.max_tokens), "classifiers")
    level = level_of(torch.from_numpy(2 * queries @ before.T))
    task.begin_step(0.5)
    loss = task.backward(batch, 1.0)
    found = gradients(task)
    for module in task.modules.values():
        module.zero_grad()
    documents, labels = task.documents(batch.rows), task.labels(batch.pool)
    truth = torch.from_numpy(tiny.train.targets.toarray()[np.ix_(batch.rows, batch.pool)])

    def side(layer: torch.nn.Linear, encoded: torch.Tensor) -> torch.Tensor:
        return layer(encoded / encoded.norm(dim=1, keepdim=True))

    heads = task.heads
    assert heads.rows is not None
    first = normalize(torch.tanh(side(heads.texts, documents))) @ normalize(torch.tanh(side(heads.texts, labels))).T
    own = torch.from_numpy(before[batch.pool]).requires_grad_()
    second = side(heads.rows, documents) @ own.T / 0.5
    by_classifiers = loss_of("decoupled")(second, truth) + bce(second, truth, level)
    expected = 0.3 * loss_of("decoupled")(first / 0.05, truth) + 0.7 * by_classifiers
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    expected.backward()
    for name, gradient in gradients(task).items():
        assert np.allclose(found[name], gradient, atol=1e-5), name
    # The first step of Adam is the rate against the sign, here at half the pace; other labels stay.
    assert own.grad is not None
    moved = task.classifiers.table.rows() - before
    firm = own.grad.abs() > 1e-4
    assert np.allclose(moved[batch.pool][firm], -1.5e-3 * own.grad.sign()[firm], rtol=1e-2)
    others = np.setdiff1d(np.arange(10), batch.pool)
    assert (moved[others] == 0).all()


def test_trained_by_cosines_norms_do_not_count(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    for counts in (True, False):
        _, task = begun(tiny, monkeypatch)
        assert task.classifiers is not None
        task.classifiers.norms = counts
        task.begin_epoch(0)
        batch = next(task.batches(0, 0))
        table = task.classifiers.table
        for factor in (1.0, 3.0):
            with torch.no_grad():
                table.weight.mul_(factor)
            task.begin_step(0.0)
            losses[counts, factor] = task.backward(batch, 1.0).item()
    assert losses[False, 1.0] == pytest.approx(losses[True, 1.0], rel=1e-5)  # both start from unit vectors
    assert losses[False, 3.0] == pytest.approx(losses[False, 1.0], rel=1e-5)
    assert losses[True, 3.0] != pytest.approx(losses[True, 1.0], rel=1e-2)


def test_mini_batches_change_memory_and_not_gradients(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for size in (None, 7):
        _, task = begun(tiny, monkeypatch, mini_batch_size=size)
        task.begin_epoch(0)
        loss = task.backward(next(task.batches(0, 0)), 1.0)
        assert task.classifiers is not None
        found.append((loss.item(), gradients(task), task.classifiers.table.rows()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, gradient in found[0][1].items():
        assert np.allclose(gradient, found[1][1][name], atol=1e-5), name
    assert np.allclose(found[0][2], found[1][2], atol=1e-5)


def test_clusters_and_negatives_are_refreshed_every_few_epochs(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    _, task = begun(tiny, monkeypatch, refresh_every=2, negatives=2)
    assert task.refresh is not None
    heard = Lines()
    with listening(heard):
        clusters, mined = task.refresh(0) or (None, None)
        monkeypatch.setattr("longtail.nn.pool.pool_fit.NOTED", 1e9)
        task.refresh(2)  # too fast to be noted
    assert len(heard.lines) == 1
    assert re.fullmatch(r"unidec: clustered \d+ documents, 4 hard negatives each, in .* s", heard.lines[0])
    assert clusters is not None and mined is not None and task.refresh(1) is None and task.refresh(2) is not None
    assert np.bincount(clusters).max() <= 32 and len(clusters) == task.rows
    assert mined.shape == (len(tiny.train), 4)  # negatives x refresh_every
    truth = tiny.train.targets.toarray() > 0
    kept = mined >= 0
    assert kept.any() and not truth[np.nonzero(kept)[0], mined[kept]].any()
    task.begin_epoch(0)
    order = np.concatenate([batch.rows for batch in task.batches(0, 0)])
    assert sorted(order.tolist()) == np.flatnonzero(np.diff(tiny.train.targets.indptr)).tolist()


class Killed(Exception):
    pass


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_killed_run_ends_with_the_same_bits(precision: str, tiny: Corpus, tmp_path: Path) -> None:
    learner = Unidec(
        encoder="bag", dimension=16, batch_size=64, epochs=4, refresh_every=2, classifier_precision=precision
    )  # type: ignore[arg-type]
    whole = learner.fit(tiny.train, tiny.valid, ())

    class Fuse(Lines):
        """Burns through in the third epoch, between two batches."""

        left = 2 * len(tiny.train) + 150

        training = False

        def start(self, name: str, total: int | None) -> int:
            self.training = name.startswith("training")
            return 0

        def advance(self, handle: int, amount: int) -> None:
            if self.training:
                self.left -= amount
                if self.left < 0:
                    raise Killed

        def finish(self, handle: int) -> None:
            self.training = False

    with pytest.raises(Killed), checkpointing(tmp_path, every_seconds=0), listening(Fuse()):
        learner.fit(tiny.train, tiny.valid, ())
    with checkpointing(tmp_path, every_seconds=0):
        again = learner.fit(tiny.train, tiny.valid, ())
    assert isinstance(whole, PoolScorer)
    one, other = whole.state().tensors, again.state().tensors
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "'loss' of unidec is one of"),
        ({"classifier_loss": "decoupled+"}, "'classifier_loss' of unidec"),
        ({"positives": 0}, "'positives' of unidec is at least 1"),
        ({"cluster_size": 0}, "'cluster_size' of unidec is at least 1"),
        ({"negatives": -1}, "'negatives' of unidec is at least 0"),
        ({"refresh_every": 0}, "mines negatives when it refreshes: set refresh_every"),
        ({"encoder_loss_weight": 1.0}, "'encoder_loss_weight' of unidec lies between 0 and 1"),
        ({"classifier_share": 0.0}, "'classifier_share' of unidec lies between 0 and 1"),
        ({"norm_power": 1.5}, r"'norm_power' of unidec lies in \[0, 1\]"),
        ({"classifier_learning_rate": 0.0}, "above 0"),
        ({"anchors": "labels"}, "both directions"),
        ({"head_dropout": 1.0}, "head_dropout"),
        ({"head_dimension": 0}, "'head_dimension' of unidec is at least 1"),
        ({"search_dimension": 8}, "shorter vectors: head_dimension"),
    ],
)
def test_settings_are_refused_before_anything_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Unidec(**settings)


@pytest.mark.parametrize("mini_batch_size", [None, 20])
def test_a_step_over_a_padded_pool_is_the_same(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch, mini_batch_size: int | None
) -> None:
    found = []
    for padded in (False, True):
        _, task = begun(tiny, monkeypatch, classifier_loss="decoupled+bce", mini_batch_size=mini_batch_size)
        assert task.classifiers is not None
        task.sampler = replace(task.sampler, padded=padded)
        task.begin_epoch(0)
        batch = next(task.batches(0, 0))
        assert (batch.columns > len(batch.pool)) == padded
        loss = task.backward(batch, 1.0)
        found.append({"loss": loss.numpy(), "table": task.classifiers.table.rows(), **gradients(task)})
    assert found[0].keys() == found[1].keys()
    for name, wanted in found[0].items():
        np.testing.assert_allclose(found[1][name], wanted, rtol=1e-4, atol=1e-6, err_msg=name)


def test_classifiers_that_diverge_name_their_learning_rate(tiny: Corpus) -> None:
    with pytest.raises(
        RecipeError, match=r"classifiers of unidec diverged: lower classifier_learning_rate, now 1e\+30"
    ):
        Unidec(encoder="bag", dimension=8, epochs=2, classifier_learning_rate=1e30).fit(tiny.train, tiny.valid, ())
