"""Added labels in a real PostgreSQL: every replica has them, in one order, and none is lost."""

from __future__ import annotations

import http.client
import importlib.util
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_process import Process, wait_for
from serving import serving

from longtail.errors import DataError, ModelError
from longtail.serve.journal import Entry, Journal, journal_of
from longtail.serve.models import IdTaken, Served, load_models
from longtail.serve.shared_labels import TABLE, NotStored, SharedLabels

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'longtail[database]'")
_place = Path(__file__).parent.parent / "search" / "postgres_server.py"
_spec = importlib.util.spec_from_file_location("postgres_of_serving", _place)
assert _spec is not None and _spec.loader is not None
_postgres = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_postgres)
server = _postgres.server  # a fixture


@pytest.fixture
def database(server: str) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    yield server
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")


def test_who_adds_later_sees_what_was_added_before_and_nobody_misses_a_number(database: str) -> None:
    """Numbers that two transactions take at once may be committed in the other order: then a reader would miss one."""
    first, second, reader = (SharedLabels(database, "m") for _ in range(3))
    taken = threading.Event()
    seen: list[list[str]] = []

    def later() -> None:
        taken.wait(60)
        with second.adding(0) as (others, write):
            seen.append([row.entry.id for row in others])
            write([Entry("b", "two"), Entry("c", "three")])

    thread = threading.Thread(target=later)
    thread.start()
    with first.adding(0) as (others, write):
        assert others == []
        write([Entry("a", "ümläut ' \\ 城\n")])
        taken.set()
        assert reader.after(0) == []  # not before it is committed
        thread.join(0.5)
        assert thread.is_alive()  # the second waits for the lock
    thread.join(60)
    assert seen == [["a"]]
    rows = reader.after(0)
    assert [row.entry.id for row in rows] == ["a", "b", "c"] and rows[0].entry.text == "ümläut ' \\ 城\n"
    assert [row.entry.id for row in reader.after(rows[0].number)] == ["b", "c"]
    assert SharedLabels(database, "another").after(0) == []
    with pytest.raises(ValueError), first.adding(0) as (_, write):
        write([Entry("d", "four")])
        raise ValueError
    assert len(reader.after(0)) == 3  # none of what an error cut short
    for one in (first, second, reader):
        one.close()


def test_replicas_have_the_same_labels_whoever_added_them(folders: tuple[Path, Path], database: str) -> None:
    one, two = (Served("towers", folders[0], database=database) for _ in range(2))
    assert one.add([Entry("x", "sea glass")]) == (["x"], [])
    assert two.add([Entry("x", "sea glass"), Entry("y", "beach")]) == (["y"], ["x"])  # taken in before its own
    with pytest.raises(IdTaken, match="'y' exists"):
        one.add([Entry("z", "fine"), Entry("y", "another text")])
    one.catch_up()
    assert one.now.model.labels.ids == two.now.model.labels.ids
    assert one.now.model.labels.ids[10:] == ("x", "y") and "z" not in one.now.model.labels.ids
    with pytest.raises(DataError, match="half a character"):
        one.add([Entry("h", "half \ud800")])
    away = Served("towers", folders[0], database=database)
    assert away.now.model.labels.ids == one.now.model.labels.ids
    with psycopg.connect(database, autocommit=True) as connection:  # as a server that was started again
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'longtail serve'"
        )
    with pytest.raises(NotStored, match="database of added labels"):
        two.catch_up()
    assert two.add([Entry("w", "after")]) == (["w"], [])
    for served in (one, two, away):
        served.close()
    assert not journal_of(folders[0]).exists()


def test_labels_of_a_journal_are_not_left_out_silently(folders: tuple[Path, Path], database: str) -> None:
    with Journal(journal_of(folders[0])) as journal:
        journal.add([Entry("n", "new one")])
    with pytest.raises(ModelError, match="add them once more"):
        Served("towers", folders[0], database=database)


def test_a_database_that_does_not_answer_is_named_without_its_password(folders: tuple[Path, Path]) -> None:
    with pytest.raises(NotStored, match="database of added labels refused") as caught:
        Served("towers", folders[0], database="postgresql://me:hidden@127.0.0.1:1/none")
    assert "hidden" not in str(caught.value)


def test_three_replicas_lose_nothing_when_one_is_killed(folders: tuple[Path, Path], database: str) -> None:
    killed = Process(folders[0], "--workers", 2, "--database", database)
    acknowledged: list[str] = []
    by_killed: list[str] = []
    stop = threading.Event()

    def add(ask: Any, mine: list[str], name: str) -> None:
        for number in range(10_000):
            # Every third label is one that the other replicas are given, too.
            label = f"common label {number}" if number % 3 == 0 else f"label {number} of {name}"
            try:
                status, answer = ask({"labels": [{"text": label}]})
            except (OSError, http.client.HTTPException, ValueError):
                return
            if status == 200:
                mine.extend((*answer["added"], *answer["known"]))
            if stop.is_set():
                return

    first, second = (load_models([str(folders[0])], database=database) for _ in range(2))
    with serving(models=first) as one, serving(models=second) as two:
        try:
            killed.wait_until_ready()

            def posting(running: Any) -> Any:
                def post(body: Any) -> tuple[int, Any]:
                    reply = running.post("/labels", body)
                    return reply.status, reply.json

                return post

            asks = [(posting(one), acknowledged, "one"), (posting(two), acknowledged, "two")]
            asks += [(lambda body: killed.ask("POST", "/labels", body), by_killed, f"three {n}") for n in range(2)]
            adders = [threading.Thread(target=add, args=each, daemon=True) for each in asks]
            for adder in adders:
                adder.start()
            wait_for(lambda: len(by_killed) >= 6 and len(acknowledged) >= 6, 120)
        finally:
            for pid in (*killed.workers(), killed.running.pid):
                os.kill(pid, signal.SIGKILL)
            killed.running.wait(60)
        before = len(acknowledged)
        wait_for(lambda: len(acknowledged) >= before + 6, 120)  # the others go on
        stop.set()
        for adder in adders:
            adder.join(120)
        wanted = {*acknowledged, *by_killed}
        with psycopg.connect(database) as connection:
            stored = [name for (name,) in connection.execute(f"SELECT id FROM {TABLE} ORDER BY number")]
        assert len(set(stored)) == len(stored) and wanted <= set(stored)
        for running in (one, two):
            wait_for(lambda running=running: len(running.service.model(None).now.model.labels) == 10 + len(stored))
            assert list(running.service.model(None).now.model.labels.ids[10:]) == stored
            answer = running.post("/predict", {"text": by_killed[-1], "k": 1000}).json["answers"][0]["labels"]
            assert by_killed[-1] in [label["id"] for label in answer]
            assert "longtail_database 1\n" in running.get("/metrics").body.decode()
