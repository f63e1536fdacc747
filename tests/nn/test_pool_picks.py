"""Pools: which labels are in them, and which are positives of which rows, on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.nn.pool.label_sampler import LabelSampler, draw_negatives, entries_of

CPU = torch.device("cpu")


def matrix(dense: list[list[float]]) -> Matrix:
    return sparse.csr_array(np.array(dense, dtype=np.float32))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_negative_of_one_row_is_a_positive_of_another_that_did_not_draw_it() -> None:
    """Row 0 has label 0 and mined label 3; row 1 has labels 1 and 3. One positive is drawn of each."""
    targets = matrix([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
    mined = np.array([[3], [-1]])
    for seed in range(20):
        found = LabelSampler(targets, CPU, positives=1, negatives=1).batch(np.array([0, 1]), mined, generator(seed))
        expected = {0: 1.0, 3: 1.0}
        assert 3 in found.pool and 0 in found.pool and 2 not in found.pool and 4 not in found.pool
        dense = found.targets().numpy()
        row = dict(zip(found.pool.tolist(), dense[1].tolist(), strict=True))
        assert row[3] == expected[3] and row[0] == 0
        if 1 in found.pool:
            assert row[1] == 1 and found.pool.tolist() == [0, 1, 3]
        assert dict(zip(found.pool.tolist(), dense[0].tolist(), strict=True)) == {
            label: float(label == 0) for label in found.pool.tolist()
        }


def test_the_rows_of_a_batch_may_come_in_any_order() -> None:
    targets = matrix([[1, 0, 0.5], [0, 0.25, 0], [0, 0, 1]])
    found = LabelSampler(targets, CPU, positives=None).batch(np.array([2, 0]), None, generator())
    assert found.pool.tolist() == [0, 2]
    assert found.targets().tolist() == [[0, 1], [1, 0.5]]  # rows 2 and 0; soft targets stay as they are
    assert torch.equal(found.pool_tensor, torch.tensor([0, 2])) and len(found) == 2


def slow_targets(targets: Matrix, rows: Longs, pool: Longs) -> np.ndarray:
    return targets.toarray()[np.ix_(rows, pool)]


@pytest.mark.parametrize("positives", [1, 2, 3, None])
@pytest.mark.parametrize("negatives", [0, 1, 4])
def test_pools_against_plain_sets(positives: int | None, negatives: int) -> None:
    rng = generator(7)
    dense = (rng.random((30, 50)) < 0.1) * rng.choice([0.25, 0.5, 1.0], (30, 50))
    dense[:, 0] = np.maximum(dense[:, 0], 0.5)  # every row has a label
    targets = sparse.csr_array(dense.astype(np.float32))
    wrong = [np.flatnonzero(row == 0) for row in dense]
    mined = np.stack([rng.choice(some, 4, replace=False) for some in wrong])
    mined[::3, 2:] = -1
    rows = rng.permutation(30)[:12]
    sampler = LabelSampler(targets, CPU, positives=positives, negatives=negatives)
    found = sampler.batch(rows, mined, generator(1))
    assert (np.diff(found.pool) > 0).all()
    assert np.array_equal(found.targets().numpy(), slow_targets(targets, rows, found.pool))
    known = {label for row in rows for label in targets[[row]].indices.tolist()}
    offered = {label for row in rows for label in mined[row].tolist() if label >= 0} if negatives else set()
    assert set(found.pool.tolist()) <= known | offered
    for row in rows:
        own = targets[[row]].indices
        assert np.isin(own, found.pool).sum() >= min(len(own), positives or len(own))
    most = sum(min(int(np.diff(targets.indptr)[row]), positives or 50) + negatives for row in rows)
    assert len(found.pool) <= most
    if positives is None and negatives == 4:
        assert set(found.pool.tolist()) == known | offered
    again = sampler.batch(rows, mined, generator(1))
    assert np.array_equal(again.pool, found.pool)


def test_at_most_so_many_positives_are_drawn_and_no_one_twice() -> None:
    targets = matrix([[1] * 10])
    for seed in range(10):
        pool = LabelSampler(targets, CPU, positives=4).batch(np.array([0]), None, generator(seed)).pool
        assert len(pool) == 4


def test_larger_targets_are_drawn_more_often() -> None:
    """One of two, with targets 1 and 0.25: four times in five the first."""
    targets = matrix([[1, 0.25]])
    sampler = LabelSampler(targets, CPU, positives=1)
    rng = generator(3)
    first = np.mean([sampler.batch(np.array([0]), None, rng).pool[0] == 0 for _ in range(2000)])
    assert abs(first - 0.8) < 0.03


def test_mined_labels_are_drawn_evenly_and_without_repeats() -> None:
    mined = np.array([[4, 5, 6, -1], [7, -1, -1, -1]])
    counts = np.zeros(8)
    rng = generator(5)
    for _ in range(1500):
        drawn = draw_negatives(mined, 2, rng)
        assert len(drawn) == len(set(drawn.tolist())) == 3 and 7 in drawn
        counts[drawn] += 1
    assert np.abs(counts[4:7] / 1500 - 2 / 3).max() < 0.05


def test_the_pool_may_be_all_labels() -> None:
    targets = matrix([[0, 1, 0, 0], [0.5, 0, 0, 0]])
    found = LabelSampler(targets, CPU, positives=1, all_labels=True).batch(np.array([1]), None, generator())
    assert found.pool.tolist() == [0, 1, 2, 3] and found.targets().tolist() == [[0.5, 0, 0, 0]]


def test_batches_are_the_same_wherever_an_epoch_is_resumed() -> None:
    rng = generator(2)
    targets = sparse.csr_array((rng.random((25, 40)) < 0.2).astype(np.float32))
    order = rng.permutation(25)
    sampler = LabelSampler(targets, CPU, positives=2)
    whole = list(sampler.batches(order, 10, 0, None, (3, 1)))
    assert [len(batch) for batch in whole] == [10, 10, 5]
    for one, other in zip(whole[1:], sampler.batches(order, 10, 1, None, (3, 1)), strict=True):
        assert np.array_equal(one.rows, other.rows) and np.array_equal(one.pool, other.pool)
    other_epoch = next(iter(sampler.batches(order, 10, 0, None, (3, 2))))
    assert not np.array_equal(other_epoch.pool, whole[0].pool)


def test_batches_made_ahead_are_the_same_and_errors_arrive() -> None:
    rng = generator(5)
    targets = sparse.csr_array((rng.random((50, 20)) < 0.2).astype(np.float32))
    mined = rng.integers(-1, 20, (50, 6))
    sampler, order = LabelSampler(targets, CPU, 2, 2), rng.permutation(50)
    plain, ahead = (list(sampler.batches(order, 8, 1, mined, (3, 4), way)) for way in (False, True))
    assert len(plain) == len(ahead) == 6
    for one, other in zip(plain, ahead, strict=True):
        assert (one.rows == other.rows).all() and (one.pool == other.pool).all()
        assert torch.equal(one.targets(), other.targets())
    assert list(sampler.batches(order, 8, 7, mined, (3, 4), True)) == []
    next(sampler.batches(order, 8, 0, mined, (3, 4), True))  # left alone after the first
    with pytest.raises(IndexError):
        list(sampler.batches(order + 50, 8, 0, mined, (3, 4), True))


def test_entries_of_rows() -> None:
    targets = matrix([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    entries, row_of = entries_of(targets, np.array([2, 1, 0]))
    assert entries.tolist() == [2, 0, 1] and row_of.tolist() == [0, 2, 2]


def test_a_pool_is_padded_to_a_round_number_of_texts() -> None:
    targets = matrix([[1, 0, 0.5], [0, 0.25, 0], [0, 0, 1]])
    rows = np.array([2, 0])
    plain, padded = (
        LabelSampler(targets, CPU, None, padded=some).batch(rows, None, generator()) for some in (False, True)
    )
    assert plain.columns == 2 and padded.columns + 2 == 256 and padded.pool.tolist() == plain.pool.tolist()
    assert torch.equal(padded.targets()[:, :2], plain.targets()) and not padded.targets()[:, 2:].any()
    place = torch.full((2, padded.columns), 7.0)
    assert torch.equal(padded.targets(place), padded.targets()) and torch.equal(place, padded.targets())
    real = padded.pool_targets().real
    assert plain.pool_targets().real is None and real is not None and real.tolist() == [True] * 2 + [False] * 252
