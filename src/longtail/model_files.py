"""The files of a model folder: manifest.json, labels.jsonl and safetensors. Plain data; reading it runs no code.

    manifest.json             format, version, recipe, the kinds and settings of the parts, a checksum of every file;
                              the packages of parts that are not longtail's own
    labels.jsonl              {"id", "text", "count"} a line, in row order
    scorer.safetensors        the learner's arrays
    reranker-0.safetensors    the first re-ranker's, and so on
    doubts.safetensors        the words seen in training, where the model can say what it does not know
    README.md                 the model card, with card.json and card.svg: for people, not part of the model

A folder is written under a temporary name, flushed to disk and renamed, so a reader sees a whole model or none.
A checksum covers every byte of the model: a file that was cut, damaged or edited is refused before it is used.

This file does not import `Model`: `Model.save` writes through it, and `store.load` builds a `Model` from what it reads.

The manifest has a checksum of its own. The three files of the card have none, because people edit cards and a model
must load without them. A folder with any other file is not overwritten. `model_loading` reads a folder, and believes
nothing in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import finalize

import numpy as np
from safetensors.numpy import save as tensors_to_bytes

from longtail.arrays import AnyArray, Bytes, safetensors_bytes
from longtail.atomic import new_folder, new_own_file
from longtail.catalogue import plugin_packages
from longtail.cutoff import Cutoff
from longtail.data.labels import LabelSet
from longtail.data.table_facts import TableFacts
from longtail.errors import ModelError
from longtail.grammar import parse
from longtail.model_bytes import read_regular
from longtail.seams import Reranker, Scorer
from longtail.version import __version__

if TYPE_CHECKING:
    from longtail.doubts import Doubts

FORMAT, VERSION = "longtail-model", 1
MANIFEST, LABELS = "manifest.json", "labels.jsonl"
CARD_FILES = ("README.md", "card.json", "card.svg")  # may be edited or missing: no checksum covers them
MAX_MANIFEST = 1 << 22  # bytes; the manifest of a large model has some thousands
MAX_LABELS = 1 << 36  # bytes of labels.jsonl
MAX_LABEL = 1 << 22  # bytes of one label's line
_written: dict[int, dict[str, Any]] = {}  # see `facts_of_labels`; by the id of a label set that is alive


class FittedModel(Protocol):
    """What is saved of a model. `longtail.Model` has these and more."""

    @property
    def recipe(self) -> str:
        """The recipe, as it prints."""

    @property
    def labels(self) -> LabelSet:
        """The label set."""

    @property
    def scorer(self) -> Scorer:
        """What the learner left."""

    @property
    def rerankers(self) -> tuple[Reranker, ...]:
        """In the order in which they act."""

    @property
    def text_field(self) -> str:
        """Fields that made the texts, such as title+text."""

    @property
    def id_field(self) -> str:
        """The field or column of ids."""

    @property
    def language_field(self) -> str | None:
        """The field or column of languages."""

    @property
    def doubts(self) -> Doubts | None:
        """What the model says of unknown texts; None: nothing."""

    @property
    def table(self) -> TableFacts | None: ...

    @property
    def cutoff(self) -> Cutoff | None: ...


def write_model(model: FittedModel, path: str | Path, card: Mapping[str, str], *, overwrite: bool = False) -> Path:
    """Write a model folder, all of it or nothing.

    Args:
        model: the model to write.
        path: the folder; it must not exist unless `overwrite` is set.
        card: the texts of the model card by file name, as `longtail.report.card.Card.files` returns them.
        overwrite: replace a model that is already there.

    Returns:
        The path of the folder.

    Raises:
        ModelError: the path is taken by a model that must not be replaced, or by something that is not a model.
    """
    path = Path(path)
    check_place(path, overwrite=overwrite)
    entries, tensors = _packed(model)
    files = {LABELS: _labels_to_bytes(model.labels)}
    files |= {name: tensors_to_bytes(arrays) for name, arrays in tensors.items()}
    facts = {name: {"bytes": len(raw), "sha256": checksum(raw)} for name, raw in files.items()}
    files[MANIFEST] = manifest_to_bytes(_manifest(model, entries, facts))
    files |= {name: text.encode() for name, text in card.items()}
    with new_folder(path) as temporary:
        for name, raw in files.items():
            with (temporary / name).open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
    return path


def bytes_of_model(model: FittedModel, card: Mapping[str, str]) -> int:
    """Compute the size of the folder that `write_model` would write, to the byte. Nothing is written or copied.

    Args:
        model: the model.
        card: the texts of the model card by file name.

    Returns:
        Bytes of all files together.
    """
    entries, tensors = _packed(model)
    sizes = {LABELS: facts_of_labels(model.labels)["bytes"]}
    sizes |= {name: safetensors_bytes(arrays) for name, arrays in tensors.items()}
    facts = {name: {"bytes": size, "sha256": "0" * 64} for name, size in sizes.items()}  # every checksum is as long
    sizes[MANIFEST] = len(manifest_to_bytes(_manifest(model, entries, facts)))
    sizes |= {name: len(text.encode()) for name, text in card.items()}
    return sum(sizes.values())


def check_place(path: Path, *, overwrite: bool) -> None:
    """Check that a model may be written to this path. Call it before long work too.

    Args:
        path: the folder to write.
        overwrite: whether a model that is already there may be replaced.

    Raises:
        ModelError: the path is taken by a model that must not be replaced, or by something that is not a model.
    """
    if path.exists() and not overwrite:
        raise ModelError(f"{path} exists; choose another name, or pass --overwrite to replace it (overwrite=True)")
    if path.exists() and not _is_model(path):
        raise ModelError(f"{path} exists and is not a model folder, or holds other files too; it is left alone")


def size_on_disk(path: str | Path) -> int:
    """Add up the files of a model folder.

    Args:
        path: the folder.

    Returns:
        Bytes.
    """
    return sum(file.stat().st_size for file in Path(path).iterdir() if file.is_file())


def _is_model(path: Path) -> bool:
    """Whether a folder holds a model and nothing else: only then may it be replaced."""
    try:
        manifest = json.loads(read_regular(path / MANIFEST, MAX_MANIFEST).tobytes())
        known = {MANIFEST, *CARD_FILES, *manifest["files"]}
        return manifest["format"] == FORMAT and {file.name for file in path.iterdir()} <= known
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ModelError):
        return False


def checksum(raw: bytes | Bytes) -> str:
    """The checksum that the manifest keeps of a file.

    Args:
        raw: the bytes of the file.

    Returns:
        SHA-256, in hexadecimal digits.
    """
    return hashlib.sha256(raw if isinstance(raw, bytes) else raw.data).hexdigest()


def store_cutoff(path: Path, cutoff: Cutoff) -> None:
    """Write a cutoff into a model folder: only its manifest changes, all of it or nothing.

    Args:
        path: of a model folder that was just loaded.
        cutoff: which labels are predicted.
    """
    manifest = json.loads(read_regular(path / MANIFEST, MAX_MANIFEST).tobytes())
    body = manifest_to_bytes({**manifest, "cutoff": cutoff.as_json()})
    with new_own_file(path / MANIFEST) as file:
        file.write(body.decode())


def _manifest(model: FittedModel, entries: dict[str, Any], files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "longtail": __version__,
        "recipe": model.recipe,
        "text_field": model.text_field,
        "id_field": model.id_field,
        **({} if model.language_field is None else {"language_field": model.language_field}),
        **({} if model.table is None else {"table": model.table.as_json()}),
        **({} if model.cutoff is None else {"cutoff": model.cutoff.as_json()}),
        "labels": described(model.labels),
        **entries,
        "packages": plugin_packages(_part_names(model.recipe, [entries["scorer"]])),
        "files": files,
    }


def manifest_to_bytes(manifest: dict[str, Any]) -> bytes:
    """A manifest as it is written, with the checksum of itself.

    Args:
        manifest: JSON values; a checksum in it is made anew.

    Returns:
        The content of manifest.json.
    """
    body = {name: value for name, value in manifest.items() if name != "checksum"}
    body["checksum"] = checksum(json.dumps(body, sort_keys=True).encode())
    return (json.dumps(body, ensure_ascii=True, indent=1) + "\n").encode()


def described(labels: LabelSet) -> dict[str, Any]:
    """What the manifest holds of the labels beside their file.

    Args:
        labels: of a model.

    Returns:
        JSON values by name.
    """
    propensity = {"a": labels.propensity.a, "b": labels.propensity.b}
    return {"number": len(labels), "train_rows": labels.train_rows, "propensity": propensity}


def facts_of_labels(labels: LabelSet) -> dict[str, Any]:
    """What the manifest holds of the labels' file, computed once a label set, which never changes.

    Args:
        labels: of a model.

    Returns:
        `bytes` and `sha256` of the file.
    """
    key = id(labels)  # label sets are compared by content, which takes longer
    if key not in _written:
        raw = _labels_to_bytes(labels)
        _written[key] = {"bytes": len(raw), "sha256": checksum(raw)}
        finalize(labels, _written.pop, key, None)
    return _written[key]


def _labels_to_bytes(labels: LabelSet) -> bytes:
    lines = [
        json.dumps({"id": name, "text": text, "count": count}, ensure_ascii=False)
        for name, text, count in zip(labels.ids, labels.texts, labels.counts.tolist(), strict=True)
    ]
    raw = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    if len(raw) > MAX_LABELS or max(map(len, lines), default=0) > MAX_LABEL // 4:  # a character has up to 4 bytes
        raise ModelError(f"a label has at most {MAX_LABEL // 4:,} characters of id and text; shorten the longest")
    return raw


Tensors = dict[str, dict[str, AnyArray]]  # arrays by name, by the file that holds them


def _packed(model: FittedModel) -> tuple[dict[str, Any], Tensors]:
    """The manifest's entries of the fitted parts, and the arrays of every safetensors file."""
    tensors: Tensors = {}
    packed: dict[int, str] = {}
    entries: dict[str, Any] = {"scorer": _pack("scorer", model.scorer, tensors, packed)}
    entries["rerankers"] = [_pack(f"reranker-{n}", part, tensors, packed) for n, part in enumerate(model.rerankers)]
    if model.doubts is not None:
        entries["doubts"] = _pack("doubts", model.doubts, tensors, packed)
    return entries, tensors


def _pack(name: str, part: Scorer | Reranker | Doubts, tensors: Tensors, packed: dict[int, str]) -> dict[str, Any]:
    """A fitted part's entry in the manifest; its arrays, and those of the parts inside it, are added to `tensors`.

    A part that two others share is written once, and `same_as` leads to it.
    """
    if id(part) in packed:
        return {"kind": part.kind, "settings": {}, "parts": {}, "same_as": packed[id(part)]}
    packed[id(part)] = name
    state = part.state()
    tensors[f"{name}.safetensors"] = {key: np.ascontiguousarray(value) for key, value in state.tensors.items()}
    inner = {key: _pack(f"{name}.{key}", value, tensors, packed) for key, value in state.parts.items()}
    return {"kind": part.kind, "settings": state.settings, "parts": inner}


def _part_names(recipe: str, entries: Iterable[dict[str, Any]]) -> set[str]:
    """The names of the parts of a recipe, and of the recipes that entries of the manifest name inside it."""
    names = {part.name for part in parse(recipe)}
    for entry in entries:
        named = entry["settings"].get("recipe")
        names |= _part_names(named if isinstance(named, str) else recipe, entry["parts"].values())
    return names
