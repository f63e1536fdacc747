"""Clusters are equal in size, near in direction, and the same for a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.arrays import AnyArray, Floats, Longs
from longtail.errors import DataError
from longtail.nn.dual import balanced_clusters as clusters
from longtail.nn.dual.balanced_clusters import balanced_clusters

PLACES = ["cpu", "cpu:0"]  # cpu:0 runs the code for other devices


def draw(rows: int, dimension: int = 6, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((rows, dimension), dtype=np.float32)


def nearness(vectors: AnyArray, cluster: Longs) -> float:
    """The mean cosine of the rows to the centre of their cluster."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return float(sum(np.linalg.norm(units[cluster == each].sum(0)) for each in np.unique(cluster)) / len(units))


def slow_halves(vectors: AnyArray, seed: int) -> Longs:
    """Balanced spherical 2-means, as plainly as it can be written."""
    units = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    centres = units[np.random.default_rng(seed).choice(len(units), 2, replace=False)]
    before = -1.0
    while True:
        order = np.argsort(units @ (centres[1] - centres[0]), kind="stable")
        half = (len(units) + 1) // 2
        sums = np.stack([units[order[:half]].sum(0), units[order[half:]].sum(0)])
        norms = np.linalg.norm(sums, axis=1)
        if norms.sum() / len(units) - before < 1e-4:
            return np.isin(np.arange(len(units)), order[half:]).astype(np.int64)
        before = norms.sum() / len(units)
        centres = sums / norms[:, None]


@pytest.mark.parametrize("place", PLACES)
@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 100))
def test_sizes_differ_by_one_at_most(place: str, rows: int, number: int, seed: int) -> None:
    number = min(number, rows)
    sizes = np.bincount(balanced_clusters(draw(rows, 3, seed), number=number, seed=seed, device=place))
    assert len(sizes) == number
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("rows", "size", "number"), [(10, 4, 3), (8, 4, 2), (5, 1, 5), (5, 100, 1), (0, 3, 0)])
def test_no_cluster_is_larger_than_asked(place: str, rows: int, size: int, number: int) -> None:
    cluster = balanced_clusters(draw(rows), size=size, device=place)
    assert cluster.dtype == np.int64 and cluster.shape == (rows,)
    assert len(set(cluster.tolist())) == number
    assert not rows or np.bincount(cluster).max() <= size


@pytest.mark.parametrize("place", PLACES)
def test_groups_that_are_far_apart(place: str) -> None:
    """Eight directions, 32 rows each of any norm: each becomes a cluster."""
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(8), 32))
    vectors = (np.eye(8)[truth] + 0.05 * rng.standard_normal((256, 8))) * rng.uniform(0.1, 9, (256, 1))
    cluster = balanced_clusters(vectors.astype(np.float32), size=32, device=place)
    assert len({(int(a), int(b)) for a, b in zip(truth, cluster, strict=True)}) == 8


@pytest.mark.parametrize("place", PLACES)
def test_as_near_as_the_slow_one(place: str) -> None:
    vectors = draw(301, 5) * np.array([3, 2, 1, 1, 1], np.float32)
    ours = [nearness(vectors, balanced_clusters(vectors, number=2, seed=seed, device=place)) for seed in range(8)]
    slow = [nearness(vectors, slow_halves(vectors, seed)) for seed in range(8)]
    assert max(ours) == pytest.approx(max(slow), abs=2e-3)
    assert np.mean(ours) > np.mean(slow) - 0.01


def test_large_groups_find_their_centres_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = draw(3000, 8) * np.arange(8, 0, -1, dtype=np.float32)
    whole = nearness(vectors, balanced_clusters(vectors, size=100))
    monkeypatch.setattr(clusters, "WHOLE", 256)
    monkeypatch.setattr(clusters, "PIECE", 100)
    cluster = balanced_clusters(vectors, size=100)
    assert np.ptp(np.bincount(cluster)) <= 1
    assert nearness(vectors, cluster) > whole - 0.01


def test_neighbouring_numbers_are_neighbouring_clusters() -> None:
    """Pairs of clusters are the clusters of twice the size."""
    vectors = draw(512)
    fine, coarse = (balanced_clusters(vectors, number=number, seed=3) for number in (16, 8))
    assert nearness(vectors, fine // 2) == pytest.approx(nearness(vectors, coarse), abs=0.02)


@pytest.mark.parametrize("place", PLACES)
def test_the_same_seed_the_same_clusters(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "WHOLE", 64)
    vectors = draw(1000)
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        found.append(balanced_clusters(vectors, size=8, seed=5, device=place))
    np.testing.assert_array_equal(found[0], found[1])
    assert (balanced_clusters(vectors, size=8, seed=6, device=place) != found[0]).any()


def test_batches_of_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = draw(500)
    whole = balanced_clusters(vectors, number=37, device="cpu:0")
    monkeypatch.setattr(clusters, "ROOM", 1)
    np.testing.assert_array_equal(balanced_clusters(vectors, number=37, device="cpu:0"), whole)


@pytest.mark.parametrize("place", PLACES)
def test_half_precision_and_memory_maps(tmp_path: Path, place: str) -> None:
    vectors = draw(200).astype(np.float16)
    held = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", np.float16, vectors.shape)
    held[:] = vectors
    expected = balanced_clusters(vectors.astype(np.float32), size=10, device=place)
    np.testing.assert_array_equal(balanced_clusters(held, size=10, device=place), expected)
    lying = torch.from_numpy(vectors.astype(np.float32))
    np.testing.assert_array_equal(balanced_clusters(lying, size=10, device=place), expected)


@pytest.mark.parametrize("place", PLACES)
def test_rows_without_direction(place: str) -> None:
    vectors = draw(40)
    vectors[::2] = 0
    vectors[1::4] = vectors[1]
    assert np.bincount(balanced_clusters(vectors, size=5, device=place)).tolist() == [5] * 8
    assert np.bincount(balanced_clusters(np.zeros((9, 3), np.float32), size=3, device=place)).tolist() == [3] * 3


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.filterwarnings("error")
def test_vectors_are_only_read(place: str) -> None:
    vectors = draw(100)
    vectors.flags.writeable = False
    assert balanced_clusters(vectors, size=7, device=place).max() == 14


@pytest.mark.parametrize("place", PLACES)
def test_bad_input(place: str) -> None:
    vectors = draw(10)
    with pytest.raises(DataError, match="10 rows cannot make 11 clusters: choose from 1 to 10"):
        balanced_clusters(vectors, number=11, device=place)
    with pytest.raises(DataError, match="cannot make 0 clusters"):
        balanced_clusters(vectors, number=0, device=place)
    with pytest.raises(DataError, match="at least one row, got size 0"):
        balanced_clusters(vectors, size=0, device=place)
    for both in ({}, {"size": 2, "number": 2}):
        with pytest.raises(DataError, match="either the size of a cluster or the number"):
            balanced_clusters(vectors, device=place, **both)
    with pytest.raises(DataError, match="matrix, got shape"):
        balanced_clusters(vectors[0], size=2, device=place)
    vectors[7, 1] = np.nan
    with pytest.raises(DataError, match="row 7 holds a number that is not finite"):
        balanced_clusters(vectors, size=2, device=place)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DataError, match="no GPU that torch can use"):
        balanced_clusters(draw(4), size=2, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    vectors = draw(20_000, 32)
    found = [balanced_clusters(vectors, size=16, device="cuda") for _ in range(2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.bincount(found[0]).max() == 16
    assert nearness(vectors, found[0] // 16) > nearness(vectors, balanced_clusters(vectors, size=16) // 16) - 0.01
