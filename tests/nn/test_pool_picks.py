"""Pools: which labels are in them and who has which as a positive, on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.nn.pool.picks import Picker, drawn_of, entries_of

CPU = torch.device("cpu")


def matrix(dense: list[list[float]]) -> Matrix:
    return sparse.csr_array(np.array(dense, dtype=np.float32))


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_negative_of_one_row_is_a_positive_of_another_that_did_not_draw_it() -> None:
    """Row 0 has label 0 and mined label 3; row 1 has labels 1 and 3. One positive is drawn of each."""
    targets = matrix([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
    mined = np.array([[3], [-1]])
    for seed in range(20):
        found = Picker(targets, CPU, positives=1, negatives=1).batch(np.array([0, 1]), mined, chance(seed))
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
    found = Picker(targets, CPU, positives=None).batch(np.array([2, 0]), None, chance())
    assert found.pool.tolist() == [0, 2]
    assert found.targets().tolist() == [[0, 1], [1, 0.5]]  # rows 2 and 0; soft targets stay as they are
    assert torch.equal(found.pool_tensor, torch.tensor([0, 2])) and len(found) == 2


def slow_targets(targets: Matrix, rows: Longs, pool: Longs) -> np.ndarray:
    return targets.toarray()[np.ix_(rows, pool)]


@pytest.mark.parametrize("positives", [1, 2, 3, None])
@pytest.mark.parametrize("negatives", [0, 1, 4])
def test_pools_against_plain_sets(positives: int | None, negatives: int) -> None:
    luck = chance(7)
    dense = (luck.random((30, 50)) < 0.1) * luck.choice([0.25, 0.5, 1.0], (30, 50))
    dense[:, 0] = np.maximum(dense[:, 0], 0.5)  # no row is bare
    targets = sparse.csr_array(dense.astype(np.float32))
    wrong = [np.flatnonzero(row == 0) for row in dense]
    mined = np.stack([luck.choice(some, 4, replace=False) for some in wrong])
    mined[::3, 2:] = -1
    rows = luck.permutation(30)[:12]
    picker = Picker(targets, CPU, positives=positives, negatives=negatives)
    found = picker.batch(rows, mined, chance(1))
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
    again = picker.batch(rows, mined, chance(1))
    assert np.array_equal(again.pool, found.pool)


def test_at_most_so_many_positives_are_drawn_and_no_one_twice() -> None:
    targets = matrix([[1] * 10])
    for seed in range(10):
        pool = Picker(targets, CPU, positives=4).batch(np.array([0]), None, chance(seed)).pool
        assert len(pool) == 4


def test_larger_targets_are_drawn_more_often() -> None:
    """One of two, with targets 1 and 0.25: four times in five the first."""
    targets = matrix([[1, 0.25]])
    picker = Picker(targets, CPU, positives=1)
    luck = chance(3)
    first = np.mean([picker.batch(np.array([0]), None, luck).pool[0] == 0 for _ in range(2000)])
    assert abs(first - 0.8) < 0.03


def test_mined_ones_are_drawn_evenly_and_without_repeats() -> None:
    mined = np.array([[4, 5, 6, -1], [7, -1, -1, -1]])
    counts = np.zeros(8)
    luck = chance(5)
    for _ in range(1500):
        drawn = drawn_of(mined, 2, luck)
        assert len(drawn) == len(set(drawn.tolist())) == 3 and 7 in drawn
        counts[drawn] += 1
    assert np.abs(counts[4:7] / 1500 - 2 / 3).max() < 0.05


def test_everything_is_all_labels() -> None:
    targets = matrix([[0, 1, 0, 0], [0.5, 0, 0, 0]])
    found = Picker(targets, CPU, positives=1, everything=True).batch(np.array([1]), None, chance())
    assert found.pool.tolist() == [0, 1, 2, 3] and found.targets().tolist() == [[0.5, 0, 0, 0]]


def test_batches_are_the_same_wherever_one_begins() -> None:
    luck = chance(2)
    targets = sparse.csr_array((luck.random((25, 40)) < 0.2).astype(np.float32))
    order = luck.permutation(25)
    picker = Picker(targets, CPU, positives=2)
    whole = list(picker.batches(order, 10, 0, None, (3, 1)))
    assert [len(batch) for batch in whole] == [10, 10, 5]
    for one, other in zip(whole[1:], picker.batches(order, 10, 1, None, (3, 1)), strict=True):
        assert np.array_equal(one.rows, other.rows) and np.array_equal(one.pool, other.pool)
    other_epoch = next(iter(picker.batches(order, 10, 0, None, (3, 2))))
    assert not np.array_equal(other_epoch.pool, whole[0].pool)


def test_batches_made_ahead_are_the_same_and_errors_arrive() -> None:
    luck = chance(5)
    targets = sparse.csr_array((luck.random((50, 20)) < 0.2).astype(np.float32))
    mined = luck.integers(-1, 20, (50, 6))
    picker, order = Picker(targets, CPU, 2, 2), luck.permutation(50)
    plain, ahead = (list(picker.batches(order, 8, 1, mined, (3, 4), way)) for way in (False, True))
    assert len(plain) == len(ahead) == 6
    for one, other in zip(plain, ahead, strict=True):
        assert (one.rows == other.rows).all() and (one.pool == other.pool).all()
        assert torch.equal(one.targets(), other.targets())
    assert list(picker.batches(order, 8, 7, mined, (3, 4), True)) == []
    next(picker.batches(order, 8, 0, mined, (3, 4), True))  # left alone after the first
    with pytest.raises(IndexError):
        list(picker.batches(order + 50, 8, 0, mined, (3, 4), True))


def test_entries_of_rows() -> None:
    targets = matrix([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    entries, row_of = entries_of(targets, np.array([2, 1, 0]))
    assert entries.tolist() == [2, 0, 1] and row_of.tolist() == [0, 2, 2]


def test_a_pool_is_filled_up_to_a_round_number_of_texts() -> None:
    targets = matrix([[1, 0, 0.5], [0, 0.25, 0], [0, 0, 1]])
    rows = np.array([2, 0])
    plain, filled = (Picker(targets, CPU, None, filled=some).batch(rows, None, chance()) for some in (False, True))
    assert plain.columns == 2 and filled.columns + 2 == 256 and filled.pool.tolist() == plain.pool.tolist()
    assert torch.equal(filled.targets()[:, :2], plain.targets()) and not filled.targets()[:, 2:].any()
    place = torch.full((2, filled.columns), 7.0)
    assert torch.equal(filled.targets(place), filled.targets()) and torch.equal(place, filled.targets())
    real = filled.weighed().real
    assert plain.weighed().real is None and real is not None and real.tolist() == [True] * 2 + [False] * 252
