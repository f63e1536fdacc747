"""Many numbers at once: the same as one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.data.repository_numbers import numbers

SEPARATORS = st.sampled_from([" ", "  ", ":", ",", "\n", "\t", "\r\n"])
WHOLE = st.integers(0, 10**16 - 1).map(str)
POINTED = st.builds("{}.{}".format, st.integers(0, 10**9), st.text("0123456789", min_size=1, max_size=9))
SIGNED = st.builds("-{}".format, st.one_of(WHOLE, POINTED))
POWERS = st.builds(
    "{}{}{}{}".format,
    st.one_of(WHOLE, POINTED, SIGNED),
    st.sampled_from("eE"),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 320).map(str),
)
WORDS = st.one_of(WHOLE, POINTED, SIGNED, POWERS, st.floats(width=32, allow_nan=False, allow_infinity=False).map(str))


@given(st.lists(st.tuples(WORDS, SEPARATORS)))
def test_numbers_are_the_same_as_one_at_a_time(parts: list[tuple[str, str]]) -> None:
    words = [word for word, _ in parts if all(len(run) <= 16 for run in word.replace("-", ".").split("."))]
    text = "".join(word + separator for word, separator in parts if word in words)
    found = numbers(text.encode() + b"\n")
    assert found is not None
    expected = np.array([float(word) for word in words])
    np.testing.assert_allclose(found.values, expected, rtol=1e-15)
    assert found.whole.tolist() == [word.isdigit() for word in words]
    short = [place for place, word in enumerate(words) if len(word) <= 15]
    assert found.values[short].tolist() == expected[short].tolist()  # to the last bit


@given(st.lists(st.tuples(WORDS, SEPARATORS), min_size=1))
def test_each_number_knows_where_it_starts_and_what_follows(parts: list[tuple[str, str]]) -> None:
    text = "".join(word + separator for word, separator in parts) + "\n"
    found = numbers(text.encode())
    if found is not None:
        before, follows = 0, []
        for (word, separator), start in zip(parts, found.starts.tolist(), strict=True):
            assert start == before + word.startswith("-")
            before += len(word) + len(separator)
            follows.append(ord(separator[0]))
        assert found.after.tolist() == follows


ODD = "1.2.3 1e e5 1e5e5 --2 1-2 nan inf 1..2 1e5.5 +3 0x10 1_0 - 1e--5 ٣ 1.e5 .5 5. 1;2 e 1e+ 1.5e -e5"


@pytest.mark.parametrize("word", [*ODD.split(" "), "1" * 17, "\x00", "1\x0b2"])
@pytest.mark.parametrize("around", ["{}\n", "1 {}\n", "1:{} 3:4\n", "{}:1\n7\n"])
def test_anything_else_is_left_to_the_careful_way(word: str, around: str) -> None:
    assert numbers(around.format(word).encode()) is None


@pytest.mark.parametrize("text", [b"\n", b" \n\n", b",:\n"])
def test_no_numbers(text: bytes) -> None:
    found = numbers(text)
    assert found is not None
    assert found.values.size == 0


@given(st.text("0123456789.eE+-:, \n", max_size=40))
def test_what_is_accepted_is_what_python_accepts(text: str) -> None:
    found = numbers(text.encode() + b"\n")
    words = text.replace(":", " ").replace(",", " ").split()
    if found is not None:
        np.testing.assert_allclose(found.values, [float(word) for word in words], rtol=1e-15)
