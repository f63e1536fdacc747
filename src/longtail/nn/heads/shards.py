"""A head in parts, one a process: where its weights begin, the best labels over all parts, and its checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, distributed

from longtail.arrays import Floats, Ints
from longtail.errors import ModelError
from longtail.nn.checkpoint import Checkpoint, Place
from longtail.nn.heads.head import Head
from longtail.nn.heads.ranks import Ranks
from longtail.nn.heads.top import top
from longtail.predictions import ranked

OWN = "weights.head."  # tensors of a checkpoint that are cut by label
BY_LABEL = ("weight", "bias", "velocity")


def begin_as_one(head: Head, first: int, total: int, spread: float = 0.02) -> None:
    """Put the weights of labels first, first + 1, ... to what they would be in a head over all labels."""
    device, size = head.weight.device, 1 << 16
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(head.settings.seed)
        for begin in range(0, total, size):
            some = torch.randn((min(size, total - begin), head.width), device=device) * (spread * head.scale)
            some[:, head.dimension :] = 0
            low, high = max(begin, first), min(begin + size, first + head.labels)
            if low < high:
                head.weight[low - first : high - first] = some[low - begin : high - begin].to(head.weight.dtype)


def top_of_all(head: Head, vectors: Tensor, k: int, ranks: Ranks, total: int) -> tuple[Ints, Floats]:
    """The k best labels of each vector over the parts of all processes, and their scores; the same on each."""
    labels, scores = top(head, vectors, k)
    if ranks.count > 1:
        short = min(k, total) - labels.shape[1]  # a part may hold fewer labels than are asked for
        labels = torch.nn.functional.pad(labels + ranks.range(total)[0], (0, short), value=-1)
        scores = torch.nn.functional.pad(scores, (0, short), value=float("-inf"))
        parts = [[torch.empty_like(own) for _ in range(ranks.count)] for own in (labels, scores)]
        for found, own in zip(parts, (labels, scores), strict=True):
            distributed.all_gather(found, own.contiguous())
        labels, scores = (torch.cat(found, dim=1) for found in parts)
    best, values = ranked(labels.int().cpu().numpy(), scores.cpu().numpy())
    return best[:, : min(k, total)], values[:, : min(k, total)]


@dataclass(frozen=True)
class SharedPlace(Place):
    """A checkpoint whose head lies in a file a process, and which any number of processes can go on from.

    The parts of the head are written first; then the file with all the rest, which names them, takes the place of the
    last one. With several processes there is one at the end of each epoch, since their clocks differ.
    """

    ranks: Ranks
    head: Head
    labels: int  # of all processes

    @classmethod
    def of(cls, place: Place, ranks: Ranks, head: Head, labels: int) -> SharedPlace:
        folder = ranks.made_by_first(lambda: place.folder)  # the first may have trained more before
        return cls(folder, place.every_seconds if ranks.count == 1 else float("inf"), ranks, head, labels)

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        if self.ranks.count == 1:
            super().write(checkpoint, identity)
            self._forget(())
            return
        facts, tensors = checkpoint.facts, checkpoint.tensors
        when = f"{facts['epoch']}-{facts['step']}"
        names = [f"head-{when}-{number}-of-{self.ranks.count}.safetensors" for number in range(self.ranks.count)]
        own = {name.removeprefix(OWN): tensor for name, tensor in tensors.items() if name.startswith(OWN)}
        first, last = self.ranks.range(self.labels)
        _write(self.folder / names[self.ranks.number], own, {"first": first, "last": last})
        self.ranks.wait()
        if self.ranks.number == 0:
            rest = {name: tensor for name, tensor in tensors.items() if not name.startswith((OWN, "best."))}
            super().write(Checkpoint({**facts, "heads": names}, rest), identity)
            self._forget(names)
        self.ranks.wait()

    def read(self, identity: Mapping[str, Any]) -> Checkpoint | None:
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
                with _opened(self.folder / name) as (tensors, begin, end):
                    _copy(own, tensors, begin, end, first, last)
        else:
            whole = {name.removeprefix(OWN): tensor for name, tensor in found.tensors.items() if name.startswith(OWN)}
            _copy(own, whole, 0, self.labels, first, last)
        rest = {name: tensor for name, tensor in found.tensors.items() if not name.startswith((OWN, "best."))}
        return Checkpoint(facts, rest | {OWN + name: tensor for name, tensor in own.items()})

    def _forget(self, names: Any) -> None:
        """Remove the parts that no checkpoint names any more."""
        for path in self.folder.glob("head-*.safetensors"):
            if path.name not in names:
                with suppress(OSError):
                    path.unlink()


def _copy(own: dict[str, Tensor], given: Mapping[str, Any], begin: int, end: int, first: int, last: int) -> None:
    """Put what labels begin to end - 1 were given where they stand among labels first to last - 1."""
    low, high = max(begin, first), min(end, last)
    if low >= high:
        return
    here, there = slice(low - first, high - first), slice(low - begin, high - begin)
    for name in BY_LABEL:
        if name in own:
            own[name][here] = given[name][there]
    if "lost" in own:
        ours, theirs = own["slots"][here], given["slots"][there]
        both = (ours >= 0) & (theirs >= 0)  # which labels are remembered depends on the parts
        own["lost"][ours[both].long()] = given["lost"][:][theirs[both].long()]


def _write(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    temporary = path.parent / f".{path.name}.writing-{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ready = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        save_file(ready, temporary, metadata={"longtail": json.dumps(facts)})
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: the checkpoint cannot be written ({error}); check the disk and the rights, then run the same "
            "again: it goes on from the checkpoint before"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """A part of the head: tensors that are read where they are sliced, and which labels they are of."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["longtail"])
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            yield slices, int(facts["first"]), int(facts["last"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: not a part of a checkpoint that can be read ({error}); remove the folder to train from the start"
        ) from None
