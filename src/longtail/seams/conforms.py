"""The one check of what a part stores against what it declares. `longtail.model_loading` calls it before `restore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from longtail.arrays import AnyArray
from longtail.seams.declared import (
    PIECE,
    Array,
    Contents,
    Declaration,
    Misfit,
    bind,
    check_settings,
    csr,
    shown,
    strings,
)


def conforms(
    declaration: Declaration | None,
    settings: Any,
    tensors: Mapping[str, AnyArray],
    parts: Mapping[str, Any],
    labels: int,
) -> dict[str, int]:
    """Check what is stored of a part against its declaration, before any of it is used.

    Args:
        declaration: of the part's class; None: what the stored arrays say of themselves, for a plug-in without one.
        settings: of the part.
        tensors: its arrays by name.
        parts: what is stored of the parts inside it, by name.
        labels: of the part.

    Returns:
        The number of labels of each part inside.

    Raises:
        Misfit: something is missing, not declared, or not as declared.
    """
    if not isinstance(settings, dict):
        raise Misfit("settings", f"are an object, not {shown(settings)}", "the")
    sizes = {"labels": labels}
    if declaration is None:
        _check_arrays(_undeclared(tensors), tensors, sizes)
        return dict.fromkeys(parts, labels)
    whole = _whole(declaration, settings, sizes)
    for name in {**whole.parts, **parts}:
        if name not in whole.parts or name not in parts:
            raise Misfit(name, "is missing" if name in whole.parts else "is not one that this kind holds", "part")
    loose = {name: array for name, array in tensors.items() if name.startswith(whole.loose) and whole.loose}
    _check_arrays({**_undeclared(loose), **whole.arrays}, tensors, sizes)
    for check in whole.checks:
        check(Contents(settings, tensors, sizes))
    return {name: sizes[size] for name, size in whole.parts.items()}


def _whole(declaration: Declaration, settings: dict[str, Any], sizes: dict[str, int]) -> Declaration:
    """The declaration with what depends on the settings, which are checked on the way."""
    check_settings(declaration.settings, settings, sizes)
    whole, then = declaration, list(declaration.then)
    while then:
        further = then.pop()(settings)
        check_settings(further.settings, settings, sizes)
        whole += further
        then += further.then
    unknown = [name for name in settings if name not in whole.settings]
    if unknown:
        raise Misfit(unknown[0], "is not one that this kind stores", "setting")
    return whole


def _check_arrays(wanted: Mapping[str, Array], given: Mapping[str, AnyArray], sizes: dict[str, int]) -> None:
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise Misfit(unknown[0], "is not one that this kind stores")
    present = {name: one for name, one in wanted.items() if name in given or not one.optional}
    for name, one in present.items():
        if name not in given:
            raise Misfit(name, "is missing")
        _check_form(name, one, given[name], sizes)
    for name, one in present.items():
        _check_range(name, one, given[name], sizes)


def _check_form(name: str, one: Array, array: AnyArray, sizes: dict[str, int]) -> None:
    """Type and shape; names of sizes that are new get their size here."""
    if array.dtype.name not in one.dtype.split():
        raise Misfit(name, f"has numbers of type {array.dtype.name}, not {' or '.join(one.dtype.split())}")
    names = [part.strip() for part in one.shape.split(",") if part.strip()]
    if array.ndim != len(names):
        raise Misfit(name, f"has {array.ndim} axes, not {len(names)} ({one.shape or 'a single number'})")
    for size, expression in zip(array.shape, names, strict=True):
        called, _, more = (part.strip() for part in expression.partition("+"))
        if called.isdigit():
            if size != int(called):
                raise Misfit(name, f"has {size} numbers along an axis of {called}")
        else:
            bind(name, called, size - int(more or 0), sizes)
    for called, size in zip((one.holds or "").split(","), array.tolist() if one.holds else (), strict=False):
        bind(name, called.strip(), size, sizes)


def _check_range(name: str, one: Array, array: AnyArray, sizes: dict[str, int]) -> None:
    least, most = one.least, one.most if not isinstance(one.most, str) else sizes[one.most]
    if one.below is not None:
        most = sizes[one.below] - 1
    flat = array.reshape(-1)
    before: Any = None
    for piece in _pieces(flat):
        if array.dtype.kind == "f" and not np.isfinite(piece).all():
            raise Misfit(name, "has numbers that are not finite")
        low, high = piece.min(), piece.max()
        if (least is not None and low < least) or (most is not None and high > most):
            end = "" if most is None else f" to {most:g}" if isinstance(most, float) else f" to {most}"
            wrong = low if least is not None and low < least else high
            raise Misfit(name, f"has the number {wrong}, outside {'' if least is None else least}{end}")
        if one.rising or one.points_to is not None:
            joined = piece if before is None else np.concatenate([before, piece])
            wrong_order = joined[1:] <= joined[:-1] if one.rising else joined[1:] < joined[:-1]
            if wrong_order.any():
                raise Misfit(name, "has numbers that do not rise")
            before = piece[-1:]
    if one.points_to is not None and (not len(flat) or flat[0] != 0 or int(flat[-1]) != sizes[one.points_to]):
        raise Misfit(name, f"does not lead from 0 to the {sizes[one.points_to]} {one.points_to}")


def _pieces(flat: AnyArray) -> Iterator[AnyArray]:
    return (flat[begin : begin + PIECE] for begin in range(0, len(flat), PIECE))


def _undeclared(tensors: Mapping[str, AnyArray]) -> dict[str, Array]:
    """What arrays say of themselves: sparse matrices and strings are known by their names, others are finite."""
    found: dict[str, Array] = {}
    for name in tensors:
        stem = name.removesuffix(".indptr")
        if stem != name and {f"{stem}.shape", f"{stem}.indices", f"{stem}.data"} <= tensors.keys():
            found |= csr(stem, f"rows of {stem}", f"columns of {stem}").arrays
    if {"words", "word_offsets"} <= tensors.keys():
        found |= strings("words", "word_offsets", "words").arrays
    plain = {
        name: Array(array.dtype.name, ", ".join(map(str, array.shape)))
        for name, array in tensors.items()
        if name not in found
    }
    return dict(chain(found.items(), plain.items()))
