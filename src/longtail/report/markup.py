"""HTML and SVG from Python in which plain text is always escaped.

`tag("p", "a < b", class_="note")` escapes its children unless they are `Safe`, which only `tag`, `join`
and the page's own assets make. So what a user wrote cannot become markup by being forgotten somewhere.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from longtail.report.words import clean


class Safe(str):
    """A string that is markup already."""

    __slots__ = ()


Child = str | Safe | None
Attribute = str | float | bool | None

_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})


def escape(text: str) -> Safe:
    return text if isinstance(text, Safe) else Safe(html.escape(clean(text), quote=True))


def join(children: Iterable[Child], between: str = "") -> Safe:
    return Safe(between.join(escape(child) for child in children if child is not None))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Safe:
    """One element. `class_` and `for_` lose their underscore, others turn it into a hyphen."""
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Safe(f"<{name}{written}>")
    return Safe(f"<{name}{written}>{join(children)}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
