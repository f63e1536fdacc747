"""Words cut into pieces that many words share, for forms and compounds that training did not see.

Pieces are learned by byte-pair encoding (Sennrich et al., ACL 2016): from letters up, the two neighbours that occur
most are joined, until there are enough pieces. A word is cut from left to right into the longest pieces there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from longtail.linear.features.word_forms import MAX_LETTERS, REMEMBERED, CompoundCutter, base_form

PIECE = "#"  # begins a piece in a vocabulary: no word has it
PIECES = 8000  # that are learned
LEARNED_FROM = 20_000  # words at most, the most frequent ones
LONGEST_WORD = 40  # letters; longer ones are no words
FEWEST = 2  # occurrences of a pair that is joined


def learn_pieces(words: Sequence[str], counts: Sequence[float], size: int = PIECES) -> list[str]:
    """Learn pieces.

    Args:
        words: different words.
        counts: how often each occurs.
        size: pieces at most, letters not counted.

    Returns:
        Letters, then pieces in the order in which they were joined.
    """
    usual = sorted(range(len(words)), key=lambda place: (-counts[place], words[place]))[:LEARNED_FROM]
    spelled = [list(words[place]) for place in usual if len(words[place]) <= LONGEST_WORD]
    times = [int(counts[place]) for place in usual if len(words[place]) <= LONGEST_WORD]
    pairs: Counter[tuple[str, str]] = Counter()
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)  # words that have or had the pair
    for word, parts in enumerate(spelled):
        for pair in pairwise(parts):
            pairs[pair] += times[word]
            places[pair].add(word)
    waiting = [(-count, pair) for pair, count in pairs.items()]
    heapify(waiting)
    found = dict.fromkeys(sorted({letter for parts in spelled for letter in parts}))
    letters = len(found)
    while waiting and len(found) - letters < size:
        count, pair = heappop(waiting)
        if -count != pairs[pair]:  # it was joined to something else in between
            if pairs[pair] >= FEWEST:
                heappush(waiting, (-pairs[pair], pair))
            continue
        if -count < FEWEST:
            break
        found[pair[0] + pair[1]] = None
        changed = set()
        for word in places.pop(pair):
            before, after = spelled[word], _joined(spelled[word], pair)
            for one in pairwise(before):
                pairs[one] -= times[word]
            for one in pairwise(after):
                pairs[one] += times[word]
                places[one].add(word)
                changed.add(one)
            spelled[word] = after
        for one in changed:
            if one != pair:
                heappush(waiting, (-pairs[one], one))
    return list(found)


def _joined(parts: list[str], pair: tuple[str, str]) -> list[str]:
    after: list[str] = []
    for part in parts:
        if after and (after[-1], part) == pair:
            after[-1] += part
        else:
            after.append(part)
    return after


class PieceCutter:
    """Cuts words into the pieces of a vocabulary."""

    def __init__(self, known: Iterable[str], words: str, whole: bool) -> None:
        """Remember the pieces.

        Args:
            known: terms of the vocabulary, pieces behind "#".
            words: forms joined by "+".
            whole: a word that is one piece has it as a term, since words are none themselves.
        """
        self.pieces = frozenset(term[1:] for term in known if term.startswith(PIECE))
        self.longest = max(map(len, self.pieces), default=0)
        self.words, self.whole = words, whole
        self.found: dict[tuple[str, str], tuple[str, ...]] = {}

    def parts(self, word: str, language: str) -> tuple[str, ...]:
        """The pieces of a word.

        Args:
            word: in lower case, not in its base form.
            language: ISO 639-1 code.

        Returns:
            Pieces behind "#"; letters that are none are left out.
        """
        key = (word, language)
        if key in self.found:
            return self.found[key]
        found = self._cut(base_form(self.words, language)(word))
        found = found if self.whole or len(found) > 1 else ()
        if len(word) <= MAX_LETTERS:
            if len(self.found) >= REMEMBERED:
                self.found.clear()
            self.found[key] = found
        return found

    def _cut(self, word: str) -> tuple[str, ...]:
        found: list[str] = []
        place = 0
        while place < len(word):
            for end in range(min(len(word), place + self.longest), place, -1):
                if word[place:end] in self.pieces:
                    found.append(PIECE + word[place:end])
                    break
            else:
                end = place + 1
            place = end
        return tuple(found)


Cutter: TypeAlias = CompoundCutter | PieceCutter
