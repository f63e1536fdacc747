"""Labels that were added to a model, in PostgreSQL: every process that serves a model of this name has the same ones.

    longtail_added_labels: number, model, id, text, added      a label a row; the same order for everybody

Whoever adds labels locks their model (an advisory lock) before it looks which there are, until they are committed. So
no id gets two texts, and a number is never committed after a larger one: a process that asks for the rows beyond the
last one it has misses none, however long it was away. They are asked for, not sent by NOTIFY, which poolers lose.

A label is acknowledged after its commit. What a process that dies had begun is rolled back; so is, after `STUCK`
seconds, what one had begun that hangs, and its lock is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from longtail.errors import DataError, LongtailError, MissingExtra
from longtail.serve.journal import Entry

TABLE = "longtail_added_labels"
WAIT, STUCK = 10, 60  # seconds to wait for the lock, and after which a holder that does nothing loses it
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
# A server that vanishes is noticed within seconds. No prepared statements: poolers mix the sessions that have them.
CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "client_encoding": "utf8",
    "application_name": "longtail serve",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class NotStored(LongtailError):
    """The database does not answer, or refuses."""


class StoredLabel(NamedTuple):
    """A row of the table."""

    number: int
    entry: Entry


class SharedLabels:
    """The added labels of a model. One thread at a time may use it.

    Args:
        address: postgresql://user@host/database, or any other form that libpq accepts.
        model: the name that the model is served by.

    Raises:
        NotStored: the database does not answer, or refuses.
        MissingExtra: psycopg is not installed.
    """

    def __init__(self, address: str, model: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("psycopg", "database", "longtail serve --database") from None
        self._psycopg, self._address, self._model = psycopg, address, model
        self._connection: Any = None
        with self._transaction() as connection:
            connection.execute(LOCK, [f"{TABLE}: made"])
            # Looked for first: where the table is, the right to make one is not needed.
            if connection.execute("SELECT to_regclass(%s)", [TABLE]).fetchone() == (None,):
                connection.execute(
                    f"CREATE TABLE {TABLE} (number bigint GENERATED ALWAYS AS IDENTITY, model text NOT NULL, "
                    "id text NOT NULL, text text NOT NULL, added timestamptz NOT NULL DEFAULT now(), "
                    "PRIMARY KEY (model, number))"
                )

    def after(self, number: int) -> list[StoredLabel]:
        """The labels beyond a number, in their order.

        Args:
            number: the last one that is known; 0: all.

        Returns:
            Rows.

        Raises:
            NotStored: the database does not answer, or refuses.
        """
        with self._transaction() as connection:
            return self._after(connection, number)

    @contextmanager
    def adding(self, number: int) -> Iterator[tuple[list[StoredLabel], Callable[[Sequence[Entry]], int]]]:
        """Lets nobody else add labels until the end of the block, which commits what was written, or none on an error.

        Args:
            number: the last one that is known.

        Yields:
            The rows beyond it, and a function that writes labels and returns the number of the last.

        Raises:
            NotStored: the database does not answer, or refuses. Where that happens at the commit, the labels may be
                there.
        """
        with self._transaction() as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{WAIT}s'")
            connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{STUCK}s'")
            # A server may be set to confirm a commit before it is on its disk.
            connection.execute(
                "SELECT set_config(name, 'on', true) FROM pg_settings "
                "WHERE name = 'synchronous_commit' AND setting = 'off'"
            )
            connection.execute(LOCK, [f"{TABLE}: {self._model}"])

            def write(entries: Sequence[Entry]) -> int:
                try:
                    "".join(word for entry in entries for word in entry).encode()
                except UnicodeEncodeError:
                    raise DataError("a label has half a character, which a database cannot keep; remove it") from None
                rows = connection.execute(
                    f"INSERT INTO {TABLE} (model, id, text) "
                    "SELECT %s::text, id, text FROM unnest(%s::text[], %s::text[]) "
                    "WITH ORDINALITY AS new (id, text, place) ORDER BY place RETURNING number",
                    [self._model, [entry.id for entry in entries], [entry.text for entry in entries]],
                ).fetchall()
                last: int = max(found for (found,) in rows)
                return last

            yield self._after(connection, number), write

    def close(self) -> None:
        """Closes the connection; the next use makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._psycopg.Error):
                connection.close()

    def _after(self, connection: Any, number: int) -> list[StoredLabel]:
        rows = connection.execute(
            f"SELECT number, id, text FROM {TABLE} WHERE model = %s AND number > %s ORDER BY number",
            [self._model, number],
        )
        return [StoredLabel(found, Entry(name, text)) for found, name, text in rows]

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            if self._connection is None:
                self._connection = self._psycopg.connect(self._address, **CONNECTION)
            with self._connection.transaction():
                yield self._connection
        except self._psycopg.Error as error:
            self.close()
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise NotStored(f"the database of added labels refused: {reason}") from None
