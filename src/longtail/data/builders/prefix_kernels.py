"""Suffixes and prefixes of many queries at once, as keys. Compiled: a log has a hundred million of them.

A query is a span of one buffer of letters, digits and single spaces. Its suffixes are its endings that begin with a
word; a suffix can be completed from the last letter before its space on, so its *index* is that letter's: 9 for "shoes"
in "cheap nike shoes", 0 for the whole query.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import Bytes, Longs
from longtail.data.builders.keys import PRIME, START, Keys, key_of_span, mixed, place_in

SPACE = 32
MAX_SUFFIX = 100  # letters
MAX_WORDS = 256  # of a query; AOL's longest have fewer


@njit(nogil=True, cache=True)
def count_suffixes(buffer: Bytes, starts: Longs, ends: Longs) -> int:
    """Counts all suffixes.

    Args:
        buffer: (bytes,)
        starts: (queries,)
        ends: (queries,)

    Returns:
        How many there are.
    """
    number = 0
    for row in range(len(starts)):
        for place in range(starts[row], ends[row]):
            begins = place == starts[row] or buffer[place - 1] == SPACE
            if begins and buffer[place] != SPACE and ends[row] - place <= MAX_SUFFIX:
                number += 1
    return number


@njit(nogil=True, cache=True)
def list_suffixes(
    buffer: Bytes, starts: Longs, ends: Longs, counts: Longs, keys: Keys, numbers: Longs, begin: Longs, rows: Longs
) -> None:
    """Lists all suffixes.

    Args:
        buffer: (bytes,)
        starts: (queries,)
        ends: (queries,)
        counts: (queries,) how often each query was asked.
        keys: (suffixes,) to fill.
        numbers: (suffixes,) to fill with the query's count.
        begin: (suffixes,) to fill with where each begins.
        rows: (suffixes,) to fill with its query.
    """
    at = 0
    for row in range(len(starts)):
        for place in range(starts[row], ends[row]):
            begins = place == starts[row] or buffer[place - 1] == SPACE
            if begins and buffer[place] != SPACE and ends[row] - place <= MAX_SUFFIX:
                keys[at] = key_of_span(buffer, place, ends[row])
                numbers[at] = counts[row]
                begin[at] = place
                rows[at] = row
                at += 1


@njit(nogil=True, cache=True)
def _kept(buffer: Bytes, start: int, end: int, table: Keys, indices: Longs, keys: Keys) -> int:
    """Index and key of each suffix of a query that is in the table, longest first; returns how many."""
    number = 0
    for place in range(start, end):
        begins = place == start or buffer[place - 1] == SPACE
        if begins and buffer[place] != SPACE and end - place <= MAX_SUFFIX and number < MAX_WORDS:
            key = key_of_span(buffer, place, end)
            if place_in(table, key) >= 0:
                indices[number] = max(0, place - start - 2)
                keys[number] = key
                number += 1
    return number


@njit(nogil=True, cache=True)
def draw_ends(
    buffer: Bytes, starts: Longs, ends: Longs, table: Keys, seed: np.uint64, strip: bool, drawn: Longs, prefixes: Keys
) -> None:
    """Draws where each query is cut: anywhere from its smallest index to before its last letter.

    Args:
        buffer: (bytes,)
        starts: (queries,)
        ends: (queries,)
        table: of the suffixes that may be labels.
        seed: of the draws.
        strip: whether a prefix that would end with a space ends before it.
        drawn: (queries,) to fill with the length of each prefix; 0 where a query has none.
        prefixes: (queries,) to fill with its key.
    """
    indices, keys = np.empty(MAX_WORDS, np.int64), np.empty(MAX_WORDS, np.uint64)
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        drawn[row] = 0
        prefixes[row] = np.uint64(0)
        found = _kept(buffer, start, end, table, indices, keys)
        last = end - start - 2
        if found == 0 or last < indices[0]:
            continue
        bits = mixed(key_of_span(buffer, start, end) ^ seed)
        cut = indices[0] + np.int64(bits % np.uint64(last - indices[0] + 1))
        if strip and buffer[start + cut] == SPACE:
            cut -= 1
        drawn[row] = cut + 1
        prefixes[row] = key_of_span(buffer, start, start + cut + 1)


@njit(nogil=True, cache=True)
def list_entries(
    buffer: Bytes,
    starts: Longs,
    ends: Longs,
    counts: Longs,
    drawn: Longs,
    suffixes: Keys,
    prefixes: Keys,
    completion: int,
    strip: bool,
    entries: Keys,
) -> int:
    """Lists (prefix, suffix, count) entries.

    Args:
        buffer: (bytes,)
        starts: (queries,)
        ends: (queries,)
        counts: (queries,)
        drawn: (queries,) lengths of the drawn prefixes; 0 where a query has none.
        suffixes: table of the suffixes that may be labels.
        prefixes: table of the prefixes that are rows.
        completion: 0: only the drawn prefix of a query gets its suffixes. 1: every prefix of it that is a row.
            2: as published: the drawn one, and for each suffix the shortest prefix that it can complete.
        strip: whether prefixes that end with a space are no rows.
        entries: (most, 3) to fill; with no rows they are only counted.

    Returns:
        How many entries there are.
    """
    indices, keys = np.empty(MAX_WORDS, np.int64), np.empty(MAX_WORDS, np.uint64)
    number = 0
    fill = len(entries) > 0
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        found = _kept(buffer, start, end, suffixes, indices, keys)
        if found == 0:
            continue
        state = START
        shortest = 0  # the first suffix whose index is not passed
        for place in range(start, end - 1):
            state = (state ^ np.uint64(buffer[place])) * PRIME
            index = place - start
            if index < indices[0]:
                continue
            own = drawn[row] == index + 1
            reached = shortest
            while reached < found and indices[reached] <= index:
                reached += 1
            asked = completion == 1 or own or (completion == 2 and reached > shortest)
            if asked and not (strip and buffer[place] == SPACE):
                prefix = mixed(state)
                if own or place_in(prefixes, prefix) >= 0:
                    begin = shortest if completion == 2 and not own else 0
                    for one in range(begin, reached):
                        if fill:
                            entries[number, 0] = prefix
                            entries[number, 1] = keys[one]
                            entries[number, 2] = np.uint64(counts[row])
                        number += 1
            shortest = reached
    return number
