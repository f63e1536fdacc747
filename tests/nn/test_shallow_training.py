"""Shallow nets in training: pools, early stopping, checkpoints, pretrained word vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from scipy import sparse
from torch import Tensor

from longtail.data import Corpus
from longtail.errors import DataError, RecipeError
from longtail.metrics.measures import Measures
from longtail.nn.encoders.build import build_encoder
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.encoders.word_vector_encoders import bag
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.shallow.label_head import LabelHead
from longtail.nn.shallow.label_mixtures import TextAndOwn
from longtail.nn.shallow.pretrained_word_vectors import read_vectors
from longtail.nn.shallow.shallow_fit import ShallowFit
from longtail.nn.shallow.shallow_task import ShallowTask
from longtail.nn.shallow.sparse_adam import Rule
from longtail.nn.training.checkpoint import checkpointing
from longtail.recipe import Recipe

CPU = torch.device("cpu")
POOL = 'dimension=64, loss_over="pool", random_negatives=2, label_cluster_size=2'


def test_word_vectors_come_from_text_and_from_arrays(tmp_path: Path) -> None:
    init = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    known = {"[PAD]": 0, "apple": 1, "bridge": 2}
    text = tmp_path / "glove.txt"
    text.write_text("3 3\nApple 1 0 0\nother 9 9 9\nbridge 0 2 0\n")
    array = tmp_path / "given.npy"
    np.save(array, np.array([[1, 0, 0], [9, 9, 9], [0, 2, 0]], dtype=np.float32))
    (tmp_path / "given.txt").write_text("apple\nother\nbridge\n")
    for file in (text, array):
        found, number = read_vectors(file, known, 3, init)
        assert number == 2 and np.array_equal(found[[0, 3, 4]], init[[0, 3, 4]])
        assert found[1, 0] > 0 and (found[1, 1:] == 0).all() and found[2, 1] == pytest.approx(2 * found[1, 0])
        norms = np.linalg.norm(found, axis=1)
        assert norms[1:3].mean() == pytest.approx(np.linalg.norm(init, axis=1).mean(), rel=1e-5)
    with pytest.raises(DataError, match="dimension=3"):
        read_vectors(text, known, 4, np.zeros((5, 4), np.float32))
    with pytest.raises(RecipeError, match="no file"):
        Recipe.parse('astec(word_vectors="nowhere.txt")')


@pytest.mark.parametrize(
    "recipe",
    [
        "astec(batch_size=64, epochs=5, learning_rate=0.05, shortlist=3, {pool})",
        "decaf(batch_size=16, epochs=5, learning_rate=0.05, beam=1, {pool})",
        "eclare(batch_size=16, epochs=5, learning_rate=0.05, beam=1, {pool})",
        "inceptionxml(max_words=4, batch_size=64, epochs=8, learning_rate=0.02, beam=2, {pool})",
    ],
)
def test_pools_find_what_all_labels_find(recipe: str, tiny: Corpus) -> None:
    model = Recipe.parse(recipe.format(pool=POOL)).fit(tiny.train, tiny.valid)
    assert model.predict(tiny.test.rows, k=1).hits(tiny.test.targets).mean() > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_convolutions_learn_beside_clusters_whatever_the_seed(seed: int, tiny: Corpus) -> None:
    """With the default learning rate and dropout."""
    recipe = f"inceptionxml(dimension=64, max_words=4, label_cluster_size=2, batch_size=32, epochs=10, seed={seed})"
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    assert model.predict(tiny.test.rows, k=1).hits(tiny.test.targets).mean() > 0.9


@pytest.mark.parametrize(
    "recipe",
    [
        "decaf(dimension=64, batch_size=128, epochs=3)",
        "decaf(dimension=64, batch_size=128, epochs=3, mixup_alpha=0.4)",
        f"astec(batch_size=128, epochs=2, shortlist=3, {POOL})",
    ],
)
def test_a_stopped_training_resumes_to_the_same_result(
    recipe: str, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the surrogate task and the classifiers."""

    class Stop(Exception):
        pass

    whole = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.state()
    done, backward = [0], ShallowTask.backward

    def stopping(self: ShallowTask, batch: np.ndarray, share: float) -> Tensor:
        done[0] += 1
        if done[0] == 10:
            raise Stop
        return backward(self, batch, share)

    monkeypatch.setattr(ShallowTask, "backward", stopping)
    with pytest.raises(Stop), checkpointing(tmp_path, every_seconds=0):
        Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    with checkpointing(tmp_path, every_seconds=0):
        again = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.state()
    assert done[0] < 2 * 12  # it resumed, and did not start anew
    assert all(np.array_equal(whole.tensors[name], again.tensors[name]) for name in whole.tensors)


def test_rows_and_labels_train_their_words_together() -> None:
    """Each step reads the texts of all labels, so the gradient of a word comes from its rows and its labels."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    texts, names = (
        Runs.of(Tokens(rng.integers(0, 20, 3 * number).astype(np.uint16), np.arange(0, 3 * number + 1, 3)),
                np.ones(20, np.float32))
        for number in (8, 30)
    )  # fmt: skip
    encoder = build_encoder({"kind": "weighted bag", "width": 6, "block": "gated", "dropout": 0.0, "vocabulary": 20}, 0)
    side = TextAndOwn(6, 0.0).eval()
    labels = LabelHead(torch.randn(30, 6), -1.0, Rule(0.01), side, (names,))
    targets = sparse.csr_array((rng.random((8, 30)) < 0.2).astype(np.float32))
    encoder.eval()
    table = encoder.body.table.detach().clone().requires_grad_()
    rows = encoder.body.read(texts.take(np.arange(5), CPU), table)
    scores = rows @ side(labels.own.weight.clone(), [bag(names.whole(CPU), table)]).T - 1.0
    known = torch.from_numpy(targets.toarray()[:5])
    F.binary_cross_entropy_with_logits(scores, known, reduction="sum").div(5).backward()
    task = ShallowTask(encoder, texts, labels, TrainingTargets(targets), batch_size=5, learning_rate=0.01, device=CPU)
    task.backward(np.arange(5), 1.0)
    assert table.grad is not None
    assert torch.allclose(task.words.first, 0.1 * table.grad, atol=1e-6)


def test_mixed_vectors_have_mixed_targets() -> None:
    """The gradient of a step is that of vectors λ v + (1 - λ) v' with targets λ t + (1 - λ) t'."""
    rng = np.random.default_rng(0)
    texts = Runs.of(Tokens(rng.integers(0, 20, 24).astype(np.uint16), np.arange(0, 25, 3)), np.ones(20, np.float32))
    encoder = build_encoder({"kind": "weighted bag", "width": 6, "block": "none", "dropout": 0.0, "vocabulary": 20}, 0)
    weights, targets = torch.randn(30, 6), sparse.csr_array((rng.random((8, 30)) < 0.3).astype(np.float32))
    encoder.eval()
    table = encoder.body.table.detach().clone().requires_grad_()
    task = ShallowTask(
        encoder, texts, LabelHead(weights.clone(), -1.0, Rule(0.01)), TrainingTargets(targets), batch_size=5,
        learning_rate=0.01, device=CPU, mixup_alpha=0.7,
    )  # fmt: skip
    batch = np.array([3, 0, 6, 5, 1])
    parts = task._mixture(batch)
    assert parts is not None and ((parts > 0) & (parts < 1)).all()
    share = torch.from_numpy(parts).float()[:, None]
    rows, known = encoder.body.read(texts.take(batch, CPU), table), torch.from_numpy(targets.toarray()[batch])
    after = [1, 2, 3, 4, 0]
    scores = (share * rows + (1 - share) * rows[after]) @ weights.T - 1.0
    wanted = share * known + (1 - share) * known[after]
    F.binary_cross_entropy_with_logits(scores, wanted, reduction="sum").div(5).backward()
    task.backward(batch, 1.0)
    assert table.grad is not None
    used = torch.from_numpy(np.unique(texts.words[texts.places(batch)[0]]).astype(np.int64))
    assert torch.allclose(task.words.first[used], 0.1 * table.grad[used], atol=1e-6)


@pytest.mark.parametrize("pool", ["", POOL.replace("dimension=64, ", "")])
def test_nets_learn_from_mixtures(pool: str, tiny: Corpus) -> None:
    recipe = f"astec(dimension=64, batch_size=64, epochs=8, learning_rate=0.05, mixup_alpha=0.5, {pool})"
    model = Recipe.parse(recipe.replace(", )", ")")).fit(tiny.train, tiny.valid)
    assert model.predict(tiny.test.rows, k=1).hits(tiny.test.targets).mean() > 0.9
    with pytest.raises(RecipeError, match="'mixup_alpha' of astec is at least 0"):
        Recipe.parse("astec(mixup_alpha=-1)")


def test_early_stopping_needs_many_steps_between_validations() -> None:
    from longtail.learners.astec import Astec

    assert Astec(batch_size=512, validate_every=5).stops_after(40 * 512) == 3
    assert Astec(batch_size=512, validate_every=5).stops_after(39 * 512) is None
    assert Astec(batch_size=512, validate_every=0).stops_after(10**9) is None
    assert Astec(batch_size=512, patience=4).stops_after(10) == 4 and Astec(patience=4).stops_after(10**9) == 4


@pytest.mark.parametrize(("monitor", "best"), [("P@1", 0), ("PSP@5", 2), ("both", 1)])
def test_the_weights_that_are_best_in_the_monitored_measure_are_kept(
    monitor: str, best: int, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [{"P@1": 9.0, "PSP@5": 1.0}, {"P@1": 7.0, "PSP@5": 6.0}, {"P@1": 4.0, "PSP@5": 8.0}]
    seen: list[np.ndarray] = []

    def measured(measures: Measures, name: str) -> float:
        return {"PSP@1": 0.0, **shown[len(seen) - 1]}[name]

    def validate(net: ShallowFit) -> dict[str, float]:
        seen.append(net._plain().weights.copy())
        return whole(net)

    whole = ShallowFit.validate
    monkeypatch.setattr(ShallowFit, "validate", validate)
    monkeypatch.setattr(Measures, "__getitem__", measured)
    recipe = f"astec(dimension=16, batch_size=64, epochs=3, learning_rate=0.05, validate_every=1, monitor='{monitor}')"
    kept = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.weights  # type: ignore[attr-defined]
    assert [np.array_equal(kept, weights) for weights in seen] == [place == best for place in range(3)]


def test_more_labels_than_fit_make_a_pool() -> None:
    from longtail.learners.astec import Astec

    assert Astec().against_all(46_030, 17_473)
    assert not replace(Astec(), loss_over="pool").against_all(10, 10)
    assert replace(Astec(), loss_over="all").against_all(10**9, 10**9)
    assert not Astec().against_all(10**9, 10**9)
