"""Ids by their numbers, on the disk: each process reads the few that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longtail.arrays import Bytes, Longs


@dataclass(frozen=True, eq=False)
class StoredIds:
    """All ids as one run of bytes, and where each id ends."""

    buffer: Bytes
    ends: Longs

    @staticmethod
    def save(folder: Path, ids: Iterable[bytes]) -> None:
        """Writes ids; the first has the number 0.

        Args:
            folder: where.
            ids: UTF-8, in the order of their numbers.
        """
        ends, at = [], 0
        with (folder / "ids").open("wb") as file:
            for one in ids:
                file.write(one)
                at += len(one)
                ends.append(at)
        np.save(folder / "id-ends.npy", np.array(ends, dtype=np.int64))

    @classmethod
    def open(cls, folder: Path) -> StoredIds:
        """Opens saved ids without reading them into memory.

        Args:
            folder: where they are.

        Returns:
            The ids.
        """
        path = folder / "ids"
        buffer: Bytes = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        return cls(buffer, np.load(folder / "id-ends.npy", mmap_mode="r"))

    def of(self, numbers: Iterable[int]) -> list[str]:
        """Some of the ids.

        Args:
            numbers: of the ids.

        Returns:
            One for each number.
        """
        return [
            self.buffer[self.ends[number - 1] if number else 0 : self.ends[number]].tobytes().decode()
            for number in numbers
        ]
