"""What every request passes before it is read, and every answer on its way out: host, origin, token, size, time."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtail.serve.protocol import ASK_WITHIN
from longtail.serve.refusal import Refused
from longtail.serve.service import Service

FREE = frozenset({"/", "/health", "/ready", "/openapi.json", "/assets/page.css", "/assets/page.js"})  # need no token
ALWAYS = FREE | {"/metrics"}  # answered while it starts and stops
KNOWN = ALWAYS | {"/predict", "/labels", "/models", "/examples"}
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
POLICY = b"default-src 'none'; frame-ancestors 'none'"
# Who hangs up on a client that is still sending takes the answer away from it: the rest is read and thrown away first.
UNREAD = frozenset({"body", "bodies"})  # reasons to refuse a body that is still coming
MOST_THROWN = 64 << 20  # bytes
QUIET = 1.0  # seconds without a byte, after which nobody is sending any more


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._settings, self._counters, self._log = service.settings, service.counters, service.log
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        facts = scope.setdefault("state", {})
        facts.update(id=f"{random.getrandbits(64):016x}", deadline=_clock() + self._settings.timeout)
        answer = _Answer(send, facts["id"])
        self._service.under_way += 1
        try:
            await self._serve(scope, receive, answer)
        except Refused as refusal:
            self._counters.refused.add(reason=refusal.reason)
            await answer.refuse(refusal, receive if refusal.reason in UNREAD else None)
        except Exception as error:
            if not answer.status:  # else it was answered and logged further in
                self._log.failed(error, id=facts["id"])
                await answer.refuse(Refused(500, "a mistake in the service; its log says where", "failed"))
        finally:
            self._service.under_way -= 1
            self._tell(scope, facts, answer.status, time.perf_counter() - begin)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = dict(scope["headers"])  # names are in small letters; of several, the last counts
        self._check_origin(scope, headers)
        path = scope["path"]
        if path not in FREE:
            self._check_token(headers)
        if path not in ALWAYS:
            if self._service.state != "ready":
                raise Refused(
                    503, f"the service is {self._service.state}; ask again", self._service.state, {"Retry-After": "1"}
                )
            if self._service.under_way > self._settings.requests:
                raise Refused(429, "too many requests are under way; ask again", "requests", {"Retry-After": "1"})
        body = await self._body(scope, headers, receive)
        try:
            await self._app(scope, _replayed(body, receive), answer)
        finally:
            self._held -= len(body)

    def _check_origin(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Only pages of this service may use a browser to ask it, and only under a name it answers to."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        names = self._settings.answers_to
        if names is not None and _without_port(host) not in names:
            raise Refused(421, "the service does not answer to this host name; see --allow-host", "host")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        asking = origin.partition("://")[2]
        # A proxy may call the service by another name than the browser does: --allow-host names that one.
        if origin and asking != host and _without_port(asking) not in self._settings.allowed:
            raise Refused(403, "pages of other origins may not ask this service; see --allow-host", "origin")

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self._settings.token is None:
            return
        kind, _, shown = headers.get(b"authorization", b"").partition(b" ")
        same = hmac.compare_digest(shown.strip(), self._settings.token.encode())
        if kind.lower() != b"bearer" or not same:
            raise Refused(
                401,
                "this service needs its token: Authorization: Bearer TOKEN",
                "token",
                {"WWW-Authenticate": "Bearer"},
            )

    async def _body(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, if it is small enough, comes in time and there is room for it. Counted as held."""
        large = Refused(
            413, f"the body is larger than {self._settings.body} bytes; send fewer or shorter texts", "body",
            {"Connection": "close"},
        )  # fmt: skip
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > self._settings.body:
            raise large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout_at(scope["state"]["deadline"]):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the client went away", "gone")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    self._held += len(part)
                    parts.append(part)
                    if size > self._settings.body:
                        raise large
                    if self._held > self._settings.bodies:
                        raise Refused(
                            429, "requests under way hold too much; ask again", "bodies",
                            {"Retry-After": "1", "Connection": "close"},
                        )  # fmt: skip
        except TimeoutError:
            self._held -= size
            raise Refused(
                408,
                f"the request did not come within {self._settings.timeout:g} seconds",
                "slow",
                {"Connection": "close"},
            ) from None
        except Refused:
            self._held -= size
            raise
        return b"".join(parts)

    def _tell(self, scope: Scope, facts: Mapping[str, Any], status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in KNOWN else "other"
        self._counters.requests.add(path=path, status=str(status))
        self._counters.seconds.observe(seconds, path=path)
        told = {name: facts[name] for name in ("id", "model", "texts", "k", "labels") if name in facts}
        self._log.say("request", method=scope["method"], path=path, status=status, ms=round(1000 * seconds, 2), **told)


class _Answer:
    """Sends, adds what every answer carries, and remembers the status."""

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

    async def refuse(self, refusal: Refused, rest: Receive | None = None) -> None:
        """Says why; then listens to the rest of what the client sends, where there is one, before it hangs up."""
        if self.status:
            return
        body = json.dumps({"error": refusal.error, "where": []}).encode()
        headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body, "more_body": rest is not None})
        if rest is not None:
            await _throw_away(rest)
            await self({"type": "http.response.body", "body": b""})


async def _throw_away(receive: Receive) -> None:
    thrown, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(ASK_WITHIN):
            while more and thrown < MOST_THROWN:
                async with asyncio.timeout(QUIET):
                    message = await receive()
                thrown += len(message.get("body", b""))
                more = message.get("more_body", False)  # not there where the client went away


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What was read already, then whatever comes."""
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
