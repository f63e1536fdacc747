"""Label vectors in PostgreSQL with the `vector` extension (pgvector): loaded in one transaction, searched there.

The table has one row a label: row, id, text, count, vector. Its comment is JSON with a fingerprint of the vectors, so
that a model never searches the vectors of another. From 50,000 labels on, the table gets an HNSW index and search is
approximate. Below that, and where the dimension is too large for the index, every vector is compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.arrays import Floats, Ints, Longs
from longtail.errors import DataError, MissingExtra
from longtail.progress import stage

if TYPE_CHECKING:
    import psycopg

TABLE = "longtail_labels"
INDEXED = 50_000  # from this many labels on, the time an index saves is worth the labels it misses
MAX_INDEXED_DIMENSION = 2_000  # pgvector's limit for an index
MAX_DIMENSION = 16_000  # pgvector's limit for its vector type
EFFORT = 200  # hnsw.ef_search: candidates compared; never below k
MAX_EFFORT = 1_000  # pgvector's limit; for larger k every vector is compared
BATCH = 256  # queries or labels in one round trip


@dataclass(frozen=True)
class VectorTable:
    """A table of label vectors in a database."""

    address: str  # postgresql://user@host/database, or any other form that libpq accepts
    name: str = TABLE

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,47}", self.name):
            raise DataError(
                f"a table's name must consist of 1 to 48 letters, digits and _, and not begin with a digit, "
                f"got {self.name!r}"
            )

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection with one transaction.

        Yields:
            The connection. The transaction is committed at the end of the block, or rolled back on an error.

        Raises:
            DataError: the server refused; one line, without the address and its password.
            MissingExtra: psycopg is not installed.
        """
        psycopg = _psycopg()
        try:
            with psycopg.connect(self.address, connect_timeout=10, application_name="longtail") as connection:
                yield connection
        except psycopg.Error as error:
            raise DataError(f"the database refused: {_first_line(error)}") from None

    def load(
        self,
        vectors: Floats,  # (labels, dimension)
        ids: Sequence[str],
        texts: Sequence[str],
        counts: Longs,
        index: bool | None = None,
    ) -> bool:
        """Replace the table by these vectors. Other connections see the old table until the new one is complete.

        Args:
            vectors: (labels, dimension) float32.
            ids: label ids.
            texts: label texts.
            counts: (labels,) training counts.
            index: whether to build an HNSW index; None decides by the number of labels.

        Returns:
            Whether an index was built.

        Raises:
            DataError: the dimension is too large, the table is not longtail's, or the server refused.
        """
        labels, dimension = vectors.shape
        if dimension > MAX_DIMENSION:
            raise DataError(f"vectors of {dimension:,} numbers do not fit pgvector, which takes {MAX_DIMENSION:,}")
        if index and dimension > MAX_INDEXED_DIMENSION:
            raise DataError(
                f"pgvector's index takes vectors of up to {MAX_INDEXED_DIMENSION:,} numbers, these have {dimension:,}"
            )
        indexed = labels >= INDEXED and dimension <= MAX_INDEXED_DIMENSION if index is None else index
        facts = {"format": 1, "labels": labels, "dimension": dimension, "vectors": fingerprint(vectors, ids)}
        new = f"{self.name}_new"
        with self.connected() as connection:
            _ensure_extension(connection)
            cursor = connection.cursor()
            cursor.execute(f'DROP TABLE IF EXISTS "{new}"')
            columns = "row integer PRIMARY KEY, id text NOT NULL, text text NOT NULL, count bigint NOT NULL"
            cursor.execute(f'CREATE TABLE "{new}" ({columns}, vector vector({dimension}) NOT NULL)')
            with (
                stage("loading the database", total=labels) as advance,
                cursor.copy(f'COPY "{new}" FROM STDIN (FORMAT BINARY)') as copy,
            ):
                copy.write(b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0))
                for start in range(0, labels, BATCH):
                    part = slice(start, start + BATCH)
                    copy.write(_binary_rows(start, vectors[part], ids[part], texts[part], counts[part]))
                    advance(len(vectors[part]))
                copy.write(struct.pack(">h", -1))
            if indexed:
                with stage("building the index"):
                    cursor.execute(f'CREATE INDEX ON "{new}" USING hnsw (vector vector_ip_ops)')
            self._replace_table(cursor, new, facts)
        return indexed

    def _replace_table(self, cursor: psycopg.Cursor[Any], new: str, facts: dict[str, Any]) -> None:
        from psycopg import sql

        cursor.execute("SELECT obj_description(to_regclass(%s))", [f'"{self.name}"'])
        found = cursor.fetchone()
        ours = found is not None and _facts(found[0]) is not None
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{self.name}"'])
        exists = cursor.fetchone()
        if exists is not None and exists[0] and not ours:
            raise DataError(
                f"the table {self.name} is not longtail's and is left alone; give another name with --table"
            )
        cursor.execute(f'DROP TABLE IF EXISTS "{self.name}"')
        cursor.execute(f'ALTER TABLE "{new}" RENAME TO "{self.name}"')
        comment = sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(self.name), json.dumps(facts))
        cursor.execute(comment)


@dataclass(frozen=True, eq=False)
class Stored:
    """A loaded table, for search by inner product."""

    table: VectorTable
    vectors: str  # fingerprint of the model's vectors; the table must hold these

    def top(self, queries: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the best labels for each query.

        Args:
            queries: (queries, dimension) float32.
            k: number of labels for each query.

        Returns:
            Rows (int32) and inner products (float32), each (queries, min(k, labels)), best first; -1 and -inf where
            the index finds fewer.

        Raises:
            DataError: the table is missing, holds the vectors of another model, or the server refused.
        """
        labels = self._labels
        k = min(k, labels)
        rows = np.full((len(queries), k), -1, dtype=np.int32)
        products = np.full((len(queries), k), -np.inf, dtype=np.float32)
        if not len(queries) or k < 1:
            return rows, products
        with self.table.connected() as connection, stage("querying the database", total=len(queries)) as advance:
            cursor = connection.cursor()
            if k > MAX_EFFORT:
                cursor.execute("SET LOCAL enable_indexscan = off")
            else:
                cursor.execute(f"SET LOCAL hnsw.ef_search = {max(k, EFFORT)}")
            for start in range(0, len(queries), BATCH):
                piece = queries[start : start + BATCH]
                cursor.execute(
                    f"""SELECT query.place, found.row, found.distance
                    FROM unnest(%s::text[]) WITH ORDINALITY AS query(vector, place)
                    CROSS JOIN LATERAL (
                        SELECT row, vector <#> query.vector::vector AS distance FROM "{self.table.name}"
                        ORDER BY vector <#> query.vector::vector LIMIT {k}
                    ) AS found ORDER BY query.place, found.distance, found.row""",
                    [[_vector_literal(vector) for vector in piece]],
                )
                filled = np.zeros(len(piece), dtype=np.int64)
                for place, row, distance in cursor:
                    number = place - 1
                    rows[start + number, filled[number]] = row
                    products[start + number, filled[number]] = -distance
                    filled[number] += 1
                advance(len(piece))
        return rows, products

    @cached_property
    def _labels(self) -> int:
        """The number of labels, after a check that the table holds this model's vectors."""
        with self.table.connected() as connection:
            found = connection.execute("SELECT obj_description(to_regclass(%s))", [f'"{self.table.name}"']).fetchone()
        facts = None if found is None else _facts(found[0])
        if facts is None:
            raise DataError(
                f"the database has no table {self.table.name} that longtail index wrote; run it first, or give --table"
            )
        if facts.get("vectors") != self.vectors:
            raise DataError(f"the table {self.table.name} holds the vectors of another model; run longtail index again")
        return int(facts["labels"])


def fingerprint(vectors: Floats, ids: Sequence[str]) -> str:
    """Hash label vectors together with their ids.

    Args:
        vectors: (labels, dimension) float32.
        ids: label ids.

    Returns:
        32 hexadecimal digits; other vectors or ids give others.
    """
    digest = hashlib.blake2b(json.dumps([list(vectors.shape), list(ids)]).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
    return digest.hexdigest()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "database", "a PostgreSQL database") from None
    return psycopg


def _ensure_extension(connection: psycopg.Connection[Any]) -> None:
    psycopg = _psycopg()
    if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
        return
    try:
        connection.execute("CREATE EXTENSION vector")
    except psycopg.Error as error:
        raise DataError(
            f"the database lacks the extension vector, and creating it failed ({_first_line(error)}); install "
            "pgvector on the server (Debian: postgresql-NN-pgvector) and run CREATE EXTENSION vector as its owner"
        ) from None


def _binary_rows(first: int, vectors: Floats, ids: Sequence[str], texts: Sequence[str], counts: Longs) -> bytes:
    """Labels from row `first` on, in PostgreSQL's binary copy format."""
    dimension = vectors.shape[1]
    head = struct.pack(">ihh", 4 + 4 * dimension, dimension, 0)  # the field's length, then pgvector's own header
    lines = []
    for place, vector in enumerate(vectors.astype(">f4")):
        words = b"".join(struct.pack(">i", len(word)) + word for word in map(_text, (ids[place], texts[place])))
        number = struct.pack(">hii", 5, 4, first + place)
        lines.append(number + words + struct.pack(">iq", 8, counts[place]) + head + vector.tobytes())
    return b"".join(lines)


def _text(word: str) -> bytes:
    """UTF-8 without NUL, which PostgreSQL does not accept in text."""
    return word.replace("\x00", "\ufffd").encode("utf-8", "replace")


def _vector_literal(vector: Floats) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def _facts(comment: str | None) -> dict[str, Any] | None:
    try:
        facts = json.loads(comment or "")
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == 1 and "vectors" in facts else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
