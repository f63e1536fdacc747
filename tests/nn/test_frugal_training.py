"""Frugal nets in training: pools, stops, word vectors of others."""

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
from longtail.nn.checkpoint import keeping
from longtail.nn.encoders import build_encoder
from longtail.nn.frugal.bodies import bag
from longtail.nn.frugal.fit import FrugalFit
from longtail.nn.frugal.label_side import TextAndOwn
from longtail.nn.frugal.labels import Labels
from longtail.nn.frugal.rows import Rule
from longtail.nn.frugal.runs import Runs
from longtail.nn.frugal.task import FrugalTask
from longtail.nn.frugal.vectors import read_vectors
from longtail.nn.heads.entries import Targets
from longtail.nn.tokens import Tokens
from longtail.recipe import Recipe

CPU = torch.device("cpu")


def test_word_vectors_come_from_text_and_from_arrays(tmp_path: Path) -> None:
    begin = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    known = {"[PAD]": 0, "apple": 1, "bridge": 2}
    text = tmp_path / "glove.txt"
    text.write_text("3 3\nApple 1 0 0\nother 9 9 9\nbridge 0 2 0\n")
    array = tmp_path / "given.npy"
    np.save(array, np.array([[1, 0, 0], [9, 9, 9], [0, 2, 0]], dtype=np.float32))
    (tmp_path / "given.txt").write_text("apple\nother\nbridge\n")
    for file in (text, array):
        found, number = read_vectors(file, known, 3, begin)
        assert number == 2 and np.array_equal(found[[0, 3, 4]], begin[[0, 3, 4]])
        assert found[1, 0] > 0 and (found[1, 1:] == 0).all() and found[2, 1] == pytest.approx(2 * found[1, 0])
        lengths = np.linalg.norm(found, axis=1)
        assert lengths[1:3].mean() == pytest.approx(np.linalg.norm(begin, axis=1).mean(), rel=1e-5)
    with pytest.raises(DataError, match="dimension=3"):
        read_vectors(text, known, 4, np.zeros((5, 4), np.float32))
    with pytest.raises(RecipeError, match="no file"):
        Recipe.parse('astec(vectors="nowhere.txt")')


@pytest.mark.parametrize(
    "recipe",
    [
        'astec(dimension=64, batch=64, epochs=5, rate=0.05, compare="pool", random=2, shortlist=3, cluster=2)',
        'decaf(dimension=64, batch=16, epochs=5, rate=0.05, compare="pool", random=2, beam=1, cluster=2)',
        'eclare(dimension=64, batch=16, epochs=5, rate=0.05, compare="pool", random=2, beam=1, cluster=2)',
        'inceptionxml(dimension=64, places=4, batch=64, epochs=8, rate=0.02, compare="pool", random=2, beam=2, '
        "cluster=2)",
    ],
)
def test_pools_find_what_all_labels_find(recipe: str, tiny: Corpus) -> None:
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    assert model.predict(tiny.test.rows, k=1).hits(tiny.test.targets).mean() > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_convolutions_learn_beside_clusters_whatever_the_seed(seed: int, tiny: Corpus) -> None:
    """With the rate and the dropouts that they have by default."""
    recipe = f"inceptionxml(dimension=64, places=4, cluster=2, batch=32, epochs=10, seed={seed})"
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    assert model.predict(tiny.test.rows, k=1).hits(tiny.test.targets).mean() > 0.9


@pytest.mark.parametrize(
    "recipe",
    [
        "decaf(dimension=64, batch=128, epochs=3)",
        'astec(dimension=64, batch=128, epochs=2, compare="pool", random=2, shortlist=3, cluster=2)',
    ],
)
def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(
    recipe: str, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the surrogate task and the classifiers."""

    class Stop(Exception):
        pass

    whole = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.state()
    done, backward = [0], FrugalTask.backward

    def stopping(self: FrugalTask, batch: np.ndarray, share: float) -> Tensor:
        done[0] += 1
        if done[0] == 10:
            raise Stop
        return backward(self, batch, share)

    monkeypatch.setattr(FrugalTask, "backward", stopping)
    with pytest.raises(Stop), keeping(tmp_path, every_seconds=0):
        Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    with keeping(tmp_path, every_seconds=0):
        again = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.state()
    assert done[0] < 2 * 12  # it went on, and did not begin anew
    assert all(np.array_equal(whole.tensors[name], again.tensors[name]) for name in whole.tensors)


def test_words_of_rows_and_labels_move_together() -> None:
    """All labels are read in each step, so every word moves by what its rows and its labels say of it."""
    chance = np.random.default_rng(0)
    torch.manual_seed(0)
    texts, names = (
        Runs.of(Tokens(chance.integers(0, 20, 3 * number).astype(np.uint16), np.arange(0, 3 * number + 1, 3)),
                np.ones(20, np.float32))
        for number in (8, 30)
    )  # fmt: skip
    encoder = build_encoder({"kind": "frugal bag", "width": 6, "block": "gated", "dropout": 0.0, "vocabulary": 20}, 0)
    side = TextAndOwn(6, 0.0).eval()
    labels = Labels(torch.randn(30, 6), -1.0, Rule(0.01), side, (names,))
    targets = sparse.csr_array((chance.random((8, 30)) < 0.2).astype(np.float32))
    encoder.eval()
    table = encoder.body.table.detach().clone().requires_grad_()
    rows = encoder.body.read(texts.take(np.arange(5), CPU), table)
    scores = rows @ side(labels.own.weight.clone(), [bag(names.whole(CPU), table)]).T - 1.0
    known = torch.from_numpy(targets.toarray()[:5])
    F.binary_cross_entropy_with_logits(scores, known, reduction="sum").div(5).backward()
    task = FrugalTask(encoder, texts, labels, Targets(targets), batch=5, rate=0.01, device=CPU)
    task.backward(np.arange(5), 1.0)
    assert table.grad is not None
    assert torch.allclose(task.words.first, 0.1 * table.grad, atol=1e-6)


def test_a_look_ends_a_training_only_where_many_steps_lie_between_two() -> None:
    from longtail.learners.astec import Astec

    assert Astec(batch=512, measure_every=5).stops_after(40 * 512) == 3
    assert Astec(batch=512, measure_every=5).stops_after(39 * 512) is None
    assert Astec(batch=512, measure_every=0).stops_after(10**9) is None
    assert Astec(batch=512, patience=4).stops_after(10) == 4 and Astec(patience=4).stops_after(10**9) == 4


@pytest.mark.parametrize(("keep", "best"), [("P@1", 0), ("PSP@5", 2), ("both", 1)])
def test_the_look_is_kept_that_is_best_in_what_was_asked_for(
    keep: str, best: int, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [{"P@1": 9.0, "PSP@5": 1.0}, {"P@1": 7.0, "PSP@5": 6.0}, {"P@1": 4.0, "PSP@5": 8.0}]
    seen: list[np.ndarray] = []

    def evaluated(*given: object, **more: object) -> dict[str, float]:
        return {"PSP@1": 0.0, **shown[len(seen) - 1]}

    def look(net: FrugalFit) -> dict[str, float]:
        seen.append(net._plain().weights.copy())
        return whole(net)

    whole = FrugalFit.look
    monkeypatch.setattr(FrugalFit, "look", look)
    monkeypatch.setattr("longtail.nn.frugal.fit.evaluate", evaluated)
    recipe = f"astec(dimension=16, batch=64, epochs=3, rate=0.05, measure_every=1, keep='{keep}')"
    kept = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer.weights  # type: ignore[attr-defined]
    assert [np.array_equal(kept, weights) for weights in seen] == [place == best for place in range(3)]


def test_more_labels_than_fit_make_a_pool() -> None:
    from longtail.learners.astec import Astec

    assert Astec().against_all(46_030, 17_473)
    assert not replace(Astec(), compare="pool").against_all(10, 10)
    assert replace(Astec(), compare="all").against_all(10**9, 10**9)
    assert not Astec().against_all(10**9, 10**9)
