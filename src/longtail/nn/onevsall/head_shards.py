"""A head in shards, one per process: its initial weights, the top labels over all shards, and its checkpoints.

Shards of a checkpoint are written before the file that names them. That file holds what all processes share; each
process writes the rows of its own labels. A process that resumes reads the ranges of labels that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, distributed

from longtail.arrays import Floats, Ints
from longtail.nn.onevsall.head import OneVsAllHead
from longtail.nn.onevsall.head_top import top
from longtail.nn.training.checkpoint import Checkpoint, CheckpointDir, write_tensors
from longtail.nn.training.process_group import ProcessGroup
from longtail.predictions import ranked
from longtail.read_back import reading_back

OWN = "weights.head."  # prefix of the tensors of a checkpoint that are cut by label
BY_LABEL = ("weight", "bias", "velocity")


def init_shard(head: OneVsAllHead, first: int, total: int, std: float = 0.02) -> None:
    """Initialise a shard with the weights that its labels would have in one head over all labels.

    Args:
        head: the shard.
        first: its first label.
        total: labels of all shards.
        std: standard deviation of the initial weights.
    """
    device, size = head.weight.device, 1 << 16
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(head.settings.seed)
        for start in range(0, total, size):
            piece = torch.randn((min(size, total - start), head.width), device=device) * (std * head.scale)
            piece[:, head.dimension :] = 0
            low, high = max(start, first), min(start + size, first + head.labels)
            if low < high:
                head.weight[low - first : high - first] = piece[low - start : high - start].to(head.weight.dtype)


def top_of_all(head: OneVsAllHead, vectors: Tensor, k: int, ranks: ProcessGroup, total: int) -> tuple[Ints, Floats]:
    """Find the top labels of each vector over the shards of all processes.

    Args:
        head: the shard of this process.
        vectors: (rows, dimension), the same on every process.
        k: number of labels for each vector.
        ranks: the processes.
        total: labels of all shards.

    Returns:
        Labels (int32) and scores (float32), each (rows, min(k, total)), best first; the same on every process.
    """
    labels, scores = top(head, vectors, k)
    if ranks.count > 1:
        short = min(k, total) - labels.shape[1]  # a shard may hold fewer than k labels
        labels = torch.nn.functional.pad(labels + ranks.range(total)[0], (0, short), value=-1)
        scores = torch.nn.functional.pad(scores, (0, short), value=float("-inf"))
        parts = [[torch.empty_like(own) for _ in range(ranks.count)] for own in (labels, scores)]
        for found, own in zip(parts, (labels, scores), strict=True):
            distributed.all_gather(found, own.contiguous())
        labels, scores = (torch.cat(found, dim=1) for found in parts)
    best, values = ranked(labels.int().cpu().numpy(), scores.cpu().numpy())
    return best[:, : min(k, total)], values[:, : min(k, total)]


@dataclass(frozen=True)
class ShardedCheckpointDir(CheckpointDir):
    """A checkpoint with one file per process for the head. Any number of processes can resume from it.

    The shards of the head are written first. Then the file with everything else, which names the shards, replaces the
    one before. Several processes write a checkpoint at the end of each epoch only, since their clocks differ.
    """

    ranks: ProcessGroup
    head: OneVsAllHead
    labels: int  # of all processes

    @classmethod
    def of(cls, place: CheckpointDir, ranks: ProcessGroup, head: OneVsAllHead, labels: int) -> ShardedCheckpointDir:
        """Make the directory of a training over several processes.

        Args:
            place: the directory of one process.
            ranks: the processes.
            head: the shard of this process.
            labels: of all processes.

        Returns:
            The same folder on every process.
        """
        # The first process chooses: it may have trained a teacher before, and so be at a later folder.
        folder = ranks.made_by_first(lambda: place.folder)
        return cls(folder, place.every_seconds if ranks.count == 1 else float("inf"), ranks, head, labels)

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        """See `CheckpointDir.write`."""
        if self.ranks.count == 1:
            super().write(checkpoint, identity)
            self._remove_others(())
            return
        facts, tensors = checkpoint.facts, checkpoint.tensors
        when = f"{facts['epoch']}-{facts['step']}"
        names = [f"head-{when}-{number}-of-{self.ranks.count}.safetensors" for number in range(self.ranks.count)]
        own = {name.removeprefix(OWN): tensor for name, tensor in tensors.items() if name.startswith(OWN)}
        first, last = self.ranks.range(self.labels)
        write_tensors(self.folder / names[self.ranks.number], own, {"first": first, "last": last})
        self.ranks.wait()
        if self.ranks.number == 0:
            rest = {name: tensor for name, tensor in tensors.items() if not name.startswith((OWN, "best."))}
            super().write(Checkpoint({**facts, "heads": names}, rest), identity)
            self._remove_others(names)
        self.ranks.wait()

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """See `CheckpointDir.read`. Shards are cut anew for the number of processes."""
        found = super().read(identity)
        if found is None or ("heads" not in found.facts and self.ranks.count == 1):
            return found
        facts = dict(found.facts)
        first, last = self.ranks.range(self.labels)
        own = {name: tensor.cpu().clone() for name, tensor in self.head.state_dict().items()}
        if "lost" in own:
            own["lost"].zero_()
        if "heads" in facts:
            for name in facts.pop("heads"):
                with _opened(self.folder / name) as (tensors, start, end):
                    _copy(own, tensors, start, end, first, last)
        else:
            whole = {name.removeprefix(OWN): tensor for name, tensor in found.tensors.items() if name.startswith(OWN)}
            _copy(own, whole, 0, self.labels, first, last)
        rest = {name: tensor for name, tensor in found.tensors.items() if not name.startswith((OWN, "best."))}
        return Checkpoint(facts, rest | {OWN + name: tensor for name, tensor in own.items()})

    def _remove_others(self, names: Any) -> None:
        """Remove the shards that the checkpoint does not name."""
        for path in self.folder.glob("head-*.safetensors"):
            if path.name not in names:
                with suppress(OSError):
                    path.unlink()


def _copy(own: dict[str, Tensor], given: Mapping[str, Any], start: int, end: int, first: int, last: int) -> None:
    """Copy tensors of labels start to end - 1 into those of labels first to last - 1, where the ranges overlap."""
    low, high = max(start, first), min(end, last)
    if low >= high:
        return
    to, source = slice(low - first, high - first), slice(low - start, high - start)
    for name in BY_LABEL:
        if name in own:
            own[name][to] = given[name][source]
    if "lost" in own:
        own_slots, given_slots = own["slots"][to], given["slots"][source]
        both = (own_slots >= 0) & (given_slots >= 0)  # which labels are compensated depends on the shards
        own["lost"][own_slots[both].long()] = given["lost"][:][given_slots[both].long()]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """A shard of the head: tensors that are read when sliced, its first label, and one past its last."""
    with reading_back(path, "remove the folder to train from the start"), safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["longtail"])
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        yield slices, int(facts["first"]), int(facts["last"])
