"""Open connections by client address: how many there may be, and how long each may take.

Slow and idle connections take places of their own client only. Where all places are taken, a new connection of a client
with few connections closes an idle one of the client with most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from longtail.errors import counted
from longtail.serve.settings import Settings
from longtail.serve.share import client_of, is_trusted, networks

Phase = Literal["idle", "head", "body", "working", "sending", "closing"]
# Which connections are closed first to make room; one whose request is being computed is never closed.
SPARE: tuple[Phase, ...] = ("closing", "idle", "head", "body", "sending")
SWEEP = 0.25  # seconds between two checks of how long connections have taken
SPARE_FILES = 128  # files of the models, the journal, the log and the connections that are being refused


class Timed(Protocol):
    """A connection, as the sweep sees it."""

    peer: str
    since: float  # when its phase began, on the clock of the event loop

    @property
    def phase(self) -> Phase:
        """What it does."""

    def time_out(self, phase: Phase) -> None:
        """Closes it because it took too long.

        Args:
            phase: what took too long.
        """

    def abort(self) -> None:
        """Closes it without waiting for what is unsent."""


@dataclass(eq=False)
class Connections:
    """All connections of a server."""

    settings: Settings
    most: int  # of all clients
    _by_client: dict[str, dict[Timed, None]] = field(default_factory=dict)  # oldest first
    _total: int = 0
    _sweep: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.trusted = networks(self.settings.forwarded_allow_ips)
        limits = self.settings
        self._limits: dict[Phase, float] = {
            "head": limits.head_timeout,
            # The guard answers a slow body with 408 when the time is over; this is for what it does not read.
            "body": limits.timeout + 1,
            "sending": limits.timeout,
            "closing": limits.timeout,
        }

    def __len__(self) -> int:
        return self._total

    def admit(self, one: Timed) -> str | None:
        """Counts a new connection, and makes room for it if need be.

        Args:
            one: the connection.

        Returns:
            Why it is refused; None where it may stay.
        """
        client = client_of(one.peer)
        own = self._by_client.get(client, {})
        cap = self.settings.connections_per_address
        crowded = len(own) >= cap and not is_trusted(one.peer, self.trusted)
        if crowded and not self._close_spare(own, ("closing", "idle")):
            return f"this address has {counted(cap, 'connection')} open; close some, or wait"
        if self._total >= self.most and not self._make_room(len(own)):
            return "the service has too many connections open; try again"
        self._by_client.setdefault(client, {})[one] = None
        self._total += 1
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().create_task(self._sweep_always())
        return None

    def forget(self, one: Timed) -> None:
        """Stops counting a connection that has closed.

        Args:
            one: the connection.
        """
        client = client_of(one.peer)
        own = self._by_client.get(client)
        if own is not None and one in own:
            del own[one]
            self._total -= 1
            if not own:
                del self._by_client[client]

    def _make_room(self, own: int) -> bool:
        """Closes a connection of the client that has most, if that is more than the new one will have."""
        for connections in sorted(self._by_client.values(), key=len, reverse=True):
            if len(connections) <= own + 1:
                return False
            if self._close_spare(connections, SPARE):
                return True
        return False

    def _close_spare(self, connections: Iterable[Timed], phases: tuple[Phase, ...]) -> bool:
        """Closes the oldest connection in the first of these phases that one is in; its place is free at once."""
        now = list(connections)
        for phase in phases:
            for one in now:
                if one.phase == phase:
                    self.forget(one)
                    one.abort()
                    return True
        return False

    async def _sweep_always(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(SWEEP)
            now = clock()
            for one in [one for own in self._by_client.values() for one in own]:
                phase = one.phase
                if now - one.since > self._limits.get(phase, float("inf")):
                    with suppress(Exception):  # one odd connection must not end the watch over the others
                        one.abort() if phase in ("closing", "sending") else one.time_out(phase)


def most_connections(settings: Settings) -> int:
    """The most connections that the files of this process allow.

    Args:
        settings: what the user wants.

    Returns:
        That many, or as many as the operating system gives: each connection is an open file.
    """
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return settings.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return settings.connections if soft == resource.RLIM_INFINITY else max(min(wanted, soft) - SPARE_FILES, 8)
