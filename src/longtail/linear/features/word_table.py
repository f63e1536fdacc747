"""Tables that number words and pairs of words: the compiled part of a vocabulary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bytes, Ints, Longs
from longtail.linear.solvers.numba_compile import INNER, KERNEL

MIX_A, MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
MIN_SLOTS = 64
LOW = 0xFFFFFFFF


class WordSpans(NamedTuple):
    """Words as spans of bytes."""

    raw: Bytes
    starts: Longs  # (words,)
    lengths: Longs  # (words,) in bytes
    hashes: AnyArray  # (words,) uint64


class StoredWords(NamedTuple):
    """The words of a `WordTable`: word n has the bytes offsets[n] to offsets[n + 1]."""

    packed: Bytes
    offsets: Longs
    hashes: AnyArray  # uint64


class WordTable:
    """Different words, numbered in order of arrival. Words are equal where their bytes are; hashes only find them."""

    def __init__(self) -> None:
        self.size = 0
        self.packed: Bytes = np.empty(0, dtype=np.uint8)
        self.offsets: Longs = np.zeros(1, dtype=np.int64)
        self.hashes: AnyArray = np.empty(0, dtype=np.uint64)
        self.slots: Ints = np.full(MIN_SLOTS, -1, dtype=np.int32)

    def add(self, raw: Bytes, starts: Longs, lengths: Longs, hashes: AnyArray) -> Ints:
        """Number words; new ones get the next numbers.

        Args:
            raw: UTF-8 bytes.
            starts: first byte of each word (words,).
            lengths: bytes of each word (words,).
            hashes: of each word (words,), uint64.

        Returns:
            The number of each word (words,).
        """
        self.packed = _roomy(self.packed, int(self.offsets[self.size]), int(lengths.sum()))
        self.offsets = _roomy(self.offsets, self.size + 1, len(starts))
        self.hashes = _roomy(self.hashes, self.size, len(starts))
        words, stored = WordSpans(raw, starts, lengths, hashes), StoredWords(self.packed, self.offsets, self.hashes)
        numbers = np.empty(len(starts), dtype=np.int32)
        done, fresh = 0, False
        while done < len(starts):
            done, self.size = _number(words, stored, self.slots, self.size, True, fresh, done, numbers)
            if fresh := 2 * self.size > len(self.slots):
                self.slots = np.full(4 * len(self.slots), -1, dtype=np.int32)
        if fresh:  # the last word made them necessary, and no call has filled them yet
            _number(words, stored, self.slots, self.size, True, True, done, numbers)
        return numbers

    def find(self, raw: Bytes, starts: Longs, lengths: Longs, hashes: AnyArray) -> Ints:
        """Numbers of words, as `add`, but -1 for those never added."""
        words, stored = WordSpans(raw, starts, lengths, hashes), StoredWords(self.packed, self.offsets, self.hashes)
        numbers = np.empty(len(starts), dtype=np.int32)
        _number(words, stored, self.slots, self.size, False, False, 0, numbers)
        return numbers

    def all(self) -> WordSpans:
        """All words, as `add` and `find` of another table take them."""
        offsets = self.offsets[: self.size + 1]
        return WordSpans(self.packed, offsets[:-1], np.diff(offsets), self.hashes[: self.size])

    def trimmed(self) -> WordTable:
        """This table without its spare memory for more words."""
        self.offsets, self.hashes = self.offsets[: self.size + 1].copy(), self.hashes[: self.size].copy()
        self.packed = self.packed[: self.offsets[-1]].copy()
        return self


class PairTable:
    """Different pairs of numbers, first << 32 | second, numbered in order of arrival."""

    def __init__(self) -> None:
        self.size = 0
        self.keys: Longs = np.empty(0, dtype=np.int64)
        self.slots: Ints = np.full(MIN_SLOTS, -1, dtype=np.int32)

    def add(self, keys: Longs) -> Ints:
        """Numbers of the pairs `keys` (pairs,); new ones get the next numbers."""
        if len(keys) == 0:
            return np.zeros(0, dtype=np.int32)  # without bigrams the kernel need not compile
        self.keys = _roomy(self.keys, self.size, len(keys))
        numbers: Ints
        numbers, self.slots, self.size = _number_pairs(keys, self.keys, self.slots, self.size, True)
        return numbers

    def find(self, keys: Longs) -> Ints:
        """Numbers of the pairs `keys` (pairs,); -1 for those never added."""
        if len(keys) == 0:
            return np.zeros(0, dtype=np.int32)
        numbers: Ints = _number_pairs(keys, self.keys, self.slots, self.size, False)[0]
        return numbers

    def all(self) -> Longs:
        """All pairs, in order of their numbers."""
        return self.keys[: self.size]


def hash_pairs(first: AnyArray, second: AnyArray) -> AnyArray:
    """Hashes of pairs of words, which depend on the order of the two.

    Args:
        first: hashes of the first words (pairs,), uint64.
        second: hashes of the second words (pairs,), uint64.

    Returns:
        (pairs,) uint64.
    """
    value = (first ^ (second >> np.uint64(29))) * MIX_A + second * MIX_B
    value = (value ^ (value >> np.uint64(33))) * MIX_B
    hashes: AnyArray = value ^ (value >> np.uint64(33))
    return hashes


def pair_keys(pairs: Longs, numbers: Ints) -> Longs:
    """Renumber the words of pairs.

    Args:
        pairs: first word << 32 | second word (pairs,).
        numbers: of each word (words,).

    Returns:
        The pairs by the new numbers (pairs,); -1 where one of the words has none.
    """
    first, second = numbers[pairs >> 32].astype(np.int64), numbers[pairs & LOW].astype(np.int64)
    keys: Longs = np.where((first < 0) | (second < 0), -1, first << 32 | second)
    return keys


def _roomy(array: AnyArray, used: int, more: int) -> AnyArray:
    """The array with room for `more` entries behind those used; doubling keeps growth cheap."""
    if used + more <= len(array):
        return array
    grown = np.empty(max(used + more, 2 * used), dtype=array.dtype)
    grown[:used] = array[:used]
    return grown


@njit(**INNER)
def _mixed(value):  # type: ignore[no-untyped-def]
    """Mix a hash well in all its bits: the low bits choose the slot, the high ones the hashed column."""
    value = (value ^ (value >> np.uint64(33))) * MIX_A
    value = (value ^ (value >> np.uint64(33))) * MIX_B
    return value ^ (value >> np.uint64(33))


@njit(**KERNEL)
def _number(words, stored, slots, size, adding, fresh, begin, numbers):  # type: ignore[no-untyped-def]
    """Find words by hash, from `begin` on, compare their bytes, and add new ones if `adding`. Stops when the slots are
    half full; returns how many words are done, and the size. `fresh` slots are filled first.

    Safe for words of a file: they come from `unpack_strings` as strings, and are cut into bytes here again."""
    raw, starts, lengths, hashes = words
    packed, offsets, known = stored
    mask = len(slots) - 1
    if fresh:
        for other in range(size):
            slot = np.int64(known[other] & np.uint64(mask))
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = other
    for word in range(begin, len(starts)):
        start, length, hashed = starts[word], lengths[word], hashes[word]
        slot = np.int64(hashed & np.uint64(mask))
        while True:
            number = slots[slot]
            if number < 0:
                break
            first = offsets[number]
            if known[number] == hashed and offsets[number + 1] - first == length:
                same = True
                for place in range(length):
                    if packed[first + place] != raw[start + place]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
        if number < 0 and adding:
            number = size
            first = offsets[size]
            for place in range(length):
                packed[first + place] = raw[start + place]
            offsets[size + 1] = first + length
            known[size], slots[slot] = hashed, size
            size += 1
        numbers[word] = number
        if 2 * size > len(slots) and adding:
            return word + 1, size
    return len(starts), size


@njit(nogil=True, cache=True)
def _number_pairs(keys, known, slots, size, adding):  # type: ignore[no-untyped-def]
    numbers = np.empty(len(keys), dtype=np.int32)
    mask = len(slots) - 1
    for place in range(len(keys)):
        key = keys[place]
        slot = np.int64(_mixed(np.uint64(key)) & np.uint64(mask))
        number = slots[slot]
        while number >= 0 and known[number] != key:
            slot = (slot + 1) & mask
            number = slots[slot]
        if number < 0 and adding:
            number = size
            known[size] = key
            slots[slot] = size
            size += 1
            if 2 * size > len(slots):
                mask = 4 * len(slots) - 1
                slots = np.full(mask + 1, -1, dtype=np.int32)
                for other in range(size):
                    slot = np.int64(_mixed(np.uint64(known[other])) & np.uint64(mask))
                    while slots[slot] >= 0:
                        slot = (slot + 1) & mask
                    slots[slot] = other
        numbers[place] = number
    return numbers, slots, size
