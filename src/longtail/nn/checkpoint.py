"""Exact checkpoints: a training that was killed goes on from the last one and ends with the same weights.

    with keeping("run"):
        recipe.fit(train, valid)

Every training loop inside the block has a folder of its own under `run`, numbered in the order of their beginning
(a recipe may train several: an encoder, then classifiers). Run the same block again, and a loop that was finished is
read back, the one that was killed goes on, and the others begin.

A checkpoint is one safetensors file with its facts as JSON in the header. It is written beside its place and renamed,
so there is always a whole one. It names what it belongs to: one of another recipe, other data or another seed is
refused. Loads torch only to write and to read one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from longtail.arrays import AnyArray, Matrix
from longtail.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

FILE = "checkpoint.safetensors"
VERSION = 1


@dataclass(frozen=True)
class _Keeping:
    folder: Path
    every_seconds: float
    numbers: Iterator[int] = field(default_factory=itertools.count)


_keeping: ContextVar[_Keeping | None] = ContextVar("longtail_checkpoints", default=None)


@contextmanager
def keeping(folder: str | Path, every_seconds: float = 60.0) -> Iterator[None]:
    """Keep checkpoints of every training loop begun inside this block, and go on from those that are there."""
    token = _keeping.set(_Keeping(Path(folder), every_seconds))
    try:
        yield
    finally:
        _keeping.reset(token)


def belonging(
    name: str, settings: Any, parts: Iterable[Any], tokenizer: str, tokens: Iterable[AnyArray], targets: Matrix
) -> dict[str, Any]:
    """What a checkpoint of a training belongs to: the recipe with its settings, and the data."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (*tokens, targets.indptr, targets.indices, targets.data):
        digest.update(np.ascontiguousarray(array).data)
    recipe = " + ".join([name, *map(repr, parts)])
    return {"recipe": recipe, **asdict(settings), "tokenizer": tokenizer, "data": digest.hexdigest()}


@dataclass(frozen=True)
class Checkpoint:
    """Where a training stands: plain facts, and tensors by name."""

    facts: dict[str, Any]  # JSON values
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Place:
    """The folder of one training loop."""

    folder: Path
    every_seconds: float  # a checkpoint each so many seconds, and one at the end of each epoch

    @property
    def file(self) -> Path:
        return self.folder / FILE

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        """Put the checkpoint in the place of the last one, whole or not at all."""
        from safetensors.torch import save_file

        # A copy of each: tensors that share memory or stand on a device cannot be written as they are.
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in checkpoint.tensors.items()}
        header = {"version": VERSION, "identity": dict(identity), "facts": checkpoint.facts}
        temporary = self.folder / f".{FILE}.writing-{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(tensors, temporary, metadata={"longtail": json.dumps(header)})
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(self.file)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{self.file}: the checkpoint cannot be written ({error}); check the disk and the rights, then run the "
                "same again: it goes on from the checkpoint before"
            ) from None
        finally:
            with suppress(OSError):
                temporary.unlink()

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """The last checkpoint; None where there is none; an error where it belongs to another training."""
        if not self.file.exists():
            return None
        try:
            with safe_open(self.file, framework="pt") as file:
                header = json.loads(file.metadata()["longtail"])
                version, found, facts = header["version"], header["identity"], header["facts"]
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{self.file}: not a checkpoint that can be read ({error}); remove it to train from the start"
            ) from None
        if version != VERSION:
            raise ModelError(
                f"{self.file}: the checkpoint has version {version!r}, this release reads {VERSION}; "
                "finish with the release that wrote it, or remove it to train from the start"
            )
        _refuse_other(self.file, found, json.loads(json.dumps(dict(identity))))
        return Checkpoint(facts, tensors)


def kept_folder() -> Path | None:
    """The folder of the `keeping` block, for what is worth keeping besides checkpoints."""
    kept = _keeping.get()
    return None if kept is None else kept.folder


def standing(folder: str | Path) -> list[tuple[Path, str]]:
    """The folder of each training loop kept under this one, and where it stands, in words."""
    return [(file.parent, _stands(file)) for file in sorted(Path(folder).glob(f"*/{FILE}"))]


def _stands(file: Path) -> str:
    try:
        with safe_open(file, framework="numpy") as opened:  # the header alone: no tensor is read
            header = json.loads(opened.metadata()["longtail"])
            facts, epochs = header["facts"], header["identity"]["epochs"]
            epoch, steps, stopped = int(facts["epoch"]), int(facts["step"]), bool(facts["stopped"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return "a checkpoint that cannot be read"
    if stopped or epoch == epochs:
        return f"finished after epoch {epoch} of {epochs}"
    begun = f" and {steps} steps" if steps else ""
    return f"{epoch} of {epochs} epochs{begun} done"


def next_place(name: str) -> Place | None:
    """Where the training loop that begins now keeps its checkpoints; None outside a `keeping` block."""
    kept = _keeping.get()
    if kept is None:
        return None
    return Place(kept.folder / f"{next(kept.numbers):02d}-{name}", kept.every_seconds)


def _refuse_other(file: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    different = [name for name in (wanted | found) if found.get(name) != wanted.get(name)]
    if different:
        told = "; ".join(
            f"{name} {_short(found.get(name))} there, {_short(wanted.get(name))} here" for name in different
        )
        raise ModelError(
            f"{file} belongs to another training: {told}. Go on with the same recipe and data, "
            "name another folder, or remove this one"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
