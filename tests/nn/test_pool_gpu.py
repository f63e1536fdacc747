"""Pools on a GPU: a step never waits for it, and replayed steps give the same gradients."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longtail.data import Corpus
from longtail.learners.unidec import Unidec
from longtail.metrics.evaluate import evaluate
from longtail.model import Model
from longtail.nn.dual.balanced_clusters import balanced_clusters
from longtail.nn.dual.mined_negatives import nearest_wrong
from longtail.nn.pool.classifier_table import ClassifierTable
from longtail.nn.pool.pool_fit import PoolFit
from longtail.nn.pool.pool_task import PoolTask
from longtail.nn.training.checkpoint import checkpointing

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SOME = torch.tensor([3, 14, 15, 92])
SMALL: dict[str, Any] = {"encoder": "tiny", "batch_size": 64, "epochs": 6, "max_tokens": 16, "head_dropout": 0.0}


def task(tiny: Corpus, monkeypatch: pytest.MonkeyPatch, replay: bool, **more: Any) -> PoolTask:
    caught: list[PoolTask] = []
    with monkeypatch.context() as patched:
        patched.setattr("longtail.nn.pool.pool_fit.train", lambda task, *_: caught.append(task))
        patched.setattr(ClassifierTable, "close", lambda _: None)
        Unidec(**{**SMALL, **more}).learned(tiny.train, tiny.valid)
    caught[0].replay = replay
    caught[0].__post_init__()
    return caught[0]


@pytest.mark.parametrize(("replay", "on_host"), [(True, False), (False, False), (True, True)])
def test_a_step_never_waits_for_the_device(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch, replay: bool, on_host: bool
) -> None:
    work = task(tiny, monkeypatch, replay, classifiers_on_host=on_host)
    optimiser = torch.optim.AdamW(work.groups(), fused=True)
    work.begin_epoch(0)
    for epoch in range(3):  # the tokens are copied to the device here, and kernels compiled and recorded
        for batch in work.batches(epoch, 0):
            work.backward(batch, 1.0)
    batches = work.batches(0, 0)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            work.backward(batch, 1.0)
            torch.nn.utils.clip_grad_norm_(work.encoder.parameters(), 1.0)
            optimiser.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_replayed_steps_are_those_launched_one_by_one(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for replay in (True, False):
        work = task(tiny, monkeypatch, replay, dropout=0.0)
        work.begin_epoch(0)
        assert (work._texts._replayed is not None) == replay
        assert (work._recorded is not None) == replay
        gradients: list[torch.Tensor] = []
        for epoch in range(3):
            batches = list(work.batches(epoch, 0))
            for pair in zip(batches[::2], batches[1::2], strict=False):
                for module in work.modules.values():
                    module.zero_grad(set_to_none=True)
                gradients += [work.backward(batch, 0.5)[None] for batch in pair]  # of both together
                for module in (work.encoder, work.heads):
                    assert module is not None
                    gradients.append(torch.cat([each.grad.flatten() for each in module.parameters()]).clone())
        assert work.classifiers is not None
        found.append([*gradients, work.classifiers.table.weight.flatten()])
        assert not replay or len(work._texts._replayed.records) > 0  # type: ignore[union-attr]
        assert not replay or len(work._recorded.records) > 0  # type: ignore[union-attr]
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < 2e-2 * other.norm()


def test_replayed_dropout_of_heads_is_drawn_anew(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    work = task(tiny, monkeypatch, True, dropout=0.0, head_dropout=0.3)
    work.begin_epoch(0)
    work.begin_step(0.0)
    batch = next(work.batches(0, 0))
    losses = [work.backward(batch, 1.0).item() for _ in range(6)]
    assert work._recorded is not None and len(work._recorded.records) == 1 and len(set(losses)) == 6


@pytest.mark.parametrize("loss", ["supcon", "infonce", "decoupled+bce"])
def test_every_loss_can_be_recorded(tiny: Corpus, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    losses = []
    for replay in (True, False):
        work = task(tiny, monkeypatch, replay, dropout=0.0, loss=loss, classifier_loss=loss)
        work.begin_epoch(0)
        work.begin_step(0.0)
        batch = next(work.batches(0, 0))
        losses.append([work.backward(batch, 1.0).item() for _ in range(20)])
        assert not replay or len(work._recorded.records) == 1  # type: ignore[union-attr]
    ours, theirs = (sum(some) / len(some) for some in losses)
    assert ours == pytest.approx(theirs, rel=0.05 if loss == "infonce" else 5e-3)


def test_clusters_and_negatives_of_a_gpu_are_those_of_the_host(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Unidec(**SMALL)
    towers = PoolFit.begin(own, tiny.train, tiny.valid, ())
    towers.add_heads(0.1, True, "both")
    towers.encoder.train()
    documents = towers.vectors_on_device(towers.resident[0], "documents")
    assert documents.is_cuda and towers.encoder.training and towers.heads is not None and towers.heads.training
    assert (documents.cpu() * torch.from_numpy(towers.document_vectors())).sum(1).min() > 0.999
    assert documents.equal(towers.vectors_on_device(towers.resident[0], "documents"))
    mined = towers.mine(3, documents)
    items = towers.vectors_on_device(towers.resident[1], "labels")
    with monkeypatch.context() as patched:
        patched.setattr("longtail.nn.dual.dual_fit.SHARE", 0.0)  # too large to stay
        assert not towers.vectors_on_device(towers.resident[0], "documents").is_cuda
        assert (towers.mine(3) == mined).mean() > 0.9
    on_host = nearest_wrong(documents.cpu(), items.cpu(), tiny.train.targets, 3, torch.device("cpu"))
    assert (on_host == mined).mean() > 0.99  # but for rounding
    size = {"size": 8, "device": "cuda"}
    assert (balanced_clusters(documents, **size) == balanced_clusters(documents.cpu().numpy(), **size)).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("on_host", [False, True])
def test_learns_on_a_gpu(tiny: Corpus, on_host: bool) -> None:
    learner = Unidec(**SMALL, classifiers_on_host=on_host)
    model = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))
    assert evaluate(model.predict(tiny.test.rows, 5), tiny.test)["P@1"] > 90


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_table_in_the_hosts_memory_is_updated_as_one_on_the_device(precision: Any) -> None:
    device, rng = torch.device("cuda"), np.random.default_rng(0)
    given = rng.normal(size=(1000, 24)).astype(np.float32)
    tables = [ClassifierTable(given, device, on_host, precision) for on_host in (False, True)]
    before = torch.cuda.memory_allocated()
    assert [table.weight.is_cuda for table in tables] == [True, False] and tables[1].take(SOME.to(device)).is_cuda
    for _ in range(20):
        labels = torch.from_numpy(np.sort(rng.choice(1000, 300, replace=False))).to(device)
        gradients = torch.randn(300, 24, device=device)
        for table in tables:
            assert table.take(labels).equal(table.weight.to(device)[labels].float())
            table.update(labels, gradients, 0.01)
    assert np.array_equal(tables[0].rows(), tables[1].rows()) and not np.array_equal(tables[0].rows(), given)
    for ours, theirs in zip(*(table.moments().values() for table in tables), strict=True):
        assert ours.cpu().equal(theirs.cpu())
    tables[1].load_state_dict({"weight": torch.zeros(1000, 24)})
    assert tables[1].take(SOME.to(device)).abs().max() == 0  # what the host writes, the device sees
    kept = tables[1].first.clone()
    tables[1].close()
    tables[1].close()
    assert tables[1].first.equal(kept) and torch.cuda.memory_allocated() - before < 1 << 20


def test_a_training_with_its_table_in_the_hosts_memory_goes_on(tiny: Corpus, tmp_path: Path) -> None:
    learner, found = Unidec(**SMALL, classifiers_on_host=True), []
    for _ in range(2):  # the second time from what was kept
        with checkpointing(tmp_path / "run"):
            model = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))
        found.append(model.predict(tiny.test.rows, 5).scores)
    assert np.allclose(*found, atol=1e-3)


def test_one_training_after_another_leaves_nothing_behind(tiny: Corpus) -> None:
    left = []
    for _ in range(3):
        Unidec(**SMALL).fit(tiny.train, tiny.valid, ())
        gc.collect()  # recorded kernels keep their memory until then
        left.append(torch.cuda.memory_allocated())
    assert left[2] - left[1] < 1 << 24  # a workspace of a library is 32 MiB
