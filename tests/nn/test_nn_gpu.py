"""What only a GPU can show: that a step never waits for it, and that it learns there what it learns here."""

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
from longtail.nn.batches import Curriculum, Pairs
from longtail.nn.checkpoint import keeping
from longtail.nn.fit import Towers
from longtail.nn.losses import softmax, triplet
from longtail.nn.resident import ResidentTokens
from longtail.nn.siamese import Siamese

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SMALL: dict[str, Any] = {"encoder": "tiny", "batch": 64, "epochs": 6, "longest": 16}


def task(tiny: Corpus, **more: Any) -> Siamese:
    towers = Towers.begin(Dpr(**SMALL), tiny.train, tiny.valid, ())
    documents, labels = (ResidentTokens(one, towers.device, 16) for one in (towers.documents, towers.labels))
    given: dict[str, Any] = {"loss": partial(softmax, both=True), "batch": 64, "epochs": 6, "rate": 1e-3}
    return Siamese(towers.encoder, documents, labels, Pairs(tiny.train.targets), **{**given, **more})


@pytest.mark.parametrize("loss", [partial(softmax, both=True), triplet])
@pytest.mark.parametrize("pack", [True, False])
def test_a_step_never_waits_for_the_device(tiny: Corpus, loss: Any, pack: bool) -> None:
    work = task(tiny, loss=loss, pack=pack, curriculum=Curriculum())
    optimiser = torch.optim.AdamW(work.groups(), fused=True)
    batches = work.batches(0, 0)
    work.backward(next(batches), 1.0)  # the tokens are copied to the device here
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            work.backward(batch, 1.0)
            torch.nn.utils.clip_grad_norm_(work.encoder.parameters(), 1.0)
            optimiser.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("how", [{}, {"chunk": 10}])
def test_packed_and_padded_batches_give_the_same_gradients(tiny: Corpus, how: dict[str, Any]) -> None:
    found = []
    for pack in (True, False):
        work = task(tiny, pack=pack, precision="fp32" if how else "bf16", **how)
        loss = work.backward(next(work.batches(0, 0)), 1.0)
        gradients = [one.grad.flatten() for one in work.encoder.parameters() if one.grad is not None]
        found.append((loss.item(), torch.cat(gradients)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-2)
    assert torch.nn.functional.cosine_similarity(found[0][1], found[1][1], dim=0) > 0.99


@pytest.mark.parametrize("learner", [Dpr(**SMALL), Ngame(**SMALL, classifier_epochs=5), Dpr(**SMALL, compiled=True)])
def test_learns_on_a_gpu(learner: Any, tiny: Corpus, tmp_path: Path) -> None:
    with keeping(tmp_path, every_seconds=0):
        model = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))
    found = model.predict(tiny.test.rows, 5)
    assert evaluate(found, tiny.test)["P@1"] > 90
    with keeping(tmp_path):
        again = Model(learner.name, tiny.labels, learner.fit(tiny.train, tiny.valid, ()))  # read back
    assert np.allclose(again.predict(tiny.test.rows, 5).scores, found.scores, atol=1e-5)
