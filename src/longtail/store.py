"""Models as folders of plain data: manifest.json, labels.jsonl and safetensors. Loading runs no code.

    manifest.json             format, version, recipe, the kinds and settings of the parts, a checksum of every file
    labels.jsonl              {"id", "text", "count"} a line, in row order
    scorer.safetensors        the learner's arrays
    reranker-0.safetensors    the first re-ranker's, and so on
    README.md                 the model card, with card.json and card.svg: for people, not part of the model

A folder is written under a temporary name, flushed to disk and renamed, so a reader sees a whole model or none.
Every byte of the model is covered by a checksum: a file that was cut, damaged or edited is refused before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from longtail import __version__
from longtail.atomic import new_folder
from longtail.catalogue import learner_class, tail_class
from longtail.data.labels import LabelSet, Propensity
from longtail.errors import LongtailError, ModelError
from longtail.grammar import parse
from longtail.model import Model
from longtail.seams import Reranker, Scorer, State

if TYPE_CHECKING:
    from longtail.report.card import Card

FORMAT, VERSION = "longtail-model", 1
MANIFEST, LABELS = "manifest.json", "labels.jsonl"
CARD_FILES = ("README.md", "card.json", "card.svg")  # may be edited or missing: no checksum covers them


def save(model: Model, path: str | Path, *, overwrite: bool = False, card: Card | None = None) -> Path:
    """Write the model as a folder, all of it or nothing. Without a card it gets one of what the model itself knows."""
    from longtail.report.card import Card

    path = Path(path)
    check_place(path, overwrite=overwrite)
    files = {LABELS: _labels_to_bytes(model.labels)}
    scorer = _pack("scorer", model.scorer, files)
    rerankers = [_pack(f"reranker-{number}", part, files) for number, part in enumerate(model.rerankers)]
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "longtail": __version__,
        "recipe": model.recipe,
        "text_field": model.text_field,
        "id_field": model.id_field,
        "labels": {
            "number": len(model.labels),
            "train_rows": model.labels.train_rows,
            "propensity": {"a": model.labels.propensity.a, "b": model.labels.propensity.b},
        },
        "scorer": scorer,
        "rerankers": rerankers,
        "files": {name: {"bytes": len(raw), "sha256": _checksum(raw)} for name, raw in files.items()},
    }
    files[MANIFEST] = _manifest_to_bytes(manifest)
    files |= {name: text.encode() for name, text in (card or Card()).files(model).items()}
    with new_folder(path) as temporary:
        for name, raw in files.items():
            with (temporary / name).open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
    return path


def check_place(path: Path, *, overwrite: bool) -> None:
    """Whether a model may be written there: asked before the long work too."""
    if path.exists() and not overwrite:
        raise ModelError(f"{path} exists; choose another name, or pass --overwrite to replace it (overwrite=True)")
    if path.exists() and not _is_model(path):
        raise ModelError(f"{path} exists and is not a model folder, or holds other files too; it is left alone")


def load(path: str | Path) -> Model:
    """Read a model folder. Anything that is not exactly what was written gives a ModelError."""
    path = Path(path)
    if not path.is_dir():
        place = "MODEL" if path.exists() else path  # which is somebody's file
        raise ModelError(f"{path} is not a model folder; train one with: longtail train DATA RECIPE --out {place}")
    manifest = _read_manifest(path)
    try:
        if not all(re.fullmatch(r"[\w-][\w.-]*", name) for name in manifest["files"]):
            raise ModelError(f"{path}: the manifest names files outside the model folder")
        files = {name: _read(path / name, facts) for name, facts in manifest["files"].items()}
        labels = _labels_from_bytes(files[LABELS], manifest["labels"])
        kinds = _kinds(manifest["recipe"])
        scorer = _unpack("scorer", manifest["scorer"], files, kinds)
        fields = {"text_field": manifest["text_field"], "id_field": manifest.get("id_field", "id")}
        model = Model(manifest["recipe"], labels, scorer, **fields)
        for number, entry in enumerate(manifest["rerankers"]):
            model = model.with_reranker(_unpack(f"reranker-{number}", entry, files, kinds))
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SafetensorError, LongtailError) as error:
        raise ModelError(f"{path} holds a part this release cannot read ({error}); train the model again") from None
    return model


def _is_model(path: Path) -> bool:
    """Whether a folder holds a model and nothing else: only then may it be replaced."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        known = {MANIFEST, *CARD_FILES, *manifest["files"]}
        return manifest["format"] == FORMAT and {file.name for file in path.iterdir()} <= known
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def size_on_disk(path: str | Path) -> int:
    """Bytes of a model folder."""
    return sum(file.stat().st_size for file in Path(path).iterdir() if file.is_file())


def _checksum(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _manifest_to_bytes(manifest: dict[str, Any]) -> bytes:
    body = {name: value for name, value in manifest.items() if name != "checksum"}
    body["checksum"] = _checksum(json.dumps(body, sort_keys=True).encode())
    return (json.dumps(body, ensure_ascii=True, indent=1) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    place = path / MANIFEST
    try:
        raw = place.read_bytes()
    except OSError as error:
        raise ModelError(f"{place}: cannot be read ({error.strerror or error}); is {path} a model folder?") from None
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{place}: not valid JSON ({error}); the model is not whole, copy it again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelError(f"{place}: not the manifest of a longtail model")
    if manifest.get("version") != VERSION:
        raise ModelError(
            f"{place}: the model has format version {manifest.get('version')!r}, this release reads {VERSION}; "
            "use the release that wrote it, or train the model again"
        )
    try:
        same = _manifest_to_bytes(manifest) == raw
    except ValueError:  # lone surrogates and the like: nothing we would have written
        same = False
    if not same:
        raise ModelError(f"{place}: the manifest was changed after it was written; the model cannot be trusted")
    return manifest


def _read(path: Path, facts: dict[str, Any]) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read ({error.strerror or error}); the model is not whole, copy it again"
        ) from None
    if len(raw) != facts["bytes"] or _checksum(raw) != facts["sha256"]:
        what = f"{len(raw)} bytes are" if len(raw) != facts["bytes"] else "the content is"
        raise ModelError(
            f"{path}: {what} not the {facts['bytes']} bytes that were written; the file is damaged or was changed, "
            "copy the model again"
        )
    return raw


def _labels_to_bytes(labels: LabelSet) -> bytes:
    lines = [
        json.dumps({"id": name, "text": text, "count": count}, ensure_ascii=False)
        for name, text, count in zip(labels.ids, labels.texts, labels.counts.tolist(), strict=True)
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _labels_from_bytes(raw: bytes, facts: dict[str, Any]) -> LabelSet:
    rows = [json.loads(line) for line in raw.decode("utf-8", "surrogatepass").split("\n") if line]
    if len(rows) != facts["number"]:
        raise ValueError(f"{len(rows)} labels instead of {facts['number']}")
    return LabelSet(
        ids=tuple(row["id"] for row in rows),
        texts=tuple(row["text"] for row in rows),
        counts=np.array([row["count"] for row in rows], dtype=np.int64),
        train_rows=facts["train_rows"],
        propensity=Propensity(**facts["propensity"]),
    )


def _pack(name: str, part: Scorer | Reranker, files: dict[str, bytes]) -> dict[str, Any]:
    """A fitted part's entry in the manifest; its arrays, and those of the parts inside it, join the files."""
    state = part.state()
    arrays = {key: np.ascontiguousarray(value) for key, value in state.tensors.items()}
    files[f"{name}.safetensors"] = tensors_to_bytes(arrays)
    inner = {key: _pack(f"{name}.{key}", value, files) for key, value in state.parts.items()}
    return {"kind": part.kind, "settings": state.settings, "parts": inner}


def _unpack(name: str, entry: dict[str, Any], files: dict[str, bytes], kinds: dict[str, Any]) -> Any:
    """The part that `_pack` packed. Where a part names the recipe of what stands inside it, its kinds are known too."""
    if isinstance(named := entry["settings"].get("recipe"), str):
        kinds = kinds | _kinds(named)
    inner = {key: _unpack(f"{name}.{key}", value, files, kinds) for key, value in entry["parts"].items()}
    tensors = tensors_from_bytes(files[f"{name}.safetensors"])
    return kinds[entry["kind"]].restore(State(entry["settings"], tensors, inner))


def _kinds(recipe: str) -> dict[str, Any]:
    """The kinds of fitted parts that this recipe leaves behind. Looked up by name: a manifest never names code."""
    learner, *tail = parse(recipe)
    parts = [learner_class(learner.name), *(tail_class(part.name) for part in tail)]
    fitted = [getattr(part, role) for part in parts for role in ("scorer", "reranker") if hasattr(part, role)]
    return {kind.kind: kind for kind in fitted}
