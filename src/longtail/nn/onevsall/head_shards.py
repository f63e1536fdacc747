"""A head in shards, one per process: its initial weights, the top labels over all shards, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed

from longtail.arrays import Floats, Ints
from longtail.nn.onevsall.head import OneVsAllHead
from longtail.nn.onevsall.head_top import top
from longtail.nn.training.checkpoint import Checkpoint, CheckpointDir
from longtail.nn.training.label_shards import LabelShardsDir
from longtail.nn.training.process_group import ProcessGroup
from longtail.predictions import ranked

OWN, BEST = "weights.head.", "best.head."  # prefixes of the tensors of a checkpoint that are cut by label
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
class ShardedCheckpointDir(LabelShardsDir):
    """A checkpoint with one file per process for the head."""

    head: OneVsAllHead

    kind: ClassVar[str] = "head"
    named: ClassVar[str] = "heads"

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
        return cls(folder, place.every_seconds if ranks.count == 1 else float("inf"), ranks, labels, head)

    def shard(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `LabelShardsDir.shard`."""
        return {
            name.removeprefix(OWN).replace(BEST, "best.", 1): tensor
            for name, tensor in tensors.items()
            if name.startswith((OWN, BEST))
        }

    def shared(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `LabelShardsDir.shared`."""
        return {name: tensor for name, tensor in tensors.items() if not name.startswith((OWN, BEST))}

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """See `CheckpointDir.read`. Shards are cut anew for the number of processes."""
        found = super().read(identity)
        if found is None or (self.named not in found.facts and self.ranks.count == 1):
            return found
        facts = dict(found.facts)
        first, last = self.ranks.range(self.labels)
        own, best = self._blank(), self._blank()
        has_best = False
        if self.named in facts:
            for name in facts.pop(self.named):
                with self.opened(name) as (tensors, start, end):
                    has_best |= _copy_both(own, best, tensors, start, end, first, last)
        else:
            has_best = _copy_both(own, best, self.shard(found.tensors), 0, self.labels, first, last)
        heads = {OWN + name: tensor for name, tensor in own.items()}
        heads |= {BEST + name: tensor for name, tensor in best.items()} if has_best else {}
        return Checkpoint(facts, self.shared(found.tensors) | heads)

    def _blank(self) -> dict[str, Tensor]:
        """Tensors of this process's head, to be filled from a checkpoint."""
        own = {name: tensor.cpu().clone() for name, tensor in self.head.state_dict().items()}
        if "lost" in own:
            own["lost"].zero_()
        return own


def _copy_both(
    own: dict[str, Tensor],
    best: dict[str, Tensor],
    given: Mapping[str, Any],
    start: int,
    end: int,
    first: int,
    last: int,
) -> bool:
    """Copy the last weights of a shard, and the best ones where it has them; whether it has."""
    of_best = {name.removeprefix("best."): tensor for name, tensor in given.items() if name.startswith("best.")}
    _copy(own, given, start, end, first, last)
    if of_best:
        _copy(best, of_best, start, end, first, last)
    return bool(of_best)


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
