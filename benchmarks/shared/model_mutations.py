"""Changes of a saved model that an ill-meaning hand could make, with all checksums made right again afterwards."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from shared.model_sizes import change_size

Change = Callable[["Folder", random.Random], str]
TYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool")
NUMBERS = (0, -1, 1, 2, 3, 9, 10, 11, 255, 65536, 10**6, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**30, -(2**31))
VALUES: tuple[Any, ...] = (*NUMBERS, -0.5, 0.0, 1.5, 1e30, 1e308, -1e308, float("nan"), float("inf"), None, True, False)
VALUES += ("", "word", "exact", "x" * 5000, [], {}, [1], [[[[]]]], {"a": 1}, "knn + rerank", "../..", [1.0, 2.0])


class Folder:
    """A model folder in memory. `write` computes every size and checksum anew."""

    def __init__(self, path: Path) -> None:
        from longtail.model_bytes import arrays_from

        self.manifest: dict[str, Any] = json.loads((path / "manifest.json").read_bytes())
        self.labels: bytes = (path / "labels.jsonl").read_bytes()
        self.card: dict[str, Any] = json.loads((path / "card.json").read_bytes())
        files = sorted(path.glob("*.safetensors"))
        self.arrays = {file.name: arrays_from(file, np.fromfile(file, np.uint8)) for file in files}
        self.raw: dict[str, Callable[[bytes], bytes]] = {}  # what happens to the bytes of a file
        self.place: dict[str, str] = {}  # "pipe", "device", "folder" or "endless" instead of a file

    def copy(self) -> Folder:
        """The same folder, to be changed."""
        other = object.__new__(Folder)
        other.manifest, other.labels, other.card = deepcopy(self.manifest), self.labels, deepcopy(self.card)
        other.arrays = {name: dict(arrays) for name, arrays in self.arrays.items()}
        other.raw, other.place = {}, {}
        return other

    def write(self, path: Path) -> int:
        """Write the folder, and return its size."""
        from safetensors.numpy import save

        from longtail.model_files import checksum, manifest_to_bytes

        path.mkdir(parents=True)
        files = {"labels.jsonl": self.labels}
        for name, arrays in self.arrays.items():
            files[name] = save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
        files = {name: self.raw.get(name, bytes)(raw) for name, raw in files.items()}
        given = self.manifest.get("files")
        if isinstance(given, dict):
            for name in [name for name in given if name in files]:
                given[name] = {"bytes": len(files[name]), "sha256": checksum(files[name])}
        try:
            files["manifest.json"] = self.raw.get("manifest.json", bytes)(manifest_to_bytes(self.manifest))
        except (ValueError, RecursionError):  # such as a number that cannot be written
            files["manifest.json"] = b"{}"
        files["card.json"] = json.dumps(self.card).encode()
        for name, raw in files.items():
            place = path / name
            if self.place.get(name) == "pipe":
                os.mkfifo(place)
            elif self.place.get(name) == "folder":
                place.mkdir()
            elif self.place.get(name) == "endless":
                place.symlink_to("/dev/zero")
            else:
                place.write_bytes(raw)
        return sum(map(len, files.values()))


def change_array(folder: Folder, rng: random.Random) -> str:
    """One array: values, type, shape, length or order."""
    file = rng.choice([name for name in folder.arrays if folder.arrays[name]] or [""])
    if not file:
        return "nothing"
    arrays = folder.arrays[file]
    name = rng.choice(sorted(arrays))
    how = rng.choice((_values, _values, _values, _fill, _type, _shape, _length, _length, _order, _bits, _names))
    with np.errstate(all="ignore"):
        return f"{file}: {name}: {how(arrays, name, rng)}"


def _values(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    array = arrays[name] = arrays[name].copy()
    flat = array.reshape(-1)
    if not len(flat):
        return "empty"
    value: Any = rng.choice(
        (*NUMBERS, len(flat), len(flat) - 1, len(flat) + 1, "min", "max", "nan", "inf", "-inf", "big")
    )
    if isinstance(value, str):
        value = _extreme(array.dtype, value)
    places = rng.sample(range(len(flat)), min(len(flat), rng.choice((1, 1, 1, 2, 5, len(flat) // 2 + 1))))
    if rng.random() < 0.3:
        places = [rng.choice((0, len(flat) - 1))]
    flat[places] = np.array([value], dtype=object).astype(np.float64).astype(array.dtype)
    return f"{len(places)} numbers are {value}"


def _extreme(dtype: Any, which: str) -> Any:
    if dtype.kind == "f":
        top = float(np.finfo(dtype).max)
        return {"min": -top, "max": top, "nan": np.nan, "inf": np.inf, "-inf": -np.inf, "big": top / 4}[which]
    if dtype.kind == "b":
        return 1
    bounds = np.iinfo(dtype)
    return {"min": bounds.min, "max": bounds.max}.get(which, bounds.max // 2)


def _fill(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    value = rng.choice(("min", "max", "nan", "inf", "big", "zero", "one"))
    array = arrays[name]
    with_value = {"zero": 0, "one": 1}.get(value)
    filled = _extreme(array.dtype, value) if with_value is None else with_value
    arrays[name] = np.full(array.shape, filled, dtype=array.dtype)
    return f"all {value}"


def _type(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    to = rng.choice(TYPES)
    array = arrays[name]
    arrays[name] = array.view(to) if rng.random() < 0.2 and _divides(array, to) else array.astype(to)
    return f"of type {to}"


def _divides(array: Any, to: str) -> bool:
    return array.ndim > 0 and array.nbytes > 0 and array.shape[-1] * array.itemsize % np.dtype(to).itemsize == 0


def _shape(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    array = arrays[name]
    forms: list[Any] = [array.reshape(-1), array.T, array[None], array[..., None]]
    if array.size and array.size % 2 == 0:
        forms.append(array.reshape(2, -1))
    arrays[name] = rng.choice(forms).copy()
    return f"of shape {arrays[name].shape}"


def _length(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    array = arrays[name]
    if array.ndim == 0:
        return "a single number"
    axis = rng.randrange(array.ndim)
    size = array.shape[axis]
    wanted = rng.choice((0, 1, max(size - 1, 0), size + 1, size // 2, 2 * size, size + 7))
    arrays[name] = np.take(array, np.arange(wanted) % size, axis=axis) if size else np.zeros(wanted, array.dtype)
    return f"{wanted} instead of {size} along axis {axis}"


def _order(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    array = arrays[name]
    how = rng.choice(("reversed", "shuffled", "sorted", "rolled"))
    order = list(range(len(array))) if array.ndim else []
    if how == "shuffled":
        rng.shuffle(order)
    changed = {"reversed": order[::-1], "shuffled": order, "rolled": order[1:] + order[:1]}
    arrays[name] = np.sort(array, axis=0) if how == "sorted" and array.ndim else array[changed.get(how, order)]
    return how


def _bits(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    array = arrays[name] = arrays[name].copy()
    if array.nbytes and array.dtype != np.bool_:
        raw = array.reshape(-1).view(np.uint8)
        for _ in range(rng.choice((1, 1, 3, 20))):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return "bits flipped"


def _names(arrays: dict[str, Any], name: str, rng: random.Random) -> str:
    how = rng.choice(("removed", "swapped", "renamed", "added"))
    other = rng.choice(sorted(arrays))
    if how == "removed":
        del arrays[name]
    elif how == "swapped":
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif how == "renamed":
        arrays[f"{name}2"] = arrays.pop(name)
    else:
        arrays["extra"] = np.zeros(rng.choice((0, 3, 1000)), dtype=rng.choice(TYPES))
    return f"{how} ({other})"


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, one in inside for found in _paths(one, (*path, key))]


def change_json(value: Any, rng: random.Random, within: Callable[[tuple[Any, ...]], bool]) -> str:
    """One place of a JSON value: another value, gone, or one more."""
    paths = [path for path in _paths(value) if within(path)]
    if not paths:
        return "nothing"
    *path, last = rng.choice(paths)
    for step in path:
        value = value[step]
    how = rng.random()
    if how < 0.15:
        del value[last]
        return f"{(*path, last)} removed"
    if how < 0.25 and isinstance(value, dict):
        value["extra"] = rng.choice(VALUES)
        return f"{(*path, 'extra')} added"
    new = rng.choice(VALUES)
    if isinstance(value[last], int | float) and rng.random() < 0.4:
        new = rng.choice((value[last] + 1, value[last] - 1, -value[last], value[last] * 1000, value[last] // 2))
    value[last] = deepcopy(new)
    return f"{(*path, last)} is {str(new)[:40]}"


def change_settings(folder: Folder, rng: random.Random) -> str:
    """One setting of a part, of a part inside it too."""
    return change_json(folder.manifest, rng, lambda path: "settings" in path)


def change_manifest(folder: Folder, rng: random.Random) -> str:
    """Anything else of the manifest."""
    if rng.random() < 0.2:
        recipes = ("knn", "bm25 + rerank", "parabel", "dpr", "knn + taug", "x", "knn +", "(" * 500, "knn(" * 300)
        folder.manifest["recipe"] = rng.choice(recipes)
        return f"recipe {folder.manifest['recipe'][:20]}"
    return change_json(
        folder.manifest, rng, lambda path: "settings" not in path and path[0] not in ("format", "version")
    )


def change_card(folder: Folder, rng: random.Random) -> str:
    """The facts of the card, which no checksum covers."""
    if rng.random() < 0.2:
        folder.place["card.json"] = rng.choice(("pipe", "folder", "endless"))
        return f"card.json is a {folder.place['card.json']}"
    return "card: " + change_json(folder.card, rng, lambda path: True)


def change_labels(folder: Folder, rng: random.Random) -> str:
    """The labels: more, fewer, others, or no labels at all. Sometimes the manifest says the same."""
    lines = folder.labels.splitlines(keepends=True)
    how = rng.choice(("fewer", "more", "none", "twice", "values", "deep", "bytes", "long", "open"))
    if how == "fewer":
        del lines[rng.randrange(len(lines)) :]
    elif how == "more":
        lines += [
            json.dumps({"id": f"N{row}", "text": "", "count": 0}).encode() + b"\n" for row in range(rng.choice((1, 50)))
        ]
    elif how == "none":
        lines = []
    elif how == "twice":
        lines.append(lines[0])
    elif how == "values":
        row = rng.randrange(len(lines))
        value = json.loads(lines[row])
        change_json(value, rng, lambda path: True)
        lines[row] = json.dumps(value).encode() + b"\n"
    elif how == "deep":
        lines[0] = b"[" * rng.choice((5, 100_000)) + b"\n"
    elif how == "bytes":
        lines[0] = rng.randbytes(30) + b"\n"
    elif how == "long":
        lines[0] = json.dumps({"id": "L0", "text": "x" * rng.choice((10**5, 5 * 10**6)), "count": 1}).encode() + b"\n"
    else:
        lines[-1] = lines[-1].rstrip()
    folder.labels = b"".join(lines)
    agreed = rng.random() < 0.7
    if agreed:
        folder.manifest["labels"]["number"] = len([line for line in lines if line.strip()])
    return f"labels {how}{', and the manifest agrees' * agreed}"


def change_tokenizer(folder: Folder, rng: random.Random) -> str:
    """The definition of a tokenizer, as JSON."""
    found = [name for name, arrays in folder.arrays.items() if "tokenizer" in arrays]
    if not found:
        return change_array(folder, rng)
    arrays = folder.arrays[rng.choice(found)]
    try:
        definition = json.loads(arrays["tokenizer"].tobytes())
        what = change_json(definition, rng, lambda path: True)
        arrays["tokenizer"] = np.frombuffer(json.dumps(definition).encode(), dtype=np.uint8).copy()
    except ValueError:  # another change came first
        return "tokenizer is no JSON any more"
    return f"tokenizer: {what}"


def change_files(folder: Folder, rng: random.Random) -> str:
    """A file that is none, or whose bytes say something else than its header."""
    name = rng.choice(["manifest.json", "labels.jsonl", *folder.arrays])
    if rng.random() < 0.3 or not name.endswith(".safetensors"):
        folder.place[name] = rng.choice(("pipe", "folder", "endless"))
        return f"{name} is a {folder.place[name]}"

    def edited(raw: bytes) -> bytes:
        length = struct.unpack("<Q", raw[:8])[0]
        how = rng.randrange(6)
        if how == 0:
            return struct.pack("<Q", rng.choice((0, length - 1, length + 8, 2**31, 2**63, 10**8))) + raw[8:]
        if how == 1:
            return raw[: rng.randrange(len(raw) + 1)]
        if how == 2:
            return raw + bytes(rng.randrange(1, 50))
        header = json.loads(raw[8 : 8 + length])
        change_json(header, rng, lambda path: True)
        written = json.dumps(header).encode()
        return struct.pack("<Q", len(written)) + written + raw[8 + length :]

    folder.raw[name] = edited
    return f"{name} has another header"


CHANGES: tuple[Change, ...] = (
    *(change_array,) * 12,
    *(change_settings,) * 5,
    *(change_manifest,) * 2,
    *(change_labels,) * 2,
    *(change_tokenizer,) * 2,
    *(change_size,) * 5,
    change_files,
    change_card,
)


def mutated(folder: Folder, rng: random.Random) -> tuple[Folder, str]:
    """A changed copy of a folder, by one to three changes.

    Args:
        folder: the folder, which stays as it is.
        rng: decides.

    Returns:
        The copy, and what was changed in words.
    """
    copy, told = folder.copy(), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            told.append(rng.choice(CHANGES)(copy, rng))
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            OverflowError,
            AttributeError,
            MemoryError,
        ):  # what it changes is gone by now
            told.append("a change that an earlier one makes impossible")
    return copy, "; ".join(told)
