"""What a person wants to know of one method, read from its class: help on the command line and on the site."""

from __future__ import annotations

import dataclasses
import inspect
import re
from dataclasses import dataclass
from typing import Any, cast

from longtail.grammar import Value, literal
from longtail.seams import seams_of

HEADINGS = ("Published form", "Needs", "Costs", "Prefer instead", "Example")  # of a method's docstring


@dataclass(frozen=True)
class SettingHelp:
    """One setting: its name, its default as a recipe writes it, what it means, and whether the class itself has it."""

    name: str
    default: str
    meaning: str
    own: bool  # declared by the method, not by the settings that it shares with others


@dataclass(frozen=True)
class PresetHelp:
    """One preset: its name, and each setting as a recipe writes it with the place where the paper prints it."""

    name: str
    settings: tuple[tuple[str, str, str], ...]  # name, value, place
    differs: str


@dataclass(frozen=True)
class MethodHelp:
    """A learner or tail method, described."""

    name: str
    summary: str
    what: str  # the first paragraphs of its docstring
    sections: dict[str, str]  # by heading, those that the docstring has
    settings: tuple[SettingHelp, ...]
    papers: tuple[str, ...]  # citations
    seams: tuple[str, ...]  # where a tail method acts
    presets: tuple[PresetHelp, ...] = ()


def describe_method(name: str, kind: type[Any]) -> MethodHelp:
    """Read a method's docstring, settings and papers.

    Args:
        name: Its name in a recipe.
        kind: Its class.

    Returns:
        What `longtail methods NAME` and the site show of it.
    """
    what, sections = _sections(inspect.getdoc(kind) or "")
    papers = tuple(paper.citation for paper in getattr(kind, "papers", ()))
    return MethodHelp(name, kind.summary, what, sections, _settings(kind), papers, seams_of(kind), _presets(kind))


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """A docstring by its headings: what it does, then `Needs: ...` and so on."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in text.splitlines():
        begins = re.match(rf"({'|'.join(HEADINGS)}): (.*)", line)
        if begins:
            heading, line = begins[1], begins[2]
        found.setdefault(heading, []).append(line.strip())
    joined = {
        name: "\n\n".join(" ".join(part.split("\n")) for part in "\n".join(lines).strip().split("\n\n"))
        for name, lines in found.items()
    }
    return joined.pop(""), joined


def _settings(kind: type[Any]) -> tuple[SettingHelp, ...]:
    """Every setting, with the comment on its line in the source."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        comments |= _comments(source)
    own = inspect.get_annotations(kind)
    return tuple(
        SettingHelp(field.name, _default(field.default), comments.get(field.name, ""), field.name in own)
        for field in dataclasses.fields(kind)
    )


def _presets(kind: type[Any]) -> tuple[PresetHelp, ...]:
    return tuple(
        PresetHelp(
            name,
            tuple((setting, literal(value), preset.source_of(setting)) for setting, value in preset.settings.items()),
            preset.differs,
        )
        for name, preset in getattr(kind, "presets", {}).items()
    )


def _comments(source: str) -> dict[str, str]:
    """The comment of each field: on the lines above it, behind it, and indented below it."""
    found: dict[str, str] = {}
    name, above = "", ""
    for line in source.splitlines():
        code, _, comment = line.partition("  # ")
        field = re.match(r"    (\w+): ", code)
        if field:
            name, comment, above = field[1], f"{above} {comment}".strip(), ""
        elif line.startswith("    # "):
            above, name = f"{above} {line.removeprefix('    # ')}".strip(), ""
        elif line.strip().startswith("# "):
            comment = line.strip().removeprefix("# ")
        elif not line.startswith("        ") and code.strip() != ")":
            name, above = "", ""
        if name and comment:
            found[name] = f"{found[name]} {comment}" if name in found else comment
    return found


def _default(value: Any) -> str:
    return "" if value is dataclasses.MISSING else literal(cast(Value, value))
