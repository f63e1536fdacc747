"""How the service listens, how long it waits and what it refuses."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from longtail.errors import DataError

TOKEN_VARIABLE = "LONGTAIL_TOKEN"
SHORTEST_TOKEN = 16
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True)
class Settings:
    """Times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    token: str | None = None  # what a bearer must show; none: everybody who reaches the port may ask
    hosts: tuple[str, ...] = ()  # names it answers to, besides those of its own address
    open: bool = False  # may listen beyond this machine without a token
    wait: float = 0.003  # longest wait for texts of other requests to join a batch
    batch: int = 64  # texts that go through a model together
    queue: int = 256  # texts that may wait; a request that finds no room is told to come again
    requests: int = 256  # requests that may be under way
    timeout: float = 10.0  # from a request's first byte to its answer
    body: int = 4 << 20  # bytes of a request
    bodies: int = 64 << 20  # bytes of all requests under way
    drain: float = 15.0  # for requests under way when the service is told to stop

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise DataError(f"--port lies between 0 (any free one) and 65535, got {self.port}")
        for name in ("batch", "queue", "requests", "body"):
            if getattr(self, name) < 1:
                raise DataError(f"--{name} is at least 1, got {getattr(self, name)}")
        if self.queue < self.batch:
            raise DataError(f"--queue {self.queue} holds less than one batch; make it at least --batch {self.batch}")
        if not 0 <= self.wait <= 1:
            raise DataError(f"--wait lies between 0 and 1 second, got {self.wait:g}")
        if not 0 < self.timeout <= 3600 or self.drain < 0:
            raise DataError(f"--timeout lies above 0 and is at most an hour, got {self.timeout:g} seconds")
        if not self.local and self.token is None and not self.open:
            raise DataError(
                f"--host {self.host} lets other machines in, and no token is set; put one into {TOKEN_VARIABLE} or "
                "--token-file, or pass --open if everybody may ask"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def answers_to(self) -> frozenset[str] | None:
        """Names it may be called by in a request's Host; none: any. Without the check, a page from elsewhere whose
        name is made to lead to this machine could ask a service that listens only here."""
        if self.hosts or self.local:
            return frozenset((*LOOPBACK, self.host)) | self.allowed
        return None

    @property
    def allowed(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.hosts)


def read_token(path: Path | None) -> str | None:
    """The bearer token: the first line of the file, else the environment's, else none."""
    if path is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        try:
            token, where = path.read_text(encoding="utf-8").split("\n", 1)[0], str(path)
        except OSError as error:
            raise DataError(
                f"the token file cannot be read ({error.strerror or error}); check the path", path
            ) from None
        except UnicodeDecodeError:
            raise DataError("the token file is not text", path) from None
    token = token.strip()
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable() and " " not in token):
        raise DataError(
            f"the token in {where} must have at least {SHORTEST_TOKEN} letters, digits or signs without spaces; "
            "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token
