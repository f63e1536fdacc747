"""Slow, idle and greedy clients of one address do not lock out others. Each address of 127/8 is a client here."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import Running, drain, serving

from longtail.errors import DataError
from longtail.serve.models import Served
from longtail.serve.settings import Settings
from longtail.serve.share import FairShare, client_of, forwarded, networks

HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW = {
    "says nothing": b"",
    "half a head": b"POST /predict HTTP/1.1\r\nHo",
    "half a body": HEAD + b"Content-Length: 90\r\n\r\n{",
    "idle": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def crowd(running: Running, said: bytes, *addresses: str, each: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        found = []
        for address in addresses:
            for _ in range(each):
                one = socket.create_connection(("127.0.0.1", running.port), 10, (address, 0))
                stack.enter_context(one)
                one.sendall(said)
                found.append(one)
        time.sleep(0.3)
        yield found


def ask(running: Running, address: str, **headers: str) -> tuple[int, bytes]:
    body = json.dumps({"text": "an apple"}).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()).encode()
    with socket.create_connection(("127.0.0.1", running.port), 10, (address, 0)) as connection:
        connection.sendall(HEAD + more + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = drain(connection)
    return int(answer[9:12] or 0), answer


@pytest.mark.parametrize("said", SLOW.values(), ids=SLOW)
def test_slow_connections_take_only_the_places_of_their_own_address(trained: Path, said: bytes) -> None:
    with serving(trained / "means.longtail", connections_per_address=20, connections=60) as running:
        with crowd(running, said, "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", each=30):
            assert len(running.service.connections) <= 60
            for _ in range(5):
                assert ask(running, "127.0.0.9")[0] == 200
        wait_for(lambda: len(running.service.connections) == 0)


def test_too_many_of_one_address_are_told(trained: Path) -> None:
    with serving(trained / "means.longtail", connections_per_address=5) as running:
        with crowd(running, SLOW["half a body"], "127.0.0.2", each=5):
            status, answer = ask(running, "127.0.0.2")
            assert status == 429 and b"this address has 5 connections open" in answer and b"Retry-After: 1" in answer
            assert ask(running, "127.0.0.3")[0] == 200
        with crowd(running, SLOW["idle"], "127.0.0.2", each=5):
            assert ask(running, "127.0.0.2")[0] == 200  # an idle one of its own is closed for it
        assert running.service.counters.refused.value(reason="connections") == 1


def test_slow_bodies_of_many_addresses_do_not_stop_the_service(trained: Path) -> None:
    """400 of them are more than the requests that may be under way, and than the connections that may be open."""
    with serving(trained / "means.longtail", requests=50, connections=200, connections_per_address=40) as running:
        slow = [f"127.0.1.{number}" for number in range(1, 11)]
        with crowd(running, SLOW["half a body"], *slow, each=40):
            for number in range(20):
                assert ask(running, f"127.0.2.{number + 1}")[0] == 200


def test_connections_that_are_computed_for_are_never_closed_for_others(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    predict = Served.predict

    def slow(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
        assert held.wait(60)
        return predict(self, texts, k, dial, language)

    with serving(trained / "means.longtail", connections=8, timeout=60) as running:
        monkeypatch.setattr(Served, "predict", slow)
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(ask(running, "127.0.0.2")[0]), daemon=True) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: running.service.under_way == 8)
        status, answer = ask(running, "127.0.0.3")
        assert status == 429 and b"too many connections" in answer
        held.set()
        for thread in threads:
            thread.join(60)
        assert found == [200] * 8


def test_a_greedy_address_leaves_places_in_the_queue(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    predict = Served.predict

    def slow(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
        assert held.wait(60)
        return predict(self, texts, k, dial, language)

    with serving(trained / "means.longtail", batch_size=1, queue=16, timeout=60) as running:
        monkeypatch.setattr(Served, "predict", slow)
        found: dict[str, list[int]] = {"127.0.0.2": [], "127.0.0.3": []}
        threads = []
        for address, number in (("127.0.0.2", 40), ("127.0.0.3", 1)):
            for _ in range(number):
                thread = threading.Thread(
                    target=lambda address=address: found[address].append(ask(running, address)[0]), daemon=True
                )
                thread.start()
                threads.append(thread)
            wait_for(lambda: len(found["127.0.0.2"]) >= 27)  # 12 wait, one is computed
        held.set()
        for thread in threads:
            thread.join(60)
        assert found["127.0.0.2"].count(200) == 13 and found["127.0.0.2"].count(429) == 27
        assert found["127.0.0.3"] == [200]


def test_a_client_that_does_not_read_is_cut_off(trained: Path) -> None:
    with serving(trained / "means.longtail", timeout=1, idle_timeout=1) as running:
        body = json.dumps({"texts": ["an apple"] * 1000, "k": 10}).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", running.port))
            for _ in range(20):  # more than the buffers of the two sockets hold
                try:
                    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                except ConnectionError:
                    break
            wait_for(lambda: len(running.service.connections) == 0)
        assert running.service.under_way == 0


def test_a_connection_lives_on_after_a_request_that_was_refused_before_its_body_came(trained: Path) -> None:
    with (
        serving(trained / "means.longtail", timeout=0.5) as running,
        socket.create_connection(("127.0.0.1", running.port), 10) as connection,
    ):
        connection.sendall(HEAD + b"Origin: http://evil.example\r\nContent-Length: 9\r\n\r\n")
        assert b" 403 " in connection.recv(65536)
        connection.sendall(b"123456789")
        time.sleep(2.2)  # longer than a body may take
        connection.sendall(SLOW["idle"])
        answer = b""
        while b"alive" not in answer:
            part = connection.recv(65536)
            assert part, answer
            answer += part
        connection.sendall(b"nonsense\r\n\r\n")
        assert b" 400 " in drain(connection)
        with socket.create_connection(("127.0.0.1", running.port), 10) as slow:  # this body never comes
            slow.sendall(HEAD + b"Origin: http://evil.example\r\nContent-Length: 9\r\n\r\n")
            assert b" 403 " in drain(slow)


def test_an_idle_connection_is_closed(trained: Path) -> None:
    with (
        serving(trained / "means.longtail", idle_timeout=1) as running,
        crowd(running, SLOW["idle"], "127.0.0.1", each=1) as (one,),
    ):
        begin = time.monotonic()
        assert b"alive" in drain(one) and time.monotonic() - begin < 5


def test_the_header_of_a_stranger_is_not_believed(trained: Path) -> None:
    def seen(running: Running, address: str, **headers: str) -> str:
        """The client that the service saw: it is asked when its queue is full for everybody."""
        addresses: list[str] = []
        full = running.service.batcher.full
        running.service.batcher.full = lambda address=None: addresses.append(address) or full(address)  # type: ignore[method-assign]
        assert ask(running, address, **headers)[0] == 200
        running.service.batcher.full = full  # type: ignore[method-assign]
        return addresses[0]

    with serving(trained / "means.longtail") as running:
        assert seen(running, "127.0.0.1", X_Forwarded_For="9.9.9.9") == "127.0.0.1"
    with serving(trained / "means.longtail", forwarded_allow_ips=("127.0.0.1",), connections_per_address=3) as running:
        assert seen(running, "127.0.0.1", X_Forwarded_For="1.1.1.1, 9.9.9.9") == "9.9.9.9"
        assert seen(running, "127.0.0.2", X_Forwarded_For="9.9.9.9") == "127.0.0.2"
        # The proxy may have more connections than one client, and one client behind it may not.
        body = HEAD + b"X-Forwarded-For: 9.9.9.9\r\nContent-Length: 90\r\n\r\n{"
        with crowd(running, body, "127.0.0.1", each=3):
            assert ask(running, "127.0.0.1", X_Forwarded_For="9.9.9.9")[0] == 429
            assert ask(running, "127.0.0.1", X_Forwarded_For="9.9.9.8")[0] == 200
        wait_for(lambda: running.service.under_way == 0)
        assert ask(running, "127.0.0.1", X_Forwarded_For="9.9.9.9")[0] == 200


def test_who_a_client_is() -> None:
    assert client_of("10.1.2.3") == "10.1.2.3" and client_of("::ffff:10.1.2.3") == "10.1.2.3"
    assert client_of("2001:db8:1:2:3:4:5:6") == client_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert client_of("fe80::1%eth0") == "fe80::/64" and client_of("testclient") == "testclient"
    trusted = networks(["10.0.0.0/8", "::1"])
    for header, client in (
        (["1.1.1.1"], "1.1.1.1"),
        (["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
        (["1.1.1.1", "2.2.2.2"], "2.2.2.2"),
        (["1.1.1.1, 2.2.2.2, 10.0.0.7"], "2.2.2.2"),
        (["1.1.1.1, nonsense"], "10.0.0.1"),
        (["1.1.1.1, nonsense, 10.0.0.7"], "10.0.0.7"),
        (["10.0.0.9"], "10.0.0.9"),
        (["[2001:db8::1]:443"], "2001:db8::/64"),
        (["3.3.3.3:5000"], "3.3.3.3"),
        ([""], "10.0.0.1"),
        ([], "10.0.0.1"),
    ):
        assert forwarded("10.0.0.1", header, trusted) == client, header
        assert forwarded("8.8.8.8", header, trusted) == "8.8.8.8"
    for wrong in ({"forwarded_allow_ips": ("proxy",)}, {"forwarded_allow_ips": ("*",)}, {"connections": 0},
                  {"head_timeout": 0.0}, {"idle_timeout": 1e9}):  # fmt: skip
        with pytest.raises(DataError):
            Settings(**wrong)  # type: ignore[arg-type]


def test_shares_always_leave_some_for_the_next() -> None:
    share = FairShare(28)
    for client, got in (("a", 21), ("b", 6), ("c", 1), ("d", 0)):  # 3 of 4, 3 of the next 4 ... while free ones shrink
        taken = 0
        while share.allows(client):
            share.take(client, 1)
            taken += 1
        assert taken == got
    share.take("a", -21)
    assert share.allows("d") and share.taken == 7
    while share.allows(None):  # no address: all of them
        share.take(None, 1)
    assert share.taken == 28
