"""How long work tells that it is alive. The library reports stages; whoever listens draws them.

    with stage("reading train", total=rows) as advance:
        for chunk in chunks:
            ...
            advance(len(chunk))

Without a listener a stage costs nothing and prints nothing.

Work may also `tell` what it found out on its way and what no model holds, such as how good a teacher was; whoever asked
for it with `hearing` gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Listener(Protocol):
    """Draws stages: the command line's progress bars, or a test's list."""

    def start(self, name: str, total: int | None) -> int:
        """A stage begins; returns its handle."""

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None: ...

    def note(self, line: str) -> None:
        """A line that stays: what was found out on the way."""


_listener: ContextVar[Listener | None] = ContextVar("longtail_progress", default=None)
_heard: ContextVar[list[Any] | None] = ContextVar("longtail_told", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every stage begun inside this block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """One piece of long work; yields a function to call with how much more of it is done."""
    listener = _listener.get()
    if listener is None:
        yield lambda amount: None
        return
    handle = listener.start(name, total)
    try:
        yield lambda amount: listener.advance(handle, amount)
    finally:
        listener.finish(handle)


def note(line: str) -> None:
    """A line for a person who watches, which stays when the stage is over: how a try did, what was chosen."""
    listener = _listener.get()
    if listener is not None:
        listener.note(line)


@contextmanager
def hearing() -> Iterator[list[Any]]:
    """Collects what work inside this block tells."""
    heard: list[Any] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def tell(fact: Any) -> None:
    """Something that was found out on the way, for whoever listens."""
    heard = _heard.get()
    if heard is not None:
        heard.append(fact)
