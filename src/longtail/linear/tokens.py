"""Words in UTF-8 bytes, numbered: the compiled part of counting words."""

from __future__ import annotations

import re
from functools import cache
from typing import TypeAlias

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Bytes, Floats, Ints, Longs
from longtail.linear.compiling import INNER, KERNEL, ZERO

SEED, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
MIX_A, MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
FEWEST_SLOTS = 64
Counts: TypeAlias = tuple[Ints, Floats, Longs]


@cache
def word_characters(only_ascii: bool) -> Bools:
    """For each code point, whether \\w matches it: the same answer as Python's, because Python gives it."""
    matches = np.zeros(0x80 if only_ascii else 0x110000, dtype=np.bool_)
    for first in range(0, len(matches), 1 << 16):
        plane = np.arange(first, min(first + (1 << 16), len(matches)), dtype="<u4")
        for run in re.finditer(r"\w+", plane.tobytes().decode("utf-32-le", "surrogatepass")):
            matches[first + run.start() : first + run.end()] = True
    return matches


class WordTable:
    """Different words in order of arrival. Two words are the same when their bytes are; hashes only find them."""

    def __init__(self) -> None:
        self.size = 0
        self.packed: Bytes = np.empty(0, dtype=np.uint8)
        self.offsets: Longs = np.zeros(1, dtype=np.int64)
        self.hashes: AnyArray = np.empty(0, dtype=np.uint64)
        self.slots: Ints = np.full(FEWEST_SLOTS, -1, dtype=np.int32)

    def add(self, raw: Bytes, starts: Longs, lengths: Longs, hashes: AnyArray) -> Ints:
        """Numbers of these words; new ones get the next."""
        self.packed = _roomy(self.packed, int(self.offsets[self.size]), int(lengths.sum()))
        self.offsets = _roomy(self.offsets, self.size + 1, len(starts))
        self.hashes = _roomy(self.hashes, self.size, len(starts))
        table = (self.packed, self.offsets, self.hashes)
        numbers = np.empty(len(starts), dtype=np.int32)
        done, fresh = 0, False
        while done < len(starts):
            done, self.size = _number(
                raw, starts, lengths, hashes, *table, self.slots, self.size, True, fresh, done, numbers
            )
            if fresh := 2 * self.size > len(self.slots):
                self.slots = np.full(4 * len(self.slots), -1, dtype=np.int32)
        if fresh:  # nobody was left to fill them
            _number(raw, starts, lengths, hashes, *table, self.slots, self.size, True, True, done, numbers)
        return numbers

    def find(self, raw: Bytes, starts: Longs, lengths: Longs, hashes: AnyArray) -> Ints:
        """Numbers of these words; -1 for those never added."""
        table = (self.packed, self.offsets, self.hashes)
        numbers = np.empty(len(starts), dtype=np.int32)
        _number(raw, starts, lengths, hashes, *table, self.slots, self.size, False, False, 0, numbers)
        return numbers

    def all(self) -> tuple[Bytes, Longs, Longs, AnyArray]:
        """All words, as `add` and `find` of another table take them."""
        offsets = self.offsets[: self.size + 1]
        return self.packed, offsets[:-1], np.diff(offsets), self.hashes[: self.size]

    def trimmed(self) -> WordTable:
        """The same table without the room it had kept for more words."""
        self.offsets, self.hashes = self.offsets[: self.size + 1].copy(), self.hashes[: self.size].copy()
        self.packed = self.packed[: self.offsets[-1]].copy()
        return self


class PairTable:
    """Different pairs of numbers, first << 32 | second, in order of arrival."""

    def __init__(self) -> None:
        self.size = 0
        self.keys: Longs = np.empty(0, dtype=np.int64)
        self.slots: Ints = np.full(FEWEST_SLOTS, -1, dtype=np.int32)

    def add(self, keys: Longs) -> Ints:
        """Numbers of these pairs; new ones get the next."""
        if len(keys) == 0:
            return np.zeros(0, dtype=np.int32)  # texts read without pairs need not wait for this to compile
        self.keys = _roomy(self.keys, self.size, len(keys))
        numbers: Ints
        numbers, self.slots, self.size = _number_pairs(keys, self.keys, self.slots, self.size, True)
        return numbers

    def find(self, keys: Longs) -> Ints:
        """Numbers of these pairs; -1 for those never added."""
        if len(keys) == 0:
            return np.zeros(0, dtype=np.int32)
        numbers: Ints = _number_pairs(keys, self.keys, self.slots, self.size, False)[0]
        return numbers

    def all(self) -> Longs:
        return self.keys[: self.size]


def hash_pairs(first: AnyArray, second: AnyArray) -> AnyArray:
    """A hash of the hashes of two words, in which their order counts."""
    value = (first ^ (second >> np.uint64(29))) * MIX_A + second * MIX_B
    value = (value ^ (value >> np.uint64(33))) * MIX_B
    spread: AnyArray = value ^ (value >> np.uint64(33))
    return spread


def _roomy(array: AnyArray, used: int, more: int) -> AnyArray:
    """The array, with room for more behind what is used; grows by doubling, so that growing stays cheap."""
    if used + more <= len(array):
        return array
    grown = np.empty(max(used + more, 2 * used), dtype=array.dtype)
    grown[:used] = array[:used]
    return grown


def cut(raw: Bytes, offsets: Longs, matches: Bools) -> tuple[Longs, Longs, AnyArray, Longs]:
    """Every run of word characters: its start, length and hash, and where the words of each text begin."""
    most = (len(raw) + len(offsets)) // 2  # words of one byte, one byte apart
    starts, lengths, hashes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.uint64)
    bounds = np.zeros(len(offsets), dtype=np.int64)
    _cut(raw, offsets, matches, starts, lengths, hashes, bounds)
    count = bounds[-1]
    return starts[:count], lengths[:count], hashes[:count], bounds


def merge(words: Ints, word_bounds: Longs, pairs: Ints, pair_bounds: Longs, sizes: tuple[int, int]) -> Counts:
    """Repeats within a text counted: terms (words, and pairs numbered behind them), counts, where each text begins.

    `sizes` are the numbers of different words and pairs.
    """
    terms = np.empty(len(words) + len(pairs), dtype=np.int32)
    counts = np.empty(len(terms), dtype=np.float32)
    bounds = np.zeros(len(word_bounds), dtype=np.int64)
    seen = np.full(sum(sizes), -1, dtype=np.int64)  # where the term stands, if in this text
    _merge(words, word_bounds, pairs, pair_bounds, sizes[0], seen, terms, counts, bounds)
    return terms[: bounds[-1]].copy(), counts[: bounds[-1]].copy(), bounds  # copies let the longer arrays go


def arrange(terms: Ints, counts: Floats, bounds: Longs, columns: Ints) -> Counts:
    """Terms as columns, rising within each text: columns, counts, row lengths.

    Terms with column -1 fall out, those that share a column are added up. Walking the terms in order of their column
    and adding each to the texts that hold it sorts all texts at once, in linear time.
    """
    first = np.zeros(len(columns) + 1, dtype=np.int64)  # where the texts that hold a term begin
    holders, values = np.empty_like(terms), np.empty_like(counts)
    new_columns, new_counts, ends = np.empty_like(terms), np.empty_like(counts), np.empty(len(bounds) - 1, np.int64)
    order = np.argsort(columns, kind="stable")
    _arrange(terms, counts, bounds, columns, order, first, holders, values, new_columns, new_counts, ends)
    lengths: Longs = ends - bounds[:-1]
    total = int(lengths.sum())
    return new_columns[:total], new_counts[:total], lengths


@njit(**INNER)
def _mixed(value):  # type: ignore[no-untyped-def]
    """Spread a hash over all its bits: its low bits choose the slot, its high ones the hashed column."""
    value = (value ^ (value >> np.uint64(33))) * MIX_A
    value = (value ^ (value >> np.uint64(33))) * MIX_B
    return value ^ (value >> np.uint64(33))


@njit(**KERNEL)
def _cut(raw, offsets, matches, starts, lengths, hashes, bounds):  # type: ignore[no-untyped-def]
    count = ZERO
    for row in range(len(offsets) - 1):
        place, end = offsets[row], offsets[row + 1]
        while place < end:
            start, hashed = place, SEED
            while place < end:
                byte = raw[place]
                if byte < 0x80:
                    if not matches[byte]:
                        break
                    hashed = (hashed ^ byte) * PRIME
                    place += 1
                    continue
                more, code = 1, np.int64(byte) & 0x1F  # bytes that follow, and the code point
                if byte >= 0xF0:
                    more, code = 3, np.int64(byte) & 0x07
                elif byte >= 0xE0:
                    more, code = 2, np.int64(byte) & 0x0F
                for follower in range(place + 1, place + more + 1):
                    code = code << 6 | np.int64(raw[follower]) & 0x3F
                if not matches[code]:
                    break
                for part in range(place, place + more + 1):
                    hashed = (hashed ^ raw[part]) * PRIME
                place += more + 1
            if place > start:
                starts[count], lengths[count], hashes[count] = start, place - start, _mixed(hashed)
                count += 1
            place += 1  # past what ended the word; followers of a character that is no word character end none
            while place < end and raw[place] & 0xC0 == 0x80:
                place += 1
        bounds[row + 1] = count


@njit(**KERNEL)
def _number(raw, starts, lengths, hashes, packed, offsets, known, slots, size, adding, fresh, begin, numbers):  # type: ignore[no-untyped-def]
    """Look words up by hash, from `begin` on, compare their bytes, and add those that are new. Stops when the slots are
    half full; returns how many words are done, and the size. Slots that are `fresh` are filled first."""
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


@njit(**KERNEL)
def _merge(words, word_bounds, pairs, pair_bounds, size, seen, terms, counts, bounds):  # type: ignore[no-untyped-def]
    count = ZERO
    for row in range(len(word_bounds) - 1):
        begin = count
        for place in range(word_bounds[row], word_bounds[row + 1]):
            term = words[place]
            spot = seen[term]
            if spot >= begin:
                counts[spot] += 1
            else:
                seen[term], terms[count], counts[count] = count, term, 1
                count += 1
        for place in range(pair_bounds[row], pair_bounds[row + 1]):
            term = pairs[place] + size
            spot = seen[term]
            if spot >= begin:
                counts[spot] += 1
            else:
                seen[term], terms[count], counts[count] = count, term, 1
                count += 1
        bounds[row + 1] = count


@njit(**KERNEL)
def _arrange(terms, counts, bounds, columns, order, first, holders, values, new_columns, new_counts, ends):  # type: ignore[no-untyped-def]
    for term in terms:
        first[term + 1] += 1
    before = ZERO
    for term in range(len(first)):
        before += first[term]
        first[term] = before
    for row in range(len(ends)):
        begin = bounds[row]
        ends[row] = begin
        for place in range(begin, bounds[row + 1]):
            term = terms[place]
            spot = first[term]
            holders[spot], values[spot] = row, counts[place]
            first[term] = spot + 1  # ends as the start of the next term
    for term in order:
        column = columns[term]
        if column < 0:
            continue
        for spot in range(first[term - 1] if term > 0 else 0, first[term]):
            row, value = holders[spot], values[spot]
            end = ends[row]
            if end > bounds[row] and new_columns[end - 1] == column:
                new_counts[end - 1] += value
            else:
                new_columns[end], new_counts[end] = column, value
                ends[row] = end + 1
    count = ZERO
    for row in range(len(ends)):  # close the gaps
        for place in range(bounds[row], ends[row]):
            new_columns[count], new_counts[count] = new_columns[place], new_counts[place]
            count += 1
