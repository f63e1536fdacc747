"""What is stored of a fitted part, checked as loading a model checks it; and saved models that somebody changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from longtail.model_files import checksum, manifest_to_bytes
from longtail.seams import State
from longtail.seams.conforms import conforms


def check(part: Any, state: State, labels: int = 10) -> Any:
    """The part that is restored from a state, after the check of what it declares.

    Args:
        part: its class.
        state: what is stored.
        labels: of the model.

    Returns:
        The part.
    """
    conforms(part.declared, state.settings, state.tensors, state.parts, labels)
    return part.restore(state)


def bent(folder: Path, target: Path, change: Callable[[Stored], None]) -> Path:
    """A copy of a saved model, changed, with every size and checksum made right again, as an ill-meaning hand would.

    Args:
        folder: the saved model.
        target: where the copy goes.
        change: changes the manifest, the labels and the arrays in place.

    Returns:
        The copy.
    """
    shutil.copytree(folder, target)
    arrays = {file.name: tensors_from_bytes(file.read_bytes()) for file in target.glob("*.safetensors")}
    manifest = json.loads((target / "manifest.json").read_bytes())
    stored = Stored(manifest, (target / "labels.jsonl").read_text().splitlines(), arrays)
    change(stored)
    files = {name: tensors_to_bytes(tensors) for name, tensors in stored.arrays.items()}
    files["labels.jsonl"] = "".join(line + "\n" for line in stored.labels).encode()
    for name, raw in files.items():
        manifest["files"][name] = {"bytes": len(raw), "sha256": checksum(raw)}
    for name, raw in (files | {"manifest.json": manifest_to_bytes(manifest)}).items():
        (target / name).write_bytes(raw)
    return target


@dataclass
class Stored:
    """What a model folder holds."""

    manifest: dict[str, Any]
    labels: list[str]
    arrays: dict[str, dict[str, Any]]  # by file, by name

    def set(self, name: str, value: Any, file: str = "scorer.safetensors") -> None:
        """Change an array: another one, or a function of the one that is there."""
        self.arrays[file][name] = value(self.arrays[file][name].copy()) if callable(value) else value
