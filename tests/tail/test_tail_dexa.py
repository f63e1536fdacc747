"""Shared auxiliary vectors: the formula, what is shared, and that nothing of them is left in the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from longtail.data.corpus import Corpus  # noqa: E402
from longtail.data.labels import LabelSet  # noqa: E402
from longtail.errors import DataError, RecipeError  # noqa: E402
from longtail.nn.dual.auxiliary_vectors import SharedVectors, _AddAndNormalise, kmeans  # noqa: E402
from longtail.nn.dual.dual_task import DualEncoderTask  # noqa: E402
from longtail.nn.encoders.text_encoder import normalised  # noqa: E402
from longtail.nn.training.checkpoint import checkpointing  # noqa: E402
from longtail.plan import DataFacts  # noqa: E402
from longtail.recipe import Recipe  # noqa: E402
from longtail.tail.dexa import Dexa  # noqa: E402

LEARNER = "dpr(encoder='bag', dimension=32, batch_size=64, epochs=4)"


def drawn(rows: int, dimension: int = 6) -> Any:
    return normalised(np.random.default_rng(0).standard_normal((rows, dimension)).astype(np.float32))


def tower(labels: int = 12, head: int = 2, number: int = 3, **more: Any) -> SharedVectors:
    settings = {"clustering": "balanced", "refresh_every": 0, "learning_rate_scale": 1.0, "seed": 0, **more}
    return SharedVectors(drawn(labels), np.arange(labels) < head, number, **settings)


def test_a_label_is_the_normalised_sum_of_its_text_and_its_clusters_vector() -> None:
    made, texts = tower(), torch.from_numpy(drawn(12))
    rows = torch.tensor([0, 5, 5, 11])
    assert torch.allclose(made.vectors(rows, texts[rows]), texts[rows])  # begins at the text alone
    with torch.no_grad():
        made.shared[:5] = torch.from_numpy(drawn(5)) * 2
    for label, vector in zip(rows, made.vectors(rows, texts[rows]), strict=True):
        whole = texts[label].double() + made.shared[made.cluster[label]].double()
        assert torch.allclose(vector.double(), whole / whole.norm(), atol=1e-6)


def test_the_head_has_its_own_and_the_rest_share_in_equal_parts() -> None:
    clusters = tower(labels=22, head=2, number=5).cluster.numpy()
    assert clusters[:2].tolist() == [0, 1]
    assert np.bincount(clusters).tolist() == [1, 1, 4, 4, 4, 4, 4]


def test_a_label_with_head_min_count_rows_has_a_vector_of_its_own() -> None:
    labels = LabelSet(ids=tuple("abcd"), counts=np.array([4, 5, 6, 0]), train_rows=9)
    made = Dexa(head_min_count=5, clusters=1).label_tower(labels, drawn(4), lambda: drawn(4), 0)
    assert made.head.tolist() == [False, True, True, False]
    assert made.cluster.tolist() == [2, 0, 1, 2]


def test_labels_of_a_cluster_share_one_gradient() -> None:
    made, texts = tower(head=0, number=1), torch.from_numpy(drawn(12))
    wanted = torch.from_numpy(drawn(12)[::-1].copy())
    (made.vectors(torch.arange(12), texts) * wanted).sum().backward()
    alone = torch.zeros(6)
    for label in range(12):
        one = tower(head=0, number=1)
        (one.vectors(torch.tensor([label]), texts[label : label + 1]) * wanted[label]).sum().backward()
        alone += one._used[0][1].grad[0]
    assert torch.allclose(made._used[0][1].grad[0], alone, atol=1e-5)


def test_gradients_are_those_of_the_formula_in_double_precision() -> None:
    texts, vectors = (torch.from_numpy(drawn(rows)).double() * 1.5 for rows in (7, 5))
    places = torch.tensor([0, 4, 4, 2, 4, 0, 1])
    given = torch.from_numpy(drawn(7)[::-1].copy()).double()
    pairs = []
    for way in (
        _AddAndNormalise.apply,
        lambda encoded, shared, at: torch.nn.functional.normalize(encoded + shared[at], dim=1),
    ):
        leaves = [texts.clone().requires_grad_(), vectors.clone().requires_grad_()]
        moved = way(*leaves, places)
        (moved * given).sum().backward()
        pairs.append([moved.detach(), *(leaf.grad for leaf in leaves)])
    for found, wanted in zip(*pairs, strict=True):
        assert torch.allclose(found, wanted, atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda encoded, shared: _AddAndNormalise.apply(encoded, shared, places),
        (texts.clone().requires_grad_(), vectors.clone().requires_grad_()),
    )


def test_a_new_clustering_begins_at_the_mean_of_its_labels_vectors() -> None:
    made = tower(refresh_every=2)
    with torch.no_grad():
        made.shared[:5] = torch.from_numpy(drawn(5))
        made.first[:5], made.second[:5] = made.shared[:5] * 2, made.shared[:5] ** 2
        made.updates[:5] = torch.tensor([9, 1, 4, 7, 30], dtype=torch.int32)
    before = made.shared[made.cluster].clone()  # of each label
    updates = made.updates[made.cluster].double()
    made.begin_epoch(1, lambda: pytest.fail("not yet"))
    made.begin_epoch(2, lambda: drawn(12)[::-1].copy())
    for cluster in range(5):
        mine = made.cluster == cluster
        assert torch.allclose(made.shared[cluster], before[mine].mean(0), atol=1e-6)
        # Its moments come along: those of the clusters its labels were in, not those of the cluster of its number.
        assert torch.allclose(made.first[cluster], 2 * before[mine].mean(0), atol=1e-6)
        assert torch.allclose(made.second[cluster], (before[mine] ** 2).mean(0), atol=1e-6)
        assert made.updates[cluster] == round(float(updates[mine].mean()))


def test_a_step_updates_only_the_vectors_it_used_as_adamw_does() -> None:
    """Two steps of two batches each, against torch's AdamW on the dense table; vectors without a label stay."""
    made, texts = tower(labels=20, head=0, number=6), torch.from_numpy(drawn(20))
    wanted = torch.from_numpy(drawn(20)[::-1].copy())
    dense = torch.nn.Parameter(torch.zeros(6, 6))
    optimiser = torch.optim.AdamW([dense], lr=0.1, weight_decay=0.0, eps=1e-6)
    inside = [label for label in range(20) if made.cluster[label] < 4]
    batches = [torch.tensor(inside), torch.tensor(inside[1::2] + inside[::2])]
    for _ in range(2):
        optimiser.zero_grad()
        made.begin_step()
        for rows in batches:
            (made.vectors(rows, texts[rows]) * wanted[rows]).sum().backward()
            moved = torch.nn.functional.normalize(texts[rows] + dense[made.cluster[rows]], dim=1)
            (moved * wanted[rows]).sum().backward()
        made.end_step(0.1)
        optimiser.step()
    assert torch.allclose(made.shared[:4], dense[:4].detach(), atol=1e-5)
    assert not made.shared[4:6].any() and not made.updates[4:6].any()
    assert made.updates[:4].tolist() == [2, 2, 2, 2]
    made.begin_step()
    made.end_step(0.1)  # a step without labels moves nothing
    assert torch.allclose(made.shared[:4], dense[:4].detach(), atol=1e-5)
    with torch.no_grad():
        made.vectors(batches[0], texts[batches[0]])
    assert not made._used


def test_a_killed_training_resumes_with_the_moments(tiny: Corpus, tmp_path: Path) -> None:
    recipe = Recipe.parse(f"{LEARNER} + dexa(head_min_count=none, clusters=3, learning_rate_scale=5)")
    whole = recipe.fit(tiny.train, tiny.valid).scorer.state().tensors
    real = DualEncoderTask.begin_epoch

    def killed(task: Any, epoch: int) -> None:
        if epoch == 2:
            raise KeyboardInterrupt
        real(task, epoch)

    with pytest.MonkeyPatch.context() as patch, checkpointing(tmp_path), pytest.raises(KeyboardInterrupt):
        patch.setattr(DualEncoderTask, "begin_epoch", killed)
        recipe.fit(tiny.train, tiny.valid)
    with checkpointing(tmp_path):
        again = recipe.fit(tiny.train, tiny.valid).scorer.state().tensors
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


def test_kmeans_puts_rows_with_the_nearest_centre() -> None:
    vectors = normalised(np.repeat(np.eye(3), [5, 2, 9], axis=0) + 0.01 * np.random.default_rng(0).random((16, 3)))
    found = kmeans(vectors, 16, 0, "cpu")  # every row its own
    assert len(set(found.tolist())) == 16
    for seed in range(20):
        found = kmeans(vectors, 3, seed, "cpu")
        if len(set(found.tolist())) == 3 and np.bincount(found).tolist().count(9):
            break
    assert sorted(np.bincount(found).tolist()) == [2, 5, 9]


def test_nothing_of_them_is_left_in_the_model(tiny: Corpus) -> None:
    plain = Recipe.parse(LEARNER).fit(tiny.train, tiny.valid)
    moved = Recipe.parse(f"{LEARNER} + dexa(clusters=3, head_min_count=none, learning_rate_scale=5)").fit(
        tiny.train, tiny.valid
    )
    ours, theirs = (model.scorer.state().tensors for model in (moved, plain))
    assert {name: array.nbytes for name, array in ours.items()} == {n: a.nbytes for n, a in theirs.items()}
    texts = moved.scorer.encoder.vectors(tiny.train.labels.texts)
    assert np.abs(moved.scorer.labels - texts).max() > 0.01  # folded in
    texts = plain.scorer.encoder.vectors(tiny.train.labels.texts)
    assert plain.scorer.labels == pytest.approx(texts, abs=1e-5)


@pytest.mark.parametrize(
    "settings", ["clustering='kmeans'", "cluster_by='rows'", "refresh_every=1", "head_min_count=none", "clusters=1"]
)
def test_every_form_trains(tiny: Corpus, settings: str) -> None:
    model = Recipe.parse(f"{LEARNER} + dexa({settings})").fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, 3)
    assert found.hits(tiny.test.targets)[:, 0].mean() > 0.5


def test_more_clusters_than_labels_are_refused(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="99 clusters of"):
        Recipe.parse(f"{LEARNER} + dexa(clusters=99, head_min_count=none)").fit(tiny.train, tiny.valid)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 0}, "'clusters' of dexa is at least 1"),
        ({"head_min_count": 0}, "'head_min_count' of dexa is at least 1"),
        ({"learning_rate_scale": 0.0}, "'learning_rate_scale' of dexa is above 0"),
        ({"refresh_every": -1}, "'refresh_every' of dexa is at least 0"),
        ({"refresh_every": 2, "cluster_by": "rows"}, "use cluster_by='texts'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Dexa(**settings)


def test_a_learner_without_a_label_tower_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"label_tower.*use it on"):
        Recipe.parse("parabel + dexa")


def test_plans_know_the_table_and_the_classifiers(tiny: Corpus) -> None:
    facts = replace(DataFacts.of(tiny.train), labels=1_000_000, rows=2_000_000, positives=4_000_000)
    few, many = (Recipe.parse(f"dpr(encoder='bag') + dexa(clusters={number})").plan(facts) for number in (10, 900_000))
    assert many.train_bytes - few.train_bytes == 12 * 384 * (900_000 - 10)
    assert few.train_bytes > Recipe.parse("dpr(encoder='bag')").plan(facts).train_bytes
    with_classifiers, without = (
        Recipe.parse(f"ngame(encoder='bag', classifiers={word})").plan(facts) for word in ("true", "false")
    )
    assert with_classifiers.train_bytes >= 16 * 384 * 1_000_000
    assert with_classifiers.train_seconds > without.train_seconds
