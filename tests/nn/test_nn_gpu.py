"""What only a GPU can show: that the host never waits in a step, and that training gives what it gives on a CPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longtail.data import Corpus
from longtail.learners.dpr import Dpr
from longtail.learners.ngame import Ngame
from longtail.metrics.evaluate import evaluate
from longtail.model import Model
from longtail.nn.dual.contrastive_losses import softmax, triplet
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.dual.dual_task import DualEncoderTask
from longtail.nn.dual.pair_batches import Curriculum, Pairs
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.training.checkpoint import checkpointing

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SMALL: dict[str, Any] = {"encoder": "tiny", "batch_size": 64, "epochs": 6, "max_tokens": 16}


def task(tiny: Corpus, dropout: float | None = None, **more: Any) -> DualEncoderTask:
    towers = DualEncoderFit.begin(Dpr(**SMALL, dropout=dropout), tiny.train, tiny.valid, ())
    documents, labels = (DeviceTokens(one, towers.device, 16) for one in (towers.documents, towers.labels))
    given: dict[str, Any] = {"loss": partial(softmax, both=True), "batch_size": 64, "epochs": 6, "learning_rate": 1e-3}
    return DualEncoderTask(towers.encoder, documents, labels, Pairs(tiny.train.targets), **{**given, **more})


@pytest.mark.parametrize("loss", [partial(softmax, both=True), triplet])
@pytest.mark.parametrize(("pack", "replay"), [(True, True), (True, False), (False, False)])
def test_a_step_never_waits_for_the_device(tiny: Corpus, loss: Any, pack: bool, replay: bool) -> None:
    work = task(tiny, loss=loss, pack=pack, replay=replay, curriculum=Curriculum())
    optimiser = torch.optim.AdamW(work.groups(), fused=True)
    for epoch in range(3):  # copies the tokens to the device, compiles the kernels and records them
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


def gradients(work: DualEncoderTask, epochs: int) -> list[torch.Tensor]:
    """Gradients of pairs of batches, added up; the weights change a little after each pair."""
    found = []
    torch.manual_seed(0)
    for epoch in range(epochs):
        batches = list(work.batches(epoch, 0))
        for pair in zip(batches[::2], batches[1::2], strict=False):
            work.encoder.zero_grad(set_to_none=True)
            for batch in pair:
                work.backward(batch, 0.5)
            weights = list(work.encoder.parameters())
            found.append(torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None]))
            with torch.no_grad():
                for weight in weights:
                    weight.mul_(0.999)
    return found


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_replayed_steps_are_those_without_replay(tiny: Corpus, dropout: float) -> None:
    works = [task(tiny, replay=replay, precision="bf16", dropout=dropout) for replay in (True, False)]
    ours, theirs = (gradients(work, 3) for work in works)
    assert works[0]._replayed is not None and len(works[0]._replayed.records) > 0 and works[1]._replayed is None
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() < 1e-2 * other.norm()


def test_replayed_dropout_is_drawn_anew(tiny: Corpus) -> None:
    work = task(tiny, precision="bf16", dropout=0.3, replay=True)
    batch = next(work.batches(0, 0))
    losses = [work.backward(batch, 1.0).item() for _ in range(6)]
    assert len(set(losses)) == 6


@pytest.mark.parametrize("how", [{}, {"mini_batch_size": 10}])
def test_packed_and_padded_batches_give_the_same_gradients(tiny: Corpus, how: dict[str, Any]) -> None:
    found = []
    for pack in (True, False):
        work = task(tiny, pack=pack, precision="fp32" if how else "bf16", **how)
        loss = work.backward(next(work.batches(0, 0)), 1.0)
        gradients = [one.grad.flatten() for one in work.encoder.parameters() if one.grad is not None]
        found.append((loss.item(), torch.cat(gradients)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-2)
    assert torch.nn.functional.cosine_similarity(found[0][1], found[1][1], dim=0) > 0.99


@pytest.mark.parametrize("learner", [Dpr(**SMALL), Ngame(**SMALL, classifier_epochs=5), Dpr(**SMALL, compile=True)])
def test_learns_on_a_gpu(learner: Any, tiny: Corpus, tmp_path: Path) -> None:
    with checkpointing(tmp_path, every_seconds=0):
        model = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))
    found = model.predict(tiny.test.rows, 5)
    assert evaluate(found, tiny.test)["P@1"] > 90
    with checkpointing(tmp_path):
        again = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))  # read back
    assert np.allclose(again.predict(tiny.test.rows, 5).scores, found.scores, atol=1e-5)
