"""How a recipe is written: `learner(setting=value) + method:preset(...)`, and the same in TOML.

Parsing only reads; nothing is evaluated. A part keeps the literal text of each value, so that a recipe prints
back as it was typed (white space aside), and its name in a table is what the user wrote.

A part may name a preset behind a colon, `lever:paper`: settings under one name, which those in the parentheses change
one by one. What a preset sets is known to the class of the part.

A part may have members, which are recipes themselves: strings without a name before the settings, as in
`fuse("parabel", "knn", folds=4)`. Which parts take members is known to the catalogue, not to the grammar.
"""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from longtail.errors import DataError, RecipeError

Value: TypeAlias = int | float | bool | str | tuple[Any, ...] | None

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)
      | :\s*(?P<preset>[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[+(),=\[\]])
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SEARCHED = re.compile(r"\||(?:[+-]?[\d.]+(?:[eE][+-]?\d+)?)?\.\.")  # `x|y` and `a..b` of `longtail tune`
_WORDS: dict[str, Value] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True)
class Setting:
    """`name=value` inside the parentheses of a part."""

    name: str
    value: Value
    literal: str = field(default="", compare=False)  # as typed

    def __str__(self) -> str:
        return f"{self.name}={self.literal or literal(self.value)}"


@dataclass(frozen=True)
class Member:
    """A string without a name inside the parentheses of a part: the recipe of a member."""

    text: str
    literal: str = field(default="", compare=False)  # as typed

    def __str__(self) -> str:
        return self.literal or literal(self.text)


@dataclass(frozen=True)
class Part:
    """A learner or a tail method by name, with the preset, members and settings that were given."""

    name: str
    settings: tuple[Setting, ...] = ()
    members: tuple[Member, ...] = ()
    preset: str | None = None

    @property
    def title(self) -> str:
        """Its name with its preset: `lever:paper`."""
        return self.name if self.preset is None else f"{self.name}:{self.preset}"

    def __str__(self) -> str:
        inside = ", ".join(map(str, (*self.members, *self.settings)))
        return f"{self.title}({inside})" if inside else self.title


def literal(value: Value | list[Any]) -> str:
    """A value in recipe notation.

    Args:
        value: Text, a number, true, false, none, or a list of these.

    Returns:
        What `parse` reads back as the same value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return '"' + _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'
    return repr(value)


def _unescaped(match: re.Match[str]) -> str:
    if len(match[1]) == 5:
        return chr(int(match[1][1:], 16))
    return _ESCAPES.get(match[1], match[0])


def parse(text: str) -> tuple[Part, ...]:
    """The parts of a recipe, left to right.

    Args:
        text: `learner(setting=value) + method(...)`.

    Returns:
        The learner, then the tail methods.

    Raises:
        RecipeError: The text is no recipe; the message points to the place.
    """
    return _Parser(text).recipe()


class _Parser:
    """Recursive descent over the tokens of one recipe."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, where it starts
        place = 0
        while True:
            match = _TOKEN.match(text, place)
            if match is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                if text[start] in "\"'":
                    self.fail(f"the string that starts with {text[start : start + 12]} is not closed", start)
                if _SEARCHED.match(text, start):
                    self.fail(
                        f"{text[start : start + 12]!r} is a range or a choice, not a value; `longtail tune` finds the "
                        "best value of it",
                        start,
                    )
                self.fail(f"cannot read {text[start : start + 12]!r}", start)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            if kind == "end":
                break
            place = match.end()
        self.next = 0

    def fail(self, problem: str, place: int | None = None) -> NoReturn:
        where = self.tokens[self.next][2] if place is None else place
        text = self.text if len(self.text) <= 2000 else self.text[:2000] + "..."
        raise RecipeError(f"recipe {text!r}, character {where + 1}: {problem}")

    def take(self, kind: str, wanted: str, mark: str | None = None) -> str:
        found, text, _ = self.tokens[self.next]
        if found != kind or (mark is not None and text != mark):
            self.fail(f"expected {wanted}, found {repr(text) if text else 'the end'}")
        self.next += 1
        return text

    def at(self, mark: str) -> bool:
        kind, text, _ = self.tokens[self.next]
        return kind == "mark" and text == mark

    def recipe(self) -> tuple[Part, ...]:
        parts = [self.part("a learner's name")]
        while self.at("+"):
            self.next += 1
            parts.append(self.part("a tail method's name after '+'"))
        self.take("end", "'+' or the end")
        return tuple(parts)

    def part(self, wanted: str) -> Part:
        name = self.take("name", wanted)
        preset = self.take("preset", "") if self.tokens[self.next][0] == "preset" else None
        settings: list[Setting] = []
        members: list[Member] = []
        if self.at("("):
            self.next += 1
            while not self.at(")"):
                if self.tokens[self.next][0] == "string":
                    if settings:
                        self.fail(f"the members of {name} stand before its settings")
                    written = self.tokens[self.next][1]
                    members.append(Member(str(self.value()), written))
                else:
                    setting = self.setting(name)
                    if any(setting.name == other.name for other in settings):
                        self.fail(f"setting '{setting.name}' of {name} is given twice")
                    settings.append(setting)
                if not self.at(")"):
                    self.take("mark", f"',' or ')' in the settings of {name}", ",")
            self.next += 1
        return Part(name, tuple(settings), tuple(members), preset)

    def setting(self, part: str) -> Setting:
        name = self.take("name", f"a setting's name in the settings of {part}")
        if self.at(",") or self.at(")") or self.at("(") or self.at("+"):
            self.fail(
                f"expected '=' after {name}, found {self.tokens[self.next][1]!r}; a recipe that is a member "
                f'stands in quotes: "{name}"'
            )
        self.take("mark", f"'=' after {name}", "=")
        begin = self.tokens[self.next][2]
        value = self.value()
        _, text, start = self.tokens[self.next - 1]
        return Setting(name, value, self.text[begin : start + len(text)])

    def value(self, depth: int = 0) -> Value:
        kind, text, _ = self.tokens[self.next]
        if self.at("["):
            if depth == 4:
                self.fail("lists inside lists inside lists")
            self.next += 1
            items: list[Value] = []
            while not self.at("]"):
                items.append(self.value(depth + 1))
                if not self.at("]"):
                    self.take("mark", "',' or ']' in the list", ",")
            self.next += 1
            return tuple(items)
        if kind == "number":
            if len(text) > 40:
                self.fail("a number of more than 40 characters")
            self.next += 1
            return float(text) if re.search(r"[.eE]", text) else int(text)
        if kind == "string":
            self.next += 1
            return _ESCAPE.sub(_unescaped, text[1:-1])
        if kind == "name" and text in _WORDS:
            self.next += 1
            return _WORDS[text]
        if kind == "name":
            self.fail(f'expected a value, found {text}; write "{text}" if it is a word')
        self.fail(f"expected a value, found {repr(text) if text else 'the end'}")


def to_toml(parts: tuple[Part, ...]) -> str:
    """A recipe as TOML: one `learner` table and a list of `tail` tables.

    Args:
        parts: The learner, then the tail methods.

    Returns:
        The text of a TOML file.
    """

    def table(part: Part) -> str:
        pairs = [f'name = "{part.title}"']
        if part.members:
            pairs.append(f"members = {literal([member.text for member in part.members])}")
        for setting in part.settings:
            if setting.value is None:
                raise RecipeError(f"{part.name}({setting}): TOML has no word for none; leave the setting out")
            pairs.append(f"{setting.name} = {literal(setting.value)}")
        return "{ " + ", ".join(pairs) + " }"

    tail = "".join(f"  {table(part)},\n" for part in parts[1:])
    return f"learner = {table(parts[0])}\n" + (f"tail = [\n{tail}]\n" if tail else "")


def read_toml(text: str, path: str | Path | None = None) -> list[tuple[Part, ...]]:
    """The recipes of a TOML file: one `learner` + `tail`, several `[[recipe]]`, or `recipes = ["...", ...]`.

    Args:
        text: The content of the file.
        path: Where it lies, for messages.

    Returns:
        The parts of each recipe.

    Raises:
        RecipeError: The file is no TOML, or holds no recipe.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"not valid TOML: {error}", path) from None
    except RecursionError:
        raise DataError("lists or tables too deep inside each other; recipe files are flat", path) from None
    except ValueError:
        raise DataError("a number with thousands of digits; settings are short", path) from None
    unknown = set(content) - {"learner", "tail", "recipe", "recipes"}
    if unknown:
        raise DataError(f"unknown entry {sorted(unknown)[0]!r}; a recipe file has learner, tail, recipe, recipes", path)
    if "tail" in content and "learner" not in content:
        raise DataError("tail methods without a learner; write learner = { name = ... }", path)
    words, tables = content.get("recipes", []), content.get("recipe", [])
    if not isinstance(words, list) or not all(isinstance(line, str) for line in words):
        raise DataError('recipes must be a list of strings: recipes = ["...", ...]', path)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise DataError("recipe must be a list of tables, each under [[recipe]]", path)
    found = [parse(line) for line in words]
    for table in [*([content] if "learner" in content else []), *tables]:
        if "learner" not in table:
            raise DataError("a recipe has no learner; write learner = { name = ... }", path)
        tail = table.get("tail", [])
        if not isinstance(tail, list):
            raise DataError(f"tail must be a list of parts, got {tail!r}", path)
        unknown = set(table) - {"learner", "tail"} if table is not content else set()
        if unknown:
            raise DataError(f"unknown entry {sorted(unknown)[0]!r}; a recipe has learner and tail", path)
        found.append(tuple(_part(entry, path) for entry in [table["learner"], *tail]))
    if not found:
        raise DataError("the file holds no recipe; write learner = { name = ... }", path)
    return found


def _part(entry: object, path: str | Path | None) -> Part:
    if isinstance(entry, str):
        name, preset = _title(entry, path)
        return Part(name, preset=preset)
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise DataError(f"{entry!r} is not a part; write {{ name = ..., setting = value }}", path)
    members = entry.get("members", [])
    if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
        raise DataError('members must be a list of recipes: members = ["...", ...]', path)
    values = {name: value for name, value in entry.items() if name not in ("name", "members")}
    settings = [Setting(name, _value(value, path)) for name, value in values.items()]
    name, preset = _title(entry["name"], path)
    return Part(name, tuple(settings), tuple(map(Member, members)), preset)


def _title(text: str, path: str | Path | None) -> tuple[str, str | None]:
    """The name of a part and its preset, where it has one."""
    name, colon, _ = text.partition(":")
    if not colon:
        return text, None
    try:
        [part] = parse(text)
    except (RecipeError, ValueError):
        part = Part(name)
    if part.preset is None or part.settings or part.members:
        raise DataError(f'{text!r} is no name of a part with a preset; write name = "lever:paper"', path)
    return part.name, part.preset


def _value(value: Any, path: str | Path | None) -> Value:
    """A TOML value as a recipe writes it."""
    if isinstance(value, list):
        return tuple(_value(item, path) for item in value)
    if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise DataError(f"{value!r} is no value of a setting; give a number, a string, true, false or a list", path)
    return value
