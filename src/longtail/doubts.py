"""What a model knows of texts in general, so that it can say when a text is like nothing that it has seen.

Two facts of a text are compared with those of documents held out of training. Words known: the share of its words that
stood in a training text or a label text; in scripts without spaces between words, pairs of characters are the words.
Words of one letter say nothing, so they count only where a text has no others. Nearness, for learners that compare
vectors or training examples: the score of its best label. A text below what nearly all held-out documents reach is
flagged, with the reason. Where few documents were held out, only texts without a known word are flagged: a limit from
few documents would be chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Longs, pack_strings
from longtail.linear.features.languages import UNSEGMENTED
from longtail.linear.features.text_terms import cut, word_characters
from longtail.seams import Array, Declaration, Nothing, Number, State

BLOCK = 1 << 20  # characters whose words are looked at together
ENOUGH = 200  # held-out documents from which limits are taken
FEW_WORDS, FAR = 0.005, 0.003  # shares of the held-out documents that lie below each limit: together under 1%
_UNSEGMENTED = re.compile(f"[{UNSEGMENTED}]+")


@dataclass(frozen=True, eq=False)
class Doubts:
    """The words seen in training, as hashes, and the limits below which a text is flagged."""

    words: AnyArray  # (words,) uint32, ascending
    known_share: float = 0.0  # texts with a smaller share of known words are flagged
    near: float | None = None  # texts whose best label scores less are flagged; None: scores say nothing
    kind: ClassVar[str] = "doubts.v1"
    declared: ClassVar[Declaration] = Declaration(
        arrays={"words": Array("uint32", "words", rising=True)},
        settings={"known_share": Number(0, 1), "near": Nothing(Number())},
    )

    @classmethod
    def of(cls, seen: Iterable[str], held_out: Sequence[str] = (), best: Floats | None = None) -> Self:
        """Learn the words and the limits.

        Args:
            seen: texts of training examples and labels.
            held_out: texts that the model was not trained on.
            best: the score of the best label of each held-out text, where scores tell how near it is.

        Returns:
            The doubts of the model.
        """
        found = cls(_words(seen))
        shares = found.shares(held_out)
        told = ~np.isnan(shares)  # a document without a word says nothing of others
        if told.sum() < ENOUGH:
            return found
        share = float(np.quantile(shares[told], FEW_WORDS, method="lower"))
        near = None if best is None else float(np.quantile(best[told], FAR, method="lower"))
        return replace(found, known_share=share, near=near)

    def with_texts(self, texts: Iterable[str]) -> Self:
        """Return the same limits with the words of more texts.

        Args:
            texts: of new labels or training examples.

        Returns:
            New doubts.
        """
        return replace(self, words=np.union1d(self.words, _words(texts)))

    def shares(self, texts: Sequence[str]) -> Doubles:
        """Compute which share of a text's words is known.

        Args:
            texts: the texts.

        Returns:
            (texts,) 0 to 1; NaN for a text without a word.
        """
        parts = [np.zeros(0)]
        for hashes, longer, bounds in _hashed(texts):
            places = np.minimum(np.searchsorted(self.words, hashes), max(len(self.words) - 1, 0))
            known = self.words[places] == hashes if len(self.words) else np.zeros(len(hashes), np.bool_)
            has_longer = _sums(longer, bounds) > 0
            counted = longer | ~np.repeat(has_longer, np.diff(bounds))
            with np.errstate(invalid="ignore"):
                parts.append(_sums(known & counted, bounds) / _sums(counted, bounds))
        return np.concatenate(parts)

    def reasons(self, texts: Sequence[str], best: Floats | None = None) -> list[str | None]:
        """Say which texts the model knows too little of.

        Args:
            texts: the texts.
            best: the score of each text's best label; none: nearness is not looked at.

        Returns:
            For each text why its labels are not to be trusted, or None.
        """
        shares = self.shares(texts)
        far = np.zeros(len(texts), np.bool_) if best is None or self.near is None else best < np.float32(self.near)
        return [self._reason(share, away) for share, away in zip(shares.tolist(), far.tolist(), strict=True)]

    def _reason(self, share: float, far: bool) -> str | None:
        if share != share:
            return "the text has no word"
        if share == 0:
            return "none of its words was seen in training"
        if share < self.known_share:
            more = " or more" if self.known_share < 1 else ""
            return (
                f"{share:.0%} of its words were seen in training; {1 - FEW_WORDS:.1%} of the held-out documents have "
                f"{self.known_share:.0%}{more}"
            )
        return f"no label is as near as for {1 - FAR:.1%} of the held-out documents" if far else None

    def state(self) -> State:
        """See `Scorer.state`."""
        return State({"known_share": self.known_share, "near": self.near}, {"words": self.words})

    @classmethod
    def restore(cls, state: State) -> Self:
        """See `Scorer.restore`."""
        return cls(state.tensors["words"], state.settings["known_share"], state.settings["near"])


def _words(texts: Iterable[str]) -> AnyArray:
    """Hashes of all words, ascending."""
    found = [np.zeros(0, np.uint32), *(np.unique(hashes) for hashes, _, _ in _hashed(texts))]
    return np.unique(np.concatenate(found))


def _hashed(texts: Iterable[str]) -> Iterator[tuple[AnyArray, Bools, Longs]]:
    """Hash of each word, whether it has several letters, and where the words of each text begin, block by block."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(_in_pairs(text.lower()))
        size += len(block[-1]) + 1
        if size >= BLOCK:
            yield _cut(block)
            block, size = [], 0
    if block:
        yield _cut(block)


def _in_pairs(text: str) -> str:
    """A text whose runs of a script without spaces are pairs of neighbouring characters."""

    def pairs(run: re.Match[str]) -> str:
        letters = "".join(filter(str.isalnum, run[0]))  # marks of vowels and tones would part them
        return f" {' '.join(letters[place : place + 2] for place in range(max(len(letters) - 1, 1)))} "

    return text if text.isascii() else _UNSEGMENTED.sub(pairs, text)


def _cut(block: list[str]) -> tuple[AnyArray, Bools, Longs]:
    raw, offsets = pack_strings(block)
    only_ascii = all(map(str.isascii, block))
    starts, lengths, hashes, bounds = cut(raw, offsets, word_characters(only_ascii))
    if not only_ascii:  # bytes that go on with a letter are none
        begun = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])
        lengths = begun[starts + lengths] - begun[starts]
    return (hashes >> np.uint64(32)).astype(np.uint32), lengths > 1, bounds


def _sums(words: Bools, bounds: Longs) -> Longs:
    """How many words of each text are true."""
    before = np.concatenate([[0], np.cumsum(words)])
    return np.asarray(before[bounds[1:]] - before[bounds[:-1]], np.int64)
