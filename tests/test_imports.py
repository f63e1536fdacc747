"""No file imports, directly or by others, a file that imports it; and learners and tail methods stay apart."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import longtail

SOURCE = Path(str(longtail.__file__)).parent


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, modules: set[str]) -> set[str]:
    """The files of the package that a file imports, in functions and for type checks too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules or {node.module}
    return (found & modules) - {name_of(path)}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each file of the package imports of it."""
    files = {name_of(path): path for path in SOURCE.rglob("*.py")}
    return {name: imported(path, set(files)) for name, path in files.items()}


def rings(imports: dict[str, set[str]]) -> list[set[str]]:
    """Groups of files that import each other in a ring: strongly connected components of more than one file."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for name in imports[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        reached[start] = seen
    groups = {frozenset({one} | {other for other in seen if one in reached[other]}) for one, seen in reached.items()}
    return [set(group) for group in groups if len(group) > 1]


def test_a_ring_is_found() -> None:
    assert rings({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]
    assert rings({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_make_no_ring(imports: dict[str, set[str]]) -> None:
    assert len(imports) > 250 and "longtail.store" in imports["longtail.recipe"]
    assert rings(imports) == []


def test_learners_and_tail_methods_do_not_know_each_other(imports: dict[str, set[str]]) -> None:
    """They meet in recipe.py, which finds them by name in the catalogue: no file imports both rooms."""
    rooms = {"longtail.learners", "longtail.tail"}
    for name, found in imports.items():
        known = {room for room in rooms for one in (*found, name) if one == room or one.startswith(f"{room}.")}
        assert len(known) < 2, name
