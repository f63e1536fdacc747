import pytest
from hypothesis import given
from hypothesis import strategies as some

from longtail.drawing import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0004, "0 ms"),
        (0.012, "12 ms"),
        (0.0999, "0.1 s"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (99.4, "99 s"),
        (131, "2 m 11 s"),
        (3599.7, "1 h 00 m"),
        (7260, "2 h 01 m"),
        (-1.5, "−1.5 s"),
        (float("nan"), "–"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (1500, "1.5 kB"),
        (610e6, "610 MB"),
        (1.234e9, "1.23 GB"),
        (4e13, "40 TB"),
    ],
)
def test_size(value: float, text: str) -> None:
    assert words.size(value) == text


def test_shares_do_not_claim_none_or_all() -> None:
    assert words.share(1, 1000) == "<1%"
    assert words.share(999, 1000) == ">99%"
    assert words.share(0, 1000) == "0%"
    assert words.share(1000, 1000) == "100%"
    assert words.share(0, 0) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999, "999"),
        (1_000, "1k"),
        (4_564, "4.6k"),
        (9_999, "10k"),
        (12_044, "12k"),
        (999_499, "999k"),
        (999_600, "1.0M"),
        (2_500_000, "2.5M"),
    ],
)
def test_short_count(value: int, text: str) -> None:
    assert words.short_count(value) == text


@given(some.text(max_size=200), some.integers(5, 60))
def test_cut_keeps_within_the_length(text: str, length: int) -> None:
    assert len(words.cut(text, length)) <= length


def test_cut_at_a_space() -> None:
    assert words.cut("the quick brown fox jumps", 21) == "the quick brown fox…"
    assert words.cut("short  \n text", 20) == "short text"


@given(some.text(some.characters(), max_size=50))
def test_clean_text_is_valid_utf8_without_control_characters(text: str) -> None:
    cleaned = words.clean(text)
    cleaned.encode("utf-8")
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in cleaned)
    assert len(cleaned) == len(text)


def test_short_names_drop_settings_only_where_names_stay_apart() -> None:
    names = [
        "renee(epochs=30) + lever(tau=15) + rerank",
        "bm25",
        "knn(k=10) + rerank(candidates=100)",
        "knn(k=50) + rerank(candidates=100)",
    ]
    short = words.short_names(names, 24)
    assert short[:2] == ["renee + lever + rerank", "bm25"]
    assert len(set(short)) == 4 and max(map(len, short)) <= 24
