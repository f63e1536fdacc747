"""Label vectors in PostgreSQL with the `vector` extension (pgvector): loaded whole or not at all, searched there.

A table holds a label a row: row, id, text, count, vector. Its comment is JSON that says whose vectors they are, so that
a model never searches another's. From 50,000 labels up it gets an HNSW index and answers are approximate, as pgvector's
are; below, and where vectors have more numbers than the index takes, every vector is compared.
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
INDEXED = 50_000  # labels from which an index pays for what it misses
MOST_INDEXED = 2_000  # numbers of a vector that pgvector's index takes
MOST = 16_000  # and that its type takes
EFFORT = 200  # hnsw.ef_search: candidates looked at; never below k
MOST_EFFORT = 1_000  # pgvector's limit; for larger k every vector is compared
ASKED = 256  # queries in one round trip


@dataclass(frozen=True)
class Table:
    """Where the vectors lie: `postgresql://user@host/database` (or what else libpq takes), and a table's name."""

    address: str
    name: str = TABLE

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,47}", self.name):
            raise DataError(f"a table's name is of letters, digits and _, at most 48, got {self.name!r}")

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction; what the server says against it becomes one line, without the address and its password."""
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
        """Put the vectors there in place of what the table held; True where they got an index.

        `index` asks for one or forbids it. Readers see the old table until the new one is complete.
        """
        labels, dimension = vectors.shape
        if dimension > MOST:
            raise DataError(f"vectors of {dimension:,} numbers do not fit pgvector, which takes {MOST:,}")
        if index and dimension > MOST_INDEXED:
            raise DataError(
                f"pgvector's index takes vectors of up to {MOST_INDEXED:,} numbers, these have {dimension:,}"
            )
        indexed = labels >= INDEXED and dimension <= MOST_INDEXED if index is None else index
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
                for begin in range(0, labels, ASKED):
                    part = slice(begin, begin + ASKED)
                    copy.write(_copied(begin, vectors[part], ids[part], texts[part], counts[part]))
                    advance(len(vectors[part]))
                copy.write(struct.pack(">h", -1))
            if indexed:
                with stage("building the index"):
                    cursor.execute(f'CREATE INDEX ON "{new}" USING hnsw (vector vector_ip_ops)')
            self._take_over(cursor, new, facts)
        return indexed

    def _take_over(self, cursor: psycopg.Cursor[Any], new: str, facts: dict[str, Any]) -> None:
        from psycopg import sql

        cursor.execute("SELECT obj_description(to_regclass(%s))", [f'"{self.name}"'])
        found = cursor.fetchone()
        known = found is not None and _facts(found[0]) is not None
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{self.name}"'])
        there = cursor.fetchone()
        if there is not None and there[0] and not known:
            raise DataError(
                f"the table {self.name} is not longtail's and is left alone; give another name with --table"
            )
        cursor.execute(f'DROP TABLE IF EXISTS "{self.name}"')
        cursor.execute(f'ALTER TABLE "{new}" RENAME TO "{self.name}"')
        comment = sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(self.name), json.dumps(facts))
        cursor.execute(comment)


@dataclass(frozen=True, eq=False)
class Stored:
    """A loaded table, to be searched by inner product."""

    table: Table
    vectors: str  # their fingerprint: those of the model that asks

    def top(self, queries: Floats, k: int) -> tuple[Ints, Floats]:
        """Rows and inner products (queries, min(k, labels)), best first; -1 and -inf where none is found."""
        labels = self._labels
        k = min(k, labels)
        rows = np.full((len(queries), k), -1, dtype=np.int32)
        products = np.full((len(queries), k), -np.inf, dtype=np.float32)
        if not len(queries) or k < 1:
            return rows, products
        with self.table.connected() as connection, stage("asking the database", total=len(queries)) as advance:
            cursor = connection.cursor()
            if k > MOST_EFFORT:
                cursor.execute("SET LOCAL enable_indexscan = off")
            else:
                cursor.execute(f"SET LOCAL hnsw.ef_search = {max(k, EFFORT)}")
            for begin in range(0, len(queries), ASKED):
                piece = queries[begin : begin + ASKED]
                cursor.execute(
                    f"""SELECT asked.place, found.row, found.distance
                    FROM unnest(%s::text[]) WITH ORDINALITY AS asked(vector, place)
                    CROSS JOIN LATERAL (
                        SELECT row, vector <#> asked.vector::vector AS distance FROM "{self.table.name}"
                        ORDER BY vector <#> asked.vector::vector LIMIT {k}
                    ) AS found ORDER BY asked.place, found.distance, found.row""",
                    [[_written(vector) for vector in piece]],
                )
                filled = np.zeros(len(piece), dtype=np.int64)
                for place, row, distance in cursor:
                    number = place - 1
                    rows[begin + number, filled[number]] = row
                    products[begin + number, filled[number]] = -distance
                    filled[number] += 1
                advance(len(piece))
        return rows, products

    @cached_property
    def _labels(self) -> int:
        """How many there are, once it is known that they are this model's."""
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
    """Tells vectors and their labels from any others."""
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
            f"the database lacks the extension vector, and it cannot be made here ({_first_line(error)}); install "
            "pgvector on the server (Debian: postgresql-NN-pgvector) and run CREATE EXTENSION vector as its owner"
        ) from None


def _copied(first: int, vectors: Floats, ids: Sequence[str], texts: Sequence[str], counts: Longs) -> bytes:
    """Some labels in PostgreSQL's binary copy format."""
    dimension = vectors.shape[1]
    head = struct.pack(">ihh", 4 + 4 * dimension, dimension, 0)  # the field's length, then pgvector's own header
    lines = []
    for place, vector in enumerate(vectors.astype(">f4")):
        words = b"".join(struct.pack(">i", len(word)) + word for word in map(_text, (ids[place], texts[place])))
        number = struct.pack(">hii", 5, 4, first + place)
        lines.append(number + words + struct.pack(">iq", 8, counts[place]) + head + vector.tobytes())
    return b"".join(lines)


def _text(word: str) -> bytes:
    """What PostgreSQL takes for text: UTF-8 without NUL."""
    return word.replace("\x00", "\ufffd").encode("utf-8", "replace")


def _written(vector: Floats) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def _facts(comment: str | None) -> dict[str, Any] | None:
    try:
        facts = json.loads(comment or "")
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == 1 and "vectors" in facts else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
