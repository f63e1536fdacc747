"""What can be done to data files: the cases of `fuzz_data.py`."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import re
import struct
import zipfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from shared.data_bombs import BOMBS, make_bomb
from shared.data_formats import FORMATS, Reader, Rng, pick
from shared.data_own import OWN
from shared.data_sources import SOURCES
from shared.model_mutations import change_array, change_json

__all__ = ["BOMBS", "make", "name_of", "warm_up"]

NEEDS = {"parquet": "pyarrow", "excel": "openpyxl", "encoder": "transformers", "tuning": "optuna"}
NEEDS |= {"journal": "uvicorn", "token": "uvicorn"}
NEEDS |= dict.fromkeys(("turtle", "n-triples", "rdf", "subjects", "subject table"), "rdflib")
KINDS = FORMATS | SOURCES | OWN
KINDS = {name: make for name, make in KINDS.items() if find_spec(NEEDS.get(name, "longtail")) is not None}
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
PACK = {
    ".gz": lambda raw: gzip.compress(raw, 1),
    ".xz": lambda raw: lzma.compress(raw, preset=0),
    ".bz2": lambda raw: bz2.compress(raw, 1),
}

NUMBERS = [
    "0", "-1", "1", "2", "7", "100", "65536", "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "99999999999999999999", "1" * 500, "1" * 5000, "1e999", "-1e999", "nan", "inf", "1e-400", "0.5", "0x10", "1_0",
    "",
    "2000000000", "999999", "+1", "1.", ".5", "١",
]  # fmt: skip
PIECES = [
    b"\n", b"\r", b"\r\n", b"\n\n\n", b",", b":", b'"', b"'", b"\\", b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf",
    b"\t", b" ",
    b"{", b"}", b"[", b"]", b"(", b")", b";", b"|", b"#", b"@", b"\\u0000", b"\\ud800", b"\xed\xa0\x80", b"\xc0\x80",
    "\U0001f600".encode(), b"[" * 2000, b'{"a":' * 2000, b"(" * 2000, b"-" * 2000, b"A" * 5000, b"null", b"NaN",
    b"true",
    b"Infinity", b"\x1f\x8b", b"PAR1", b"\x93NUMPY", b"PK\x03\x04", b"\x85", b"\xe2\x80\xa8", b"NULL", b"=", b"''",
]  # fmt: skip
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
VALUES: list[Any] = [
    None, True, False, 0, -1, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", " ", "\0",
    "\ud800", "x" * 5000,
    [], {}, [None], [[]], [{}], {"": 1}, {"a": None}, {"a": {"b": []}}, DEEP, ["x"] * 3, {"x": 1e-300}, [1, 2.5,
    "x"], "[", "-1",
]  # fmt: skip


def warm_up() -> None:
    """Imports and compiles what the readers need, so that it does not count as theirs."""
    import contextlib
    import tempfile

    from longtail.errors import LongtailError

    for make_files in KINDS.values():
        with tempfile.TemporaryDirectory() as folder:
            read = make_files(Path(folder), np.random.default_rng(0))
            with contextlib.suppress(LongtailError):
                read()


def name_of(case: str) -> str:
    """The format of a case."""
    return "bomb" if case.startswith("bomb-") else list(KINDS)[int(case) % len(KINDS)]


def make(seed: int, case: str, folder: Path) -> tuple[str, Reader]:
    """Writes the files of a case.

    Returns:
        The name of its format, and what reads it.
    """
    if case.startswith("bomb-"):
        return "bomb", make_bomb(case.removeprefix("bomb-"), folder)
    rng = np.random.default_rng([seed, int(case)])
    name = name_of(case)
    read = KINDS[name](folder, rng)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for _ in range(int(rng.integers(1, 4))):
        path = files[int(rng.integers(len(files)))]
        if path.is_file() and not path.is_symlink():
            _damage(path, rng)
    if name == "store" and rng.random() < 0.9:
        _sizes_made_right(folder / "store")
    return name, read


def _sizes_made_right(folder: Path) -> None:
    """The sizes that a store says of its files, as they are now."""
    if (folder / "store.json").is_symlink() or not (folder / "store.json").is_file():
        return  # an endless device, say
    try:
        facts = json.loads((folder / "store.json").read_text())
        for name, one in facts["files"].items():
            one["bytes"] = (folder / name).lstat().st_size
        (folder / "store.json").write_text(json.dumps(facts))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return


def _damage(path: Path, rng: Rng) -> None:
    if rng.random() < 0.02:
        _replace(path, rng)
        return
    try:
        _damage_within(path, rng)
    except Exception:  # an earlier damage is in the way of one that knows the format
        path.write_bytes(_bytes(path.read_bytes(), rng))


def _damage_within(path: Path, rng: Rng) -> None:
    raw = path.read_bytes()
    packed = path.suffix in UNPACK and rng.random() < 0.8
    if packed:
        raw = UNPACK[path.suffix](raw)
    if path.suffix == ".npy":
        raw = _damaged_array(raw, rng)
    elif path.suffix == ".npz" and rng.random() < 0.8:
        raw = _damaged_archive(raw, rng)
    elif path.suffix == ".safetensors" and rng.random() < 0.9:
        raw = _damaged_tensors(raw, rng)
    elif (path.parent / "store.json").is_file() and path.suffix not in (".json", ".jsonl"):
        raw = _damaged_column(path.name, raw, rng)
    elif path.suffix == ".xlsx" and rng.random() < 0.8:
        raw = _damaged_workbook(raw, rng)
    elif rng.random() < 0.6:
        raw = pick(rng, [_number, _line, _json_value])(raw, rng)
    else:
        raw = _bytes(raw, rng)
    if packed:
        raw = PACK[path.suffix](raw)
        if rng.random() < 0.1:
            raw = pick(rng, [raw + raw, raw + b"\0" * 100, raw + b"junk", raw[:-4], raw + raw[:20]])
    path.write_bytes(raw)


def _replace(path: Path, rng: Rng) -> None:
    """Puts something else than a file in its place."""
    import os
    import socket

    path.unlink()
    kind = int(rng.integers(6))
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path.name)
    elif kind == 3:
        path.symlink_to(pick(rng, ["/dev/zero", "/dev/full", "/dev/random", "nowhere", "/", "/dev/tty"]))
    elif kind == 4 and len(str(path)) < 90:
        socket.socket(socket.AF_UNIX).bind(str(path))
    else:
        path.write_bytes(b"")


def _number(raw: bytes, rng: Rng) -> bytes:
    """Another number in the place of one."""
    found = list(re.finditer(rb"\d+", raw[:100_000]))
    if not found:
        return _bytes(raw, rng)
    one = found[0] if rng.random() < 0.3 else pick(rng, found)
    return raw[: one.start()] + str(pick(rng, NUMBERS)).encode() + raw[one.end() :]


def _line(raw: bytes, rng: Rng) -> bytes:
    """Lines dropped, doubled, swapped, joined or emptied."""
    lines = raw.split(b"\n")
    place, other = (int(rng.integers(len(lines))) for _ in range(2))
    kind = int(rng.integers(5))
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines[place:place] = [lines[other]] * int(rng.integers(1, 50))
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines[place] = lines[place] + lines[other]
    else:
        lines[place] = b""
    return b"\n".join(lines)


def _json_value(raw: bytes, rng: Rng) -> bytes:
    """Another JSON value, key or type in a line of JSON."""
    lines = raw.split(b"\n")
    place = int(rng.integers(len(lines)))
    try:
        row = json.loads(lines[place])
        key = pick(rng, list(row))
    except (ValueError, TypeError, KeyError):
        return _bytes(raw, rng)
    value, kind = pick(rng, VALUES), rng.random()
    if kind < 0.2:
        row[pick(rng, ["id", "text", "labels", "title", "uid", "target_ind", "target_rel", "score", "x"])] = value
    elif kind < 0.3:
        del row[key]
    elif kind < 0.5 and isinstance(row[key], list) and row[key]:
        row[key][int(rng.integers(len(row[key])))] = value
    elif kind < 0.6 and isinstance(row[key], dict):
        row[key]["x"] = value
    else:
        row[key] = value
    try:
        lines[place] = json.dumps(row).encode()
    except ValueError:
        lines[place] = b'{"id": ' + b"1" * 5000 + b"}"
    return b"\n".join(lines)


def _bytes(raw: bytes, rng: Rng) -> bytes:
    """Bytes changed, cut, dropped, doubled or put in."""
    place = int(rng.integers(len(raw) + 1))
    kind, length = int(rng.integers(6)), int(rng.integers(1, 40))
    if kind == 0:
        return raw[:place] + bytes([int(rng.integers(256))]) + raw[place + 1 :]
    if kind == 1:
        return raw[:place]
    if kind == 2:
        return raw[:place] + raw[place + length :]
    if kind == 3:
        return raw[: place + length] + raw[place:]
    if kind == 4:
        return raw[:place] + rng.bytes(length) + raw[place + length :]
    return raw[:place] + bytes(pick(rng, PIECES)) + raw[place:]


SHAPES = ["(6, 3)", "(3, 6)", "(18,)", "()", "(6, 3, 1)", "(2000000000, 3)", "(6, 4000000000)", "(0, 3)", "(6, 0)",
          "(-6, -3)",
          "(9223372036854775807, 9)", "(1000000000000000000, 0)", "(6.0, 3)", "('a', 3)", "(True, 3)", "((((",
          "9" * 5000]  # fmt: skip
TYPES = ["<f4", "<f8", "<i4", "<i8", "|O", "<U3", "|S9", "<M8[s]", "|V8", "<c8", "|b1", "<f2", ">f4", "<u8",
          "<U999999999", "x",
         "[('a', '<f4')]", "<f16"]  # fmt: skip


def _damaged_array(raw: bytes, rng: Rng) -> bytes:
    """A header that does not tell the truth, or damaged bytes behind a true one."""
    kind, (head, body) = rng.random(), (raw[:128], raw[128:])
    if kind < 0.4:
        head = re.sub(rb"'shape': \([^)]*\)", b"'shape': " + str(pick(rng, SHAPES)).encode(), head)
    elif kind < 0.7:
        head = re.sub(rb"'descr': '[^']*'", b"'descr': '" + str(pick(rng, TYPES)).encode() + b"'", head)
    elif kind < 0.8:
        body = np.array([np.nan, np.inf, 1e300], np.float64).tobytes() + body
    else:
        return _bytes(raw, rng)
    if len(head) % 64 and rng.random() < 0.9:  # the length of the header as it is now
        head = head[:8] + (len(head) - 10).to_bytes(2, "little") + head[10:]
    return head + body


def _damaged_archive(raw: bytes, rng: Rng) -> bytes:
    """A whole archive with other arrays in it."""
    with np.load(io.BytesIO(raw)) as archive:
        arrays: dict[str, Any] = dict(archive)
    name, kind = pick(rng, list(arrays)), int(rng.integers(8))
    array = arrays[name]
    if kind == 0:
        del arrays[name]
    elif kind == 1 and array.size and array.dtype.kind in "iuf":
        array = array.copy()
        array.flat[int(rng.integers(array.size))] = pick(rng, [-1, 0, 3, 4, 1000, 2**31 - 1])
        arrays[name] = array
    elif kind == 2:
        arrays["shape"] = np.array(
            pick(rng, [(4, 5), (-1, 4), (2**31 - 1, 4), (4, 2**31 - 1), (4, 2**40), (0, 0), (4,), (1, 2, 3)])
        )
    elif kind == 3 and array.dtype.kind in "iuf":
        arrays[name] = array.astype(pick(rng, ["f8", "i1", "u8", "i8", "f2", "c8", "U5", "b1", "S3"]))
    elif kind == 4:
        arrays[name] = pick(rng, [array[..., None], np.array(7), np.zeros(0, array.dtype), np.zeros((3, 0))])
    elif kind == 5:
        arrays["format"] = np.array(pick(rng, [b"csc", b"coo", b"bsr", b"dia", b"dok", b"csr", "csr", 5, b"x" * 100]))
    elif kind == 6 and array.ndim:
        arrays[name] = np.concatenate([array, array])
    else:
        arrays["indptr"] = np.array(
            pick(rng, [[0, 0, 0, 0, 0], [0, 4, 2, 3, 4], [1, 2, 3, 4, 4], [0, 2**31, 1, 2, 4], []]), np.int64
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", pick(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])) as file:
        for key, value in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(value), allow_pickle=True)
            content = member.getvalue()
            file.writestr(f"{key}.npy", _damaged_array(content, rng) if rng.random() < 0.1 else content)
    return out.getvalue()


def _damaged_tensors(raw: bytes, rng: Rng) -> bytes:
    """Whole arrays with other values, types or shapes, other facts beside them, or a header that is damaged."""
    from safetensors.numpy import load, save

    chance, length = random.Random(int(rng.integers(2**32))), int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    facts, kind = header.get("__metadata__", {}), rng.random()
    if kind < 0.3:
        change_json(header, chance, lambda path: path[0] != "__metadata__")
        written = json.dumps(header).encode()
        return struct.pack("<Q", len(written)) + written + raw[8 + length :]
    if kind < 0.6 and "longtail" in facts:
        told = json.loads(facts["longtail"])
        change_json(told, chance, lambda path: True)
        facts["longtail"] = json.dumps(told)
        return save(load(raw), facts)
    arrays = load(raw)
    change_array(SimpleNamespace(arrays={"": arrays}), chance)  # type: ignore[arg-type]
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, facts or None)


def _damaged_column(name: str, raw: bytes, rng: Rng) -> bytes:
    """Another number in a column of a store, or another length of it."""
    *_, column, ending = ["", *name.split(".")]
    wide = ending == "counts" or (ending == "starts" and column in ("texts", "ids"))
    words = ending in ("texts", "ids")
    kind = "<i8" if wide else "<i4" if ending in ("labels", "starts") else "|u1" if words else "<f4"
    array = np.frombuffer(raw[: len(raw) // np.dtype(kind).itemsize * np.dtype(kind).itemsize], kind).copy()
    if not len(array) or rng.random() < 0.2:
        return _bytes(raw, rng)
    if rng.random() < 0.2:
        return np.resize(array, pick(rng, [0, 1, len(array) - 1, len(array) + 1, 2 * len(array)])).tobytes()
    values: list[float] = (
        [0, 1, 2, 3, 100, 127] if kind == "|u1" else [-1, 0, 1, 3, len(array), 1000, 2**31 - 1, -(2**31)]
    )
    values += [np.nan, np.inf, 1e38, 0.5, -0.5] if kind == "<f4" else [200, 255] if kind == "|u1" else []
    array[int(rng.integers(len(array)))] = pick(rng, values)
    return array.tobytes()


def _damaged_workbook(raw: bytes, rng: Rng) -> bytes:
    """A whole archive with a damaged sheet, list of words or description in it."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    inside = [name for name in members if "sheet1" in name or "sharedStrings" in name]
    name = pick(rng, inside if rng.random() < 0.8 else list(members))
    content = pick(rng, [_number, _number, _bytes, _place_of_cell])(members[name], rng)
    if rng.random() < 0.05:
        del members[name]
    else:
        members[name] = content
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def _place_of_cell(raw: bytes, rng: Rng) -> bytes:
    """Another row or column of a cell, or another size of the sheet."""
    found = list(re.finditer(rb'(?:ref|r|t|s)="([^"]*)"', raw))
    if not found:
        return _bytes(raw, rng)
    one = pick(rng, found)
    places = [b"ZZZZZZZZ1", b"A99999999999", b"A0", b"", b"XFD1048576", b"A1:XFD1048576", b"99999999999", b"-1", b"1"]
    places += [b"AAAAAA1", b"d", b"n", b"s", b"inlineStr", b"e", b"4000000000", b"\xff", b"B2:A1"]
    return raw[: one.start(1)] + bytes(pick(rng, places)) + raw[one.end(1) :]
