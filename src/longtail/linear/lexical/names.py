"""Names of labels, and a trie over their terms that finds all of them in a text.

A name is a sequence of terms, such as stems. From every place of a text the trie is walked as far as it goes; names are
short, so most walks end after one step, and the cost is that of an Aho-Corasick automaton without its failure links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import Bytes, Floats, Ints, Longs, pack_strings, unpack_strings
from longtail.data.labels import LabelSet
from longtail.linear.features.text_terms import cut
from longtail.linear.features.word_counts import WordCounts, word_stream
from longtail.linear.features.word_forms import CompoundCutter
from longtail.linear.features.word_table import WordTable
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.threads import over_rows

MAIN, OTHER, LEARNED = 0, 1, 2  # kinds of names: the label's text, a further name, words that go with it in training
MAX_TERMS = 12  # of a name; a longer one is cut
QUALIFIER = re.compile(r"(?<!\s)\s*+[(<\[][^)>\]]*+[)>\]]")  # Adaption (Literatur)
BLOCK = 4096  # texts that are read at a time


@dataclass(frozen=True, eq=False)
class Matches:
    """Names found in texts, ordered by row."""

    rows: Ints  # (matches,)
    names: Ints  # (matches,) the name's row
    places: Ints  # (matches,) terms before it
    longest: Ints  # (matches,) terms of the longest name that begins at this place
    lengths: Ints  # (rows,) terms of each text


class Trie(NamedTuple):
    """Names by their terms: a node for each beginning of a name, node 0 for the empty one."""

    keys: Longs  # node << 32 | term, in order
    children: Ints  # the node that each key leads to
    first: Ints  # (terms,) the node after each first term, or -1
    starts: Longs  # (nodes + 1,) where the names of each node begin in `members`
    members: Ints  # names


class _FoundNames(NamedTuple):
    """What `_find` fills, an entry a match; fields as in `Matches`."""

    names: Ints
    places: Ints
    longest: Ints


@dataclass(frozen=True, eq=False)
class Names:
    """Names over the terms of a vocabulary."""

    terms: tuple[str, ...]
    settings: WordCounts  # how texts become terms
    tokens: Ints  # (terms of all names,)
    bounds: Longs  # (names + 1,)
    labels: Ints  # (names,) the label that the name means
    kinds: Bytes  # (names,) uint8
    weights: Floats  # (names,) how often the label is right where a learned name stands; 1 for other kinds

    @classmethod
    def of_labels(cls, labels: LabelSet, settings: WordCounts) -> Names:
        """The texts and further names of labels, each also without its qualifier in brackets.

        Args:
            labels: the labels.
            settings: how texts become terms, in one language.

        Returns:
            The names.
        """
        empty = np.zeros(0, dtype=np.int32)
        none = cls((), settings, empty, np.zeros(1, np.int64), empty, empty.astype(np.uint8), empty.astype(np.float32))
        return none.with_texts(0, labels.texts, labels.names)

    def with_texts(self, first: int, texts: Sequence[str], further: Sequence[Sequence[str]] | None = None) -> Names:
        """The names of labels from a row on.

        Args:
            first: the row of the first new label.
            texts: of the new labels.
            further: other names of the new labels.

        Returns:
            New names.
        """
        spelled: list[str] = []
        labels: list[int] = []
        kinds: list[int] = []
        for place, text in enumerate(texts):
            named = [(text, MAIN), *((name, OTHER) for name in (further[place] if further else ()))]
            named += [(short, kind) for name, kind in named if (short := without_qualifiers(name)) != name]
            for name, kind in dict(reversed(named)).items():
                spelled.append(name)
                labels.append(first + place)
                kinds.append(kind)
        table, stream, bounds = word_stream(spelled, replace(self.settings, words=self.base))
        known = _table_of(self.terms)
        numbers = known.add(*table.all()) if table.size else np.zeros(0, np.int32)
        terms = tuple(unpack_strings(known.packed, known.offsets[: known.size + 1]))
        return self._joined(terms, numbers[stream], bounds, np.array(labels, np.int32), np.array(kinds, np.uint8))

    def with_learned(self, tokens: Ints, bounds: Longs, labels: Ints, weights: Floats) -> Names:
        """More names, which were learned.

        Args:
            tokens: (terms of all new names,) numbers of `terms`.
            bounds: (names + 1,).
            labels: (names,).
            weights: (names,) how often the label is right where the name stands.

        Returns:
            New names.
        """
        kinds = np.full(len(labels), LEARNED, dtype=np.uint8)
        return self._joined(self.terms, tokens, bounds, labels, kinds, weights)

    def with_terms_of(self, texts: Sequence[str]) -> Names:
        """The same names over a vocabulary that has the terms of these texts too.

        Args:
            texts: the texts.

        Returns:
            New names.
        """
        table = _table_of(self.terms)
        for begin in range(0, len(texts), BLOCK):
            words, _, _ = word_stream(texts[begin : begin + BLOCK], replace(self.settings, words=self.base))
            if words.size:
                table.add(*words.all())
        return replace(self, terms=tuple(unpack_strings(table.packed, table.offsets[: table.size + 1])))

    def _joined(
        self,
        terms: tuple[str, ...],
        tokens: Ints,
        bounds: Longs,
        labels: Ints,
        kinds: Bytes,
        weights: Floats | None = None,
    ) -> Names:
        sizes = np.minimum(np.diff(bounds), MAX_TERMS)
        kept = np.flatnonzero(sizes > 0)
        starts = bounds[:-1][kept]
        new_bounds = np.concatenate([[0], np.cumsum(sizes[kept])])
        places = np.arange(new_bounds[-1]) - np.repeat(new_bounds[:-1] - starts, sizes[kept])
        weights = np.ones(len(labels), np.float32) if weights is None else weights
        return replace(
            self,
            terms=terms,
            tokens=np.concatenate([self.tokens, tokens[places].astype(np.int32)]),
            bounds=np.concatenate([self.bounds, self.bounds[-1] + new_bounds[1:]]),
            labels=np.concatenate([self.labels, labels[kept]]),
            kinds=np.concatenate([self.kinds, kinds[kept]]),
            weights=np.concatenate([self.weights, weights[kept]]),
        )

    @property
    def base(self) -> str:
        """The form of a term of a name: parts of compounds are looked for in texts alone."""
        return self.settings.words_uncut

    @cached_property
    def _table(self) -> WordTable:
        return _table_of(self.terms)

    @cached_property
    def _cutter(self) -> CompoundCutter | None:
        return CompoundCutter(self.terms, self.base) if self.settings.compounds else None

    @cached_property
    def _trie(self) -> Trie:
        names, sizes = len(self.labels), np.diff(self.bounds)
        node = np.zeros(names, dtype=np.int64)
        keys, nodes = [np.zeros(0, np.int64)], 1
        for depth in range(int(sizes.max(initial=0))):
            longer = np.flatnonzero(sizes > depth)
            wanted = node[longer] << 32 | self.tokens[self.bounds[:-1][longer] + depth]
            different, which = np.unique(wanted, return_inverse=True)
            node[longer] = nodes + which
            keys.append(different)
            nodes += len(different)
        joined = np.concatenate(keys)  # nodes grow from level to level, so the keys are in order
        first = np.full(len(self.terms), -1, dtype=np.int32)
        roots = joined < 1 << 32
        first[joined[roots]] = 1 + np.flatnonzero(roots)
        order = np.argsort(node, kind="stable").astype(np.int32)
        starts = np.searchsorted(node[order], np.arange(nodes + 1))
        return Trie(joined, np.arange(1, nodes, dtype=np.int32), first, starts, order)

    @property
    def spelled_alike(self) -> tuple[Longs, Ints]:
        """Names in groups of the same terms: where each group begins (groups + 1,), and the names."""
        return self._trie.starts[1:], self._trie.members  # node 0 is the beginning, which has no name

    def stream(self, texts: Sequence[str]) -> tuple[Ints, Longs]:
        """Texts as numbers of terms.

        Args:
            texts: the texts.

        Returns:
            The number of each term of the texts, -1 for unknown ones; where those of each text begin (texts + 1,).
        """
        parts, sizes = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
        for begin in range(0, len(texts), BLOCK):
            table, stream, bounds = word_stream(texts[begin : begin + BLOCK], self.settings, self._cutter)
            numbers = self._table.find(*table.all()) if table.size else np.zeros(0, np.int32)
            parts.append(numbers[stream])
            sizes.append(np.diff(bounds))
        return np.concatenate(parts), np.cumsum(np.concatenate(sizes))

    def find(self, texts: Sequence[str]) -> Matches:
        """Find all names in texts.

        Args:
            texts: the texts.

        Returns:
            The matches.
        """
        return self.find_in(*self.stream(texts))

    def find_in(self, stream: Ints, bounds: Longs) -> Matches:
        """Find all names in texts that are cut into terms.

        Args:
            stream: what `stream` returned.
            bounds: likewise.

        Returns:
            The matches.
        """
        rows = len(bounds) - 1
        counts, trie = np.zeros(rows, dtype=np.int64), self._trie
        none = _FoundNames(*(np.zeros(0, dtype=np.int32) for _ in range(3)))
        over_rows(lambda a, b: _find(a, b, stream, bounds, trie, counts, True, none), rows, 64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        found = _FoundNames(*(np.empty(starts[-1], dtype=np.int32) for _ in range(3)))
        over_rows(lambda a, b: _find(a, b, stream, bounds, trie, starts, False, found), rows, 64)
        row = np.repeat(np.arange(rows, dtype=np.int32), counts)
        return Matches(row, found.names, found.places, found.longest, np.diff(bounds).astype(np.int32))


def without_qualifiers(name: str) -> str:
    """Leave out what stands in brackets.

    Args:
        name: of a label.

    Returns:
        The rest. Only up to the last closing bracket is looked for any: else each bracket that opens and never closes
        would read the whole name again.
    """
    end = max(map(name.rfind, ")>]")) + 1
    return QUALIFIER.sub("", name[:end]) + name[end:] if end else name


def _table_of(terms: Sequence[str]) -> WordTable:
    table = WordTable()
    packed, offsets = pack_strings(terms)
    table.add(packed, *cut(packed, offsets, np.ones(0x110000, dtype=np.bool_))[:3])
    return table


@njit(**KERNEL)
def _find(begin, end, stream, bounds, trie, counts, counting, found):  # type: ignore[no-untyped-def]
    # Terms of the stream are below len(first) or -1; children and members come from `_trie`, which made them.
    keys, children, first, starts, members = trie
    names, places, longest = found
    for row in range(begin, end):
        spot = ZERO if counting else counts[row]
        for place in range(bounds[row], bounds[row + 1]):
            term = stream[place]
            node = first[term] if term >= 0 else -1
            begun, step = spot, place + 1
            furthest = ZERO
            while node > 0:
                size = starts[node + 1] - starts[node]
                if size > 0:
                    furthest = ZERO + step - place
                    if not counting:
                        for member in range(starts[node], starts[node + 1]):
                            names[spot + member - starts[node]] = members[member]
                            places[spot + member - starts[node]] = place - bounds[row]
                    spot += size
                if step >= bounds[row + 1] or stream[step] < 0:
                    break
                key = np.int64(node) << 32 | np.int64(stream[step])
                low, high = ZERO, ZERO + len(keys)
                while low < high:
                    middle = (low + high) >> 1
                    if keys[middle] < key:
                        low = middle + 1
                    else:
                        high = middle
                node = children[low] if low < len(keys) and keys[low] == key else -1
                step += 1
            if not counting:
                for one in range(begun, spot):
                    longest[one] = furthest
        if counting:
            counts[row] = spot
