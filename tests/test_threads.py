"""How many threads there are."""

from __future__ import annotations

import pytest

from longtail.errors import DataError
from longtail.threads import thread_count


def test_as_many_as_asked_for_or_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.delenv("LONGTAIL_THREADS")
    assert thread_count() >= 1
    monkeypatch.setenv("LONGTAIL_THREADS", "")
    assert thread_count() >= 1


@pytest.mark.parametrize("asked", ["abc", "0", "-1", "1.5", "²"])
def test_a_number_that_is_none_is_told(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", asked)
    with pytest.raises(DataError, match=f"whole number above 0, got '{asked}'"):
        thread_count()
