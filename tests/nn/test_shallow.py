"""Classifiers, pools, graphs and shortlists of the shallow nets against slow, obvious references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from longtail.nn.encoders.tokens import Tokens
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.shallow.label_head import CHUNK_BYTES, LabelHead
from longtail.nn.shallow.label_mixtures import TextAndOwn, ThreeWays
from longtail.nn.shallow.label_pool import Clusters, Pool, renumbered
from longtail.nn.shallow.shallow_fit import cluster_targets
from longtail.nn.shallow.shallow_scorer import propagate
from longtail.nn.shallow.shortlists import shortlists
from longtail.nn.shallow.sparse_adam import AdamRows, Rule
from longtail.nn.shallow.walk_graph import label_graph

CPU = torch.device("cpu")


def soft(rows: int, labels: int, seed: int = 0, share: float = 0.3) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, labels)) < share, rng.choice([0.3, 0.7, 1.0], (rows, labels)), 0)
    return sparse.csr_array(dense.astype(np.float32))


def some_runs(texts: int, words: int, seed: int = 0) -> Runs:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = Tokens(rng.integers(0, words, offsets[-1]).astype(np.uint16), offsets)
    return Runs.of(tokens, (1 + rng.random(words)).astype(np.float32))


class Recorded(AdamRows):
    """Keeps the gradients of its updates."""

    def update(self, places: Tensor | slice, gradient: Tensor, factor: float) -> None:
        self.seen = [*getattr(self, "seen", []), gradient.clone()]
        super().update(places, gradient, factor)


def recorded(labels: LabelHead) -> LabelHead:
    labels.own.__class__ = labels.bias.__class__ = Recorded
    return labels


def dense_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy, summed over the labels, the mean over the rows."""
    per = -(targets * torch.log(torch.sigmoid(scores)) + (1 - targets) * torch.log(1 - torch.sigmoid(scores)))
    return per.sum() / len(scores)


def test_gradients_of_plain_classifiers_are_those_of_dense_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    vectors, init = torch.from_numpy(rng.normal(size=(7, 5))), torch.from_numpy(rng.normal(size=(40, 5)))
    targets = soft(7, 40)
    labels = recorded(LabelHead(init.float().clone(), -1.0, Rule(0.01)))
    done = labels.step(vectors.float(), TrainingTargets(targets).batch(np.arange(7), CPU), 1.0)

    exact, rows = init.clone().requires_grad_(), vectors.clone().requires_grad_()
    bias = torch.full((40,), -1.0, dtype=torch.float64, requires_grad=True)
    dense_loss(rows @ exact.T + bias, torch.from_numpy(targets.toarray()).double()).backward()
    assert rows.grad is not None and exact.grad is not None and bias.grad is not None
    assert torch.allclose(done.gradient.double() / 7, rows.grad, atol=1e-6)
    assert torch.allclose(torch.cat(labels.own.seen).double(), exact.grad, atol=1e-6)
    assert torch.allclose(torch.cat(labels.bias.seen).double(), bias.grad, atol=1e-6)

    alone = recorded(LabelHead(init.float().clone(), -1.0, Rule(0.01)))
    kept = alone.step(vectors.float(), TrainingTargets(targets).batch(np.arange(7), CPU), 1.0, with_gradient=False)
    assert torch.equal(alone.own.weight, labels.own.weight) and torch.equal(kept.loss, done.loss)
    assert not kept.gradient.any()


def decaf_reference(side: TextAndOwn, own: Tensor, text: Tensor) -> Tensor:
    layer = side.block.layer
    changed = torch.relu(text) @ layer.weight.double().T + layer.bias.double()
    block = torch.sigmoid(side.block.moved.double()) * changed + torch.sigmoid(side.block.kept.double()) * text
    return torch.sigmoid(side.own.double()) * own + torch.sigmoid(side.text.double()) * block


def test_gradients_through_label_texts_are_those_of_one_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, words, free vectors and row vectors get the same gradients as all at once."""
    monkeypatch.setitem(CHUNK_BYTES, "cpu", 1)
    torch.manual_seed(0)
    labels_number, words, width = 600, 30, 6  # three chunks of 256
    runs = some_runs(labels_number, words)
    side = TextAndOwn(width, dropout=0.0)
    side.eval()
    init, table = torch.randn(labels_number, width), torch.randn(words, width)
    vectors, targets = torch.randn(4, width), soft(4, labels_number, share=0.02)
    labels = recorded(LabelHead(init.clone(), -2.0, Rule(0.01), side, (runs,)))
    read = table.clone().requires_grad_()
    done = labels.step(vectors, TrainingTargets(targets).batch(np.arange(4), CPU), 1.0, read)

    exact_table, own = table.double().requires_grad_(), init.double().requires_grad_()
    rows = vectors.double().requires_grad_()
    text = torch.from_numpy(runs.matrix(words).toarray()).double() @ exact_table
    made = decaf_reference(side, own, text)
    dense_loss(rows @ made.T - 2.0, torch.from_numpy(targets.toarray()).double()).backward()
    assert len(labels.own.seen) == 3
    assert read.grad is not None and exact_table.grad is not None and own.grad is not None and rows.grad is not None
    assert torch.allclose(read.grad.double(), exact_table.grad, atol=1e-5)
    assert torch.allclose(torch.cat(labels.own.seen).double(), own.grad, atol=1e-6)
    assert torch.allclose(done.gradient.double() / 4, rows.grad, atol=1e-5)


def test_classifiers_of_texts_in_half_precision_get_about_the_same_gradients() -> None:
    torch.manual_seed(0)
    runs, targets, vectors = some_runs(300, 30), soft(8, 300, share=0.02), torch.randn(8, 16)
    init, words, found = torch.randn(300, 16), torch.randn(30, 16), {}
    for kind in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        side = ThreeWays(16, dropout=0.0).eval()
        labels = recorded(LabelHead(init.clone(), -2.0, Rule(0.01), side, (runs, runs), kind))
        table = words.clone().requires_grad_()
        done = labels.step(vectors, TrainingTargets(targets).batch(np.arange(8), CPU), 1.0, table)
        assert table.grad is not None
        layers = [layer.grad for layer in side.parameters() if layer.grad is not None]
        found[kind] = [done.gradient, torch.cat(labels.own.seen), table.grad, *layers]
    for exact, low in zip(*found.values(), strict=True):
        assert low.dtype == torch.float32
        assert (low - exact).norm() < 0.03 * exact.norm() + 1e-6


def test_rows_are_updated_as_by_adam() -> None:
    torch.manual_seed(0)
    init = torch.randn(6, 3)
    updated = AdamRows(init.clone(), Rule(0.1, weight_decay=0.2))
    known = torch.nn.Parameter(init.clone())
    whole = torch.optim.AdamW([known], lr=0.1, weight_decay=0.2)
    for _ in range(5):
        known.grad = torch.randn(6, 3)
        updated.begin_step()
        updated.update(slice(0, 4), known.grad[:4], 1.0)
        updated.update(torch.tensor([5, 4]), known.grad[[5, 4]], 1.0)
        whole.step()
    assert torch.allclose(updated.weight, known.detach(), atol=1e-6)


def test_duplicate_rows_are_updated_once() -> None:
    torch.manual_seed(0)
    once = AdamRows(torch.randn(6, 3), Rule(0.1))
    twice = AdamRows(once.weight.clone(), Rule(0.1))
    for _ in range(3):
        gradient = torch.randn(2, 3)
        for updated in (once, twice):
            updated.begin_step()
        once.update(torch.tensor([4, 1]), gradient, 1.0)
        again = torch.cat([gradient, torch.ones(2, 3)])
        twice.update(torch.tensor([4, 1, 4, 4]), again, 1.0, duplicate_of=torch.tensor([0, 1, 0, 0]))
    assert torch.allclose(once.weight, twice.weight) and torch.allclose(once.second, twice.second)


def test_unused_rows_and_their_moments_stay() -> None:
    torch.manual_seed(0)
    init = torch.randn(6, 3)
    updated = AdamRows(init.clone(), Rule(0.1))
    table = torch.nn.Embedding.from_pretrained(init.clone(), freeze=False, sparse=True)
    lazy = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    for step in range(6):
        places = torch.tensor([0, 3] if step % 2 else [3, 5])
        gradient = torch.randn(2, 3)
        lazy.zero_grad()
        (table(places) * gradient).sum().backward()
        lazy.step()
        updated.begin_step()
        updated.update(places, gradient, 1.0)
    assert torch.allclose(updated.weight, table.weight.detach(), atol=1e-5)
    assert torch.equal(updated.weight[[1, 2, 4]], init[[1, 2, 4]])


def test_moments_are_saved_apart_and_restored() -> None:
    updated = AdamRows(torch.ones(3, 2), Rule(0.1))
    updated.begin_step()
    updated.update(slice(0, 3), torch.ones(3, 2), 1.0)
    again = AdamRows(torch.ones(3, 2), Rule(0.1))
    again.load_moments(updated.moments())
    assert set(updated.state_dict()) == {"weight"}
    assert again.done == 1 and torch.equal(again.first, updated.first) and torch.equal(again.second, updated.second)


def test_pool_holds_every_positive() -> None:
    """Also positives outside of the beam and the shortlists, and more of them than a shortlist holds."""
    labels, rows = 500, 3
    targets = soft(rows, labels, share=0.2)  # about a hundred positives a row
    clusters = Clusters(np.arange(labels, dtype=np.int32), np.arange(0, labels + 1, 10))
    meta = LabelHead(torch.zeros(50, 4), 0.0, Rule(0.1))
    meta.bias.weight[7] = 5.0  # the only cluster that the beam finds
    pool = Pool(labels, random=3, meta=meta, clusters=clusters, beam=1)
    entries = TrainingTargets(targets).batch(np.arange(rows), CPU)
    chosen = pool.choose(np.arange(rows), lambda batch: torch.zeros(len(batch), 4), np.unique(entries.sorted))
    assert set(targets.indices) <= set(chosen) and set(range(70, 80)) <= set(chosen)
    assert len(chosen) < labels and (np.diff(chosen) > 0).all()
    near = Pool(labels, random=0, nearest=np.array([[499, -1], [-1, -1], [498, 499]], dtype=np.int32))
    few = near.choose(np.array([0, 2]), None, np.array([4]))
    assert few.tolist() == [4, 498, 499]


def test_a_step_over_a_pool_is_dense_cross_entropy_on_its_labels() -> None:
    """No positive counts as a negative, and labels outside the pool neither count nor change."""
    torch.manual_seed(0)
    targets, init, vectors = soft(5, 60, share=0.4), torch.randn(60, 4), torch.randn(5, 4)
    entries = TrainingTargets(targets).batch(np.arange(5), CPU)
    pool = np.union1d(entries.sorted, [1, 59])
    pool = np.setdiff1d(pool, np.setdiff1d(np.arange(60), np.append(targets.indices, [1, 59])))
    labels = recorded(LabelHead(init.clone(), -1.0, Rule(0.01)))
    done = labels.step(vectors, renumbered(entries, pool), 1.0, pool=pool)
    own, rows = init.double().requires_grad_(), vectors.double().requires_grad_()
    known = torch.from_numpy(targets.toarray()[:, pool]).double()
    dense_loss(rows @ own[torch.from_numpy(pool)].T - 1.0, known).backward()
    assert own.grad is not None and rows.grad is not None
    assert torch.allclose(torch.cat(labels.own.seen).double(), own.grad[torch.from_numpy(pool)], atol=1e-6)
    assert torch.allclose(done.gradient.double() / 5, rows.grad, atol=1e-6)
    outside = np.setdiff1d(np.arange(60), pool)
    assert torch.equal(labels.own.weight[outside], init[outside])


def test_conversion_to_a_matrix_does_not_change_the_texts() -> None:
    """Words out of order, and one that occurs twice."""
    runs = Runs(np.array([5, 1, 3, 2, 2, 4]), np.arange(1, 7, dtype=np.float32), np.array([0, 3, 5, 6]))
    dense = runs.matrix(6).toarray()
    assert dense.tolist() == [[0, 2, 0, 3, 0, 1], [0, 0, 9, 0, 0, 0], [0, 0, 0, 0, 6, 0]]
    assert runs.words.tolist() == [5, 1, 3, 2, 2, 4] and runs.offsets.tolist() == [0, 3, 5, 6]
    assert runs.weights.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_cluster_has_the_largest_target_of_its_labels() -> None:
    targets = soft(8, 9)
    clusters = Clusters(np.array([4, 0, 8, 1, 2, 3, 5, 6, 7], dtype=np.int32), np.array([0, 3, 6, 9]))
    found = cluster_targets(targets, clusters).toarray()
    for number, members in enumerate(([4, 0, 8], [1, 2, 3], [5, 6, 7])):
        assert np.array_equal(found[:, number], targets.toarray()[:, members].max(axis=1))
        assert np.array_equal(clusters.members(np.array([number])), members)
        assert (clusters.of[members] == number).all()


def test_the_graph_is_normalised_on_both_sides_and_keeps_common_labels_alone() -> None:
    targets = sparse.csr_array((np.random.default_rng(0).random((60, 6)) < 0.4).astype(np.float32))
    common = int(np.bincount(targets.indices).max())
    graph = label_graph(targets, 200, 0.8, 3, common - 1, seed=0)
    assert (graph.diagonal() > 0).all() and np.diff(graph.indptr).max() <= 4
    most = int(np.bincount(targets.indices).argmax())
    assert graph[[most]].nnz == 1 and graph[[most]].toarray()[0, most] == pytest.approx(1.0)
    from longtail.linear.graph.random_walks import walks

    visits = walks(targets, steps=200, restart=0.8, most=3, head=common - 1, visits=True, seed=0).toarray()
    visits[most, most] = visits[most, most] or 1.0
    expected = visits / np.sqrt(visits.sum(1))[:, None] / np.sqrt(visits.sum(0))
    assert np.allclose(graph.toarray(), expected, atol=1e-6)


def test_half_of_a_probability_flows_along_the_graph() -> None:
    rng = np.random.default_rng(0)
    graph = sparse.csr_array(np.where(rng.random((9, 9)) < 0.4, rng.random((9, 9)), 0).astype(np.float32))
    found = np.array([[3, 1, 0], [8, 2, 5]], dtype=np.int32)
    probabilities = np.array([[0.9, 0.5, 0.2], [0.7, 0.6, 0.1]])
    labels, scores = propagate(graph, found, np.log(probabilities).astype(np.float32))
    dense = np.zeros((2, 9))
    np.put_along_axis(dense, found.astype(np.int64), probabilities, axis=1)
    flown = dense @ graph.toarray()
    for row in range(2):
        kept = np.argsort(-flown[row], kind="stable")[:3]
        expected = 0.5 * dense[row]
        expected[kept] += 0.5 * flown[row, kept]
        filled = labels[row] >= 0
        got = np.zeros(9)
        got[labels[row][filled]] = np.exp(scores[row][filled])
        assert np.allclose(got, expected, atol=1e-6)


def test_shortlists_weigh_cosines_and_the_votes_of_similar_rows() -> None:
    rng = np.random.default_rng(0)
    vectors, targets = rng.random((12, 4)).astype(np.float32), soft(12, 8)
    found = shortlists(vectors, targets, size=3, vote_weight=0.4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    means = targets.toarray().T @ vectors
    means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines, similar = unit @ means.T, np.maximum(unit @ unit.T, 0)
    np.fill_diagonal(similar, 0)
    votes = similar @ targets.toarray()
    for row in range(12):
        near = np.zeros(8)
        best = np.argsort(-cosines[row])[:3]
        near[best] = 0.6 * cosines[row, best]
        scores = near + 0.4 * votes[row] / votes[row].max()
        assert set(found[row]) == set(np.argsort(-scores)[:3])


def test_a_row_has_no_vote_in_its_own_shortlist() -> None:
    vectors = np.array([[1, 0], [0.9, 0.4], [0, 1]], dtype=np.float32)  # each row has a label of its own
    assert shortlists(vectors, sparse.csr_array(np.eye(3, dtype=np.float32)), 1, vote_weight=1.0)[:2, 0].tolist() == [
        1,
        0,
    ]
