"""Texts that several models read one after another are cut into tokens once. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from longtail.arrays import AnyArray, Longs

Key = tuple[str, int, tuple[str, ...]]  # which tokenizer, how many tokens of a text at most, and the texts
Chunk = tuple[AnyArray, Longs]  # the tokens of these texts one after another, and how many each has

_chunks: ContextVar[dict[Key, Chunk] | None] = ContextVar("longtail_tokens", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """In this block, a chunk of texts that was tokenised is not tokenised again by the same tokenizer.

    Two or four bytes a token stay in memory until its end, for each tokenizer that was used, and the texts do. A block
    inside another one shares what was read there.
    """
    outer = read_before()
    before = _chunks.set({} if outer is None else outer)
    try:
        yield
    finally:
        _chunks.reset(before)


def read_before() -> dict[Key, Chunk] | None:
    """The chunks of this block; none outside of one."""
    return _chunks.get()
