"""Requests that two programs could read in two ways are refused with 400, and the connection is closed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Running, drain, serving

HOST = b"Host: localhost\r\n"
INNER = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"  # a request that hides in the body of another
JSON = b"Content-Type: application/json\r\n"
BODY = json.dumps({"text": "an apple"}).encode()


@pytest.fixture(scope="module")
def running(trained: Path) -> Iterator[Running]:
    with serving(trained / "means.longtail", head_timeout=2) as one:
        yield one
        assert one.service.under_way == 0 and one.get("/health").status == 200


def post(headers: bytes, body: bytes, line: bytes = b"POST /predict HTTP/1.1\r\n") -> bytes:
    return line + HOST + JSON + headers + b"\r\n" + body


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


TE = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "length and encoding": post(b"Content-Length: 4\r\n" + TE, b"0\r\n\r\n" + INNER),
    "encoding and length": post(TE + b"Content-Length: 5\r\n", b"0\r\n\r\n" + INNER),
    "two lengths": post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"abcdef" + INNER),
    "the same length twice": post(b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}" + INNER),
    "a list of lengths": post(b"Content-Length: 2, 2\r\n", b"{}" + INNER),
    "a signed length": post(b"Content-Length: +2\r\n", b"{}" + INNER),
    "a length in hexadecimal": post(b"Content-Length: 0x2\r\n", b"{}" + INNER),
    "an empty length": post(b"Content-Length: \r\n", INNER),
    "a huge length": post(b"Content-Length: 99999999999999999999\r\n", INNER),
    "an unknown encoding": post(b"Transfer-Encoding: gzip, chunked\r\n", chunked(BODY) + INNER),
    "the encoding twice": post(TE + TE, chunked(BODY) + INNER),
    "an encoding behind a tab": post(b"Transfer-Encoding:\x0bchunked\r\n", chunked(BODY) + INNER),
    "an encoding in HTTP/1.0": post(TE, chunked(BODY) + INNER, b"POST /predict HTTP/1.0\r\n"),
    "bare LF in the head": post(b"X: 1\nContent-Length: 2\r\n", b"{}" + INNER),
    "bare LF everywhere": INNER.replace(b"\r\n", b"\n"),
    "bare LF at the end": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\n" + INNER,
    "bare CR": post(b"X: 1\rContent-Length: 2\r\n", INNER),
    "a folded header": post(b"X: 1\r\n Content-Length: 2\r\n", INNER),
    "a folded encoding": post(b"Transfer-Encoding:\r\n chunked\r\n", chunked(BODY) + INNER),
    "a folded first header": b"GET /health HTTP/1.1\r\n X: 1\r\nHost: localhost\r\n\r\n" + INNER,
    "a space before the colon": post(b"Content-Length : 2\r\n", b"{}" + INNER),
    "a space in a name": post(b"Content Length: 2\r\n", b"{}" + INNER),
    "a name without a colon": post(b"Nothing\r\n", INNER),
    "an empty name": post(b": nothing\r\n", INNER),
    "NUL in a value": post(b"X: a\0b\r\n", INNER),
    "NUL in a name": post(b"X\0: a\r\n", INNER),
    "a control character": post(b"X: a\x08b\r\n", INNER),
    "NUL in the path": b"GET /hea\0lth HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces in the first line": b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tab in the first line": b"GET\t/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "another version": b"GET /health HTTP/1.2\r\n" + HOST + b"\r\n",
    "the next version": b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n",
    "no version": b"GET /health\r\n\r\n",
    "a whole address": b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n",
    "a chunk size with a sign": post(TE, b"+5\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk size with 0x": post(TE, b"0x5\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk size with an underscore": post(TE, b"1_0\r\nabcde\r\n0\r\n\r\n" + INNER),
    "no chunk size": post(TE, b"\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a huge chunk size": post(TE, b"f" * 17 + b"\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a negative chunk size": post(TE, b"-1\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk size with a space": post(TE, b"5 \r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk extension": post(TE, b"5;a=b\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk extension with LF": post(TE, b"5;\nabcde\r\nabcde\r\n0\r\n\r\n" + INNER),
    "a chunk that is too short": post(TE, b"5\r\nabc\r\n0\r\n\r\n" + INNER),
    "a chunk without its end": post(TE, b"5\r\nabcdeXX0\r\n\r\n" + INNER),
    "bare LF after a chunk size": post(TE, b"5\nabcde\r\n0\r\n\r\n" + INNER),
    "bare LF after a chunk": post(TE, b"5\r\nabcde\n0\r\n\r\n" + INNER),
    "bare LF after the last chunk": post(TE, b"5\r\nabcde\r\n0\r\n\n" + INNER),
    "a trailer": post(TE, b"5\r\nabcde\r\n0\r\nHost: evil.example\r\n\r\n" + INNER),
    "a folded trailer": post(TE, b"5\r\nabcde\r\n0\r\n a\r\n\r\n" + INNER),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "byte by byte"])
def test_two_meanings_are_none(running: Running, name: str, bytewise: bool) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for part in [bytes([byte]) for byte in AMBIGUOUS[name]] if bytewise else [AMBIGUOUS[name]]:
                connection.sendall(part)
        except ConnectionError:
            pass
        answer = drain(connection)
        assert connection.fileno() >= 0
    if bytewise and not answer:
        return  # it was closed while it still sent: the answer may be lost
    assert answer.count(b"HTTP/1.1 ") == 1, answer[:300]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"connection: close" in head.lower(), answer[:300]
    assert "not strictly HTTP/1.1" in json.loads(body)["error"]
    assert b"alive" not in answer


def test_what_has_one_meaning_is_answered_however_it_is_cut(running: Running) -> None:
    half = len(BODY) // 2
    for whole in (
        post(b"Content-Length: %d\r\n" % len(BODY), BODY),
        post(b"content-LENGTH:%d  \r\nX:\t\xe9\r\n" % len(BODY), BODY),
        post(TE, chunked(BODY)),
        post(TE, chunked(BODY[:half], BODY[half:])),
        post(TE, b"0%X\r\n%s\r\n000\r\n\r\n" % (len(BODY), BODY)),
    ):
        answers = []
        cuts = [[whole], [bytes([byte]) for byte in whole]]
        cuts += [[whole[:cut], whole[cut:]] for cut in range(len(whole) - 40, len(whole))]
        for parts in cuts:
            with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in (*parts, INNER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")):
                    connection.sendall(part)
                answers.append(drain(connection))
        for answer in answers:
            assert answer.count(b"HTTP/1.1 200 ") == 2 and answer.endswith(b'{"status": "alive"}'), answer[:300]


def test_a_head_that_is_too_long_is_refused(running: Running) -> None:
    answer = running.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 40_000 + b"\r\n\r\n", wait=2)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
