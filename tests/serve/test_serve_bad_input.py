"""Bad input is answered with a reason, never with a 5xx, and the service goes on."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Running, drain, serving

from longtail.errors import DataError
from longtail.serve.settings import TOKEN_VARIABLE, Settings, read_token

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def running(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("bad")
    for name in ("towers.longtail", "means.longtail"):
        shutil.copytree(trained / name, place / name)
    with serving(place / "towers.longtail", place / "means.longtail") as one:
        yield one
        assert one.post("/predict", {"text": "still here"}).status == 200
        assert not [event for event in one.events if event["event"] == "failed"]


def refused(running: Running, reply: Any, status: int | tuple[int, ...]) -> str:
    assert reply.status in (status if isinstance(status, tuple) else (status,)), reply.body[:300]
    assert reply.headers["content-type"] == "application/json"
    error = reply.json["error"]
    assert isinstance(error, str) and error
    return error


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b'{"text": "a"', b"\xff\xfe\x00", b'{"text": "\xff"}', b"[" * 100_000, b'{"a":' * 50_000,
     b'{"text": "a", "k": ' + b"9" * 5000 + b"}", b"null", b"[]", b'"text"', b"NaN"],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
@pytest.mark.parametrize("path", ["/predict", "/labels", "/examples"])
def test_what_is_not_the_json_it_expects(running: Running, path: str, body: bytes) -> None:
    refused(running, running.post(path, body), (400, 422))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": None},
        {"text": 5},
        {"text": ["a"]},
        {"text": "a", "texts": ["b"]},
        {"texts": []},
        {"texts": "abc"},
        {"texts": ["a", None]},
        {"texts": {"0": "a"}},
        {"text": "a", "k": -1},
        {"text": "a", "k": 0},
        {"text": "a", "k": 1_000_000},
        {"text": "a", "k": 2.5},
        {"text": "a", "k": "5"},
        {"text": "a", "k": True},
        {"text": "a", "k": None},
        {"text": "a", "threshold": -0.1},
        {"text": "a", "threshold": "high"},
        {"text": "a", "threshold": float("nan")},
        {"text": "a", "threshold": float("inf")},
        {"text": "a", "dial": -0.1},
        {"text": "a", "dial": 2.1},
        {"text": "a", "dial": "0.3"},
        {"text": "a", "dial": True},
        {"text": "a", "dial": None},
        {"text": "a", "dial": float("nan")},
        {"text": "a", "dial": float("inf")},
        {"text": "a", "dial": 0.3, "model": "means"},  # its scores are not probabilities
        {"text": "a", "model": 5},
        {"text": "a", "model": ""},
        {"text": "a", "unknown": 1},
        {"text": "a", "why": 1},
        {"texts": ["a"], "why": True},
        {"text": "a", "\ud800": 1},
        {"text": "broken \ud800 Unicode"},
        {"text": "\x00"},
        {"texts": ["a", "colour \x1b[31m"]},
        {"text": "a\x7f"},
        {"texts": ["a"] * 1024, "k": 1000},
        {"texts": ["a"] * 1025},
        {"text": "a" * 3_000_001},
    ],
    ids=lambda body: json.dumps(body)[:40],
)
def test_wrong_values_of_predict(running: Running, body: Any) -> None:
    error = refused(running, running.post("/predict", body), 422)
    assert len(error) <= 500


@pytest.mark.parametrize(("name", "meant"), [("txt", "text"), ("treshold", "threshold"), ("qqq", "leave it out")])
def test_a_misspelt_field_is_told_what_it_may_mean(running: Running, name: str, meant: str) -> None:
    error = refused(running, running.post("/predict", {name: "a"}), 422)
    assert f"body.{name}: there is no such field" in error and meant in error


def test_a_body_that_does_not_say_that_it_is_json(running: Running) -> None:
    """As curl -d sends it."""
    body = b'{"text": "a"}'
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        error = refused(running, running.post("/predict", body, {"Content-Type": kind}), 415)
        assert error == "send the body as JSON, with the header Content-Type: application/json"
    assert running.post("/predict", body, {"Content-Type": "application/json; charset=utf-8"}).status == 200


def test_the_values_are_not_sent_back(running: Running) -> None:
    reply = running.post("/predict", {"text": "a", "k": "secret words of the client"})
    assert refused(running, reply, 422) and b"secret" not in reply.body
    assert reply.json["where"] == ["body.k"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"labels": []},
        {"labels": "a"},
        {"labels": [{"text": ""}]},
        {"labels": [{"text": " \t\n"}]},
        {"labels": [{"id": "a"}]},
        {"labels": [{"text": "a", "id": ""}]},
        {"labels": [{"text": "a" * 2001}]},
        {"labels": [{"text": "a"}] * 257},
        {"labels": [{"text": "a", "count": 5}]},
        {"labels": ["a"]},
        {"labels": [{"text": "odd \x1b[31m"}]},
        {"labels": [{"text": "a", "id": "a\x00"}]},
        {"labels": [{"text": "\u202e\u200b"}]},
    ],
    ids=lambda body: json.dumps(body)[:40],
)
def test_wrong_values_of_labels(running: Running, body: Any) -> None:
    refused(running, running.post("/labels", body), 422)
    assert running.get("/models").json["models"][0]["added"] == 0


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=201", "limit=x", "offset=-1", "offset=1e9", "query=" + "a" * 2001, "model="]
)
def test_wrong_values_of_a_search(running: Running, query: str) -> None:
    refused(running, running.get(f"/labels?{query}"), 422)


def test_unknown_names(running: Running) -> None:
    assert "towers, means" in refused(running, running.post("/predict", {"text": "a", "model": "other"}), 404)
    refused(running, running.get("/labels?model=other"), 404)
    refused(running, running.get("/nothing"), 404)
    refused(running, running.ask("DELETE", "/labels"), 405)
    refused(running, running.get("/../../etc/passwd"), 404)


def test_odd_letters_are_just_letters(running: Running) -> None:
    odd = [
        "",
        " ",
        "a\tb\nc\r\nd\x0be\x0cf",
        "\u202e\u200b\ufeff",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🦜",
        "a\u0300" * 1000,
        "\n" * 5000,
        "x" * 100_000,
    ]
    reply = running.post("/predict", {"texts": odd})
    assert reply.status == 200 and len(reply.json["answers"]) == len(odd)
    assert running.get("/labels?query=%00%1b%ff%fe").status == 200


def test_a_control_character_is_named(running: Running) -> None:
    error = refused(running, running.post("/predict", {"texts": ["a", "ab\x1b[31m"]}), 422)
    assert error == "body.texts.1: String has a control character, U+001B at 2; remove it"


def test_a_body_whose_head_has_a_too_large_length_is_not_read(running: Running) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10485760\r\n\r\n"
    begin = time.monotonic()
    answer = running.raw(head)
    assert b" 413 " in answer.split(b"\r\n", 1)[0] and time.monotonic() - begin < 5


@pytest.mark.parametrize("body", [{"text": "a" * (10 << 20)}, {"texts": ["a"] * 1_000_000}], ids=["one", "million"])
def test_ten_megabytes_of_text(running: Running, body: Any) -> None:
    """A client that sends everything before it reads gets the reason, too."""
    assert "send fewer or shorter" in refused(running, running.post("/predict", body), 413)


def test_a_body_without_a_content_length(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(200):
                connection.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
        except ConnectionError:
            pass
        assert b" 413 " in drain(connection).split(b"\r\n", 1)[0]
    assert running.service.under_way == 0


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_what_is_not_http(running: Running, raw: bytes) -> None:
    answer = running.raw(raw, wait=1)
    assert answer.startswith(b"HTTP/1.1 4") or answer == b"", answer[:200]


def test_slow_clients_get_408(trained: Path) -> None:
    with serving(trained / "means.longtail", timeout=0.7, head_timeout=0.5) as running:
        head = (
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        )
        begin = time.monotonic()
        assert b" 408 " in running.raw(head + b'{"text": "').split(b"\r\n", 1)[0]  # the body never ends
        assert b" 408 " in running.raw(b"POST /predict HT").split(b"\r\n", 1)[0]  # the head never ends
        assert running.raw(b"") == b""  # it never says a word
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""
            while b"alive" not in received:
                part = connection.recv(65536)
                assert part, received
                received += part
            connection.sendall(b"GET /health HT")  # a second head, which never ends
            assert b" 408 " in drain(connection)
        assert time.monotonic() - begin < 8
        assert running.get("/health").status == 200


def test_a_client_that_goes_away_leaves_nothing_behind(running: Running) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", running.port)) as connection:
            connection.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{")
    until = time.monotonic() + 60
    while running.service.under_way and time.monotonic() < until:
        time.sleep(0.02)
    assert running.service.under_way == 0


def test_other_hosts_and_origins_are_kept_out(running: Running) -> None:
    asked = {"text": "a"}
    assert refused(running, running.post("/predict", asked, {"Host": "evil.example"}), 421)
    refused(running, running.get("/", {"Host": "evil.example:80"}), 421)
    refused(running, running.post("/predict", asked, {"Origin": "http://evil.example"}), 403)
    refused(running, running.post("/predict", asked, {"Origin": "null"}), 403)
    with serving(running.service.models["means"].path, hosts=("labels.example",)) as proxied:
        named = {"Origin": "https://labels.example"}
        assert proxied.post("/predict", asked, named).status == 200
        assert proxied.post("/predict", asked, {**named, "Host": "labels.example:8443"}).status == 200
        refused(proxied, proxied.post("/predict", asked, {"Origin": "https://other.example"}), 403)
    own = {"Host": f"localhost:{running.port}", "Origin": f"http://localhost:{running.port}"}
    assert running.post("/predict", asked, own).status == 200


def test_the_token_is_asked_for(trained: Path) -> None:
    with serving(trained / "means.longtail", token=TOKEN) as running:
        for shown in (None, "", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
                      f"Basic {TOKEN}", "Bearer \u00e9"):  # fmt: skip
            headers = {} if shown is None else {"Authorization": shown}
            for method, path in (("GET", "/models"), ("GET", "/metrics"), ("GET", "/labels"), ("POST", "/predict")):
                reply = running.ask(method, path, {"text": "a"} if method == "POST" else None, headers)
                refused(running, reply, 401)
                assert reply.headers["www-authenticate"] == "Bearer"
        good = {"Authorization": f"Bearer {TOKEN}"}
        assert running.post("/predict", {"text": "a"}, good).status == 200
        assert running.get("/metrics", good).status == 200
        for free in ("/", "/health", "/ready", "/openapi.json"):
            assert running.get(free).status == 200
        assert TOKEN not in running.log.getvalue()


def test_where_the_token_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert read_token(None) == TOKEN
    (tmp_path / "token").write_text("another-token-of-mine\n")
    assert read_token(tmp_path / "token") == "another-token-of-mine"
    for wrong in ("", "short", "has a space in its middle", "ümläut-is-not-plain-text", "x" * 5000):
        (tmp_path / "token").write_text(wrong)
        with pytest.raises(DataError, match="must have 16 to 4096 letters"):
            read_token(tmp_path / "token")
    with pytest.raises(DataError, match="no such file"):
        read_token(tmp_path / "missing")


def test_a_token_comes_from_a_file_and_nothing_that_never_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"is a named pipe, and a file is expected; .* give it as <\(command\)"):
        read_token(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a device, and a file is expected"):
        read_token(Path("/dev/zero"))
    ours, theirs = os.pipe()
    os.write(theirs, f"{TOKEN}\n".encode())
    os.close(theirs)
    assert read_token(Path(f"/dev/fd/{ours}")) == TOKEN  # as shells hand <(command) over
    os.close(ours)


def test_other_machines_come_in_only_with_a_token() -> None:
    with pytest.raises(DataError, match="no token is set"):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", token=TOKEN).answers_to is None
    assert Settings(host="0.0.0.0", open=True, hosts=("labels.example",)).answers_to is not None
    assert Settings(host="127.0.0.5").local and Settings(host="localhost").local and Settings(host="::1").local
    for wrong in ({"port": 70_000}, {"queue": 3}, {"wait": 5.0}, {"timeout": 0.0}, {"batch_size": 0}):
        with pytest.raises(DataError):
            Settings(**wrong)  # type: ignore[arg-type]
