"""Words of messages."""

from __future__ import annotations

import pytest

from longtail.errors import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("line",), "0 lines"),
        (1, ("line",), "1 line"),
        (2, ("line",), "2 lines"),
        (12345, ("line",), "12,345 lines"),
        (1, ("query has", "queries have"), "1 query has"),
        (3, ("query has", "queries have"), "3 queries have"),
    ],
)
def test_a_number_stands_before_one_thing_or_several(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said
