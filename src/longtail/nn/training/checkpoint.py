"""Exact checkpoints: a training that was killed resumes from the last one and ends with the same weights.

    with checkpointing("run"):
        recipe.fit(train, valid)

Every training loop inside the block gets a folder of its own under `run`, numbered in the order in which they start
(a recipe may train several: an encoder, then classifiers). When the same block runs again, a loop that had finished is
read back, the one that was killed resumes, and the others start.

A checkpoint is one safetensors file with JSON facts in its header. It is written to a temporary file, which is then
renamed, so that a complete checkpoint always exists. It contains the recipe, a hash of the data and the seed; the
checkpoint of another training is refused. Imports torch only to read or write a checkpoint.

The folder is a context variable, as progress is, because re-rankers and wrappers fit learners inside `fit`.
`--checkpoint-dir` gives every recipe a folder of its own, so the recipes of a comparison may come in any order.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from longtail.arrays import AnyArray, Matrix
from longtail.atomic import new_path, remove_leftovers
from longtail.errors import ModelError, counted
from longtail.read_back import reading_back

if TYPE_CHECKING:
    from torch import Tensor

FILE = "checkpoint.safetensors"
VERSION = 1


@dataclass(frozen=True)
class _Block:
    """A `checkpointing` block."""

    folder: Path
    every_seconds: float
    numbers: Iterator[int] = field(default_factory=itertools.count)


_block: ContextVar[_Block | None] = ContextVar("longtail_checkpoints", default=None)


@contextmanager
def checkpointing(folder: str | Path, every_seconds: float = 60.0) -> Iterator[None]:
    """Write checkpoints of every training loop that starts inside this block, and resume from existing ones.

    Args:
        folder: Where the folders of the loops are, and are created.
        every_seconds: Time between two checkpoints; one more is written after every epoch.

    Yields:
        Nothing.
    """
    token = _block.set(_Block(Path(folder), every_seconds))
    try:
        yield
    finally:
        _block.reset(token)


def training_identity(
    name: str, settings: Any, parts: Iterable[Any], tokenizer: str, tokens: Iterable[AnyArray], targets: Matrix
) -> dict[str, Any]:
    """Describe the training that a checkpoint belongs to: the recipe with its settings, and the data.

    Args:
        name: Of the learner.
        settings: The learner's dataclass.
        parts: The tail methods of the recipe.
        tokenizer: Hash of the tokenizer.
        tokens: Token arrays of the training texts, which are hashed.
        targets: csr (rows, labels), which is hashed.

    Returns:
        JSON values by name, for `train`.
    """
    digest = hashlib.blake2b(digest_size=16)
    for array in (*tokens, targets.indptr, targets.indices, targets.data):
        digest.update(np.ascontiguousarray(array).data)
    recipe = " + ".join([name, *map(repr, parts)])
    return {"recipe": recipe, **asdict(settings), "tokenizer": tokenizer, "data": digest.hexdigest()}


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training: plain facts, and tensors by name."""

    facts: dict[str, Any]  # JSON values
    tensors: dict[str, Tensor]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Replace a file of a checkpoint, atomically.

    Args:
        path: The file.
        tensors: On any device.
        header: JSON values.

    Raises:
        ModelError: The file cannot be written.
    """
    from safetensors.torch import save_file

    # A copy of each: safetensors writes neither tensors that share memory nor tensors on a device.
    ready = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    try:
        with new_path(path) as temporary:
            save_file(ready, temporary, metadata={"longtail": json.dumps(header)})
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: the checkpoint cannot be written ({getattr(error, 'strerror', None) or error}); check the disk "
            "space and the permissions, then run the same again: it resumes from the checkpoint before"
        ) from None


@dataclass(frozen=True)
class CheckpointDir:
    """The folder of one training loop."""

    folder: Path
    every_seconds: float  # between two checkpoints; one more is written after every epoch

    @property
    def file(self) -> Path:
        """The checkpoint's path."""
        return self.folder / FILE

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        """Replace the last checkpoint, atomically.

        Args:
            checkpoint: What to write.
            identity: What it belongs to; `read` compares it.

        Raises:
            ModelError: The file cannot be written.
        """
        header = {"version": VERSION, "identity": dict(identity), "facts": checkpoint.facts}
        remove_leftovers(self.folder)  # of a process that was killed, also of shards under other names
        write_tensors(self.file, checkpoint.tensors, header)

    def reading(self) -> AbstractContextManager[None]:
        """While the checkpoint is read and taken apart: whatever that raises becomes one error, which names it."""
        return reading_back(self.file, "remove it to train from the start")

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """Read the last checkpoint.

        Args:
            identity: What it must belong to.

        Returns:
            The checkpoint, or None where there is none.

        Raises:
            ModelError: It cannot be read, is of another version or belongs to another training.
        """
        if not self.file.exists():
            return None
        with self.reading(), safe_open(self.file, framework="pt") as file:
            header = json.loads(file.metadata()["longtail"])
            version, found, facts = header["version"], dict(header["identity"]), dict(header["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if version != VERSION:
            raise ModelError(
                f"{self.file}: the checkpoint has version {version!r}, this release reads {VERSION}; "
                "finish with the release that wrote it, or remove it to train from the start"
            )
        _refuse_other(self.file, found, json.loads(json.dumps(dict(identity))))
        return Checkpoint(facts, tensors)


def checkpoint_folder() -> Path | None:
    """Find the folder of the `checkpointing` block, for what else is worth keeping, such as tokens.

    Returns:
        The folder, or None outside a block.
    """
    block = _block.get()
    return None if block is None else block.folder


def checkpoint_status(folder: str | Path) -> list[tuple[Path, str]]:
    """List the training loops that have a checkpoint under a folder.

    Args:
        folder: That of a `checkpointing` block.

    Returns:
        The folder of each loop, and how far it is, in words.
    """
    return [(file.parent, _status(file)) for file in sorted(Path(folder).glob(f"*/{FILE}"))]


def _status(file: Path) -> str:
    try:
        with reading_back(file, ""), safe_open(file, framework="numpy") as opened:  # the header: no tensor is read
            header = json.loads(opened.metadata()["longtail"])
            facts, epochs = header["facts"], int(header["identity"]["epochs"])
            epoch, steps, stopped = int(facts["epoch"]), int(facts["step"]), bool(facts["stopped"])
    except ModelError:
        return "a checkpoint that cannot be read"
    if stopped or epoch == epochs:
        return f"finished after epoch {epoch} of {epochs}"
    and_steps = f" and {counted(steps, 'step')}" if steps else ""
    return f"{epoch} of {counted(epochs, 'epoch')}{and_steps} done"


def next_checkpoint_dir(name: str) -> CheckpointDir | None:
    """Assign a checkpoint directory to the training loop that starts now.

    Args:
        name: Of the loop.

    Returns:
        A numbered directory in the folder of the `checkpointing` block, or None outside a block.
    """
    block = _block.get()
    if block is None:
        return None
    return CheckpointDir(block.folder / f"{next(block.numbers):02d}-{name}", block.every_seconds)


def _refuse_other(file: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    different = [name for name in (wanted | found) if found.get(name) != wanted.get(name)]
    if different:
        differences = "; ".join(
            f"{name} {_short(found.get(name))} there, {_short(wanted.get(name))} here" for name in different
        )
        raise ModelError(
            f"{file} belongs to another training: {differences}. Use the same recipe and data, "
            "another checkpoint directory, or remove this one"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
