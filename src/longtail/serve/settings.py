"""Settings of the service: where it listens, how long it waits and what it refuses."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from longtail.data.opening import open_file, reading
from longtail.errors import DataError
from longtail.serve.share import networks

TOKEN_VARIABLE = "LONGTAIL_TOKEN"
MIN_TOKEN_LENGTH, MAX_TOKEN_LENGTH = 16, 4096
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True)
class Settings:
    """Settings; times are in seconds.

    Raises:
        DataError: a value is out of range, or other machines could connect without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    token: str | None = None  # the bearer token that clients must send; None: they need none
    hosts: tuple[str, ...] = ()  # host names that it answers to, besides those of its own address
    open: bool = False  # lets other machines connect without a token
    wait: float = 0.003  # the most time that a batch waits for texts of other requests
    batch_size: int = 64  # the most texts of a batch
    queue: int = 256  # texts that wait; when they are that many, further requests get 429
    requests: int = 256  # the most requests under way whose body has come
    connections: int = 1024  # the most open connections
    connections_per_address: int = 128  # the most of one client address
    forwarded_allow_ips: tuple[str, ...] = ()  # proxies whose X-Forwarded-For is believed
    head_timeout: float = 10.0  # for the head of a request, and for a new connection to send one
    idle_timeout: float = 30.0  # for a connection between two requests
    timeout: float = 10.0  # from the first byte of a request to its answer
    body: int = 4 << 20  # the most bytes of a request
    bodies: int = 64 << 20  # the most bytes of all requests under way
    drain: float = 15.0  # the time that requests under way get when the service stops
    workers: int = 1  # processes that answer

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise DataError(f"--port must be 0 (any free port) to 65535, got {self.port}")
        for name in ("batch_size", "queue", "requests", "body", "connections", "connections_per_address", "workers"):
            if getattr(self, name) < 1:
                raise DataError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if self.queue < self.batch_size:
            raise DataError(
                f"--queue {self.queue} is smaller than one batch; make it at least --batch-size {self.batch_size}"
            )
        if not 0 <= self.wait <= 1:
            raise DataError(f"--wait must be 0 to 1 second, got {self.wait:g}")
        for name in ("timeout", "head_timeout", "idle_timeout"):
            if not 0 < getattr(self, name) <= 3600:
                raise DataError(
                    f"--{name.replace('_', '-')} must be above 0 and at most 3600 seconds, got {getattr(self, name):g}"
                )
        networks(self.forwarded_allow_ips)
        if not self.local and self.token is None and not self.open:
            raise DataError(
                f"--host {self.host} lets other machines connect, and no token is set; put one into {TOKEN_VARIABLE} "
                "or --token-file, or pass --open if everybody may use the service"
            )

    def of_worker(self) -> Settings:
        """The settings of one worker: its share of every limit of the service, rounded up.

        The kernel decides which worker gets a connection, so shares are the only limits that together never exceed
        those of the service (by more than the rounding).
        """

        def share(whole: int, least: int = 1) -> int:
            return max(-(-whole // self.workers), least)

        return replace(
            self,
            queue=share(self.queue, self.batch_size),
            requests=share(self.requests),
            connections=share(self.connections),
            connections_per_address=share(self.connections_per_address),
            bodies=share(self.bodies, self.body),
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
        """Host names that requests may use; None: any.

        Without this check, a page whose domain is made to resolve to this machine (DNS rebinding) could use a service
        that listens on this machine only.
        """
        if self.hosts or self.local:
            return frozenset((*LOOPBACK, self.host)) | self.allowed
        return None

    @property
    def allowed(self) -> frozenset[str]:
        """The names of --allow-host, in lower case."""
        return frozenset(name.lower() for name in self.hosts)


def read_token(path: Path | None) -> str | None:
    """Reads the bearer token.

    Args:
        path: a file whose first line is the token; None reads the environment variable.

    Returns:
        The token; None where there is none.

    Raises:
        DataError: the file cannot be read, or the token is too short or too long.
    """
    if path is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        with reading(path), open_file(path) as file:
            first = file.readline(MAX_TOKEN_LENGTH + 3)  # with its line end
        try:
            token, where = first.decode("utf-8"), str(path)
        except UnicodeDecodeError:
            raise DataError("the token file is not UTF-8 text; write the token into its first line", path) from None
    token = token.strip()
    fits = MIN_TOKEN_LENGTH <= len(token) <= MAX_TOKEN_LENGTH
    if not fits or not (token.isascii() and token.isprintable() and " " not in token):
        raise DataError(
            f"the token in {where} must have {MIN_TOKEN_LENGTH} to {MAX_TOKEN_LENGTH} letters, digits or signs without "
            "spaces; make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token
