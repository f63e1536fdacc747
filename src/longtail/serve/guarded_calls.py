"""Calls that may raise anything at all, in threads.

A panic of a Rust library (tokenizers) is a `BaseException`, and so are `SystemExit` and `KeyboardInterrupt`. Raised in
a task of the event loop they would end the service, so errors are handed over as values and never raised there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a call returned, or what it raised."""

    value: Any
    error: BaseException | None


def outcome_of(work: Callable[..., Any], *given: Any) -> Outcome:
    """Calls and never raises.

    Args:
        work: what to call.
        given: its arguments.

    Returns:
        What it returned or raised.
    """
    try:
        return Outcome(work(*given), None)
    except BaseException as error:
        return Outcome(None, error)


class WorkFailed(Exception):
    """Something that is no `Exception` was raised in a thread; its class is in the message."""


async def in_thread(work: Callable[..., Any], *given: Any) -> Any:
    """Runs a call in a thread of the pool, as `asyncio.to_thread`.

    Args:
        work: what to call.
        given: its arguments.

    Returns:
        What it returned.

    Raises:
        Exception: what it raised; `WorkFailed` for what is no `Exception`.
    """
    value, error = await asyncio.to_thread(outcome_of, work, *given)
    if error is None:
        return value
    if isinstance(error, Exception):
        raise error
    raise WorkFailed(type(error).__name__) from error
