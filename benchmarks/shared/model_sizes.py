"""Changes of a size of a saved model in every place that has it, so that what is stored still fits together.

A change of one array is mostly refused at once. What is left to find lies behind the comparison of sizes: none of
something, one of it, or far more than the files hold.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

HUGE = (2**20, 2**27, 2**31 - 1)  # for sizes that no array has


def change_size(folder: Any, rng: random.Random) -> str:
    """Another number of something, wherever it is stored.

    Args:
        folder: a `model_mutations.Folder`.
        rng: decides.

    Returns:
        What was changed, in words.
    """
    parts = list(_parts(folder.manifest))
    file, entry = rng.choice(parts)
    names = sorted(_sizes(folder, file, entry))
    if not names:
        return "nothing"
    name = rng.choice(names)
    old, is_axis = _sizes(folder, file, entry)[name]
    huge = () if is_axis or name == "labels" else HUGE
    new = rng.choice((0, 0, 1, max(old - 1, 0), old + 1, 2 * old, old // 2, *huge))
    if name == "labels":
        whole = [one for one in parts if one[0].count(".") == 1]  # scorer.safetensors, not scorer.head.safetensors
        lines = folder.labels.splitlines(keepends=True)[:new]
        lines += [b'{"id": "N%d", "text": "", "count": 0}\n' % row for row in range(len(lines), new)]
        folder.labels = b"".join(lines)
        folder.manifest["labels"]["number"] = new
    else:
        whole = [(file, entry)]
    for place, one in whole:
        _resize(folder, place, one, name, new)
    return f"{file}: {new} {name} instead of {old}"


def _parts(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    tops = {"scorer": manifest["scorer"], **{f"reranker-{n}": one for n, one in enumerate(manifest["rerankers"])}}
    tops |= {"doubts": manifest["doubts"]} if "doubts" in manifest else {}
    left = list(tops.items())
    while left:
        name, entry = left.pop()
        if "same_as" not in entry:
            yield f"{name}.safetensors", entry
            left += [(f"{name}.{key}", inner) for key, inner in entry["parts"].items()]


@cache
def _declared() -> dict[str, Any]:
    """The declaration of each kind."""
    from longtail.catalogue import LEARNERS, TAIL_METHODS, learner_class, tail_class
    from longtail.doubts import Doubts

    found = {Doubts.kind: Doubts.declared}
    for one in [*map(learner_class, LEARNERS), *map(tail_class, TAIL_METHODS)]:
        for role in ("scorer", "reranker", "member"):
            fitted = getattr(one, role, None)
            if fitted is not None:
                found[fitted.kind] = fitted.declared
    return found


def _whole(entry: dict[str, Any]) -> Any:
    whole = _declared()[entry["kind"]]
    then = list(whole.then)
    while then:
        more = then.pop()(entry["settings"])
        whole += more
        then += more.then
    return whole


def _axes(shape: str) -> list[tuple[str, int]]:
    """The size of each axis and what is added to it."""
    split = [part.partition("+") for part in shape.split(",") if part.strip()]
    return [(name.strip(), int(more or 0)) for name, _, more in split]


def _sizes(folder: Any, file: str, entry: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Each size, and whether an array has it along an axis."""
    found: dict[str, tuple[int, bool]] = {}
    whole, arrays = _whole(entry), folder.arrays[file]
    for name, one in whole.settings.items():
        if getattr(one, "size", None) and name in entry["settings"]:
            found[one.size] = int(entry["settings"][name]), False
    for name, one in whole.arrays.items():
        if name not in arrays:
            continue
        if one.holds:
            found |= dict(
                zip(map(str.strip, one.holds.split(",")), ((int(n), False) for n in arrays[name]), strict=True)
            )
    for name, one in whole.arrays.items():
        if name in arrays:
            for (called, more), size in zip(_axes(one.shape), arrays[name].shape, strict=True):
                if not called.isdigit():
                    found[called] = size - more, True
    return found


def _resize(folder: Any, file: str, entry: dict[str, Any], name: str, new: int) -> None:
    whole, arrays, sizes = _whole(entry), folder.arrays[file], _sizes(folder, file, entry)
    for setting, one in whole.settings.items():
        if getattr(one, "size", None) == name and setting in entry["settings"]:
            entry["settings"][setting] = new
    for key, one in whole.arrays.items():
        if key not in arrays:
            continue
        array = arrays[key]
        for axis, (called, more) in enumerate(_axes(one.shape)):
            if called == name:
                places, size = np.arange(new + more), array.shape[axis]
                array = np.take(array, places % size, axis=axis) if size else np.zeros(new + more, array.dtype)
        if one.points_to is not None:
            total = new if one.points_to == name else sizes[one.points_to][0]
            if name in (one.points_to, _axes(one.shape)[0][0]):
                array = np.linspace(0, total, len(array)).astype(array.dtype)
        if name in (one.below, one.most) and new:
            array = np.minimum(array, new - (name == one.below)).astype(array.dtype)
        if one.holds:
            held = [part.strip() for part in one.holds.split(",")]
            array = np.array([new if part == name else n for part, n in zip(held, array, strict=True)], array.dtype)
        arrays[key] = array
    for key, size in whole.parts.items():
        inner = entry["parts"].get(key)
        if size == name and inner is not None and "same_as" not in inner:
            _resize(folder, f"{file.removesuffix('.safetensors')}.{key}.safetensors", inner, "labels", new)
