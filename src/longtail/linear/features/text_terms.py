"""Texts to terms: words are cut out of UTF-8 bytes, repeats are counted, and terms become columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Bytes, Floats, Ints, Longs, Matrix
from longtail.linear.features.word_table import _mixed
from longtail.linear.solvers.numba_compile import KERNEL, ZERO

SEED, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
Counts: TypeAlias = tuple[Ints, Floats, Longs]  # terms or columns, counts, bounds or sizes of the texts


@cache
def word_characters(only_ascii: bool) -> Bools:
    """For each code point, whether Python's \\w matches it.

    Args:
        only_ascii: only the first 128.

    Returns:
        (code points,).
    """
    matches = np.zeros(0x80 if only_ascii else 0x110000, dtype=np.bool_)
    for first in range(0, len(matches), 1 << 16):
        plane = np.arange(first, min(first + (1 << 16), len(matches)), dtype="<u4")
        for run in re.finditer(r"\w+", plane.tobytes().decode("utf-32-le", "surrogatepass")):
            matches[first + run.start() : first + run.end()] = True
    return matches


def cut(raw: Bytes, offsets: Longs, matches: Bools) -> tuple[Longs, Longs, AnyArray, Longs]:
    """Split texts into words: runs of word characters.

    Args:
        raw: UTF-8 bytes of all texts.
        offsets: where each text begins, and the end (texts + 1,).
        matches: whether a code point is a word character, of `word_characters`.

    Returns:
        Start, length and hash of each word, and where the words of each text begin (texts + 1,).
    """
    limit = (len(raw) + len(offsets)) // 2  # words of one byte, one byte apart
    starts, lengths, hashes = np.empty(limit, np.int64), np.empty(limit, np.int64), np.empty(limit, np.uint64)
    bounds = np.zeros(len(offsets), dtype=np.int64)
    _cut(raw, offsets, matches, starts, lengths, hashes, bounds)
    count = bounds[-1]
    return starts[:count], lengths[:count], hashes[:count], bounds


def merge(words: Ints, word_bounds: Longs, pairs: Ints, pair_bounds: Longs, sizes: tuple[int, int]) -> Counts:
    """Count the repeats of words and pairs within each text.

    Args:
        words: number of each word of the texts.
        word_bounds: where the words of each text begin (texts + 1,).
        pairs: number of each pair of the texts.
        pair_bounds: where the pairs of each text begin (texts + 1,).
        sizes: how many different words and pairs there are.

    Returns:
        Terms (words, and pairs numbered behind them), their counts, and where those of each text begin (texts + 1,).
    """
    terms = np.empty(len(words) + len(pairs), dtype=np.int32)
    counts = np.empty(len(terms), dtype=np.float32)
    bounds = np.zeros(len(word_bounds), dtype=np.int64)
    seen = np.full(sum(sizes), -1, dtype=np.int64)  # place of the term, where it is in this text
    _merge(words, word_bounds, pairs, pair_bounds, sizes[0], seen, terms, counts, bounds)
    return terms[: bounds[-1]].copy(), counts[: bounds[-1]].copy(), bounds  # copies free the longer arrays


def arrange(terms: Ints, counts: Floats, bounds: Longs, columns: Ints) -> Counts:
    """Terms as columns, ascending within each text.

    Going through the terms in order of their column, and adding each to the texts that have it, sorts all texts at
    once, in linear time.

    Args:
        terms: terms of all texts.
        counts: how often the text has each.
        bounds: where the terms of each text begin (texts + 1,).
        columns: column of each term; -1 drops the term, and terms that share a column are added up.

    Returns:
        Columns, counts, and how many of them each text has (texts,).
    """
    first = np.zeros(len(columns) + 1, dtype=np.int64)  # where the texts with a term begin
    holders, values = np.empty_like(terms), np.empty_like(counts)
    new_columns, new_counts, ends = np.empty_like(terms), np.empty_like(counts), np.empty(len(bounds) - 1, np.int64)
    order = np.argsort(columns, kind="stable")
    _arrange(terms, counts, bounds, columns, order, first, holders, values, new_columns, new_counts, ends)
    lengths: Longs = ends - bounds[:-1]
    total = int(lengths.sum())
    return new_columns[:total], new_counts[:total], lengths


@dataclass(frozen=True, eq=False)
class CountEntries:
    """The words of a block that each text has, then its pairs, and how often."""

    terms: Ints
    counts: Floats
    bounds: Longs  # (texts + 1,)

    def as_columns(self, columns: Ints) -> Counts:
        """The counts with a column for each term; terms with column -1 are dropped."""
        return arrange(self.terms, self.counts, self.bounds, columns)


def terms_to_keep(
    entries: Sequence[CountEntries],
    numbers: Sequence[tuple[Ints, Ints]],
    sizes: tuple[int, int],
    min_df: int,
    max_features: int,
) -> Bools:
    """Choose the words and pairs that are in enough texts, and of too many those in the most texts.

    Args:
        entries: of each block.
        numbers: of each block's words, and of its pairs, among all.
        sizes: how many different words and pairs there are.
        min_df: texts that a word or pair is in, at least.
        max_features: words and pairs to keep at most; 0: all.

    Returns:
        (words + pairs,).
    """
    words, pairs = sizes
    kept = np.ones(words + pairs, dtype=np.bool_)
    if min_df == 1 and not 0 < max_features < len(kept):
        return kept
    texts_with = np.zeros(words + pairs, dtype=np.int64)
    for entry, (word_numbers, pair_numbers) in zip(entries, numbers, strict=True):
        found = np.bincount(entry.terms, minlength=len(word_numbers) + len(pair_numbers))
        texts_with[word_numbers] += found[: len(word_numbers)]
        texts_with[pair_numbers + words] += found[len(word_numbers) :]
    kept = texts_with >= min_df
    if 0 < max_features < np.count_nonzero(kept):
        frequent = np.argsort(-texts_with, kind="stable")[:max_features]  # of equals, the first to appear
        kept = np.zeros_like(kept)
        kept[frequent] = True
    return kept


def stacked(parts: Iterable[Counts], most_entries: int, columns: int) -> Matrix:
    """Put the rows of all parts together.

    Each part is copied as it comes and can then be freed: the parts and the whole are never in memory together.

    Args:
        parts: of `arrange`.
        most_entries: that they have together at most.
        columns: of the whole.

    Returns:
        csr float32 (rows, columns), columns ascending in a row.
    """
    held, counts = np.empty(most_entries, np.int32), np.empty(most_entries, np.float32)
    lengths = [np.zeros(1, np.int64)]
    end = 0
    for part_columns, part_counts, part_lengths in parts:
        begin, end = end, end + len(part_columns)
        held[begin:end], counts[begin:end] = part_columns, part_counts
        lengths.append(part_lengths)
    starts = np.cumsum(np.concatenate(lengths))
    if end < 2**31:
        starts = starts.astype(np.int32)  # SciPy would widen the columns to the type of the starts
    if end < most_entries:
        held, counts = held[:end].copy(), counts[:end].copy()
    matrix = sparse.csr_array((counts, held, starts), shape=(len(starts) - 1, columns))
    matrix.has_canonical_format = True
    return matrix


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
            place += 1  # past the character that ended the word, and past its continuation bytes
            while place < end and raw[place] & 0xC0 == 0x80:
                place += 1
        bounds[row + 1] = count


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
