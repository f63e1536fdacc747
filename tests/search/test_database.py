"""Label vectors in a real PostgreSQL; `postgres_server` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from postgres_server import GIVEN, has_vector, server

from longtail.errors import DataError
from longtail.search.database import Stored, VectorTable, fingerprint
from longtail.search.exact import top_k

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'longtail[database]'")
__all__ = ["server"]  # a fixture


@pytest.fixture
def table(server: str) -> Iterator[VectorTable]:
    table = VectorTable(server, "longtail_test")
    with table.connected() as connection:
        connection.execute('DROP TABLE IF EXISTS "longtail_test"')
    yield table
    with table.connected() as connection:
        connection.execute('DROP TABLE IF EXISTS "longtail_test"')


def made(labels: int, dimension: int = 24, seed: int = 0) -> tuple[np.ndarray, list[str], list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((labels, dimension)).astype(np.float32)
    ids = [f"id {row}" for row in range(labels)]
    texts = [f"text 'of' \\ {row}\tünï 城" for row in range(labels)]
    return vectors, ids, texts, rng.integers(0, 9, labels)


@pytest.mark.parametrize("k", [1, 7, 300])
def test_the_database_finds_what_exact_search_finds(table: VectorTable, k: int) -> None:
    vectors, ids, texts, counts = made(300)
    assert table.load(vectors, ids, texts, counts) is False  # few labels: exact
    queries = made(600, seed=1)[0]  # more than go in one round trip
    rows, products = Stored(table, fingerprint(vectors, ids)).top(queries, k)
    expected_rows, expected = top_k(queries, vectors, k)
    assert products == pytest.approx(expected, abs=1e-4)
    assert (rows == expected_rows).mean() > 0.999
    with table.connected() as connection:
        stored = connection.execute("SELECT id, text, count FROM longtail_test ORDER BY row").fetchall()
    assert stored == list(zip(ids, texts, counts.tolist(), strict=True))


def test_an_index_finds_nearly_all(table: VectorTable) -> None:
    vectors, ids, texts, counts = made(3000, 16)
    assert table.load(vectors, ids, texts, counts, index=True) is True
    queries = made(50, 16, seed=2)[0]
    stored = Stored(table, fingerprint(vectors, ids))
    rows, products = stored.top(queries, 10)
    expected = top_k(queries, vectors, 10)[0]
    found = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(rows, expected, strict=True)])
    assert found > 0.95
    assert (np.diff(products, axis=1) <= 0).all()
    many = stored.top(queries[:2], 1500)  # more than the index can return: every vector is compared
    assert many[0].min() >= 0
    assert many[1] == pytest.approx(top_k(queries[:2], vectors, 1500)[1], abs=1e-4)
    with table.connected() as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        vector = "[" + ",".join(map(str, queries[0].tolist())) + "]"
        plan = connection.execute(f"EXPLAIN SELECT row FROM longtail_test ORDER BY vector <#> '{vector}' LIMIT 5")
        assert "Index Scan" in str(plan.fetchall())


def test_loading_again_replaces_and_another_model_is_noticed(table: VectorTable) -> None:
    vectors, ids, texts, counts = made(40)
    table.load(vectors, ids, texts, counts)
    old = Stored(table, fingerprint(vectors, ids))
    assert old.top(vectors[:2], 1)[0].shape == (2, 1)
    table.load(vectors + 1, ids, texts, counts)
    with pytest.raises(DataError, match="another model"):
        Stored(table, fingerprint(vectors, ids)).top(vectors[:2], 1)
    new = Stored(table, fingerprint(vectors + 1, ids))
    assert new.top(vectors[:0], 3)[0].shape == (0, 3)


def test_a_table_of_somebody_else_is_left_alone(table: VectorTable) -> None:
    vectors, ids, texts, counts = made(5)
    with table.connected() as connection:
        connection.execute("CREATE TABLE longtail_test (precious text)")
    with pytest.raises(DataError, match="left alone"):
        table.load(vectors, ids, texts, counts)
    with table.connected() as connection:
        assert connection.execute("SELECT count(*) FROM longtail_test").fetchone() == (0,)
        left = connection.execute("SELECT to_regclass('longtail_test_new')").fetchone()
        assert left == (None,)
    with pytest.raises(DataError, match="no table longtail_test that longtail index wrote"):
        Stored(table, "x").top(vectors, 1)


def test_odd_words_go_in(table: VectorTable) -> None:
    vectors, _, _, counts = made(3)
    table.load(vectors, ["a\x00b", "lone \ud800", "tab\tnew\nline"], ["", "'; DROP TABLE x; --", "\\N"], counts)
    with table.connected() as connection:
        stored = connection.execute("SELECT id, text FROM longtail_test ORDER BY row").fetchall()
    assert stored == [("a\ufffdb", ""), ("lone ?", "'; DROP TABLE x; --"), ("tab\tnew\nline", "\\N")]


@pytest.mark.skipif(GIVEN is not None, reason="hides the extension of a server of PostgreSQL 18 as its superuser")
def test_a_server_without_the_extension_says_what_to_install(server: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare")
    bare = server.replace("/postgres?", "/bare?") + "&options=-c%20extension_control_path%3D/nowhere"
    assert not has_vector(bare)
    vectors, ids, texts, counts = made(3)
    with pytest.raises(DataError, match=r"lacks the extension vector.*not available.*postgresql-NN-pgvector"):
        VectorTable(bare).load(vectors, ids, texts, counts)


def test_wrong_addresses_names_and_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the database refused") as refused:
        VectorTable(f"postgresql://me:secret@/x?host={tmp_path}").load(*made(2))
    assert "secret" not in str(refused.value)
    for name in ("a b", 'x"; DROP TABLE y', "", "é", "a" * 49):
        with pytest.raises(DataError, match="a table's name"):
            VectorTable("postgresql:///x", name)
    with pytest.raises(DataError, match="do not fit pgvector"):
        VectorTable("postgresql:///x").load(*made(1, 16_001))
    with pytest.raises(DataError, match="index takes vectors of up to"):
        VectorTable("postgresql:///x").load(*made(1, 2_001), index=True)
