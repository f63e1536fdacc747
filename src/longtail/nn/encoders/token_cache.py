"""Tokens shared by several models, so that the same texts are tokenised only once. Imports no torch.

Models that read the same texts one after another, as a teacher and its student do, share the tokens inside
`sharing_tokens()`. Outside such a block nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from longtail.arrays import AnyArray, Longs

Key = tuple[str, int, tuple[str, ...]]  # hash of the tokenizer, max_tokens, and the texts
Chunk = tuple[AnyArray, Longs]  # the tokens of these texts one after another, and how many each text has

_chunks: ContextVar[dict[Key, Chunk] | None] = ContextVar("longtail_tokens", default=None)


@contextmanager
def sharing_tokens() -> Iterator[None]:
    """Inside this block, texts that were tokenised before by the same tokenizer are not tokenised again.

    The texts, and two or four bytes for each of their tokens and each tokenizer, stay in memory until the block ends. A
    block inside another one shares its tokens.

    Yields:
        Nothing.
    """
    outer = shared_chunks()
    before = _chunks.set({} if outer is None else outer)
    try:
        yield
    finally:
        _chunks.reset(before)


def shared_chunks() -> dict[Key, Chunk] | None:
    """Find the chunks of the current block, to look up and to add to.

    Returns:
        The chunks, or None outside a block.
    """
    return _chunks.get()
