"""Words, and pairs of words, counted in texts on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import TypeVar

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Floats, Ints, Longs, Matrix, pack_strings, unpack_strings
from longtail.errors import DataError, RecipeError
from longtail.linear.tokens import (
    Counts,
    PairTable,
    WordTable,
    arrange,
    cut,
    hash_pairs,
    merge,
    word_characters,
)
from longtail.threads import thread_count

BLOCK_CHARACTERS, BLOCK_TEXTS = 1 << 17, 2048  # what one thread takes at a time: little memory, still few blocks
MOST_BITS = 28
LOW = 0xFFFFFFFF
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Words:
    """How texts become columns."""

    pairs: bool = False  # also two words that stand side by side
    sublinear: bool = True  # repeats count as 1 + ln(count), not as count
    hashed_bits: int = 0  # b > 0: 2^b columns chosen by hash, and no vocabulary to learn or keep
    min_rows: int = 1  # words (and pairs) in fewer rows fall out
    max_columns: int = 0  # n > 0: of the words and pairs, the n that stand in the most rows

    def __post_init__(self) -> None:
        if not 0 <= self.hashed_bits <= MOST_BITS:
            raise RecipeError(f"hashed_bits lies between 0 (a vocabulary) and {MOST_BITS}, got {self.hashed_bits}")
        if self.min_rows < 1 or self.max_columns < 0:
            given = f"min_rows={self.min_rows}, max_columns={self.max_columns}"
            raise RecipeError(f"words take min_rows of at least 1 and max_columns of at least 0 (all), got {given}")
        if self.hashed_bits and (self.min_rows > 1 or self.max_columns):
            raise RecipeError(
                "min_rows and max_columns choose from a vocabulary, which hashed words do not have; "
                "use hashed_bits=0, or set the number of columns with hashed_bits alone"
            )


PLAIN = Words()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words in a fixed order: runs of letters and digits, in lower case. Pairs of them come behind.

    Two words are one only where all their characters are; with `hashed_bits` words that fall into one column are
    added up, and nothing is kept of the words themselves.
    """

    words: tuple[str, ...]
    settings: Words = PLAIN
    pairs: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # first word << 32 | second word

    @classmethod
    def learn(cls, texts: Iterable[str], settings: Words = PLAIN) -> tuple[Vocabulary, Matrix]:
        """The words of these texts and how often each text holds each of them.

        Columns stand in order of first appearance, words and then pairs, whatever the number of threads.
        """
        if settings.hashed_bits:
            vocabulary = cls((), settings)
            return vocabulary, vocabulary.count(texts)
        words, pairs = WordTable(), PairTable()
        entries: dict[int, _Entries] = {}  # of each block, taken out when it is arranged
        places: list[tuple[Ints, Ints]] = []  # of the words and pairs of each block in the tables
        for block in _each(lambda part: _Block.read(part, settings.pairs), list(_blocks(texts))):
            here = words.add(*block.words.all())
            places.append((here, pairs.add(_keys(block.pairs, here))))
            entries[len(entries)] = block.entries
        sizes = words.size, pairs.size
        kept = _chosen(list(entries.values()), places, *sizes, settings)
        columns = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)  # (words and pairs found,)
        strings = unpack_strings(words.packed, words.offsets[: words.size + 1])
        vocabulary = cls(
            tuple(strings if kept.all() else compress(strings, kept.tolist())),
            settings,
            _keys(pairs.all()[kept[words.size :]], columns),  # the words of a pair stand in more rows, and stay
        )

        def arranged(number: int) -> Counts:
            here, pairs_here = places[number]
            return entries.pop(number).as_columns(np.concatenate([columns[here], columns[pairs_here + sizes[0]]]))

        del words, pairs, strings
        most = sum(len(entry.terms) for entry in entries.values())
        return vocabulary, _stacked(_each(arranged, range(len(entries))), most, vocabulary.columns)

    @property
    def columns(self) -> int:
        bits = self.settings.hashed_bits
        return 1 << bits if bits else len(self.words) + len(self.pairs)

    @cached_property
    def _tables(self) -> tuple[WordTable, PairTable]:
        words, pairs = WordTable(), PairTable()
        packed, offsets = pack_strings(self.words)
        whole = np.ones(0x110000, dtype=np.bool_)  # where every character belongs to a word, a string is one
        numbers = words.add(packed, *cut(packed, offsets, whole)[:3])
        pair_numbers = pairs.add(np.array(self.pairs))  # a copy, because a loaded array may be read-only
        if words.size < len(numbers) or pairs.size < len(pair_numbers):
            raise DataError("a vocabulary holds a word or a pair twice; its file is damaged")
        return words, pairs

    def count(self, texts: Iterable[str]) -> Matrix:
        """How often each text holds each known word and pair: csr (texts, columns), columns rising in a row."""

        def counted(part: list[str]) -> Counts:
            block = _Block.read(part, self.settings.pairs)
            return block.entries.as_columns(self._columns_of(block))

        parts = list(_each(counted, list(_blocks(texts))))
        return _stacked(parts, sum(len(part[0]) for part in parts), self.columns)

    def _columns_of(self, block: _Block) -> Ints:
        """Columns of the words and pairs of a block, -1 for those unknown."""
        if bits := self.settings.hashed_bits:
            hashes = block.words.all()[-1]
            behind = hash_pairs(hashes[block.pairs >> 32], hashes[block.pairs & LOW])
            return (np.concatenate([hashes, behind]) >> np.uint64(64 - bits)).astype(np.int32)
        words, pairs = self._tables
        here = words.find(*block.words.all())
        there = pairs.find(_keys(block.pairs, here))
        return np.concatenate([here, np.where(there >= 0, there + len(self.words), -1).astype(np.int32)])


@dataclass(frozen=True, eq=False)
class _Entries:
    """Which of its words (and behind them pairs) each text of a block holds, and how often."""

    terms: Ints
    counts: Floats
    bounds: Longs  # (texts + 1,)

    def as_columns(self, columns: Ints) -> Counts:
        """With a column for each term; -1 falls out."""
        return arrange(self.terms, self.counts, self.bounds, columns)


@dataclass(frozen=True, eq=False)
class _Block:
    """Some texts cut into words, numbered on their own so that threads need not wait for each other."""

    words: WordTable
    pairs: Longs
    entries: _Entries

    @classmethod
    def read(cls, texts: list[str], with_pairs: bool) -> _Block:
        lowered = [text.lower() for text in texts]
        raw, offsets = pack_strings(lowered)
        only_ascii = all(map(str.isascii, lowered))
        starts, lengths, hashes, bounds = cut(raw, offsets, word_characters(only_ascii))
        words, pairs = WordTable(), PairTable()
        stream = words.add(raw, starts, lengths, hashes)
        pair_stream, pair_bounds = np.zeros(0, np.int32), np.zeros_like(bounds)
        if with_pairs:
            keys = stream[:-1].astype(np.int64) << 32 | stream[1:]
            inside = np.ones(len(stream), dtype=np.bool_)
            inside[bounds[1:][np.diff(bounds) > 0] - 1] = False  # a text's last word begins no pair
            pair_stream = pairs.add(keys[inside[:-1]])
            pair_bounds[1:] = np.cumsum(np.maximum(np.diff(bounds) - 1, 0))
        merged = merge(stream, bounds, pair_stream, pair_bounds, (words.size, pairs.size))
        return cls(words.trimmed(), pairs.all().copy(), _Entries(*merged))


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if characters >= BLOCK_CHARACTERS or len(block) == BLOCK_TEXTS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _each(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Results in the order of the items, worked out in threads."""
    threads = min(thread_count(), len(items))
    if threads <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)


def _keys(pairs: Longs, places: Ints) -> Longs:
    """Pairs of words by the words' places elsewhere; -1 where one of the words has none."""
    first, second = places[pairs >> 32].astype(np.int64), places[pairs & LOW].astype(np.int64)
    keys: Longs = np.where((first < 0) | (second < 0), -1, first << 32 | second)
    return keys


def _chosen(entries: list[_Entries], places: list[tuple[Ints, Ints]], words: int, pairs: int, settings: Words) -> Bools:
    """Which of the words and pairs stay: in enough rows, and where there are too many, those in the most rows."""
    kept = np.ones(words + pairs, dtype=np.bool_)
    if settings.min_rows == 1 and not 0 < settings.max_columns < len(kept):
        return kept
    holders = np.zeros(words + pairs, dtype=np.int64)
    for entry, (here, pairs_here) in zip(entries, places, strict=True):
        found = np.bincount(entry.terms, minlength=len(here) + len(pairs_here))
        holders[here] += found[: len(here)]
        holders[pairs_here + words] += found[len(here) :]
    kept = holders >= settings.min_rows
    if 0 < settings.max_columns < np.count_nonzero(kept):
        most = np.argsort(-holders, kind="stable")[: settings.max_columns]  # of equals, the first to appear
        kept = np.zeros_like(kept)
        kept[most] = True
    return kept


def _stacked(parts: Iterable[Counts], most: int, columns: int) -> Matrix:
    """The rows of all parts: csr float32 (rows, columns). There are at most so many entries.

    Each part is copied as it comes and can then be freed: the parts and the whole never stand side by side.
    """
    held, counts, lengths = np.empty(most, np.int32), np.empty(most, np.float32), [np.zeros(1, np.int64)]
    end = 0
    for part_columns, part_counts, part_lengths in parts:
        begin, end = end, end + len(part_columns)
        held[begin:end], counts[begin:end] = part_columns, part_counts
        lengths.append(part_lengths)
    starts = np.cumsum(np.concatenate(lengths))
    if end < 2**31:
        starts = starts.astype(np.int32)  # SciPy would widen the columns to the type of the starts
    if end < most:
        held, counts = held[:end].copy(), counts[:end].copy()
    matrix = sparse.csr_array((counts, held, starts), shape=(len(starts) - 1, columns))
    matrix.has_canonical_format = True
    return matrix
