"""Bags, blocks, mixtures, dropout and convolutions of the shallow nets against slow, obvious references."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.errors import DataError
from longtail.nn.encoders.convolution_products import multiplied
from longtail.nn.encoders.fast_dropout import drop
from longtail.nn.encoders.residual_blocks import GatedBlock, Inception, ResidualBlock, ScaledBlock
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.encoders.word_vector_encoders import BagEncoder, InceptionEncoder, bag
from longtail.nn.shallow.label_mixtures import ThreeWays

CPU = torch.device("cpu")


def some_runs(texts: int, words: int, seed: int = 0) -> Runs:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = Tokens(rng.integers(0, words, offsets[-1]).astype(np.uint16), offsets)
    return Runs.of(tokens, (1 + rng.random(words)).astype(np.float32))


@pytest.mark.parametrize("block", ["none", "added", "gated", "scaled"])
def test_a_bag_reads_the_same_in_training_and_at_prediction(block: str) -> None:
    torch.manual_seed(0)
    body = BagEncoder(20, 6, block, dropout=0.0)  # type: ignore[arg-type]
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
    added, gated, scaled = (kind(5, 0.0).eval() for kind in (ResidualBlock, GatedBlock, ScaledBlock))
    for block in (added, gated, scaled):
        weight = block.layer.weight
        assert torch.allclose(weight, torch.eye(5), atol=1e-5)  # at the identity, of spectral norm 1
    assert torch.allclose(added(vectors), vectors + torch.relu(vectors), atol=1e-5)
    assert torch.allclose(gated(vectors), 0.5 * torch.relu(vectors) + 0.5 * vectors, atol=1e-5)
    assert torch.allclose(scaled(vectors), vectors + torch.relu(vectors), atol=1e-5)


def test_shares_of_the_three_ways_are_a_softmax_of_logits() -> None:
    torch.manual_seed(0)
    side = ThreeWays(4, dropout=0.0).eval()
    own, text, around = torch.randn(3, 6, 4)
    ways = [text + torch.relu(text), around + torch.relu(around), own]
    seen = torch.cat([torch.relu(way) for way in ways], dim=1)
    shares = torch.softmax(seen @ side.shares.weight.T, dim=1)
    expected = sum(shares[:, [way]] * ways[way] for way in range(3))
    assert torch.allclose(side(own, [text, around]), expected, atol=1e-4)


def test_two_layers_of_the_three_ways_are_merged() -> None:
    """For any weights: each way passes its own layer, then all pass a second one; gradients too."""
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
    expected = sum(shares[:, [way]] * ways[way] for way in range(3))
    found = side(own, bags)
    assert torch.allclose(found, expected, atol=1e-5)
    parts = (own, *side.parameters())
    for left, right in zip(torch.autograd.grad(found.square().sum(), parts),
                           torch.autograd.grad(expected.square().sum(), parts), strict=True):  # fmt: skip
        assert torch.allclose(left, right, atol=1e-4)
    low = side(own.bfloat16(), [vectors.bfloat16() for vectors in bags])
    assert low.dtype == torch.bfloat16 and torch.allclose(low.float(), expected, atol=0.1)


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
    assert dropped.mean(0).std() < 0.04 and dropped.mean(1).std() < 0.04  # evenly
    (found.float() * 3).sum().backward()
    assert vectors.grad is not None and torch.equal(vectors.grad == 0, found == 0)
    assert torch.allclose(vectors.grad[found != 0], 3 * scale, rtol=1e-2)
    torch.manual_seed(0)
    assert torch.equal(drop(vectors, share, True), found) and not torch.equal(drop(vectors, share, True), found)
    assert drop(vectors, share, False) is vectors and drop(vectors, 0.0, True) is vectors
    assert drop(vectors[:0], share, True).shape == (0, 301)


def test_transposed_texts_give_words_the_same_gradient() -> None:
    torch.manual_seed(0)
    runs = some_runs(40, 30)
    table = torch.randn(33, 5, requires_grad=True)  # three words that no text has
    gradient = torch.randn(40, 5)
    plain = bag(runs.whole(CPU), table)
    transposed = bag(runs.whole(CPU), table, runs.transposed(33).whole(CPU))
    assert torch.equal(plain, transposed)
    (expected,), (found,) = (torch.autograd.grad(made, table, gradient) for made in (plain, transposed))
    assert torch.allclose(found, expected, atol=1e-5) and (found[30:] == 0).all()


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
            where = [(4 * place - 2 * (size // 4 - 1) + step) % 64 for step in range(size)]  # circular
            found[:, :, place] = torch.einsum("oks,nks->no", layer.weight, mixed[:, :, where]) + layer.bias
        parts.append(found)
    wide = torch.nn.functional.gelu(torch.cat(parts, dim=1)) / (1 + 1e-5) ** 0.5  # a fresh normalisation
    last = torch.einsum("oks,nks->no", net.last.weight, wide) + net.last.bias  # 16 places are one window
    expected = torch.nn.functional.gelu(last)
    assert torch.allclose(net._convolved(rows)[:, :, 0], expected, atol=1e-5)
    assert torch.allclose(net.over_width(net.over_places(rows).transpose(1, 2)).transpose(1, 2), rows)  # shares of 0
    assert net.features == 2
    assert Inception(32, 300, 32, 0.0).features == 480


@pytest.mark.parametrize(("places", "width", "channels"), [(3, 64, 2), (5, 84, 16)])
def test_convolutions_as_products_are_the_convolutions(places: int, width: int, channels: int) -> None:
    """Every value and every gradient, with batch norm, and with shares that are not 0."""
    torch.manual_seed(0)
    net = Inception(places, width, channels, dropout=0.0).double()
    for attention in (net.over_places, net.over_width):
        torch.nn.init.constant_(attention.share, 0.7)
    words = torch.randn(6, places, width, dtype=torch.float64, requires_grad=True)
    expected, found = net(words), multiplied(net, words)
    assert torch.allclose(found, expected, atol=1e-9)
    gradient = torch.randn_like(expected)
    parts = (words, *net.parameters())
    for left, right in zip(torch.autograd.grad(found, parts, gradient), torch.autograd.grad(expected, parts, gradient),
                           strict=True):  # fmt: skip
        assert torch.allclose(left, right, atol=1e-9)
    net.eval()
    assert torch.allclose(multiplied(net, words), net(words), atol=1e-9)
    low = multiplied(net.float().train(), words.detach().bfloat16())
    assert low.dtype == torch.bfloat16 and (low - expected).norm() < 0.05 * expected.norm()


def test_padding_is_known_by_the_mask() -> None:
    """Neither the word number in padded places, which is a real word, nor how many there are counts."""
    torch.manual_seed(0)
    body = InceptionEncoder(20, vectors=64, places=5, channels=4, dropout=0.0, last=0.0).eval()
    offsets = np.array([0, 2, 9])
    tokens = Tokens(np.array([0, 4, 5, 0, 7, 2, 3, 9, 9], dtype=np.uint16), offsets, pad=0)
    ids, mask = tokens.batch(np.arange(2), 16)
    vectors = body(ids, mask)
    assert torch.allclose(body(torch.where(mask, ids, 7), mask), vectors)
    assert torch.allclose(body(ids[:1, :2], mask[:1, :2]), vectors[:1], atol=1e-6)
    runs = Runs.of(tokens, np.ones(20, dtype=np.float32))
    assert torch.allclose(body.read(runs.take(np.arange(2), CPU), body.table), vectors, atol=1e-6)
    with pytest.raises(DataError, match="steps of 4"):
        InceptionEncoder(20, vectors=66, places=5, channels=4, dropout=0.0, last=0.0)
