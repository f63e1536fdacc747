"""64-bit keys in the place of strings: hashes, sorted arrays and hash tables that processes share.

Ten million keys take 80 MB where the strings would take a gigabyte. Two different strings of a set of n have the same
key with a probability of n² / 2^65: one in 300,000 for ten million strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from longtail.arrays import Bools, Bytes, Longs

Keys = npt.NDArray[np.uint64]
START, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
FIRST, SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)  # MurmurHash3's finaliser
HALF = np.uint64(33)
FREE = np.uint64(0)  # an empty place of a table; no key is 0


@njit(nogil=True, cache=True)
def mixed(state: np.uint64) -> np.uint64:
    """Finishes a hash.

    Args:
        state: the hash of all bytes.

    Returns:
        The key; never 0.
    """
    state ^= state >> HALF
    state *= FIRST
    state ^= state >> HALF
    state *= SECOND
    state ^= state >> HALF
    return state if state != FREE else np.uint64(1)


@njit(nogil=True, cache=True)
def key_of_span(buffer: Bytes, start: int, end: int) -> np.uint64:
    """The key of a part of a buffer.

    Args:
        buffer: (bytes,)
        start: of the part.
        end: of the part.

    Returns:
        The key.
    """
    state = START
    for place in range(start, end):
        state = (state ^ np.uint64(buffer[place])) * PRIME
    return mixed(state)


@njit(nogil=True, cache=True)
def _key_all(buffer: Bytes, starts: Longs, ends: Longs, keys: Keys) -> None:
    for row in range(len(starts)):
        keys[row] = key_of_span(buffer, starts[row], ends[row])


@njit(nogil=True, cache=True)
def _salt_all(keys: Keys, salt: np.uint64, salted_keys: Keys) -> None:
    for row in range(len(keys)):
        salted_keys[row] = mixed(keys[row] ^ salt)


@njit(nogil=True, cache=True)
def place_in(table: Keys, key: np.uint64) -> np.int64:
    """Finds a key in a hash table.

    Args:
        table: (places,), a power of two of them.
        key: to find.

    Returns:
        Its place; -1 where it is not there.
    """
    last = np.uint64(len(table) - 1)
    place = (key * PRIME) & last
    while table[place] != FREE:
        if table[place] == key:
            return np.int64(place)
        place = (place + np.uint64(1)) & last
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _fill(table: Keys, values: Longs, keys: Keys) -> None:
    last = np.uint64(len(table) - 1)
    for row in range(len(keys)):
        place = (keys[row] * PRIME) & last
        while table[place] != FREE and table[place] != keys[row]:
            place = (place + np.uint64(1)) & last
        if table[place] == FREE:
            table[place] = keys[row]
            values[place] = row


@njit(nogil=True, cache=True)
def _look_up(table: Keys, values: Longs, keys: Keys, found: Longs) -> None:
    for row in range(len(keys)):
        place = place_in(table, keys[row])
        found[row] = values[place] if place >= 0 else -1


def keys_of(strings: Sequence[bytes]) -> Keys:
    """The keys of strings.

    Args:
        strings: any bytes.

    Returns:
        (strings,) uint64, none of them 0.
    """
    ends = np.cumsum([len(one) for one in strings], dtype=np.int64)
    starts = ends - np.array([len(one) for one in strings], dtype=np.int64)
    return keys_of_spans(np.frombuffer(b"".join(strings), dtype=np.uint8), starts, ends)


def keys_of_spans(buffer: Bytes, starts: Longs, ends: Longs) -> Keys:
    """The keys of parts of a buffer.

    Args:
        buffer: (bytes,)
        starts: (parts,) where each begins.
        ends: (parts,) where each ends.

    Returns:
        (parts,) uint64
    """
    keys = np.empty(len(starts), dtype=np.uint64)
    _key_all(buffer, starts, ends, keys)
    return keys


def salted(keys: Keys, seed: int) -> Keys:
    """Other keys of the same strings: random bits that do not depend on their order or number.

    Args:
        keys: (keys,)
        seed: another one gives other bits.

    Returns:
        (keys,) uint64
    """
    made = np.empty(len(keys), dtype=np.uint64)
    salt = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & (2**64 - 1))
    _salt_all(np.ascontiguousarray(keys), salt, made)
    return made


class KeyTable:
    """Finds the number of a key; on the disk, so that processes share one copy in memory."""

    def __init__(self, table: Keys, values: Longs) -> None:
        self.table, self.values = table, values

    @classmethod
    def of(cls, keys: Keys) -> KeyTable:
        """A table of keys, numbered by their places; of equal keys the first counts.

        Args:
            keys: (keys,)

        Returns:
            The table.
        """
        size = 1 << max(4, int(np.ceil(np.log2(max(1, len(keys)) * 1.5))))
        table, values = np.zeros(size, dtype=np.uint64), np.full(size, -1, dtype=np.int64)
        _fill(table, values, keys)
        return cls(table, values)

    def save(self, folder: Path, name: str) -> None:
        """Writes the table as two NumPy files.

        Args:
            folder: where.
            name: of the files.
        """
        np.save(folder / f"{name}.keys.npy", self.table)
        np.save(folder / f"{name}.numbers.npy", self.values)

    def numbers(self, keys: Keys) -> Longs:
        """Looks keys up.

        Args:
            keys: (keys,)

        Returns:
            (keys,) the number of each; -1 where it has none.
        """
        found = np.empty(len(keys), dtype=np.int64)
        _look_up(self.table, self.values, keys, found)
        return found

    def has(self, keys: Keys) -> Bools:
        """Whether keys are in the table.

        Args:
            keys: (keys,)

        Returns:
            (keys,)
        """
        known: Bools = self.numbers(keys) >= 0
        return known


def open_table(folder: Path, name: str) -> KeyTable:
    """Opens a saved table without reading it into memory.

    Args:
        folder: where it is.
        name: of the files.

    Returns:
        The table.
    """
    return _opened(folder, name, (folder / f"{name}.keys.npy").stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _opened(folder: Path, name: str, written: int) -> KeyTable:
    """Opened once a process; a table that is written anew is opened anew."""
    return KeyTable(
        np.load(folder / f"{name}.keys.npy", mmap_mode="r"), np.load(folder / f"{name}.numbers.npy", mmap_mode="r")
    )


def added_up(keys: Keys, counts: Longs) -> tuple[Keys, Longs]:
    """Adds up the counts of equal keys.

    Args:
        keys: (entries,)
        counts: (entries,)

    Returns:
        Sorted different keys, and their counts.
    """
    if len(keys) == 0:
        return keys, counts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[first], np.add.reduceat(counts[order], first)
