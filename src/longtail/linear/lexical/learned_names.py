"""Words and pairs of words that go with a label in training texts: what people write where the label's name is missing.

A text in another language than the labels, or one that says "heart attack" where the label is "myocardial infarction",
has none of the label's names. A term is a learned name of a label where a good share of the texts that have it have the
label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.features.text_terms import merge
from longtail.linear.features.word_table import PairTable
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.threads import over_rows


@dataclass(frozen=True)
class LearnedNames:
    """Names by number of their terms."""

    tokens: Ints  # (terms of all names,)
    bounds: Longs  # (names + 1,)
    labels: Ints  # (names,)
    weights: Floats  # (names,) share of the texts with the name that have the label


def learn_names(
    stream: Ints, bounds: Longs, vocabulary: int, targets: Matrix, most: int, least_share: float, least_texts: int
) -> LearnedNames:
    """Find the terms and pairs of terms that go with each label.

    Args:
        stream: (terms of all texts,) numbers of terms, -1 for unknown ones.
        bounds: (texts + 1,) where the terms of each text begin.
        vocabulary: how many different terms there are.
        targets: csr (texts, labels).
        most: names a label.
        least_share: of the texts with the name that must have the label.
        least_texts: that must have both.

    Returns:
        The names, by label, the surest first. A share is (texts with both) / (texts with the name + 1).
    """
    owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    inside = (owner[:-1] == owner[1:]) & (stream[:-1] >= 0) & (stream[1:] >= 0)
    pairs = PairTable()
    pair_stream = pairs.add((stream[:-1].astype(np.int64) << 32 | stream[1:])[inside])
    pair_bounds = np.concatenate([[0], np.cumsum(np.bincount(owner[:-1][inside], minlength=len(bounds) - 1))])
    known = stream >= 0
    word_bounds = np.concatenate([[0], np.cumsum(np.bincount(owner[known], minlength=len(bounds) - 1))])
    terms, _, starts = merge(stream[known], word_bounds, pair_stream, pair_bounds, (vocabulary, pairs.size))
    texts_with = np.bincount(terms, minlength=vocabulary + pairs.size)
    by_label = targets.T.tocsr()
    labels = by_label.shape[0]
    found = np.full((labels, most), -1, dtype=np.int32)
    shares = np.zeros((labels, most), dtype=np.float32)
    texts_of, known_terms = _TextsOfLabels(by_label.indptr, by_label.indices), _TermsOfTexts(starts, terms, texts_with)

    def collect(begin: int, end: int) -> None:
        scratch = np.zeros(len(texts_with), np.int32), np.empty(len(texts_with), np.int32)
        _collect(begin, end, texts_of, known_terms, scratch, (least_share, least_texts), (found, shares))

    over_rows(collect, labels, 2048)
    label, place = np.nonzero(found >= 0)
    term = found[label, place].astype(np.int64)
    is_pair = term >= vocabulary
    keys = np.zeros(len(term), dtype=np.int64)
    keys[is_pair] = pairs.all()[term[is_pair] - vocabulary]
    sizes = 1 + is_pair
    name_bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    tokens = np.empty(name_bounds[-1], dtype=np.int32)
    tokens[name_bounds[:-1]] = np.where(is_pair, keys >> 32, term)
    tokens[name_bounds[:-1][is_pair] + 1] = keys[is_pair] & 0xFFFFFFFF
    return LearnedNames(tokens, name_bounds, label.astype(np.int32), shares[label, place])


class _TextsOfLabels(NamedTuple):
    starts: Ints  # (labels + 1,)
    texts: Ints  # of each label


class _TermsOfTexts(NamedTuple):
    starts: Longs  # (texts + 1,)
    terms: Ints  # different ones of each text
    texts_with: Longs  # (terms,) texts that have each term


@njit(**KERNEL)
def _collect(begin, end, texts_of, terms_of, scratch, least, out):  # type: ignore[no-untyped-def]
    firsts, rows = texts_of
    starts, terms, texts_with = terms_of
    counts, touched = scratch
    least_share, least_texts = least
    found, shares = out
    most = found.shape[1]
    for label in range(begin, end):
        number = ZERO
        if firsts[label + 1] - firsts[label] < least_texts:
            continue
        for spot in range(firsts[label], firsts[label + 1]):
            row = rows[spot]
            for place in range(starts[row], starts[row + 1]):
                term = terms[place]
                if counts[term] == 0:
                    touched[number] = term
                    number += 1
                counts[term] += 1
        for one in range(number):
            term = touched[one]
            both = counts[term]
            counts[term] = 0
            share = np.float32(both / (texts_with[term] + 1.0))
            if both < least_texts or share < least_share:
                continue
            place = most  # the surest names, in order; of equals the first
            while place > 0 and (found[label, place - 1] < 0 or shares[label, place - 1] < share):
                place -= 1
            if place < most:
                for later in range(most - 1, place, -1):
                    found[label, later], shares[label, later] = found[label, later - 1], shares[label, later - 1]
                found[label, place], shares[label, place] = term, share
