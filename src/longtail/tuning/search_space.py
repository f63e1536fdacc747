"""Ranges and choices inside a recipe, and the recipes that they stand for.

    parabel(cost=0.5..4 log, trees=1|3|5) + ranknet

A value may be a range `low..high` (with `log` behind it: even in the logarithm) or a choice `first|second|...`. All
else is a recipe as `longtail.grammar` reads it, and every recipe of the space is checked by it. A recipe inside a
string, such as a teacher or a member of a fusion, may have ranges too.
"""

from __future__ import annotations

import math
import re
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NoReturn, TypeAlias

from longtail import catalogue, grammar
from longtail.errors import RecipeError
from longtail.recipe import Recipe

DIGITS = 4  # of a number that is drawn from a range: more would make no difference, and the recipe is read by people
_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})\s*(?P<log>log)?\s*\Z")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_OPENED = re.compile(r"(?:\s*:\s*[A-Za-z0-9._-]+)?\s*\(")  # behind the name of a part, which may have a preset


@dataclass(frozen=True)
class NumberRange:
    """A number between two others, both included."""

    name: str  # part.setting
    low: float
    high: float
    log: bool = False
    whole: bool = False  # a whole number

    def written(self, value: Any) -> str:
        """A value in recipe notation.

        Args:
            value: drawn from the range, before rounding.

        Returns:
            The number with few digits, never outside the range.
        """
        if self.whole:
            return str(int(value))
        return repr(min(max(float(f"{float(value):.{DIGITS}g}"), self.low), self.high))

    def holds(self, value: Any) -> bool:
        """Tell whether a value is one of the range.

        Args:
            value: as it stands in a file.

        Returns:
            Whether it can be drawn.
        """
        kinds = int if self.whole else int | float
        return isinstance(value, kinds) and not isinstance(value, bool) and self.low <= value <= self.high

    @property
    def ends(self) -> tuple[str, ...]:
        """What is checked before anything is trained."""
        return tuple(dict.fromkeys((self.written(self.low), self.written(self.high))))

    @property
    def size(self) -> float:
        """How many values there are."""
        return self.high - self.low + 1 if self.whole else math.inf

    def __str__(self) -> str:
        return f"{self.written(self.low)}..{self.written(self.high)}{' log' if self.log else ''}"


@dataclass(frozen=True)
class Alternatives:
    """One of several values. What is drawn is its place in the list: a sampler takes no lists as values."""

    name: str  # part.setting
    literals: tuple[str, ...]  # as typed

    def written(self, value: Any) -> str:
        """A value in recipe notation.

        Args:
            value: its place in the list, from 0.

        Returns:
            The literal as it was typed.
        """
        return self.literals[int(value)]

    def holds(self, value: Any) -> bool:
        """Tell whether a value is a place in the list.

        Args:
            value: as it stands in a file.

        Returns:
            Whether it can be drawn.
        """
        return type(value) is int and 0 <= value < len(self.literals)

    @property
    def ends(self) -> tuple[str, ...]:
        """What is checked before anything is trained: all of them."""
        return self.literals

    @property
    def size(self) -> float:
        """How many values there are."""
        return len(self.literals)

    def __str__(self) -> str:
        return "|".join(self.literals)


Dimension: TypeAlias = NumberRange | Alternatives


@dataclass(frozen=True)
class SearchSpace:
    """A recipe with holes, and what may stand in each."""

    text: str  # as typed
    pieces: tuple[str, ...]  # of the recipe, around the holes
    dimensions: tuple[Dimension, ...]  # one fewer than pieces

    @classmethod
    def parse(cls, text: str) -> SearchSpace:
        """Read a recipe with ranges and choices.

        Args:
            text: such as `parabel(cost=0.5..4 log, trees=1|3|5) + ranknet`.

        Returns:
            The space.

        Raises:
            RecipeError: there is no range or choice, one is empty or does not suit its setting, or the rest is no
                recipe.
        """
        found = list(_holes(text, text, 0))
        if not found:
            Recipe.parse(text)
            raise RecipeError(
                f"{text!r} has no range or choice, so there is nothing to tune; write one in the place of a value: "
                "parabel(cost=0.5..4 log, trees=1|3|5)"
            )
        starts, ends = [start for start, _, _ in found], [end for _, end, _ in found]
        pieces = [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]
        dimensions = _named([dimension for _, _, dimension in found])
        space = cls(text, tuple(pieces), dimensions)
        first = [dimension.ends[0] for dimension in dimensions]
        for place, dimension in enumerate(dimensions):
            for literal in dimension.ends:
                tried = space._joined([*first[:place], literal, *first[place + 1 :]])
                try:
                    Recipe.parse(tried)
                except RecipeError as error:
                    raise RecipeError(f"{dimension.name} of {text!r}: {error}") from None
        return space

    def recipe(self, values: Mapping[str, Any]) -> str:
        """The recipe with a value in every hole.

        Args:
            values: by the name of their dimension; of a choice, the place of the value in its list.

        Returns:
            The recipe as text, as `Recipe` prints it.
        """
        return str(Recipe.parse(self._joined([one.written(values[one.name]) for one in self.dimensions])))

    def corners(self) -> tuple[str, ...]:
        """The recipes with every value at its low end or first choice, and at its high end or last choice."""
        ends = [dimension.ends for dimension in self.dimensions]
        return tuple(dict.fromkeys(self._joined([one[place] for one in ends]) for place in (0, -1)))

    @property
    def size(self) -> float:
        """How many recipes there are; infinite where a range is not of whole numbers."""
        return math.prod(dimension.size for dimension in self.dimensions)

    def grid(self) -> list[dict[str, Any]]:
        """List every recipe of a finite space.

        Returns:
            Values by the name of their dimension.
        """
        sides = [
            range(int(one.low), int(one.high) + 1) if isinstance(one, NumberRange) else range(len(one.literals))
            for one in self.dimensions
        ]
        names = [one.name for one in self.dimensions]
        return [dict(zip(names, values, strict=True)) for values in product(*sides)]

    def _joined(self, literals: Sequence[str]) -> str:
        return "".join(word for pair in zip(self.pieces, [*literals, ""], strict=True) for word in pair)


def _named(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Numbers behind names that occur twice, as in a fusion of two learners of one kind."""
    twice = Counter(dimension.name for dimension in dimensions)
    seen: Counter[str] = Counter()
    named = []
    for dimension in dimensions:
        seen[dimension.name] += 1
        number = f" ({seen[dimension.name]})" if twice[dimension.name] > 1 else ""
        named.append(replace(dimension, name=dimension.name + number))
    return tuple(named)


def _holes(text: str, whole: str, offset: int) -> Iterator[tuple[int, int, Dimension]]:
    """The ranges and choices of a recipe: where each starts and ends in the whole, and what it is."""
    place, part, first = 0, "", True
    while place < len(text):
        string = _STRING.match(text, place)
        name = _NAME.match(text, place)
        if string:  # a recipe inside a string; escapes would move the places of what it holds
            inner = string[0][1:-1]
            if "\\" not in inner and "(" in inner:
                yield from _holes(inner, whole, offset + place + 1)
            place = string.end()
        elif name:
            place = name.end()
            setting = re.compile(r"\s*=").match(text, place)
            if part and setting:
                begin, end, pieces = _value(text, setting.end())
                dimension = _dimension(part, first, name[0], text[begin:end], pieces, whole, offset + begin)
                if dimension is None:
                    place = begin  # an ordinary value, which may be a string with a recipe
                else:
                    yield offset + begin, offset + end, dimension
                    place = end
            elif not part:
                opened = _OPENED.match(text, place)
                part, place = (name[0], opened.end()) if opened else ("", place)
        else:
            if text[place] == ")":
                part = ""
            elif text[place] == "+" and not part:
                first = False
            place += 1


def _value(text: str, begin: int) -> tuple[int, int, list[str]]:
    """A value up to the comma or parenthesis behind it, and what its bars cut it into."""
    place, depth, cuts = begin, 0, [begin - 1]
    while place < len(text):
        string = _STRING.match(text, place)
        if string:
            place = string.end()
            continue
        mark = text[place]
        if depth == 0 and mark in ",)":
            break
        depth += {"[": 1, "]": -1}.get(mark, 0)
        if mark == "|" and depth == 0:
            cuts.append(place)
        place += 1
    cuts.append(place)
    while begin < place and text[begin].isspace():
        begin += 1
    return begin, place, [text[start + 1 : end] for start, end in pairwise(cuts)]


def _dimension(
    part: str, first: bool, setting: str, value: str, pieces: list[str], whole: str, place: int
) -> Dimension | None:
    """What a value stands for; None for an ordinary value."""
    name = f"{part}.{setting}"

    def fail(problem: str) -> NoReturn:
        raise RecipeError(f"recipe {whole!r}, character {place + 1}: {problem}")

    bare = _STRING.sub("", value)
    if len(pieces) > 1:
        if ".." in bare:
            fail(f"{name} mixes a range and a choice; give one or the other")
        literals = []
        for piece in pieces:
            if not piece.strip():
                fail(f"a choice of {name} is empty; write {name.partition('.')[2]}=first|second")
            try:
                [read] = grammar.parse(f"x(y={piece})")
            except RecipeError as error:
                fail(f"choice {piece.strip()!r} of {name}: {str(error).partition(': ')[2]}")
            literals.append(str(read.settings[0]).partition("=")[2])
        if len(set(literals)) < len(literals):
            fail(f"a choice of {name} stands twice")
        return Alternatives(name, tuple(literals))
    if ".." not in bare:
        return None
    found = _RANGE.match(value)
    if found is None:
        fail(f"{value.strip()!r} is no range of {name}; write low..high, or low..high log")
    takes = _takes(part, first, setting)
    if takes is not None and not takes & {int, float}:
        fail(f'{name} takes no number, so it has no range; write a choice: {setting}="first"|"second"')
    low, high, log = float(found["low"]), float(found["high"]), found["log"] is not None
    if not low < high:
        fail(f"the range {value.strip()} of {name} is empty: the first number must be the smaller one")
    if log and low <= 0:
        fail(f"the range {value.strip()} of {name} is logarithmic and must begin above 0")
    typed_whole = all(re.fullmatch(r"[+-]?\d+", found[end]) for end in ("low", "high"))
    if takes is not None and float not in takes and not typed_whole:
        fail(f"{name} takes whole numbers, so its range must have whole ends, got {value.strip()}")
    return NumberRange(name, low, high, log, whole=typed_whole and takes is not None and float not in takes)


def _takes(part: str, first: bool, setting: str) -> set[Any] | None:
    """The types of a setting; None where the part or the setting is unknown, which the recipe's own check reports."""
    try:
        kind = catalogue.learner_class(part) if first else catalogue.tail_class(part)
    except RecipeError:
        return None
    hint = catalogue.types_of_settings(kind).get(setting)
    if hint is None:
        return None
    return set(typing.get_args(hint) or (hint,)) - {type(None)}
