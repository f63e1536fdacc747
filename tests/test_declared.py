"""The language in which a part declares what it stores, and the check of what is stored against it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.linear.features.sparse_features import matrix_state
from longtail.seams import (
    Array,
    Contents,
    Declaration,
    Fields,
    Flag,
    Misfit,
    Nothing,
    Number,
    Several,
    Whole,
    Words,
    csr,
    strings,
)
from longtail.seams.conforms import conforms
from longtail.seams.declared import PIECE

FLOATS = np.arange(12, dtype=np.float32).reshape(4, 3)


def check(declaration: Declaration, settings: Any = None, parts: Any = None, **tensors: Any) -> dict[str, int]:
    given = {name.replace("__", "."): array for name, array in tensors.items()}
    return conforms(declaration, settings or {}, given, parts or {}, 4)


def arrays(**declared: Array) -> Declaration:
    return Declaration(declared)


def test_names_of_sizes_are_the_same_everywhere() -> None:
    both = arrays(a=Array("float32", "labels, wide"), b=Array("int64", "wide + 1"), c=Array("float32", "2, wide"))
    check(both, a=FLOATS, b=np.arange(4), c=np.zeros((2, 3), np.float32))
    for wrong, problem in [
        ({"a": FLOATS[:3]}, "array 'a' is for 3 labels where there are 4"),
        ({"b": np.arange(3)}, "array 'b' is for 2 wide where there are 3"),
        ({"b": np.arange(0)}, "array 'b' is too short for the number of wide"),
        ({"c": np.zeros((3, 3), np.float32)}, "array 'c' has 3 numbers along an axis of 2"),
        ({"a": FLOATS.astype(np.float64)}, "array 'a' has numbers of type float64, not float32"),
        ({"a": FLOATS.ravel()}, "array 'a' has 1 axes, not 2"),
        ({"d": FLOATS}, "array 'd' is not one that this kind stores"),
    ]:
        good = {"a": FLOATS, "b": np.arange(4), "c": np.zeros((2, 3), np.float32)}
        with pytest.raises(Misfit) as caught:
            check(both, **(good | wrong))
        assert problem in str(caught.value)
    with pytest.raises(Misfit, match="array 'c' is missing"):
        check(both, a=FLOATS, b=np.arange(4))


@pytest.mark.parametrize("place", [0, 5, PIECE - 1, PIECE, PIECE + 3])
def test_every_number_of_a_long_array_is_looked_at(place: int) -> None:
    """Checks go piece by piece; the border between two pieces is no gap."""
    rising = np.arange(PIECE + 4, dtype=np.int64)
    for declared, wrong, problem in [
        (Array("int64", "long", least=0), -1, "has the number -1, outside 0"),
        (Array("int64", "long", below="long"), PIECE + 4, "has the number"),
        (Array("int64", "long", rising=True), -7 if place else 99, "do not rise"),
        (Array("int64", "long", points_to="labels"), -7, "do not rise|does not lead"),
    ]:
        bent = rising.copy()
        bent[place] = wrong
        with pytest.raises(Misfit, match=problem):
            check(arrays(a=declared), a=bent)
    floats = np.zeros(PIECE + 4, dtype=np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        floats[place] = bad
        with pytest.raises(Misfit, match="not finite"):
            check(arrays(a=Array("float32", "long")), a=floats)
    check(arrays(a=Array("int64", "long", least=0, below="long", rising=True)), a=rising)


def test_pointers_lead_from_0_to_the_end() -> None:
    pointers = arrays(p=Array("int64", "rows + 1", points_to="entries"), e=Array("int32", "entries"))
    entries = np.zeros(5, np.int32)
    check(pointers, p=np.array([0, 2, 2, 5]), e=entries)
    for wrong in ([1, 2, 5], [0, 2, 4], [0, 6], [0, 3, 2, 5], [0, -1, 5]):
        with pytest.raises(Misfit, match="array 'p'"):
            check(pointers, p=np.array(wrong), e=entries)


def random_matrix(seed: int) -> Any:
    found = sparse.random_array((6, 9), density=0.4, rng=np.random.default_rng(seed), dtype=np.float32).tocsr()
    found.sort_indices()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_sparse_matrix_is_held_as_a_plain_loop_would_hold_it(seed: int) -> None:
    """Random damage: refused exactly where some entry cannot be reached by a loop over rows and columns."""
    rng = np.random.default_rng(seed)
    for _ in range(300):
        tensors = matrix_state("m", random_matrix(seed))
        tensors = {name: array.copy() for name, array in tensors.items()}
        name = rng.choice(["m.indptr", "m.indices", "m.shape"])
        place = rng.integers(len(tensors[name]))
        tensors[name][place] = rng.choice([-1, 0, 1, 3, 5, 6, 8, 9, 10, 20, tensors[name][place]])
        assert fits_a_loop(tensors) == conforming(csr("m", "rows", "columns", ascending=True), tensors)


def fits_a_loop(tensors: dict[str, Any]) -> bool:
    starts, columns = tensors["m.indptr"].tolist(), tensors["m.indices"].tolist()
    rows, wide = tensors["m.shape"].tolist()
    if min(rows, wide) < 0 or len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != len(columns):
        return False
    for row in range(rows):
        inside = columns[starts[row] : starts[row + 1]]
        if starts[row + 1] < starts[row] or not all(0 <= column < wide for column in inside):
            return False
        if sorted(set(inside)) != inside:
            return False
    return True


def conforming(declaration: Declaration, tensors: dict[str, Any]) -> bool:
    try:
        conforms(declaration, {}, tensors, {}, 4)
    except Misfit:
        return False
    return True


def test_strings_are_none_of_them_empty() -> None:
    words = strings("w", "o", "words")
    check(words, w=np.zeros(5, np.uint8), o=np.array([0, 2, 5]))
    check(words, w=np.zeros(0, np.uint8), o=np.array([0]))
    for wrong in ([0, 2, 2, 5], [0, 3, 2, 5], [0, 5, 9], [2, 5], []):
        with pytest.raises(Misfit):
            check(words, w=np.zeros(5, np.uint8), o=np.array(wrong, dtype=np.int64))


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (Whole(1, 9), [1, 9], [0, 10, 1.0, True, "1", None, 10**5000, [1]]),
        (Number(0, 1), [0, 1, 0.5], [-0.1, 1.1, float("nan"), float("inf"), True, "0", None, 10**5000]),
        (Number(above=0), [0.1, 5], [0, -1, 1e301]),
        (Flag(), [True, False], [0, 1, "true", None]),
        (Words(("a", "b")), ["a"], ["c", "", 1, None, ["a"]]),
        (Words(), ["", "anything"], [1, None]),
        (Nothing(Whole(1)), [None, 1], [0, "x"]),
        (Several((Whole(), Flag())), [[1, True]], [[1], [1, 2], [1, True, 3], (1, True), "1", None]),
        (Fields({"a": Whole(), "b": Flag(optional=True)}), [{"a": 1}, {"a": 1, "b": True}], [{}, {"a": 1, "c": 1}, []]),
    ],
)
def test_settings_by_type_and_range(declared: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check(Declaration(settings={"x": declared}), {"x": value})
    for value in bad:
        with pytest.raises(Misfit, match="setting 'x") as caught:
            check(Declaration(settings={"x": declared}), {"x": value})
        assert len(str(caught.value)) < 200
    with pytest.raises(Misfit, match="setting 'x' is missing"):
        check(Declaration(settings={"x": declared}))
    with pytest.raises(Misfit, match="setting 'y' is not one that this kind stores"):
        check(Declaration(), {"y": good[0]})


def test_what_depends_on_settings_and_what_no_range_can_say() -> None:
    def wide(settings: Any) -> Declaration:
        return Declaration({"a": Array("float32", f"labels, {settings['width']}")}, {"more": Flag(optional=True)})

    def first(stored: Contents) -> None:
        if stored.tensors["a"][0, 0] != 0:
            raise Misfit("a", "begins with something else than 0")

    declared = Declaration(settings={"width": Whole(1, size="width")}, then=(wide,), checks=(first,))
    check(declared, {"width": 3, "more": True}, a=FLOATS)
    with pytest.raises(Misfit, match="along an axis of 2"):
        check(declared, {"width": 2}, a=FLOATS)
    with pytest.raises(Misfit, match="begins with"):
        check(declared, {"width": 3}, a=FLOATS + 1)
    with pytest.raises(Misfit, match="setting 'width' is for 3 labels"):
        check(Declaration(settings={"width": Whole(size="labels")}), {"width": 3})


def test_parts_inside_have_labels_of_their_own() -> None:
    declared = Declaration({"own": Array("int64", "side", least=0, below="labels")}, parts={"inner": "side"})
    assert check(declared, parts={"inner": {}}, own=np.array([0, 3])) == {"inner": 2}
    for parts in ({}, {"inner": {}, "other": {}}):
        with pytest.raises(Misfit, match=r"part '(inner|other)' is"):
            check(declared, parts=parts, own=np.array([0, 3]))


def test_a_part_of_a_package_that_declares_nothing_gets_what_names_allow() -> None:
    """Numbers are finite, and what looks like a sparse matrix or like strings is one."""
    tensors = {**matrix_state("m", random_matrix(1)), "words": np.zeros(3, np.uint8), "word_offsets": np.array([0, 3])}
    assert conforms(None, {"any": [1]}, tensors, {"inner": {}}, 7) == {"inner": 7}
    for name, value in {
        "m.indices": np.full_like(tensors["m.indices"], 99),
        "m.indptr": tensors["m.indptr"] * 0,
        "m.data": tensors["m.data"] * np.float32(np.nan),
        "word_offsets": np.array([0, 99]),
        "weights": np.array([np.inf]),
    }.items():
        with pytest.raises(Misfit, match=f"array '{name}'"):
            conforms(None, {}, {**tensors, name: value}, {}, 7)
    with pytest.raises(Misfit, match="are an object"):
        conforms(None, [], {}, {}, 7)
