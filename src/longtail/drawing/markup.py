"""HTML and SVG from Python in which plain text is always escaped.

`tag("p", "a < b", class_="note")` escapes its children unless they are `Safe`. Only `tag`, `join` and the page's own
assets make `Safe` strings, so text from users never becomes markup, even where a caller forgets to escape it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from longtail.drawing.words import clean


class Safe(str):
    """A string that is markup already."""

    __slots__ = ()


Child = str | Safe | None
Attribute = str | float | bool | None

_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})


def escape(text: str) -> Safe:
    """Text as markup.

    Args:
        text: plain text, or markup, which is returned as it is.

    Returns:
        Markup.
    """
    return text if isinstance(text, Safe) else Safe(html.escape(clean(text), quote=True))


def join(children: Iterable[Child], between: str = "") -> Safe:
    """Several pieces as one.

    Args:
        children: plain text, which is escaped, or markup; None is left out.
        between: markup to put between them.

    Returns:
        Markup.
    """
    return Safe(between.join(escape(child) for child in children if child is not None))


def breakable(text: str) -> Safe:
    """A recipe or a path that may end its line behind a bracket, a comma or a slash, before it ends within a word.

    Args:
        text: plain text.

    Returns:
        Markup.
    """
    return join(re.split(r"(?<=[(,/])(?=\S)", text), "<wbr>")


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Safe:
    """One element.

    Args:
        name: of the element.
        children: plain text, which is escaped, or markup; None is left out.
        attributes: False and None are left out, True has no value. `class_` and `for_` lose their underscore; in other
            names an underscore becomes a hyphen.

    Returns:
        Markup.
    """
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
