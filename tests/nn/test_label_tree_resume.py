"""Nets over a label tree whose training is stopped and goes on, also between the stages of one training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from longtail.data.corpus import Corpus
from longtail.nn.label_tree.tree_task import TreeTask
from longtail.nn.training.checkpoint import checkpointing
from longtail.recipe import Recipe

SMALL = "encoder='bag', dimension=8, batch_size=64, max_leaf_labels=2"


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("recipe", "batches", "stop"),
    [
        (f"elias({SMALL}, cluster_epochs=1, epochs=2)", 21, 17),  # in the second stage, within an epoch
        (f"xrtransformer({SMALL}, branches=2, epochs=1)", 28, 17),  # on the third of four levels
        (f"cascadexml({SMALL}, epochs=3, branches=2)", 21, 10),
        (f"lightxml({SMALL}, epochs=3, average_from=1, average_every=2)", 21, 18),
        (f"attentionxml({SMALL}, epochs=3, max_flat_labels=1)", 21, 10),
    ],
)
def test_a_stopped_training_resumes_to_the_same_result(
    recipe: str, batches: int, stop: int, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, backward = [0], TreeTask.backward

    def fitted() -> dict[str, Any]:
        return Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.state().tensors

    def stopping(self: TreeTask, batch: Any, share: float) -> Tensor:
        done[0] += 1
        if done[0] == batches + stop:
            raise Stop
        return backward(self, batch, share)

    monkeypatch.setattr(TreeTask, "backward", stopping)
    whole = fitted()
    assert done[0] == batches
    with pytest.raises(Stop), checkpointing(tmp_path, every_seconds=0):
        fitted()
    with checkpointing(tmp_path, every_seconds=0):
        again = fitted()
    assert done[0] == 2 * batches + 1  # no batch was trained twice but the one that was stopped
    assert whole.keys() == again.keys()
    assert all(np.array_equal(whole[name], again[name]) for name in whole)
