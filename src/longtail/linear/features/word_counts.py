"""Words and bigrams counted in texts, on all cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Protocol

import numpy as np

from longtail.arrays import Ints, Longs, Matrix, pack_strings, unpack_strings
from longtail.errors import DataError, RecipeError
from longtail.linear.features.languages import lowered, usual_language
from longtail.linear.features.spoken_texts import languages_of
from longtail.linear.features.text_terms import (
    CountEntries,
    Counts,
    cut,
    merge,
    stacked,
    terms_to_keep,
    word_characters,
)
from longtail.linear.features.word_forms import CompoundCutter, check_language, forms_of, has_forms, read_forms
from longtail.linear.features.word_pieces import PIECE, Cutter, PieceCutter, learn_pieces
from longtail.linear.features.word_table import LOW, PairTable, WordTable, hash_pairs, pair_keys
from longtail.threads import in_order

BLOCK_CHARACTERS, BLOCK_TEXTS = 1 << 17, 2048  # what a thread takes at a time: little memory, still few blocks
MAX_HASH_BITS = 28


@dataclass(frozen=True)
class WordCounts:
    """How texts become columns."""

    bigrams: bool = False  # also pairs of neighbouring words
    sublinear_tf: bool = True  # repeats count as 1 + ln(count), not as count
    hash_bits: int = 0  # b > 0: 2^b columns chosen by hash, and no vocabulary to learn or keep
    min_df: int = 1  # words and pairs in fewer texts are dropped
    max_features: int = 0  # n > 0: only the n words and pairs that are in the most texts
    words: str = "plain"  # forms of a word that are counted, see `word_forms`
    language: str = "auto"  # of the texts; auto: of each text
    main_language: str = ""  # of most texts, for texts that give no sign; `Vocabulary.learn` finds it
    by_text: bool = False  # a `SpokenText` is read in its own language, others in `language`

    def __post_init__(self) -> None:
        base, extras = read_forms(self.words)
        if self.words != "plain":
            check_language(self.words, self.language)
        if self.bigrams and (not base or extras):
            raise RecipeError(
                f"bigrams=true counts pairs of words, and words={self.words!r} has several terms a word; leave one out"
            )
        if self.hash_bits and extras & {"compounds", "pieces"}:
            raise RecipeError("compounds and pieces are cut by the vocabulary, which hash_bits does without")
        if not 0 <= self.hash_bits <= MAX_HASH_BITS:
            raise RecipeError(f"hash_bits is between 0 (a vocabulary) and {MAX_HASH_BITS}, got {self.hash_bits}")
        if self.min_df < 1 or self.max_features < 0:
            given = f"min_df={self.min_df}, max_features={self.max_features}"
            raise RecipeError(f"min_df is at least 1 and max_features at least 0 (all), got {given}")
        if self.hash_bits and (self.min_df > 1 or self.max_features):
            raise RecipeError(
                "min_df and max_features choose from a vocabulary, which hashed words do not have; use hash_bits=0, or "
                "set the number of columns with hash_bits alone"
            )

    @property
    def compounds(self) -> bool:
        """Whether the parts of compounds are counted too."""
        return "compounds" in read_forms(self.words)[1]

    @property
    def words_uncut(self) -> str:
        """The forms in `words` that do not cut words into parts."""
        base, extras = read_forms(self.words)
        return "+".join([*filter(None, [base]), *sorted(extras - {"compounds", "pieces"})])

    def fitted(self, texts: Sequence[str]) -> WordCounts:
        """The same settings with the language that most of these texts have."""
        if self.language != "auto" or self.main_language:
            return self
        return replace(self, main_language=usual_language(texts))

    def told(self, language: str, by_text: bool = False) -> WordCounts:
        """The same for texts of a language ("": unknown) that has these forms, where no language was chosen here."""
        known = language if language and has_forms(self.words, language) else ""
        free = self.language == "auto" and self.words != "plain"  # plain words are those of any language
        return replace(self, language=known or "auto", by_text=by_text) if free and (known or by_text) else self

    def languages(self, texts: Sequence[str]) -> list[str]:
        """The language of each text."""
        known = "" if self.language == "auto" else self.language
        return languages_of(texts, known, self.main_language, self.by_text)


PLAIN = WordCounts()


class Counter(Protocol):
    """Counts the words of many texts elsewhere: in jobs (`word_count_jobs`)."""

    def blocks(self, texts: Iterable[str], settings: WordCounts) -> Iterable[TextBlock]:
        """Count the words of blocks of texts.

        Args:
            texts: the texts.
            settings: what to count.

        Returns:
            The blocks, in the order of the texts.
        """

    def columns(self, texts: Iterable[str], vocabulary: Vocabulary) -> Iterable[Counts]:
        """Count the words that a vocabulary knows.

        Args:
            texts: the texts.
            vocabulary: the words.

        Returns:
            Columns, counts and lengths of the texts, as `arrange` returns them, of blocks in the order of the texts.
        """


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words in a fixed order: runs of letters and digits, in lower case. Pairs of words come after all words.

    With `hash_bits`, the counts of words that share a column are added up, and the words themselves are not stored.
    """

    words: tuple[str, ...]
    settings: WordCounts = PLAIN
    pairs: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # first word << 32 | second word

    @classmethod
    def learn(
        cls, texts: Iterable[str], settings: WordCounts = PLAIN, counter: Counter | None = None
    ) -> tuple[Vocabulary, Matrix]:
        """The vocabulary of texts, and their counts.

        Columns are in order of first appearance, words and then pairs, whatever the number of threads.

        Args:
            texts: the texts.
            settings: what to count.
            counter: counts; None: here, on all threads.

        Returns:
            The vocabulary, and how often each text has each word and pair: csr float32 (texts, columns).
        """
        if settings.words != "plain":
            texts = texts if isinstance(texts, Sequence) else list(texts)
            settings = settings.fitted(texts)
        if settings.compounds:  # parts of compounds are known words: the vocabulary is the same as without them
            whole, _ = cls.learn(texts, replace(settings, words=settings.words_uncut), counter)
            vocabulary = replace(whole, settings=settings)
            return vocabulary, vocabulary.count(texts, counter)
        if "pieces" in settings.words:
            vocabulary = cls._with_pieces(texts, settings, counter)
            return vocabulary, vocabulary.count(texts, counter)
        if settings.hash_bits:
            vocabulary = cls((), settings)
            return vocabulary, vocabulary.count(texts, counter)
        words, pairs = WordTable(), PairTable()
        entries: dict[int, CountEntries] = {}  # of each block, removed when its columns are made
        numbers: list[tuple[Ints, Ints]] = []  # of the words and pairs of each block in the tables
        for block in counter.blocks(texts, settings) if counter else blocks_here(texts, settings):
            word_numbers = words.add(*block.words.all())
            numbers.append((word_numbers, pairs.add(pair_keys(block.pairs, word_numbers))))
            entries[len(entries)] = block.entries
        sizes = words.size, pairs.size
        kept = terms_to_keep(list(entries.values()), numbers, sizes, settings.min_df, settings.max_features)
        columns = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)  # (words and pairs found,)
        strings = unpack_strings(words.packed, words.offsets[: words.size + 1])
        vocabulary = cls(
            tuple(strings if kept.all() else compress(strings, kept.tolist())),
            settings,
            # The words of a pair are in at least as many texts as the pair, so they are kept too.
            pair_keys(pairs.all()[kept[words.size :]], columns),
        )

        def arranged(block: int) -> Counts:
            word_numbers, pair_numbers = numbers[block]
            return entries.pop(block).as_columns(
                np.concatenate([columns[word_numbers], columns[pair_numbers + sizes[0]]])
            )

        del words, pairs, strings
        max_entries = sum(len(entry.terms) for entry in entries.values())
        return vocabulary, stacked(in_order(arranged, range(len(entries))), max_entries, vocabulary.columns)

    @classmethod
    def _with_pieces(cls, texts: Iterable[str], settings: WordCounts, counter: Counter | None) -> Vocabulary:
        """The terms of the other forms, and pieces of the words behind them."""
        base = read_forms(settings.words)[0]
        plain = replace(settings, words=base or "plain", min_df=1, max_features=0)
        found, counts = cls.learn(texts, plain, counter)
        learned = learn_pieces(found.words, np.asarray(counts.sum(axis=0)).ravel().tolist())
        others = settings.words_uncut
        terms = cls.learn(texts, replace(settings, words=others), counter)[0].words if others else ()
        return cls((*terms, *(PIECE + piece for piece in learned)), settings)

    @property
    def columns(self) -> int:
        """Number of columns of the counts."""
        bits = self.settings.hash_bits
        return 1 << bits if bits else len(self.words) + len(self.pairs)

    @cached_property
    def _tables(self) -> tuple[WordTable, PairTable]:
        words, pairs = WordTable(), PairTable()
        packed, offsets = pack_strings(self.words)
        whole = np.ones(0x110000, dtype=np.bool_)  # every character belongs to a word, so a string is one word
        numbers = words.add(packed, *cut(packed, offsets, whole)[:3])
        pair_numbers = pairs.add(np.array(self.pairs))  # a copy, because a loaded array may be read-only
        if words.size < len(numbers) or pairs.size < len(pair_numbers):
            raise DataError("a vocabulary has a word or a pair twice; its file is damaged")
        return words, pairs

    @cached_property
    def _cutter(self) -> Cutter | None:
        """Cuts compounds into words of the vocabulary, or words into its pieces."""
        if "pieces" in self.settings.words:
            return PieceCutter(self.words, self.settings.words, whole=not read_forms(self.settings.words)[0])
        return CompoundCutter(self.words, self.settings.words) if self.settings.compounds else None

    def count(self, texts: Iterable[str], counter: Counter | None = None) -> Matrix:
        """How often each text has each known word and pair.

        Args:
            texts: the texts.
            counter: counts; None: here, on all threads.

        Returns:
            csr float32 (texts, columns), columns ascending in a row.
        """
        parts = list(counter.columns(texts, self) if counter else self.columns_here(texts))
        return stacked(parts, sum(len(part[0]) for part in parts), self.columns)

    def columns_here(self, texts: Iterable[str]) -> Iterator[Counts]:
        """As `Counter.columns`, on the threads of this process."""

        def counted(part: list[str]) -> Counts:
            block = TextBlock.read(part, self.settings, self._cutter)
            return block.entries.as_columns(self._columns_of(block))

        return in_order(counted, _blocks(texts))

    def _columns_of(self, block: TextBlock) -> Ints:
        """Columns of the words and pairs of a block, -1 for unknown ones."""
        if bits := self.settings.hash_bits:
            hashes = block.words.all()[-1]
            pair_hashes = hash_pairs(hashes[block.pairs >> 32], hashes[block.pairs & LOW])
            return (np.concatenate([hashes, pair_hashes]) >> np.uint64(64 - bits)).astype(np.int32)
        words, pairs = self._tables
        word_numbers = words.find(*block.words.all())
        found = pairs.find(pair_keys(block.pairs, word_numbers))
        return np.concatenate([word_numbers, np.where(found >= 0, found + len(self.words), -1).astype(np.int32)])


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Texts split into words. Each block numbers its own words, so that threads need not wait for each other."""

    words: WordTable
    pairs: Longs
    entries: CountEntries

    @classmethod
    def read(cls, texts: list[str], settings: WordCounts, cutter: Cutter | None = None) -> TextBlock:
        words, stream, bounds = word_stream(texts, settings, cutter)
        pairs = PairTable()
        pair_stream, pair_bounds = np.zeros(0, np.int32), np.zeros_like(bounds)
        if settings.bigrams:
            keys = stream[:-1].astype(np.int64) << 32 | stream[1:]
            inside = np.ones(len(stream), dtype=np.bool_)
            inside[bounds[1:][np.diff(bounds) > 0] - 1] = False  # a text's last word begins no pair
            pair_stream = pairs.add(keys[inside[:-1]])
            pair_bounds[1:] = np.cumsum(np.maximum(np.diff(bounds) - 1, 0))
        merged = merge(stream, bounds, pair_stream, pair_bounds, (words.size, pairs.size))
        return cls(words.trimmed(), pairs.all().copy(), CountEntries(*merged))


def blocks_here(texts: Iterable[str], settings: WordCounts) -> Iterator[TextBlock]:
    """Count as `Counter.blocks`, on the threads of this process.

    Args:
        texts: the texts.
        settings: what to count.

    Returns:
        The blocks, in the order of the texts.
    """
    return in_order(lambda part: TextBlock.read(part, settings), _blocks(texts))


def word_stream(
    texts: Sequence[str], settings: WordCounts, cutter: Cutter | None = None
) -> tuple[WordTable, Ints, Longs]:
    """Cut texts into terms, in the order in which they stand.

    Args:
        texts: the texts.
        settings: the forms of words.
        cutter: cuts words, where their parts are terms too.

    Returns:
        The different terms; the number of each term of the texts (terms,); where those of each text begin (texts + 1,).
    """
    plain = settings.words == "plain"
    languages = [] if plain else settings.languages(texts)
    small = [text.lower() for text in texts] if plain else list(map(lowered, texts, languages))
    raw, offsets = pack_strings(small)
    only_ascii = all(map(str.isascii, small))
    starts, lengths, hashes, bounds = cut(raw, offsets, word_characters(only_ascii))
    words = WordTable()
    stream = words.add(raw, starts, lengths, hashes)
    return (words, stream, bounds) if plain else _formed(words, stream, bounds, languages, settings, cutter)


def _formed(
    words: WordTable,
    stream: Ints,
    bounds: Longs,
    languages: list[str],
    settings: WordCounts,
    cutter: Cutter | None,
) -> tuple[WordTable, Ints, Longs]:
    """Replace words by their forms: the table of forms, the number of each, and where those of each text begin."""
    codes = sorted(set(languages))
    place = {code: number for number, code in enumerate(codes)}
    code_of = np.repeat(np.array([place[code] for code in languages], dtype=np.int64), np.diff(bounds))
    different, which = np.unique(stream.astype(np.int64) * max(len(codes), 1) + code_of, return_inverse=True)
    spelled = list(unpack_strings(words.packed, words.offsets[: words.size + 1]))
    terms: list[str] = []
    sizes = np.empty(len(different), dtype=np.int64)
    for number, key in enumerate(different.tolist()):
        word, language = spelled[key // len(codes)], codes[key % len(codes)]
        found = forms_of(word, language, settings.words)
        if cutter is not None:
            found += cutter.parts(word, language)
        terms += found
        sizes[number] = len(found)
    formed = WordTable()
    packed, offsets = pack_strings(terms)
    everything = np.ones(0x110000, dtype=np.bool_)
    numbers = formed.add(packed, *cut(packed, offsets, everything)[:3])
    first = np.concatenate([[0], np.cumsum(sizes)])
    lengths = sizes[which]  # terms of each word of the texts
    total = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(total[-1]) - np.repeat(total[:-1] - first[which], lengths)
    return formed, numbers[places], total[bounds].astype(np.int64)


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
