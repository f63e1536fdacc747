"""Checks every request before the application sees it (host, origin, token, size, time); adds headers to answers."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtail.serve.refusal import Refused
from longtail.serve.service import Service
from longtail.serve.share import FairShare, client_of, forwarded, is_trusted

FREE = frozenset({"/", "/health", "/ready", "/openapi.json", "/assets/page.css", "/assets/page.js"})  # need no token
ALWAYS = FREE | {"/metrics"}  # answered while the service starts and stops, too
KNOWN = ALWAYS | {"/predict", "/labels", "/models", "/examples"}
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
POLICY = b"default-src 'none'; frame-ancestors 'none'"
# A client that is still sending when the connection closes never sees its answer, so the rest is read and discarded.
UNREAD = frozenset({"body", "bodies", "encoding"})  # reasons to refuse a body that is still coming
MAX_DISCARDED = 64 << 20  # bytes
QUIET = 1.0  # seconds without a byte, after which the client has stopped sending


class Guard:
    """An ASGI application around the paths."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._settings, self._counters, self._log = service.settings, service.counters, service.log
        self._requests = FairShare(self._settings.requests)  # under way, their body read
        self._bodies = FairShare(self._settings.bodies)  # bytes in memory
        self._behind: Counter[str] = Counter()  # requests of each client that come through a proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        facts = scope.setdefault("state", {})
        facts.update(id=f"{random.getrandbits(64):016x}", deadline=_clock() + self._settings.timeout)
        facts["address"] = self._enter(scope)
        answer = _Answer(send, facts["id"])
        self._service.under_way += 1
        try:
            await self._serve(scope, receive, answer)
        except Refused as refusal:
            self._counters.refused.add(reason=refusal.reason)
            await answer.refuse(refusal, receive if refusal.reason in UNREAD else None, self._settings.head_timeout)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):  # the server stops
            raise
        except BaseException as error:  # panics of Rust libraries, too
            if not answer.status:  # otherwise the application has answered and logged it
                self._log.failed(error, id=facts["id"])
                await answer.refuse(Refused(500, "an error in the service; its log has the details", "failed"))
        finally:
            self._service.under_way -= 1
            self._leave(facts)
            self._record(scope, facts, answer.status, time.perf_counter() - started)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = dict(scope["headers"])  # names are in lower case; of several with one name, the last counts
        self._check_origin(scope, headers)
        path, address = scope["path"], scope["state"]["address"]
        if self._behind[address] > self._settings.connections_per_address:
            raise Refused(
                429, "this address has too many requests under way; try again", "requests", {"Retry-After": "1"}
            )
        if path not in FREE:
            self._check_token(headers)
        if path not in ALWAYS:
            if self._service.state != "ready":
                raise Refused(
                    503, f"the service is {self._service.state}; try again", self._service.state, {"Retry-After": "1"}
                )
            if path == "/predict":
                self._service.overloaded(address)
        body = await self._body(scope, headers, receive)
        try:
            if path in ALWAYS:
                await self._app(scope, _replayed(body, receive), answer)
                return
            if not self._requests.allows(address):
                raise Refused(429, "too many requests are under way; try again", "requests", {"Retry-After": "1"})
            self._requests.take(address, 1)
            try:
                await self._app(scope, _replayed(body, receive), answer)
            finally:
                self._requests.take(address, -1)
        finally:
            self._bodies.take(address, -len(body))

    def _enter(self, scope: Scope) -> str:
        """The client of a request. One behind a proxy has no connection of its own, so its requests are counted."""
        peer = scope["client"][0] if scope.get("client") else ""
        trusted = self._service.connections.trusted
        if not is_trusted(peer, trusted):
            return client_of(peer)
        names = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        address = forwarded(peer, names, trusted)
        scope["state"]["behind"] = address
        self._behind[address] += 1
        return address

    def _leave(self, facts: Mapping[str, Any]) -> None:
        address = facts.get("behind")
        if address is not None:
            self._behind[address] -= 1
            if not self._behind[address]:
                del self._behind[address]

    def _check_origin(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Refuses requests that a browser sends for pages of other sites, and host names that are not ours."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        names = self._settings.answers_to
        if names is not None and _without_port(host) not in names:
            raise Refused(421, "the service does not answer to this host name; see --allow-host", "host")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        origin_host = origin.partition("://")[2]
        # Behind a proxy the browser may use another name than the proxy does; --allow-host allows it.
        if origin and origin_host != host and _without_port(origin_host) not in self._settings.allowed:
            raise Refused(403, "pages of other origins may not use this service; see --allow-host", "origin")

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self._settings.token is None:
            return
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        same = hmac.compare_digest(token.strip(), self._settings.token.encode())
        if kind.lower() != b"bearer" or not same:
            raise Refused(
                401,
                "this service needs its token: Authorization: Bearer TOKEN",
                "token",
                {"WWW-Authenticate": "Bearer"},
            )

    async def _body(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Reads the whole body, if it is small enough, comes in time and fits beside the others; counts it as held."""
        large = Refused(
            413, f"the body is larger than {self._settings.body} bytes; send fewer or shorter texts", "body",
            {"Connection": "close"},
        )  # fmt: skip
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(
                415, "the body is compressed; send it as plain JSON, without Content-Encoding", "encoding",
                {"Accept-Encoding": "identity", "Connection": "close"},
            )  # fmt: skip
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > self._settings.body:
            raise large
        parts: list[bytes] = []
        size, more, address = 0, True, scope["state"]["address"]
        try:
            async with asyncio.timeout_at(scope["state"]["deadline"]):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the client went away", "gone")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    self._bodies.take(address, len(part))
                    parts.append(part)
                    if size > self._settings.body:
                        raise large
                    if part and not self._bodies.allows(address):
                        raise Refused(
                            429, "the bodies of all requests take too much memory; try again", "bodies",
                            {"Retry-After": "1", "Connection": "close"},
                        )  # fmt: skip
        except TimeoutError:
            self._bodies.take(address, -size)
            raise Refused(
                408,
                f"the request did not come within {self._settings.timeout:g} s",
                "slow",
                {"Connection": "close"},
            ) from None
        except BaseException:
            self._bodies.take(address, -size)
            raise
        return b"".join(parts)

    def _record(self, scope: Scope, facts: Mapping[str, Any], status: int, seconds: float) -> None:
        """Counts and logs a request."""
        path = scope["path"] if scope["path"] in KNOWN else "other"
        self._counters.requests.add(path=path, status=str(status))
        self._counters.seconds.observe(seconds, path=path)
        logged = {name: facts[name] for name in ("id", "model", "texts", "k", "labels") if name in facts}
        self._log.write(
            "request", method=scope["method"], path=path, status=status, ms=round(1000 * seconds, 2), **logged
        )


class _Answer:
    """Sends an answer with the headers that every answer has, and remembers its status."""

    def __init__(self, send: Send, name: str) -> None:
        self._send, self._name = send, name
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(pair for pair in HEADERS if pair[0] not in own),
                *(() if b"content-security-policy" in own else ((b"content-security-policy", POLICY),)),
                (b"x-request-id", self._name.encode()),
            ]
        await self._send(message)

    async def refuse(self, refusal: Refused, rest: Receive | None = None, seconds: float = 0.0) -> None:
        """Sends the reason; where `rest` is given, first discards what the client still sends."""
        if self.status:
            return
        body = json.dumps({"error": refusal.error, "where": []}).encode()
        headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body, "more_body": rest is not None})
        if rest is not None:
            await _discard(rest, seconds)
            await self({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive, seconds: float) -> None:
    discarded, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while more and discarded < MAX_DISCARDED:
                async with asyncio.timeout(QUIET):
                    message = await receive()
                discarded += len(message.get("body", b""))
                more = message.get("more_body", False)  # missing where the client has disconnected


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hands out the body that was read already, then further messages."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def _clock() -> float:
    return asyncio.get_running_loop().time()
