"""Exact search against a full sort, ties and bad input included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.arrays import Floats, Ints
from longtail.errors import DataError, MissingExtra
from longtail.nn.encoders.text_encoder import normalised
from longtail.progress import listening
from longtail.search import blas_threads, device, exact
from longtail.search.exact import Exact, products, top_k


def slow(queries: Floats, vectors: Floats, k: int) -> tuple[Ints, Floats]:
    scores = queries.astype(np.float64) @ vectors.astype(np.float64).T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return rows.astype(np.int32), np.take_along_axis(scores, rows, axis=1).astype(np.float32)


def draw(seed: int, queries: int, vectors: int, dimension: int, largest: int) -> tuple[Floats, Floats]:
    """Small integers: products are exact, and equal scores are common."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-largest, largest + 1, (queries + vectors, dimension)).astype(np.float32)
    return numbers[:queries], numbers[queries:]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that every search crosses several of them."""
    monkeypatch.setattr(exact, "QUERIES", 3)
    monkeypatch.setattr(exact, "VECTORS", 7)
    monkeypatch.setattr(exact, "FEW", 1)
    monkeypatch.setattr(exact, "WIDE", 9)
    monkeypatch.setattr(device, "PIECE", 7)
    monkeypatch.setattr(device, "RUN", 2)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 900), st.integers(1, 12))
def test_runs_of_neighbours_leave_nothing_out(seed: int, asked: int, held: int, k: int) -> None:
    queries, vectors = draw(seed, asked, held, 3, 2)  # few different scores, so that runs tie
    rows, scores = top_k(queries, vectors, k, device="cpu:0")
    expected = slow(queries, vectors, k)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


MODES = [("fp32", "cpu"), ("bf16", "cpu"), ("fp32", "cpu:0"), ("bf16", "cpu:0")]  # cpu:0 searches with torch


@pytest.mark.parametrize(("precision", "place"), MODES)
@pytest.mark.usefixtures("small_pieces")
@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(0, 8), st.integers(1, 40), st.integers(1, 5), st.integers(1, 50))
def test_the_best_in_order_ties_by_row(
    precision: exact.Precision, place: str, seed: int, asked: int, held: int, dimension: int, k: int
) -> None:
    queries, vectors = draw(seed, asked, held, dimension, 3)
    rows, scores = top_k(queries, vectors, k, precision, place)
    expected = slow(queries, vectors, k)
    assert rows.dtype == np.int32 and scores.dtype == np.float32
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_each_thread_with_queries_of_its_own(threads: int, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", str(threads))
    monkeypatch.setattr(exact, "QUERIES", 100)
    monkeypatch.setattr(exact, "VECTORS", 70)
    queries, vectors = draw(7, 523, 300, 6, 3)
    for found, expected in zip(top_k(queries, vectors.astype(kind), 20), slow(queries, vectors, 20), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_blas_gets_its_threads_back() -> None:
    library = blas_threads._library()
    if library is None:
        pytest.skip("NumPy uses another matrix library")
    before = library.scipy_openblas_get_num_threads64_()
    with blas_threads.single_threaded_blas() as outer:
        with pytest.raises(DataError), blas_threads.single_threaded_blas() as inner:  # as from another thread
            assert outer and inner
            raise DataError("an error on the way")
        assert library.scipy_openblas_get_num_threads64_() == 1
    assert library.scipy_openblas_get_num_threads64_() == before


def test_another_blas_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "2")
    monkeypatch.setattr(blas_threads, "_library", lambda: None)
    queries, vectors = draw(8, 300, 90, 5, 3)
    for found, expected in zip(top_k(queries, vectors, 9), slow(queries, vectors, 9), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("precision", "place"), MODES)
def test_real_numbers(precision: exact.Precision, place: str) -> None:
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((70, 48), dtype=np.float32)
    vectors = rng.standard_normal((10_000, 48), dtype=np.float32)
    rows, scores = top_k(queries, vectors, 100, precision, place)
    expected = slow(queries, vectors, 100)
    np.testing.assert_allclose(scores, expected[1], rtol=0, atol=2e-5)
    assert (rows == expected[0]).mean() > 0.999  # near ties may swap


def test_half_precision_alone_would_swap_neighbours() -> None:
    """Scores that bfloat16 cannot tell apart come back in their true order."""
    vectors = np.stack([np.full(300, 1.0), np.arange(300) / 10_000], axis=1).astype(np.float32)
    rows, scores = top_k(np.ones((1, 2), np.float32), vectors, 3, "bf16")
    assert torch.from_numpy(vectors.sum(1)[-100:]).bfloat16().unique().numel() < 5
    # All but a handful round alike, so the shortlist is by row; within it the order is exact.
    assert (np.diff(scores[0]) <= 0).all()
    np.testing.assert_allclose(scores[0], vectors[rows[0]].sum(1), rtol=1e-6)


def test_more_threads_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, vectors = draw(1, 700, 5000, 8, 2)
    answers = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        answers.append(top_k(queries, vectors, 10))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_half_precision_vectors_and_memory_maps(tmp_path: Path, precision: exact.Precision) -> None:
    queries, vectors = draw(2, 5, 300, 6, 4)
    held = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", np.float16, vectors.shape)
    held[:] = vectors
    rows, scores = top_k(queries, held, 9, precision)
    expected = slow(queries, vectors, 9)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_columns_of_a_larger_matrix() -> None:
    """Truncated vectors are views whose rows are not next to each other."""
    queries, vectors = draw(3, 4, 100, 8, 4)
    for precision in ("fp32", "bf16"):
        rows, _ = top_k(queries[:, :3], vectors[:, :3], 5, precision)
        np.testing.assert_array_equal(rows, slow(queries[:, :3], vectors[:, :3], 5)[0])


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_products_with_a_few_rows_each(kind: type) -> None:
    queries, vectors = draw(8, 40, 30, 5, 4)
    rows = np.random.default_rng(0).integers(-1, 30, (40, 6)).astype(np.int32)
    expected = np.where(rows < 0, 0, np.einsum("qkd,qd->qk", vectors[rows], queries))
    np.testing.assert_array_equal(products(queries, vectors.astype(kind), rows), expected)
    assert (rows == -1).any()


@pytest.mark.parametrize(("precision", "place"), MODES)
@pytest.mark.filterwarnings("error")
def test_read_only_arrays(precision: exact.Precision, place: str) -> None:
    queries, vectors = draw(9, 4, 30, 5, 4)
    queries.flags.writeable = vectors.flags.writeable = False
    np.testing.assert_array_equal(top_k(queries, vectors, 3, precision, place)[0], slow(queries, vectors, 3)[0])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.usefixtures("small_pieces")
def test_a_tensor_is_searched_without_a_copy(precision: exact.Precision) -> None:
    queries, vectors = draw(3, 5, 40, 4, 3)
    tensor = torch.from_numpy(vectors)
    index = Exact(tensor, precision, "cpu:0")
    assert index.held.single.data_ptr() == tensor.data_ptr()
    for found, expected in zip(index.top(queries, 6), slow(queries, vectors, 6), strict=True):
        np.testing.assert_array_equal(found, expected)
    tensor[17, 2] = torch.inf
    with pytest.raises(DataError, match="vectors: row 17 holds a number that is not finite"):
        Exact(tensor, precision, "cpu:0")


@pytest.mark.usefixtures("small_pieces")
def test_tensors_are_normalised_as_arrays_are() -> None:
    vectors = np.random.default_rng(4).standard_normal((20, 6)).astype(np.float32)
    vectors[3] = 0
    np.testing.assert_allclose(
        device.normalise_(torch.from_numpy(vectors.copy())).numpy(), normalised(vectors), atol=1e-7
    )


def test_prepared_vectors_answer_again() -> None:
    queries, vectors = draw(4, 6, 50, 4, 5)
    index = Exact(vectors, "bf16")
    for k in (1, 60, 5):
        np.testing.assert_array_equal(index.top(queries, k)[0], slow(queries, vectors, k)[0])


def test_nothing_to_search() -> None:
    assert top_k(np.zeros((2, 3), np.float32), np.zeros((0, 3), np.float32), 5)[0].shape == (2, 0)
    assert top_k(np.zeros((0, 3), np.float32), np.zeros((4, 3), np.float32), 3)[1].shape == (0, 3)


@pytest.mark.parametrize(("threads", "parts"), [(1, [1024, 476]), (2, [750, 750])])
def test_reports_its_progress(threads: int, parts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", str(threads))
    events: list[tuple[str, int]] = []

    class Listener:
        def start(self, name: str, total: int | None) -> int:
            events.append((name, total or 0))
            return 0

        def advance(self, handle: int, amount: int) -> None:
            events.append(("more", amount))

        def finish(self, handle: int) -> None: ...

    queries, vectors = draw(5, 1500, 20, 4, 5)
    with listening(Listener()):
        top_k(queries, vectors, 3)
    assert events == [("searching", 1500), *(("more", part) for part in parts)]


def test_bad_input() -> None:
    good = np.ones((3, 2), np.float32)
    bad = good.copy()
    bad[1, 0] = np.nan
    with pytest.raises(DataError, match="vectors: row 1 holds a number that is not finite"):
        top_k(good, bad, 1)
    with pytest.raises(DataError, match="queries: row 1 holds"):
        top_k(bad, good, 1)
    with pytest.raises(DataError, match=r"queries of shape \(3, 2\) do not fit vectors of shape \(3, 4\)"):
        top_k(good, np.ones((3, 4), np.float32), 1)
    with pytest.raises(DataError, match="matrix, got shape"):
        top_k(good, np.ones(3, np.float32), 1)
    with pytest.raises(DataError, match="k must be at least 1, got 0"):
        top_k(good, good, 0)
    with pytest.raises(DataError, match="'fp32' or 'bf16', not 'fp8'"):
        top_k(good, good, 1, "fp8")  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu() -> None:
    good = np.ones((3, 2), np.float32)
    with pytest.raises(DataError, match="no GPU that torch can use; pass device='cpu'"):
        top_k(good, good, 1, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu(precision: exact.Precision) -> None:
    queries, vectors = draw(6, 2000, 200_000, 16, 3)
    rows, scores = top_k(queries, vectors, 20, precision, "cuda")
    expected = slow(queries[:50], vectors, 20)
    np.testing.assert_array_equal(scores[:50], expected[1])
    np.testing.assert_array_equal(rows[:50], expected[0])


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    good = np.ones((3, 2), np.float32)
    assert top_k(good, good, 1)[0].tolist() == [[0], [0], [0]]
    with pytest.raises(MissingExtra, match=r"bf16 needs torch.*longtail\[nn\]"):
        top_k(good, good, 1, "bf16")
    with pytest.raises(MissingExtra, match=r"'cuda' needs torch.*longtail\[nn\]"):
        top_k(good, good, 1, device="cuda")
