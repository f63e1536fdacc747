"""Exact search while it is affordable, an approximate index when it is not, each with a readable reason."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.search import choose as choosing
from longtail.search.approximate import Approximate
from longtail.search.choose import choose, index_for
from longtail.search.exact import Exact


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "2")
    monkeypatch.setattr(choosing, "find_spec", lambda name: object())


def test_few_vectors() -> None:
    choice = choose(5_000, 384, queries=10_000_000)
    assert choice.kind == "exact"
    assert choice.reason == "exact search: 5,000 vectors of 384 are few enough to compare with all"


def test_a_test_split_is_not_worth_a_graph() -> None:
    choice = choose(131_072, 384, queries=10_000)
    assert choice.kind == "exact"
    assert choice.reason.startswith("exact search: 10,000 queries over 131,072 vectors of 384 take about ")
    assert "building a graph first would take" in choice.reason


def test_many_queries_over_many_vectors_are_worth_a_graph() -> None:
    choice = choose(1_300_000, 384, queries=10_000_000)
    assert choice.kind == "hnsw"
    assert "to build" in choice.reason and choice.reason.startswith("approximate search: 10,000,000 queries over")


def test_the_more_queries_the_more_a_graph_pays() -> None:
    kinds = [choose(1_000_000, 384, queries=10**power).kind for power in range(10)]
    assert kinds == sorted(kinds) and len(set(kinds)) == 2


def test_a_service_is_judged_by_the_latency_of_one_query() -> None:
    assert choose(50_000, 384, queries=None).kind == "exact"
    choice = choose(3_000_000, 768, queries=None)
    assert choice.kind == "hnsw"
    assert "more than the 50 ms that a service may take" in choice.reason


def test_a_gpu_compares_with_all() -> None:
    choice = choose(3_000_000, 768, queries=None, device="cuda")
    assert choice.kind == "exact" and "cuda" in choice.reason


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "find_spec", lambda name: None)
    choice = choose(3_000_000, 768, queries=None)
    assert choice.kind == "exact"
    assert "pip install 'longtail[search]'" in choice.reason


def test_the_index_follows_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    vectors = np.random.default_rng(0).standard_normal((400, 8), dtype=np.float32)
    index, reason = index_for(vectors, queries=None, precision="bf16")
    assert isinstance(index, Exact) and index.precision == "bf16"
    assert reason == "exact search: 400 vectors of 8 are few enough to compare with all"
    monkeypatch.setattr(choosing, "FEW", 10)
    monkeypatch.setattr(choosing, "PATIENCE", 0.0)
    found, reason = index_for(vectors, queries=None, sample=vectors[:50])
    assert isinstance(found, Approximate)
    assert reason.startswith("approximate search: one query over 400 vectors of 8")
    assert f"finds {found.recall:.3f} of the exact top 10 of 50 of the queries given" in reason
    np.testing.assert_array_equal(found.top(vectors[:20], 1)[0], index.top(vectors[:20], 1)[0])


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0204, "20 ms"), (3.4, "3 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert choosing._time(seconds) == words
