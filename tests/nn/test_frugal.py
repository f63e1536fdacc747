"""The parts of the frugal nets against slow, obvious references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from longtail.errors import DataError
from longtail.nn.frugal.blocks import Added, Gated, Inception, Scaled
from longtail.nn.frugal.bodies import FrugalBag, FrugalInception, bag
from longtail.nn.frugal.drop import drop
from longtail.nn.frugal.fit import cluster_targets
from longtail.nn.frugal.graph import label_graph
from longtail.nn.frugal.label_side import TextAndOwn, ThreeWays
from longtail.nn.frugal.labels import SLOPES, Labels
from longtail.nn.frugal.near import shortlists
from longtail.nn.frugal.products import multiplied
from longtail.nn.frugal.rows import MovingRows, Rule
from longtail.nn.frugal.runs import Runs
from longtail.nn.frugal.scorer import along
from longtail.nn.frugal.shortlist import Clusters, Pool, renumbered
from longtail.nn.heads.entries import Targets
from longtail.nn.tokens import Tokens

CPU = torch.device("cpu")


def soft(rows: int, labels: int, seed: int = 0, share: float = 0.3) -> sparse.csr_array:
    chance = np.random.default_rng(seed)
    dense = np.where(chance.random((rows, labels)) < share, chance.choice([0.3, 0.7, 1.0], (rows, labels)), 0)
    return sparse.csr_array(dense.astype(np.float32))


def some_runs(texts: int, words: int, seed: int = 0) -> Runs:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 6, texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = Tokens(chance.integers(0, words, offsets[-1]).astype(np.uint16), offsets)
    return Runs.of(tokens, (1 + chance.random(words)).astype(np.float32))


class Recorded(MovingRows):
    """Remembers the gradients it was moved by."""

    def move(self, places: Tensor | slice, gradient: Tensor, factor: float) -> None:
        self.seen = [*getattr(self, "seen", []), gradient.clone()]
        super().move(places, gradient, factor)


def recorded(labels: Labels) -> Labels:
    labels.own.__class__ = labels.bias.__class__ = Recorded
    return labels


def dense_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy, summed over the labels, the mean over the rows."""
    per = -(targets * torch.log(torch.sigmoid(scores)) + (1 - targets) * torch.log(1 - torch.sigmoid(scores)))
    return per.sum() / len(scores)


def test_gradients_of_plain_classifiers_are_those_of_dense_cross_entropy() -> None:
    chance = np.random.default_rng(0)
    vectors, begin = torch.from_numpy(chance.normal(size=(7, 5))), torch.from_numpy(chance.normal(size=(40, 5)))
    targets = soft(7, 40)
    labels = recorded(Labels(begin.float().clone(), -1.0, Rule(0.01)))
    done = labels.step(vectors.float(), Targets(targets).batch(np.arange(7), CPU), 1.0)

    exact, rows = begin.clone().requires_grad_(), vectors.clone().requires_grad_()
    bias = torch.full((40,), -1.0, dtype=torch.float64, requires_grad=True)
    dense_loss(rows @ exact.T + bias, torch.from_numpy(targets.toarray()).double()).backward()
    assert rows.grad is not None and exact.grad is not None and bias.grad is not None
    assert torch.allclose(done.gradient.double() / 7, rows.grad, atol=1e-6)
    assert torch.allclose(torch.cat(labels.own.seen).double(), exact.grad, atol=1e-6)
    assert torch.allclose(torch.cat(labels.bias.seen).double(), bias.grad, atol=1e-6)

    alone = recorded(Labels(begin.float().clone(), -1.0, Rule(0.01)))
    kept = alone.step(vectors.float(), Targets(targets).batch(np.arange(7), CPU), 1.0, back=False)
    assert torch.equal(alone.own.weight, labels.own.weight) and torch.equal(kept.loss, done.loss)
    assert not kept.gradient.any()


def decaf_reference(side: TextAndOwn, own: Tensor, text: Tensor) -> Tensor:
    layer = side.block.layer
    moved = torch.relu(text) @ layer.weight.double().T + layer.bias.double()
    block = torch.sigmoid(side.block.moved.double()) * moved + torch.sigmoid(side.block.kept.double()) * text
    return torch.sigmoid(side.own.double()) * own + torch.sigmoid(side.text.double()) * block


def test_gradients_through_label_texts_are_those_of_one_large_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, the words, the free vectors and the vectors of the rows get what they would get at once."""
    monkeypatch.setitem(SLOPES, "cpu", 1)
    torch.manual_seed(0)
    labels_number, words, width = 600, 30, 6  # three chunks of 256
    runs = some_runs(labels_number, words)
    side = TextAndOwn(width, dropout=0.0)
    side.eval()
    begin, table = torch.randn(labels_number, width), torch.randn(words, width)
    vectors, targets = torch.randn(4, width), soft(4, labels_number, share=0.02)
    labels = recorded(Labels(begin.clone(), -2.0, Rule(0.01), side, (runs,)))
    read = table.clone().requires_grad_()
    done = labels.step(vectors, Targets(targets).batch(np.arange(4), CPU), 1.0, read)

    exact_table, own = table.double().requires_grad_(), begin.double().requires_grad_()
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
    begin, words, found = torch.randn(300, 16), torch.randn(30, 16), {}
    for kind in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        side = ThreeWays(16, dropout=0.0).eval()
        labels = recorded(Labels(begin.clone(), -2.0, Rule(0.01), side, (runs, runs), kind))
        table = words.clone().requires_grad_()
        done = labels.step(vectors, Targets(targets).batch(np.arange(8), CPU), 1.0, table)
        assert table.grad is not None
        layers = [layer.grad for layer in side.parameters() if layer.grad is not None]
        found[kind] = [done.gradient, torch.cat(labels.own.seen), table.grad, *layers]
    for exact, low in zip(*found.values(), strict=True):
        assert low.dtype == torch.float32
        assert (low - exact).norm() < 0.03 * exact.norm() + 1e-6


def test_rows_move_as_adam_moves_them() -> None:
    torch.manual_seed(0)
    begin = torch.randn(6, 3)
    moving = MovingRows(begin.clone(), Rule(0.1, decay=0.2))
    known = torch.nn.Parameter(begin.clone())
    whole = torch.optim.AdamW([known], lr=0.1, weight_decay=0.2)
    for _ in range(5):
        known.grad = torch.randn(6, 3)
        moving.begin_step()
        moving.move(slice(0, 4), known.grad[:4], 1.0)
        moving.move(torch.tensor([5, 4]), known.grad[[5, 4]], 1.0)
        whole.step()
    assert torch.allclose(moving.weight, known.detach(), atol=1e-6)


def test_rows_named_twice_move_once() -> None:
    torch.manual_seed(0)
    once = MovingRows(torch.randn(6, 3), Rule(0.1))
    twice = MovingRows(once.weight.clone(), Rule(0.1))
    for _ in range(3):
        gradient = torch.randn(2, 3)
        for moving in (once, twice):
            moving.begin_step()
        once.move(torch.tensor([4, 1]), gradient, 1.0)
        again = torch.cat([gradient, torch.ones(2, 3)])
        twice.move(torch.tensor([4, 1, 4, 4]), again, 1.0, same=torch.tensor([0, 1, 0, 0]))
    assert torch.allclose(once.weight, twice.weight) and torch.allclose(once.second, twice.second)


def test_rows_that_nobody_used_stay_and_their_means_wait() -> None:
    torch.manual_seed(0)
    begin = torch.randn(6, 3)
    moving = MovingRows(begin.clone(), Rule(0.1))
    table = torch.nn.Embedding.from_pretrained(begin.clone(), freeze=False, sparse=True)
    lazy = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    for step in range(6):
        places = torch.tensor([0, 3] if step % 2 else [3, 5])
        gradient = torch.randn(2, 3)
        lazy.zero_grad()
        (table(places) * gradient).sum().backward()
        lazy.step()
        moving.begin_step()
        moving.move(places, gradient, 1.0)
    assert torch.allclose(moving.weight, table.weight.detach(), atol=1e-5)
    assert torch.equal(moving.weight[[1, 2, 4]], begin[[1, 2, 4]])


def test_means_are_kept_apart_and_come_back() -> None:
    moving = MovingRows(torch.ones(3, 2), Rule(0.1))
    moving.begin_step()
    moving.move(slice(0, 3), torch.ones(3, 2), 1.0)
    again = MovingRows(torch.ones(3, 2), Rule(0.1))
    again.load_means(moving.means())
    assert set(moving.state_dict()) == {"weight"}
    assert again.done == 1 and torch.equal(again.first, moving.first) and torch.equal(again.second, moving.second)


def test_pool_holds_every_label_that_is_right() -> None:
    """Outside of every beam and list, and more than any list is long."""
    labels, rows = 500, 3
    targets = soft(rows, labels, share=0.2)  # about a hundred positives a row
    clusters = Clusters(np.arange(labels, dtype=np.int32), np.arange(0, labels + 1, 10))
    meta = Labels(torch.zeros(50, 4), 0.0, Rule(0.1))
    meta.bias.weight[7] = 5.0  # the only cluster that the beam finds
    pool = Pool(labels, random=3, meta=meta, clusters=clusters, beam=1)
    entries = Targets(targets).batch(np.arange(rows), CPU)
    chosen = pool.of(np.arange(rows), lambda batch: torch.zeros(len(batch), 4), np.unique(entries.sorted))
    assert set(targets.indices) <= set(chosen) and set(range(70, 80)) <= set(chosen)
    assert len(chosen) < labels and (np.diff(chosen) > 0).all()
    near = Pool(labels, random=0, nearest=np.array([[499, -1], [-1, -1], [498, 499]], dtype=np.int32))
    few = near.of(np.array([0, 2]), None, np.array([4]))
    assert few.tolist() == [4, 498, 499]


def test_a_step_over_a_pool_is_dense_cross_entropy_on_its_labels() -> None:
    """No label of a row counts as wrong, and labels outside the pool neither count nor move."""
    torch.manual_seed(0)
    targets, begin, vectors = soft(5, 60, share=0.4), torch.randn(60, 4), torch.randn(5, 4)
    entries = Targets(targets).batch(np.arange(5), CPU)
    pool = np.union1d(entries.sorted, [1, 59])
    pool = np.setdiff1d(pool, np.setdiff1d(np.arange(60), np.append(targets.indices, [1, 59])))
    labels = recorded(Labels(begin.clone(), -1.0, Rule(0.01)))
    done = labels.step(vectors, renumbered(entries, pool), 1.0, pool=pool)
    own, rows = begin.double().requires_grad_(), vectors.double().requires_grad_()
    known = torch.from_numpy(targets.toarray()[:, pool]).double()
    dense_loss(rows @ own[torch.from_numpy(pool)].T - 1.0, known).backward()
    assert own.grad is not None and rows.grad is not None
    assert torch.allclose(torch.cat(labels.own.seen).double(), own.grad[torch.from_numpy(pool)], atol=1e-6)
    assert torch.allclose(done.gradient.double() / 5, rows.grad, atol=1e-6)
    outside = np.setdiff1d(np.arange(60), pool)
    assert torch.equal(labels.own.weight[outside], begin[outside])


def test_texts_as_a_matrix_leave_the_texts_as_they_are() -> None:
    """Words out of order, and one that comes twice."""
    runs = Runs(np.array([5, 1, 3, 2, 2, 4]), np.arange(1, 7, dtype=np.float32), np.array([0, 3, 5, 6]))
    dense = runs.matrix(6).toarray()
    assert dense.tolist() == [[0, 2, 0, 3, 0, 1], [0, 0, 9, 0, 0, 0], [0, 0, 0, 0, 6, 0]]
    assert runs.words.tolist() == [5, 1, 3, 2, 2, 4] and runs.offsets.tolist() == [0, 3, 5, 6]
    assert runs.weights.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("block", ["none", "added", "gated", "scaled"])
def test_a_bag_reads_the_same_in_training_and_at_prediction(block: str) -> None:
    torch.manual_seed(0)
    body = FrugalBag(20, 6, block, dropout=0.0)  # type: ignore[arg-type]
    body.idf.copy_(1 + torch.rand(20))
    offsets = np.array([0, 2, 3, 8])
    tokens = Tokens(np.array([3, 4, 5, 1, 1, 2, 3, 9], dtype=np.uint16), offsets)
    runs = Runs.of(tokens, body.idf.numpy())
    body.eval()
    ids, mask = tokens.batch(np.arange(3), 16)
    used = np.unique(tokens.ids)
    place = np.zeros(20, dtype=np.int64)
    place[used] = np.arange(len(used))
    inside = body.read(runs.take(np.array([2, 0, 1]), CPU, place), body.table[used])
    assert torch.allclose(inside, body(ids, mask)[[2, 0, 1]], atol=1e-6)
    first = body.idf[[3, 4]] / body.idf[[3, 4]].norm()
    summed = bag(runs.take(np.array([0]), CPU), body.table)[0]
    assert torch.allclose(summed, first @ body.table[[3, 4]], atol=1e-6)


def test_blocks_are_the_formulas_of_their_papers() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(4, 5)
    added, gated, scaled = (kind(5, 0.0).eval() for kind in (Added, Gated, Scaled))
    for block in (added, gated, scaled):
        weight = block.layer.weight
        assert torch.allclose(weight, torch.eye(5), atol=1e-5)  # at the identity, of spectral norm 1
    assert torch.allclose(added(vectors), vectors + torch.relu(vectors), atol=1e-5)
    assert torch.allclose(gated(vectors), 0.5 * torch.relu(vectors) + 0.5 * vectors, atol=1e-5)
    assert torch.allclose(scaled(vectors), vectors + torch.relu(vectors), atol=1e-5)


def test_shares_of_the_three_ways_are_a_softmax_over_what_is_seen() -> None:
    torch.manual_seed(0)
    side = ThreeWays(4, dropout=0.0).eval()
    own, text, around = torch.randn(3, 6, 4)
    ways = [text + torch.relu(text), around + torch.relu(around), own]
    seen = torch.cat([torch.relu(way) for way in ways], dim=1)
    shares = torch.softmax(seen @ side.shares.weight.T, dim=1)
    wanted = sum(shares[:, [way]] * ways[way] for way in range(3))
    assert torch.allclose(side(own, [text, around]), wanted, atol=1e-4)


def test_two_layers_of_the_three_ways_are_as_one() -> None:
    """Of any weights: each way seen through its layer, all of them through a second one; gradients too."""
    torch.manual_seed(0)
    side = ThreeWays(4, dropout=0.0, out=6)
    for look in (*side.looks, side.shares):
        torch.nn.init.normal_(look.parametrizations.weight.original)
        torch.nn.init.normal_(look.bias)
    side.eval()  # no step towards the largest singular value
    own, bags = torch.randn(5, 6, requires_grad=True), [torch.randn(5, 4) for _ in range(2)]
    texts = [block(side.lift(vectors)) for block, vectors in zip(side.blocks, bags, strict=True)]
    ways = [*texts, own]
    seen = torch.cat([look(torch.relu(way)) for look, way in zip(side.looks, ways, strict=True)], dim=1)
    shares = torch.softmax(side.shares(seen), dim=1)
    wanted = sum(shares[:, [way]] * ways[way] for way in range(3))
    found = side(own, bags)
    assert torch.allclose(found, wanted, atol=1e-5)
    parts = (own, *side.parameters())
    for left, right in zip(torch.autograd.grad(found.square().sum(), parts),
                           torch.autograd.grad(wanted.square().sum(), parts), strict=True):  # fmt: skip
        assert torch.allclose(left, right, atol=1e-4)
    low = side(own.bfloat16(), [vectors.bfloat16() for vectors in bags])
    assert low.dtype == torch.bfloat16 and torch.allclose(low.float(), wanted, atol=0.1)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_dropout_keeps_the_mean_and_drops_its_gradient_where_it_dropped(share: float, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    vectors = torch.ones(300, 301, dtype=kind, requires_grad=True)
    found = drop(vectors, share, True)
    scale = torch.tensor(1 / (1 - share), dtype=kind)
    assert torch.allclose(found[found != 0], scale, rtol=1e-2) and found.dtype == kind
    dropped = (found == 0).float()
    assert dropped.mean() == pytest.approx(share, abs=0.006)  # four deviations of 90,000 draws
    assert dropped.mean(0).std() < 0.04 and dropped.mean(1).std() < 0.04  # nowhere more often than elsewhere
    (found.float() * 3).sum().backward()
    assert vectors.grad is not None and torch.equal(vectors.grad == 0, found == 0)
    assert torch.allclose(vectors.grad[found != 0], 3 * scale, rtol=1e-2)
    torch.manual_seed(0)
    assert torch.equal(drop(vectors, share, True), found) and not torch.equal(drop(vectors, share, True), found)
    assert drop(vectors, share, False) is vectors and drop(vectors, 0.0, True) is vectors
    assert drop(vectors[:0], share, True).shape == (0, 301)


def test_turned_texts_give_words_the_same_gradient() -> None:
    torch.manual_seed(0)
    runs = some_runs(40, 30)
    table = torch.randn(33, 5, requires_grad=True)  # three words that no text has
    steep = torch.randn(40, 5)
    plain = bag(runs.whole(CPU), table)
    turned = bag(runs.whole(CPU), table, runs.turned(33).whole(CPU))
    assert torch.equal(plain, turned)
    (wanted,), (found,) = (torch.autograd.grad(made, table, steep) for made in (plain, turned))
    assert torch.allclose(found, wanted, atol=1e-5) and (found[30:] == 0).all()


def test_convolutions_slide_along_the_word_vectors() -> None:
    torch.manual_seed(0)
    net = Inception(places=3, width=64, channels=2, dropout=0.0)
    net.eval()
    rows = torch.randn(2, 3, 64)
    mixed = torch.einsum("oc,ncl->nol", net.mixed.weight[:, :, 0], rows) + net.mixed.bias[:, None]
    parts = []
    for layer, size in zip(net.wide, (4, 8, 16), strict=True):
        found = torch.zeros(2, 2, 16)
        for place in range(16):
            where = [(4 * place - 2 * (size // 4 - 1) + step) % 64 for step in range(size)]  # round the end
            found[:, :, place] = torch.einsum("oks,nks->no", layer.weight, mixed[:, :, where]) + layer.bias
        parts.append(found)
    wide = torch.nn.functional.gelu(torch.cat(parts, dim=1)) / (1 + 1e-5) ** 0.5  # a fresh normalisation
    last = torch.einsum("oks,nks->no", net.last.weight, wide) + net.last.bias  # 16 places are one window
    wanted = torch.nn.functional.gelu(last)
    assert torch.allclose(net._convolved(rows)[:, :, 0], wanted, atol=1e-5)
    assert torch.allclose(net.over_width(net.over_places(rows).transpose(1, 2)).transpose(1, 2), rows)  # shares of 0
    assert net.features == 2
    assert Inception(32, 300, 32, 0.0).features == 480


@pytest.mark.parametrize(("places", "width", "channels"), [(3, 64, 2), (5, 84, 16)])
def test_convolutions_as_products_are_the_convolutions(places: int, width: int, channels: int) -> None:
    """Every number and every gradient, as much as is normalised, and with shares that are not 0."""
    torch.manual_seed(0)
    net = Inception(places, width, channels, dropout=0.0).double()
    for attention in (net.over_places, net.over_width):
        torch.nn.init.constant_(attention.share, 0.7)
    words = torch.randn(6, places, width, dtype=torch.float64, requires_grad=True)
    wanted, found = net(words), multiplied(net, words)
    assert torch.allclose(found, wanted, atol=1e-9)
    steep = torch.randn_like(wanted)
    parts = (words, *net.parameters())
    for left, right in zip(torch.autograd.grad(found, parts, steep), torch.autograd.grad(wanted, parts, steep),
                           strict=True):  # fmt: skip
        assert torch.allclose(left, right, atol=1e-9)
    net.eval()
    assert torch.allclose(multiplied(net, words), net(words), atol=1e-9)
    low = multiplied(net.float().train(), words.detach().bfloat16())
    assert low.dtype == torch.bfloat16 and (low - wanted).norm() < 0.05 * wanted.norm()


def test_padding_is_known_by_the_mask() -> None:
    """Neither the number that stands in empty places, which is a word of its own, nor their number counts."""
    torch.manual_seed(0)
    body = FrugalInception(20, vectors=64, places=5, channels=4, dropout=0.0, last=0.0).eval()
    offsets = np.array([0, 2, 9])
    tokens = Tokens(np.array([0, 4, 5, 0, 7, 2, 3, 9, 9], dtype=np.uint16), offsets, pad=0)
    ids, mask = tokens.batch(np.arange(2), 16)
    vectors = body(ids, mask)
    assert torch.allclose(body(torch.where(mask, ids, 7), mask), vectors)
    assert torch.allclose(body(ids[:1, :2], mask[:1, :2]), vectors[:1], atol=1e-6)
    runs = Runs.of(tokens, np.ones(20, dtype=np.float32))
    assert torch.allclose(body.read(runs.take(np.arange(2), CPU), body.table), vectors, atol=1e-6)
    with pytest.raises(DataError, match="steps of 4"):
        FrugalInception(20, vectors=66, places=5, channels=4, dropout=0.0, last=0.0)


def test_a_cluster_is_as_right_as_the_most_right_of_its_labels() -> None:
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
    from longtail.linear.walks import walks

    visits = walks(targets, steps=200, restart=0.8, most=3, head=common - 1, visits=True, seed=0).toarray()
    visits[most, most] = visits[most, most] or 1.0
    wanted = visits / np.sqrt(visits.sum(1))[:, None] / np.sqrt(visits.sum(0))
    assert np.allclose(graph.toarray(), wanted, atol=1e-6)


def test_half_of_a_chance_flows_along_the_graph() -> None:
    chance = np.random.default_rng(0)
    graph = sparse.csr_array(np.where(chance.random((9, 9)) < 0.4, chance.random((9, 9)), 0).astype(np.float32))
    found = np.array([[3, 1, 0], [8, 2, 5]], dtype=np.int32)
    chances = np.array([[0.9, 0.5, 0.2], [0.7, 0.6, 0.1]])
    labels, scores = along(graph, found, np.log(chances).astype(np.float32))
    dense = np.zeros((2, 9))
    np.put_along_axis(dense, found.astype(np.int64), chances, axis=1)
    flown = dense @ graph.toarray()
    for row in range(2):
        kept = np.argsort(-flown[row], kind="stable")[:3]
        wanted = 0.5 * dense[row]
        wanted[kept] += 0.5 * flown[row, kept]
        held = labels[row] >= 0
        got = np.zeros(9)
        got[labels[row][held]] = np.exp(scores[row][held])
        assert np.allclose(got, wanted, atol=1e-6)


def test_shortlists_weigh_nearness_and_the_votes_of_like_rows() -> None:
    chance = np.random.default_rng(0)
    vectors, targets = chance.random((12, 4)).astype(np.float32), soft(12, 8)
    found = shortlists(vectors, targets, some=3, votes=0.4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    means = targets.toarray().T @ vectors
    means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines, like = unit @ means.T, np.maximum(unit @ unit.T, 0)
    np.fill_diagonal(like, 0)
    votes = like @ targets.toarray()
    for row in range(12):
        near = np.zeros(8)
        best = np.argsort(-cosines[row])[:3]
        near[best] = 0.6 * cosines[row, best]
        scores = near + 0.4 * votes[row] / votes[row].max()
        assert set(found[row]) == set(np.argsort(-scores)[:3])
