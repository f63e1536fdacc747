"""Checkpoints of processes that each hold a range of the labels: one file a process for what is cut by label.

Shards are written before the file that names them. That file holds what all processes share; each process writes the
rows of its own labels. A process that resumes reads the ranges of labels that it needs, so any number of processes can
resume from a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from safetensors import safe_open
from torch import Tensor

from longtail.nn.training.checkpoint import Checkpoint, CheckpointDir, write_tensors
from longtail.nn.training.process_group import ProcessGroup
from longtail.read_back import reading_back


@dataclass(frozen=True)
class LabelShardsDir(CheckpointDir):
    """A checkpoint in shards. Several processes write one at the end of each epoch only, since their clocks differ."""

    ranks: ProcessGroup
    labels: int  # of all processes

    kind: ClassVar[str]  # first word of a shard's file name
    named: ClassVar[str]  # fact of the checkpoint that lists the shards

    def shard(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Choose what is cut by label.

        Args:
            tensors: of the checkpoint of this process.

        Returns:
            The tensors of its shard, under the names that they have there.
        """
        raise NotImplementedError

    def shared(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Choose what all processes share.

        Args:
            tensors: of the checkpoint of this process.

        Returns:
            The tensors of the file that names the shards.
        """
        raise NotImplementedError

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        """See `CheckpointDir.write`."""
        if self.ranks.count == 1:
            super().write(checkpoint, identity)
            self._remove_others(())
            return
        facts, count = checkpoint.facts, self.ranks.count
        when = f"{facts['epoch']}-{facts['step']}"
        names = [f"{self.kind}-{when}-{number}-of-{count}.safetensors" for number in range(count)]
        first, last = self.ranks.range(self.labels)
        own = self.folder / names[self.ranks.number]
        write_tensors(own, self.shard(checkpoint.tensors), {"first": first, "last": last})
        self.ranks.wait()
        if self.ranks.number == 0:
            super().write(Checkpoint({**facts, self.named: names}, self.shared(checkpoint.tensors)), identity)
            self._remove_others(names)
        self.ranks.wait()

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[Mapping[str, Any], int, int]]:
        """Open a shard.

        Args:
            name: of the file.

        Yields:
            Tensors that are read when sliced, the shard's first label, and one past its last.
        """
        path = self.folder / name
        with reading_back(path, "remove the folder to train from the start"), safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["longtail"])
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            yield slices, int(facts["first"]), int(facts["last"])

    def _remove_others(self, names: Sequence[str]) -> None:
        """Remove the shards that the checkpoint does not name."""
        for path in self.folder.glob(f"{self.kind}-*.safetensors"):
            if path.name not in names:
                with suppress(OSError):
                    path.unlink()


@dataclass(frozen=True)
class RowShardsDir(LabelShardsDir):
    """A checkpoint in which some tensors have a row for each label of the process, and the others are shared."""

    cut: Callable[[str], bool]  # whether the tensor of a name has a row for each label

    kind: ClassVar[str] = "labels"
    named: ClassVar[str] = "label_shards"

    @classmethod
    def of(cls, place: CheckpointDir, ranks: ProcessGroup, labels: int, cut: Callable[[str], bool]) -> RowShardsDir:
        """Make the directory of a training over any number of processes.

        Args:
            place: the directory of one process.
            ranks: the processes.
            labels: of all processes.
            cut: whether the tensor of a name has a row for each label.

        Returns:
            The same folder on every process.
        """
        folder = ranks.made_by_first(lambda: place.folder)
        return cls(folder, place.every_seconds if ranks.count == 1 else float("inf"), ranks, labels, cut)

    def shard(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `LabelShardsDir.shard`."""
        return {name: tensor for name, tensor in tensors.items() if self.cut(name)}

    def shared(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `LabelShardsDir.shared`."""
        return {name: tensor for name, tensor in tensors.items() if not self.cut(name)}

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """See `CheckpointDir.read`. Shards are cut anew for the number of processes."""
        found = super().read(identity)
        if found is None or (self.named not in found.facts and self.ranks.count == 1):
            return found
        facts, (first, last) = dict(found.facts), self.ranks.range(self.labels)
        if self.named not in facts:  # one process wrote it
            cut = {name: tensor[first:last].clone() for name, tensor in self.shard(found.tensors).items()}
            return Checkpoint(facts, self.shared(found.tensors) | cut)
        pieces: dict[str, list[Tensor]] = {}
        for name in facts.pop(self.named):
            with self.opened(name) as (tensors, start, end):
                low, high = max(start, first), min(end, last)
                for key, rows in tensors.items() if low < high else ():
                    pieces.setdefault(key, []).append(rows[low - start : high - start])
        with self.reading():
            joined = {key: torch.cat(parts) for key, parts in pieces.items()}
            if any(len(tensor) != last - first for tensor in joined.values()):
                raise ValueError("its shards do not hold all labels")
        return Checkpoint(facts, found.tensors | joined)
