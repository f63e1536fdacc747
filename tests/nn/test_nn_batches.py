"""Batches: orders, drawn positives, positives of the pool, tokens on the device, the bank, cached gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

from longtail.nn.dual import vector_bank
from longtail.nn.dual.pair_batches import Curriculum, Pairs, clustered_order, paired, random_order
from longtail.nn.dual.vector_bank import Bank
from longtail.nn.encoders import device_tokens as resident
from longtail.nn.encoders.device_tokens import DeviceTokens, cut_by_width, packed
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.training.gradient_cache import cached_backward

CPU = torch.device("cpu")


def pairs(dense: list[list[float]]) -> Pairs:
    return Pairs(sparse.csr_array(np.array(dense, dtype=np.float32)))


def random_pairs(rows: int, items: int, seed: int, soft: bool = False) -> Pairs:
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, items)) < 0.2).astype(np.float32)
    if soft:
        dense *= rng.choice([0.25, 0.5, 1.0], size=dense.shape).astype(np.float32)
    return Pairs(sparse.csr_array(dense))


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans())
def test_batches_match_a_plain_loop(seed: int, rows: int, items: int, size: int, soft: bool, mining: bool) -> None:
    found = random_pairs(rows, items, seed, soft)
    dense = found.targets.toarray()
    assert found.rows.tolist() == [row for row in range(rows) if dense[row].any()]
    rng = np.random.default_rng(seed)
    order = random_order(found.rows, rng)
    drawn = found.draw(order, rng)
    assert all(dense[row, item] > 0 for row, item in zip(order, drawn, strict=True))
    negatives = rng.integers(-1, items, (rows, 2)) if mining else None
    batches = list(paired(found, order, drawn, size, CPU, 0, negatives)) if len(order) else []
    assert np.array_equal(np.concatenate([batch.rows for batch in batches]) if batches else order, order)
    for number, batch in enumerate(batches):
        here = slice(number * size, (number + 1) * size)
        wanted = set(drawn[here].tolist())
        if negatives is not None:
            wanted |= {item for item in negatives[order[here]].ravel().tolist() if item >= 0}
            assert batch.mined is not None
            assert set(batch.pool[batch.mined.numpy()].tolist()) == wanted - set(drawn[here].tolist())
        assert batch.pool.tolist() == sorted(wanted)
        assert batch.pool[batch.chosen.numpy()].tolist() == drawn[here].tolist()
        assert np.array_equal(batch.row_tensor, batch.rows) and np.array_equal(batch.pool_tensor, batch.pool)
        assert np.array_equal(batch.positive(), dense[np.ix_(batch.rows, batch.pool)] > 0)
        if batch.weights is not None:
            assert batch.weights.tolist() == dense[batch.rows].max(axis=1).tolist()
    assert (found.weights is None) == all(dense[row].max() == 1 for row in found.rows)


def test_an_epoch_can_begin_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.nn.dual.pair_batches.BLOCK", 2)
    found = random_pairs(50, 8, 0)
    order = found.rows
    drawn = found.draw(order, np.random.default_rng(0))
    whole = list(paired(found, order, drawn, 6, CPU))
    for begin in range(len(whole) + 1):
        part = list(paired(found, order, drawn, 6, CPU, begin))
        assert len(part) == len(whole) - begin
        for one, other in zip(part, whole[begin:], strict=True):
            assert np.array_equal(one.rows, other.rows) and torch.equal(one.positive(), other.positive())


def test_positives_are_drawn_in_proportion_to_their_targets() -> None:
    soft = pairs([[0, 0, 0, 0], [1.0, 0.5, 0, 0.5], [0, 0, 0.25, 0]])
    rows = np.full(20_000, 1)
    share = np.bincount(soft.draw(rows, np.random.default_rng(0)), minlength=4) / len(rows)
    assert share == pytest.approx([0.5, 0.25, 0, 0.25], abs=0.02)
    assert soft.weights is not None and soft.weights[1:].tolist() == [1.0, 0.25]
    hard = pairs([[1, 0, 1], [0, 1, 0]])
    share = np.bincount(hard.draw(np.zeros(20_000, np.int64), np.random.default_rng(0)), minlength=3) / 20_000
    assert share == pytest.approx([0.5, 0, 0.5], abs=0.02)
    assert hard.weights is None


def test_clusters_stay_together_and_come_in_random_order() -> None:
    rows = np.arange(100, 160)
    clusters = np.repeat(np.arange(12), 5)
    order = clustered_order(rows, clusters, np.random.default_rng(1))
    assert sorted(order.tolist()) == rows.tolist()
    runs = clusters[order - 100].reshape(12, 5)
    assert (runs == runs[:, :1]).all()
    assert runs[:, 0].tolist() != sorted(runs[:, 0].tolist())
    assert not np.array_equal(order, clustered_order(rows, clusters, np.random.default_rng(2)))


def test_the_curriculum_grows_from_random_to_the_largest() -> None:
    curriculum = Curriculum(start=0.2, min_cluster_size=4, max_cluster_size=64, until=0.7, refresh_every=5)
    sizes = [curriculum.size(epoch, 30) for epoch in range(30)]
    assert sizes[:6] == [1] * 6
    assert sizes[6] == 4 and sizes[21:] == [64] * 9
    assert sizes == sorted(sizes) and set(sizes) == {1, 4, 8, 16, 32, 64}
    times = [epoch for epoch in range(30) if curriculum.is_time(epoch, 30)]
    assert times[0] == 6
    assert {epoch for epoch in range(7, 30) if sizes[epoch] != sizes[epoch - 1]} <= set(times)
    assert max(np.diff([*times, 30])) <= 5
    assert [Curriculum(start=0.0).size(epoch, 2) for epoch in range(2)] == [1, 64]  # nothing to cluster at first


def tokens(lengths: list[int], seed: int = 0) -> Tokens:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tokens(np.random.default_rng(seed).integers(1, 99, offsets[-1]).astype(np.uint16), offsets)


@pytest.mark.parametrize("fits", [True, False])
def test_batches_cut_on_the_device_are_those_of_the_host(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fits:
        monkeypatch.setattr(resident, "SHARE", 0.0)
    text = tokens([3, 9, 1, 16, 2, 40])
    table = DeviceTokens(text, CPU, 40)
    assert (table._held is not None) == fits
    for rows in ([0, 2], [5, 1, 1], [3]):
        ids, mask = table.batch(np.array(rows))
        want_ids, want_mask = text.batch(np.array(rows), 40)
        assert torch.equal(ids, want_ids) and torch.equal(mask, want_mask)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.booleans())
def test_texts_of_two_sides_follow_one_another(lengths: list[int], rounded: bool) -> None:
    sides = [DeviceTokens(tokens(some, seed), CPU, 40) for seed, some in enumerate((lengths, [7, 2, 9]))]
    rows = [np.random.default_rng(0).permutation(len(lengths)), np.array([2, 0, 2])]
    run = packed(list(zip(sides, rows, strict=True)), rounded)
    assert run is not None
    ids, layout = run
    wanted = [
        side.tokens.ids[side.tokens.offsets[row] : side.tokens.offsets[row + 1]]
        for side, some in zip(sides, rows, strict=True)
        for row in some
    ]
    assert layout.lengths[: len(wanted)].tolist() == [len(text) for text in wanted]
    assert ids[: sum(map(len, wanted))].tolist() == np.concatenate(wanted).tolist()
    assert int(layout.lengths.sum()) == len(ids) == int(layout.ends[-1]) == len(layout.places)
    assert int(layout.lengths.max()) == max(map(len, wanted)) <= layout.longest
    if rounded:
        assert len(ids) % 256 == 0 and len(layout.lengths) % 256 == 0
    else:
        assert len(layout.lengths) == len(wanted)


def test_ids_of_a_small_vocabulary_take_half_the_room() -> None:
    small, offsets = tokens([3, 2]), np.array([0, 2, 4])
    large = Tokens(np.array([1, 1 << 15, 65_535, 7], dtype=np.uint16), offsets)
    sides = [DeviceTokens(one, CPU, 40) for one in (small, large)]
    assert [side._held[0].element_size() for side in sides if side._held is not None] == [2, 4]
    run = packed([(sides[0], np.array([1])), (sides[1], np.array([1, 0]))])
    assert run is not None and run[0].tolist() == [*small.ids[3:].tolist(), 65_535, 7, 1, 1 << 15]


def test_texts_that_must_be_cut_are_no_run() -> None:
    side = DeviceTokens(tokens([3, 9]), CPU, 5)
    assert packed([(side, np.array([0]))]) is not None
    assert packed([(side, np.array([0, 1]))]) is None


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 5))
def test_pieces_hold_every_text_once_and_in_its_place(lengths: list[int], number: int) -> None:
    table = DeviceTokens(tokens(lengths), CPU, 40)
    rows = np.random.default_rng(0).permutation(len(lengths))
    for chunk in (None, 3):
        parts, places = table.pieces(rows, number, chunk)
        assert len(parts) <= number if chunk is None else all(len(ids) <= chunk for ids, _ in parts)
        sums = torch.cat([(ids * mask).sum(1) for ids, mask in parts])
        ids, mask = table.batch(rows)
        assert torch.equal(sums if places is None else sums[places], (ids * mask).sum(1))


def test_cuts_waste_little() -> None:
    widths = np.array([1] * 50 + [2] * 2 + [3] * 50 + [8] * 3)
    assert cut_by_width(widths, 3) == [50, 102]
    assert cut_by_width(widths, 1) == []
    assert cut_by_width(widths, 9) == [50, 52, 102]


@pytest.mark.parametrize("fits", [True, False])
def test_the_bank_holds_what_was_last_written(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fits:
        monkeypatch.setattr(vector_bank, "SHARE", 0.0)
    bank = Bank.of(5, 2, CPU)
    bank.write(torch.tensor([3, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))
    bank.write(torch.tensor([1]), torch.tensor([[5.0, 6.0]]))
    assert bank.vectors.tolist() == [[0, 0], [5, 6], [0, 0], [1, 2], [0, 0]]
    again = Bank.of(5, 2, CPU)
    again.load_state(bank.state())
    assert torch.equal(again.vectors, bank.vectors)


def test_cached_gradients_are_those_of_the_whole_batch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 3)).double()
    extra = nn.Parameter(torch.randn(3, dtype=torch.float64))
    parts = torch.randn(10, 4, dtype=torch.float64).split(3)

    def loss_of(vectors: list[torch.Tensor]) -> torch.Tensor:
        whole = torch.cat(vectors) + extra
        return torch.logsumexp(whole @ whole.T, dim=1).mean()

    def gradients() -> list[torch.Tensor]:
        found = [parameter.grad.clone() for parameter in (*model.parameters(), extra)]  # type: ignore[union-attr]
        for parameter in (*model.parameters(), extra):
            parameter.grad = None
        return found

    torch.manual_seed(5)
    loss = loss_of([model(part) for part in parts])
    (loss * 0.5).backward()
    wanted, after = gradients(), torch.get_rng_state()
    torch.manual_seed(5)
    cached = cached_backward([lambda part=part: model(part) for part in parts], loss_of, 0.5)
    assert torch.equal(cached, loss.detach())
    for one, other in zip(gradients(), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.equal(torch.get_rng_state(), after)
