"""Reading MySQL dumps: what was written must come back, however it is cut."""

from __future__ import annotations

import gzip
import lzma
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.data import files, wikipedia_sql
from longtail.data.wikipedia_sql import NULL, open_table
from longtail.errors import DataError

Value = bytes | int | None
ESCAPES = {0: rb"\0", 10: rb"\n", 13: rb"\r", 26: rb"\Z", 34: rb"\"", 39: rb"\'", 92: rb"\\"}  # as mysqldump writes
CREATE = b"""-- MySQL dump 10.19  Distrib 10.4.26-MariaDB, for debian-linux-gnu (x86_64)
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `thing`;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `thing` (
  `id` int(8) unsigned NOT NULL DEFAULT 0,
  `title` varbinary(255) DEFAULT NULL,
  `sortkey` varbinary(230) NOT NULL DEFAULT '),(',
  `kind` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  PRIMARY KEY (`id`,`title`),
  KEY `kind` (`kind`,`sortkey`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;
/*!40000 ALTER TABLE `thing` DISABLE KEYS */;
"""
END = b"/*!40000 ALTER TABLE `thing` ENABLE KEYS */;\n-- Dump completed on 2023-03-02  4:00:00\n"


def literal(value: Value) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % value
    return b"'" + b"".join(ESCAPES.get(byte, bytes([byte])) for byte in value) + b"'"


def insert(*rows: tuple[Value, ...], between: bytes = b",", before: bytes = b" ") -> bytes:
    tuples = between.join(b"(" + b",".join(map(literal, row)) + b")" for row in rows)
    return b"INSERT INTO `thing` VALUES" + before + tuples + b";\n"


def written(folder: Path, *statements: bytes, name: str = "xx-thing.sql.gz", create: bytes = CREATE) -> Path:
    path = folder / name
    data = create + b"".join(statements) + END
    path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(data))
    return path


def read(path: Path) -> list[tuple[Value, ...]]:
    found: list[tuple[Value, ...]] = []
    for batch in open_table(path, "thing").batches(("sortkey", "id", "title")):
        everything = np.arange(len(batch))
        columns = (
            batch.integers("id").tolist(),
            batch.strings("title", everything),
            batch.strings("sortkey", everything),
        )
        found.extend(zip(*columns, strict=True))
    return found


NASTY = [
    (1, b"plain", b"key", b"page"),
    (2, b"it's", b"),(3,'no','no','page'),(", b"page"),
    (3, b"back\\slash\\", b"\xff\xfe\x00\x1a\n\r\t\x80", b"subcat"),
    (4, b"'", b"''", b"file"),
    (5, b"", b";\nINSERT INTO `thing` VALUES (9,'x','y','page');", b"page"),
    (6, "Ünïcödé_日本".encode(), b'"double"', b"subcat"),
    (7, b"NULL", b"ends in a backslash\\", b"page"),
    (8, None, b",,,", b"page"),
]
AS_READ = [(row[0], row[1] or b"", row[2]) for row in NASTY]


@pytest.mark.parametrize("name", ["thing.sql", "xx-thing.sql.gz", "xx-thing.sql.xz"])
def test_nasty_values(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, insert(*NASTY[:3]), insert(*NASTY[3:]), name=name)
    assert open_table(path, "thing").columns == ("id", "title", "sortkey", "kind")
    assert read(path) == AS_READ


def test_one_tuple_a_line(tmp_path: Path) -> None:
    """As newer mysqldump writes them."""
    assert read(written(tmp_path, insert(*NASTY, between=b",\n", before=b"\n"))) == AS_READ


def test_raw_line_feeds_doubled_quotes_and_prefixes(tmp_path: Path) -> None:
    """Not what mysqldump writes by default, but SQL all the same."""
    statement = (
        b"INSERT INTO `thing` VALUES (1,'two\nlines','it''s',_binary 'page'),\n(2,_binary 'a\\'b','\n','file');\n"
    )
    assert read(written(tmp_path, statement)) == [(1, b"two\nlines", b"it's"), (2, b"a'b", b"\n")]


def test_a_column_list(tmp_path: Path) -> None:
    same = b"INSERT INTO `thing` (`id`, `title`, `sortkey`, `kind`) VALUES (1,'a','b','page');\n"
    assert read(written(tmp_path, same)) == [(1, b"a", b"b")]
    other = b"INSERT INTO `thing` (`title`, `id`, `sortkey`, `kind`) VALUES ('a',1,'b','page');\n"
    with pytest.raises(DataError, match=r"thing.sql.gz:14: its columns are not those of CREATE TABLE"):
        read(written(tmp_path, other))


value = st.one_of(st.none(), st.binary(max_size=12), st.text("'\\,();\n", max_size=8).map(str.encode))
row = st.tuples(st.integers(-(10**17), 10**17), value, st.binary(max_size=20), st.just(b"page"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    statements=st.lists(st.lists(row, min_size=1, max_size=6), max_size=4),
    chunk=st.sampled_from([16, 100, 1 << 20]),
    at_once=st.sampled_from([1, 3, 1000]),
    between=st.sampled_from([b",", b",\n", b" , "]),
)
def test_what_is_written_comes_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statements: list[list[tuple[Value, ...]]],
    chunk: int,
    at_once: int,
    between: bytes,
) -> None:
    monkeypatch.setattr(files, "CHUNK", chunk)
    monkeypatch.setattr(wikipedia_sql, "ROWS", at_once)
    path = written(tmp_path, *(insert(*rows, between=between) for rows in statements), name="thing.sql")
    expected = [(row[0], row[1] or b"", row[2]) for rows in statements for row in rows]
    assert read(path) == expected


def test_integers_and_equal(tmp_path: Path) -> None:
    rows = [(1, None, b"", b"page"), (-20, b"subcat", b"", b"subcat"), (18446744, b"sub", b"", b"subca")]
    (batch,) = open_table(written(tmp_path, insert(*rows)), "thing").batches(("id", "kind", "title"))
    assert batch.integers("id").tolist() == [1, -20, 18446744]
    assert batch.equal("kind", b"subcat").tolist() == [False, True, False]
    assert batch.equal("title", b"subcat").tolist() == [False, True, False]
    with pytest.raises(DataError, match="column title has b'subcat', not a whole number"):
        batch.integers("title")
    (batch,) = open_table(written(tmp_path, insert(*rows[:1])), "thing").batches(("title",))
    assert batch.integers("title").tolist() == [NULL]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (b"INSERT INTO `thing` VALUES (1,'a','b','page'),\n(2,'a','b');\n", "15: a tuple with more or fewer values"),
        (b"INSERT INTO `thing` VALUES (1,'a','b','page','more');\n", "14: a tuple with more or fewer values"),
        (b"INSERT INTO `thing` VALUES (1,'a'x,'b','page');\n", "14: not the values of an INSERT"),
        (b"INSERT INTO `thing` VALUES (1,'a','b','page') oops;\n", "14: not the values of an INSERT"),
        (b"INSERT INTO `thing` VALUES (1,'a','b','page),\n", "the file ends inside an INSERT"),
        (b"INSERT INTO `thing` VALUES (1,'a',\n", "the file ends inside an INSERT"),
    ],
)
def test_damaged_statements(tmp_path: Path, statement: bytes, words: str) -> None:
    path = written(tmp_path, statement)
    path.write_bytes(gzip.compress(CREATE + statement))
    with pytest.raises(DataError, match=words):
        read(path)


def test_the_line_is_right_however_the_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = b"INSERT INTO `thing` VALUES (1,'a value\nof three\nlines','b','page'),\n(2,'oops');\n"
    path = written(tmp_path, statement, name="thing.sql")
    for chunk in (8, 64, 1 << 20):
        monkeypatch.setattr(files, "CHUNK", chunk)
        with pytest.raises(DataError, match=r"thing.sql:17: a tuple with more or fewer values"):
            read(path)


def test_a_quote_that_never_closes_is_found_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikipedia_sql, "MAX_TUPLE", 1000)
    path = written(tmp_path, b"INSERT INTO `thing` VALUES (1,'" + b"x" * 2000, name="thing.sql")
    with pytest.raises(DataError, match="never closed"):
        read(path)


def test_damaged_files(tmp_path: Path) -> None:
    path = written(tmp_path, insert(*NASTY))
    whole = path.read_bytes()
    with pytest.raises(DataError, match="no such file"):
        open_table(tmp_path / "missing.sql.gz", "thing")
    with pytest.raises(DataError, match="no CREATE TABLE `page`"):
        open_table(path, "page")
    with pytest.raises(DataError, match=r"has no column other; it has id, title, sortkey, kind"):
        next(open_table(path, "thing").batches(("other",)))
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"thing.sql.gz"):
            read(path)
    path.write_bytes(CREATE)
    with pytest.raises(DataError, match=r"thing.sql.gz"):
        read(path)


@pytest.mark.parametrize("head", [b"\n" * 300_000, b"CREATE TABLE `a` (" * 50_000, CREATE[:-100] + b"\n " * 300_000])
def test_a_damaged_head_is_read_once(head: bytes, tmp_path: Path) -> None:
    path, begin = written(tmp_path, create=b"CREATE TABLE `thing` (" + head), time.process_time()
    with pytest.raises(DataError, match="has no CREATE TABLE"):
        open_table(path, "thing")
    path = written(tmp_path, create=b"CREATE TABLE `thing` (\n`id` int" + head + b"\n);\n")
    assert open_table(path, "thing").columns[0] == "id"
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("words", [b"INSERT INTO `thing`" + b" " * 300_000, b"INSERT INTO `thing` (" * 50_000])
def test_inserts_without_values_are_read_once(words: bytes, tmp_path: Path) -> None:
    path, begin = written(tmp_path, words + b"\n", insert((1, b"a", b"b", b"page"))), time.process_time()
    assert sum(map(len, open_table(path, "thing").batches(["id"]))) == 1
    assert time.process_time() - begin < 2
