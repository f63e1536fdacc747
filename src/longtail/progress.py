"""Progress and events of long work. The library reports stages; a listener draws them.

    with stage("reading train", total=rows) as advance:
        for chunk in chunks:
            ...
            advance(len(chunk))

Without a listener a stage costs nothing and prints nothing.

Work may also `emit` events, facts that it found and that no model holds, such as how good a teacher was; a caller
receives them with `collecting`.

Measures on the way, such as the loss of an epoch, go to callbacks at once: `measured` sends them, `calling` receives
them. `longtail.callbacks` has ready callbacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol


class Listener(Protocol):
    """Draws stages: the command line's progress bars, or a test's list."""

    def start(self, name: str, total: int | None) -> int:
        """Start a stage.

        Args:
            name: what is done.
            total: amount of work; None: unknown.

        Returns:
            A handle of the stage.
        """

    def advance(self, handle: int, amount: int) -> None:
        """Count more of a stage's work as done.

        Args:
            handle: what `start` returned.
            amount: how much more.
        """

    def finish(self, handle: int) -> None:
        """End a stage, whether it succeeded or failed.

        Args:
            handle: what `start` returned.
        """

    def note(self, line: str) -> None:
        """Print a line that stays when the stage is over.

        Args:
            line: the text.
        """


@dataclass(frozen=True)
class Measured:
    """What a callback is called with: where the work stands, and what was measured there."""

    stage: str  # what is trained, such as "encoder", or the name of a stage such as "reading train"
    step: int  # steps of the optimiser in this stage; 0 where there are none
    epoch: int  # epochs done in this stage; 0 where there are none
    measures: Mapping[str, float]  # by name: loss, learning_rate, seconds, and P@1 and others after a validation


class Callback(Protocol):
    """Any function of one argument. An error that it raises ends the training."""

    def __call__(self, measured: Measured, /) -> None:
        """Take what was measured."""


_listener: ContextVar[Listener | None] = ContextVar("longtail_progress", default=None)
_events: ContextVar[list[Any] | None] = ContextVar("longtail_events", default=None)
_callbacks: ContextVar[tuple[Callback, ...]] = ContextVar("longtail_callbacks", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every stage that starts inside this block to a listener.

    Args:
        listener: draws the stages.

    Yields:
        Nothing.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True)
class _Checked:
    """Asks before every piece of work whether to go on, and passes stages on to the listener around it."""

    around: Listener | None
    check: Callable[[], None]
    quiet: bool

    def start(self, name: str, total: int | None) -> int:
        self.check()
        return 0 if self.around is None else self.around.start(name, total)

    def advance(self, handle: int, amount: int) -> None:
        self.check()
        if self.around is not None:
            self.around.advance(handle, amount)

    def finish(self, handle: int) -> None:
        if self.around is not None:
            self.around.finish(handle)

    def note(self, line: str) -> None:
        if self.around is not None and not self.quiet:
            self.around.note(line)


@contextmanager
def checking(check: Callable[[], None], quiet: bool = False) -> Iterator[None]:
    """Call a function whenever a stage inside this block starts or advances. An error that it raises ends the work.

    Args:
        check: such as a look at the clock; it runs often.
        quiet: whether notes from inside the block are dropped.

    Yields:
        Nothing.
    """
    token = _listener.set(_Checked(_listener.get(), check, quiet))
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(name: str, total: int | None = None, timed: bool = True) -> Iterator[Callable[[int], None]]:
    """Report one piece of long work.

    Args:
        name: what is done, for a person to read.
        total: the amount of work; none: unknown.
        timed: whether callbacks get its seconds; not where the work sends measures of its own.

    Yields:
        A function to call with the amount of work done since the last call.
    """
    listener = _listener.get()
    if timed and _callbacks.get():
        with _timed(name), _drawn(listener, name, total) as advance:
            yield advance
    elif listener is None:
        yield lambda amount: None
    else:
        with _drawn(listener, name, total) as advance:
            yield advance


@contextmanager
def _drawn(listener: Listener | None, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    if listener is None:
        yield lambda amount: None
        return
    handle = listener.start(name, total)
    try:
        yield lambda amount: listener.advance(handle, amount)
    finally:
        listener.finish(handle)


@contextmanager
def _timed(name: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    measured(Measured(name, 0, 0, {"seconds": time.monotonic() - begin}))


def note(line: str) -> None:
    """Log a line that stays when the stage is over, such as which setting was chosen.

    Args:
        line: for a person to read.
    """
    listener = _listener.get()
    if listener is not None:
        listener.note(line)


@contextmanager
def collecting() -> Iterator[list[Any]]:
    """Collect the events that work inside this block emits.

    Yields:
        A list, to which each event is appended.
    """
    events: list[Any] = []
    token = _events.set(events)
    try:
        yield events
    finally:
        _events.reset(token)


def emit(event: Any) -> None:
    """Emit an event to the innermost `collecting` block; without one it is dropped.

    Args:
        event: an object that callers know by its class.
    """
    events = _events.get()
    if events is not None:
        events.append(event)


@contextmanager
def calling(*callbacks: Callback) -> Iterator[None]:
    """Call these, and those of blocks around this one, with all that work inside this block measures.

    Args:
        callbacks: functions of a `Measured`.

    Yields:
        Nothing.
    """
    token = _callbacks.set((*_callbacks.get(), *callbacks))
    try:
        yield
    finally:
        _callbacks.reset(token)


def measured(what: Measured) -> None:
    """Send measures to the callbacks; without any they are dropped.

    Args:
        what: where the work stands, and its measures.
    """
    for callback in _callbacks.get():
        callback(what)
