"""What a text says of a label: the share of the label's words that it has, and whether and where it has the phrase.

The words of a text stand in one sorted list of (row, word, place), so that a word of a label is found by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints, Longs, pack_strings
from longtail.linear.features.text_terms import cut, word_characters
from longtail.linear.features.word_table import WordTable
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.threads import over_rows

NUMBERS = 3  # of a candidate: share of the label's words by idf, whether the phrase is there, where it is first
MAX_WORDS = 16  # of a label's text that are read


def words_of(texts: Sequence[str]) -> tuple[AnyArray, Longs, Longs, AnyArray, Longs]:
    """Cut texts into words in lower case.

    Args:
        texts: the texts.

    Returns:
        The bytes of all texts; start, length and hash of each word; where the words of each text begin (texts + 1,).
    """
    lowered = [text.lower() for text in texts]
    raw, offsets = pack_strings(lowered)
    return (raw, *cut(raw, offsets, word_characters(all(map(str.isascii, lowered)))))


@dataclass(frozen=True, eq=False)
class LabelPhrases:
    """The texts of labels as sequences of words."""

    texts: tuple[str, ...]

    @cached_property
    def _index(self) -> tuple[WordTable, Ints, Longs, Floats]:
        """The label words, the words of each label and where they begin, and the idf of each word over labels."""
        table = WordTable()
        raw, starts, lengths, hashes, bounds = words_of(self.texts)
        words = table.add(raw, starts, lengths, hashes)
        holders = np.zeros(table.size, dtype=np.int64)
        owner = np.repeat(np.arange(len(self.texts)), np.diff(bounds))
        once = np.unique(owner * np.int64(max(table.size, 1)) + words)
        np.add.at(holders, once % max(table.size, 1), 1)
        idf = np.log((1 + len(self.texts)) / (1 + holders)) + 1
        return table, words, bounds, idf.astype(np.float32)

    def numbers(self, texts: Sequence[str], starts: Longs, labels: Ints) -> tuple[Floats, Floats]:
        """Compare the candidates' labels with the texts.

        Args:
            texts: of the rows.
            starts: (rows + 1,) where the candidates of each row begin.
            labels: (candidates,).

        Returns:
            (candidates, NUMBERS): the share of the label's words, weighted by idf, that the text has; 1 where the text
            has them in a row and in this order; log(1 + words before that place), or of the whole text + 1 where the
            phrase is not there. And (rows,) log(1 + words of the text).
        """
        table, label_words, bounds, idf = self._index
        raw, spans, lengths, hashes, text_bounds = words_of(texts)
        words = table.find(raw, spans, lengths, hashes)
        found = np.zeros((len(labels), NUMBERS), dtype=np.float32)
        sizes = np.log1p(np.diff(text_bounds)).astype(np.float32)
        width = np.int64(table.size + 1)
        owner = np.repeat(np.arange(len(texts), dtype=np.int64), np.diff(text_bounds))
        known = np.flatnonzero(words >= 0)
        keys = owner[known] * width + words[known]
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], known[order]
        heads = np.searchsorted(keys, np.arange(len(texts) + 1, dtype=np.int64) * width)

        phrases = _Phrases(label_words, bounds, idf)
        read = _ReadTexts(words, text_bounds, width, keys, places, heads)
        over_rows(lambda begin, end: _compare(begin, end, starts, labels, phrases, read, found), len(texts), 64)
        return found, sizes


class _Phrases(NamedTuple):
    """The words of labels."""

    words: Ints  # of all labels
    bounds: Longs  # (labels + 1,)
    idf: Floats  # (different words,)


class _ReadTexts(NamedTuple):
    """The words of texts, and where each word stands."""

    words: Ints  # of all texts, -1 where no label has the word
    bounds: Longs  # (texts + 1,)
    width: np.int64
    keys: Longs  # text x width + word, in order
    places: Longs  # of each key in `words`
    heads: Longs  # (texts + 1,) where the keys of each text begin


@njit(**KERNEL)
def _compare(begin, end, starts, labels, phrases, read, found):  # type: ignore[no-untyped-def]
    # Safe: nothing here is stored but the labels' texts, and words are numbered from those; candidates are labels that
    # members named.
    label_words, bounds, idf = phrases
    words, text_bounds, width, keys, places, heads = read
    for row in range(begin, end):
        first_word, last_word = text_bounds[row], text_bounds[row + 1]
        for candidate in range(starts[row], starts[row + 1]):
            label = labels[candidate]
            low = bounds[label]
            high = min(bounds[label + 1], low + MAX_WORDS)
            total, had = 0.0, 0.0
            phrase_at = last_word
            for place in range(low, high):
                word = label_words[place]
                weight = idf[word]
                total += weight
                key = row * width + word
                left, right = heads[row], heads[row + 1]
                while left < right:
                    middle = (left + right) >> 1
                    if keys[middle] < key:
                        left = middle + 1
                    else:
                        right = middle
                if left >= heads[row + 1] or keys[left] != key:
                    continue
                had += weight
                if place > low:
                    continue
                # The first word is there: does the rest of the phrase follow one of its places?
                spot = left
                while spot < heads[row + 1] and keys[spot] == key:
                    start = places[spot]
                    if start + high - low <= last_word:
                        same = ZERO
                        while low + same < high and words[start + same] == label_words[low + same]:
                            same += 1
                        if low + same == high:
                            phrase_at = start
                            break
                    spot += 1
            if total > 0:
                found[candidate, 0] = had / total
            if phrase_at < last_word:
                found[candidate, 1] = 1
                found[candidate, 2] = np.log1p(np.float32(phrase_at - first_word))
            else:
                found[candidate, 2] = np.log1p(np.float32(last_word - first_word + 1))
