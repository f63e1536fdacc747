"""The dual encoder's task: against a plain loop, with a label tower, clusters, mined negatives and surrogates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats
from longtail.data import Corpus
from longtail.data.labels import LabelSet
from longtail.learners.dpr import Dpr
from longtail.nn.dual.contrastive_losses import softmax
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_task import DualEncoderTask
from longtail.nn.dual.pair_batches import Curriculum, PairBatch, Pairs
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.encode import encode
from longtail.nn.encoders.text_encoder import normalised
from longtail.nn.training.checkpoint import checkpointing
from longtail.progress import listening
from longtail.seams import MovesLabels, seams_of

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {"encoder": "tiny", "batch_size": 32, "epochs": 3, "dimension": 16, "max_tokens": 8}


class Shift(nn.Module):
    """A label tower: one vector per label is added to its text's."""

    def begin_step(self) -> None: ...

    def end_step(self, learning_rate: float) -> None: ...

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: object) -> None: ...

    def __init__(self, labels: int, dimension: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((labels, dimension), 0.1))
        self.asked: list[tuple[Tensor, Tensor]] = []
        self.epochs: list[tuple[int, Floats]] = []

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        self.asked.append((label_rows, encoded.detach()))
        return normalize(encoded + self.shift[label_rows], dim=1)

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        return [{"params": [self.shift], "lr": 10 * learning_rate, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        self.epochs.append((epoch, encode()))


@dataclass(frozen=True)
class Shifts:
    """The tail method that makes it."""

    def label_tower(self, labels: LabelSet, texts: Floats, means: object, seed: int) -> Shift:
        assert texts.shape[0] == len(labels)
        assert np.allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)
        return Shift(*texts.shape)


def start(tiny: Corpus, **settings: Any) -> DualEncoderFit:
    return DualEncoderFit.begin(Dpr(**{**SMALL, **settings}), tiny.train, tiny.valid, ())


def task(towers: DualEncoderFit, **more: Any) -> DualEncoderTask:
    """Without dropout, so that two ways to compute the same agree."""
    documents, labels = (DeviceTokens(tokens, CPU, 8) for tokens in (towers.documents, towers.labels))
    given = {
        "encoder": towers.encoder,
        "row_texts": documents,
        "item_texts": labels,
        "pairs": Pairs(towers.train.targets),
        "loss": partial(softmax, temperature=0.1, both=True),
        "batch_size": 32,
        "epochs": 3,
        "learning_rate": 1e-3,
    }
    return DualEncoderTask(**{**given, **more})


def gradients(module: nn.Module) -> dict[str, Tensor]:
    found = {name: one.grad.clone() for name, one in module.named_parameters() if one.grad is not None}
    module.zero_grad()
    return found


def plain_loss(towers: DualEncoderFit, batch: PairBatch, drawn: list[int]) -> Tensor:
    """Text by text, row by row."""

    def vector(tokens: Any, row: int) -> Tensor:
        return normalize(towers.encoder(*tokens.batch(np.array([row]), 8)), dim=1)[0]

    rows = torch.stack([vector(towers.documents, row) for row in batch.rows])
    items = torch.stack([vector(towers.labels, label) for label in drawn])
    targets = towers.train.targets.toarray()
    total = torch.zeros(())
    for place, row in enumerate(batch.rows):
        kept = [other for other, label in enumerate(drawn) if other == place or targets[row, label] == 0]
        logits = torch.stack([rows[place] @ items[other] for other in kept]) / 0.1
        total = total - torch.log_softmax(logits, 0)[kept.index(place)] / 2
        kept = [other for other, doc in enumerate(batch.rows) if other == place or targets[doc, drawn[place]] == 0]
        logits = torch.stack([rows[other] @ items[place] for other in kept]) / 0.1
        total = total - torch.log_softmax(logits, 0)[kept.index(place)] / 2
    return total / len(batch)


@pytest.mark.parametrize("how", [{}, {"mini_batch_size": 5}, {"pack": True}, {"pack": True, "mini_batch_size": 5}])
def test_gradients_are_those_of_a_plain_loop(tiny: Corpus, how: dict[str, Any]) -> None:
    towers = start(tiny)
    work = task(towers, batch_size=12, **how)
    batch = next(work.batches(0, 0))
    drawn = batch.pool[batch.chosen.numpy()].tolist()
    assert len(set(drawn)) < len(drawn)  # a label drawn twice counts twice
    loss = work.backward(batch, 0.5)
    found = gradients(towers.encoder)
    wanted = plain_loss(towers, batch, drawn)
    (wanted * 0.5).backward()
    assert float(loss) == pytest.approx(float(wanted.detach()), rel=1e-4)
    for name, gradient in gradients(towers.encoder).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("by_label", [False, True])
def test_a_label_tower_stands_for_the_labels(tiny: Corpus, by_label: bool) -> None:
    assert isinstance(Shifts(), MovesLabels) and seams_of(Shifts) == ("label tower",)
    towers = DualEncoderFit.begin(
        Dpr(**SMALL, anchors="labels" if by_label else "documents"), tiny.train, tiny.valid, (Shifts(),)
    )  # type: ignore[arg-type]
    tower = towers.tower
    assert isinstance(tower, Shift)
    before = tower.shift.detach().clone()
    towers.learn(partial(softmax, temperature=0.1))
    assert not torch.equal(tower.shift, before)
    assert [epoch for epoch, _ in tower.epochs] == [0, 1, 2]
    rows, encoded = tower.asked[0]
    texts = normalised(encode(start(tiny).encoder, towers.labels, longest=8, precision="fp32"))
    assert np.allclose(encoded.numpy(), texts[rows.numpy()], atol=1e-3)
    moved = towers.label_vectors()
    assert np.allclose(moved, normalised(towers.text_vectors() + tower.shift.detach().numpy()), atol=1e-5)
    scorer = towers.scorer()
    assert scorer.moved and np.allclose(scorer.labels, moved)
    assert not any("shift" in name for name in scorer.state().tensors)  # folded away


def test_batches_are_made_of_clusters_of_the_vectors_that_training_left(tiny: Corpus) -> None:
    towers = start(tiny)
    work = task(towers, curriculum=Curriculum(start=0.3, min_cluster_size=8, max_cluster_size=8, refresh_every=1))
    for batch in work.batches(0, 0):
        work.backward(batch, 1.0)
    vectors = work._bank.vectors.numpy()  # type: ignore[union-attr]
    assert np.allclose(np.linalg.norm(vectors[work.pairs.rows], axis=1), 1, atol=1e-5)

    def nearness(batches: list[PairBatch]) -> float:
        """The mean cosine of neighbours in the order."""
        order = np.concatenate([batch.rows for batch in batches])
        return float((vectors[order[:-1]] * vectors[order[1:]]).sum(axis=1).mean())

    work.begin_epoch(0)
    at_random = nearness(list(work.batches(1, 0)))
    work.begin_epoch(1)
    assert len(np.unique(work._clusters)) == -(-len(work.pairs.rows) // 8)
    clustered = list(work.batches(1, 0))
    assert nearness(clustered) > at_random + 0.1
    assert sorted(np.concatenate([batch.rows for batch in clustered]).tolist()) == work.pairs.rows.tolist()


def test_mined_negatives_are_near_wrong_and_join_the_pool(tiny: Corpus) -> None:
    towers = start(tiny)
    mined = towers.mine(3)
    targets = tiny.train.targets.toarray()
    scores = towers.document_vectors() @ towers.label_vectors().T
    for row in (0, 5, 405):
        wrong = [label for label in np.argsort(-scores[row], kind="stable") if targets[row, label] == 0]
        assert mined[row].tolist() == wrong[:3]
    work = task(towers, miner=lambda epoch: mined if epoch == 0 else None, negatives=2)
    work.begin_epoch(0)
    batch = next(work.batches(0, 0))
    assert set(batch.pool.tolist()) <= set(mined[batch.rows].ravel()) | set(batch.pool[batch.chosen.numpy()])
    work.begin_epoch(1)
    assert np.array_equal(work.state()["mined"].numpy(), mined)
    seen = []
    work.loss = lambda scores, positive, chosen, weights: (seen.append((scores, positive)), scores.sum())[1]
    work.backward(batch, 1.0)
    scores, positive = seen[0]
    assert batch.mined is not None and scores.shape == (32, 32 + len(batch.mined))
    assert np.array_equal(positive[:, 32:], targets[batch.rows][:, batch.pool[batch.mined.numpy()]] > 0)


def test_another_positive_takes_the_place_of_a_row(tiny: Corpus) -> None:
    towers = start(tiny)
    flipped = Pairs(towers.train.targets.T.tocsr())
    documents, labels = (DeviceTokens(tokens, CPU, 8) for tokens in (towers.documents, towers.labels))
    losses = []
    for share in (0.0, 1.0, 0.3):
        work = task(towers, pairs=flipped, surrogate_weight=share, row_texts=labels, item_texts=documents, batch_size=4)
        batch = list(work.batches(0, 0))[1]
        if share:
            assert batch.others is not None and len(batch.others) == len(batch)
            assert all(
                tiny.train.targets.toarray()[doc, label] for label, doc in zip(batch.rows, batch.others, strict=True)
            )
        losses.append(float(work.backward(batch, 1.0)))
    assert losses[2] == pytest.approx(0.7 * losses[0] + 0.3 * losses[1], rel=1e-5)


class Stop(Exception):
    pass


class Killer:
    """Stops the training after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left, self.training = steps, False

    def start(self, name: str, total: int | None) -> int:
        self.training = name.startswith("training")
        return 0

    def advance(self, handle: int, amount: int) -> None:
        self.left -= self.training
        if self.left == 0:
            raise Stop

    def finish(self, handle: int) -> None: ...


@pytest.mark.parametrize("step", [4, 17, 30])
def test_a_stopped_training_ends_with_the_same_model(tiny: Corpus, tmp_path: Path, step: int) -> None:
    def fit() -> DualEncoderScorer:
        towers = DualEncoderFit.begin(Dpr(**SMALL, dropout=0.2), tiny.train, tiny.valid, (Shifts(),))  # type: ignore[arg-type]
        mined = towers.mine(4)
        towers.learn(
            partial(softmax, temperature=0.1),
            curriculum=Curriculum(start=0.3, min_cluster_size=4, max_cluster_size=16, refresh_every=1),
            miner=lambda epoch: towers.mine(4) if epoch else mined,
        )
        return towers.scorer()

    whole = fit().state()
    with pytest.raises(Stop), checkpointing(tmp_path, every_seconds=0), listening(Killer(step)):
        fit()
    with checkpointing(tmp_path):
        again = fit().state()
    assert again.settings == whole.settings
    assert again.tensors.keys() == whole.tensors.keys()
    assert all(np.array_equal(again.tensors[name], whole.tensors[name]) for name in whole.tensors)
