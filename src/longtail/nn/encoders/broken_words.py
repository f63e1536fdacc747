"""How far the vocabulary of an encoder breaks words to pieces: a word of many pieces means little to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.nn.encoders.tokenizers import TextTokenizer

TEXTS, CHARACTERS = 500, 2000  # texts that are looked at, and characters of each
MANY, UNKNOWN = 2.0, 0.05  # pieces of a word, and share of words that are unknown: English has 1.2 and 0
TOKENS = 64  # of a word; longer ones count as that
SHOWN = 3  # words that the message names
_WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True)
class BrokenWords:
    """What a vocabulary makes of words."""

    pieces: float  # of a word, on average over the words of the texts
    unknown: float  # share of the words with a piece that is unknown
    examples: tuple[str, ...]  # frequent words of many pieces

    def warning(self, encoder: str) -> str | None:
        """What to tell a user.

        Args:
            encoder: its name.

        Returns:
            A warning; None where the vocabulary suits the texts.
        """
        if self.pieces <= MANY and self.unknown <= UNKNOWN:
            return None
        return (
            f"the vocabulary of the encoder {encoder} breaks the texts to pieces: {self.pieces:.1f} for a word, "
            f"{self.unknown:.0%} of the words unknown, such as {', '.join(map(repr, self.examples))}; take an encoder "
            "of their language, or a multilingual one, or a learner over words"
        )


def broken_words(folder: Path, texts: Sequence[str]) -> BrokenWords | None:
    """Look at what an encoder's vocabulary makes of texts.

    Args:
        folder: of a pretrained encoder.
        texts: some of them are read.

    Returns:
        What was found; None where the texts have no word.

    Raises:
        DataError: the folder has no tokenizer.
    """
    tokenizer = TextTokenizer.from_folder(folder)
    step = max(len(texts) // TEXTS, 1)
    counts = Counter(word for text in texts[::step][:TEXTS] for word in _WORD.findall(text[:CHARACTERS]))
    if not counts:
        return None
    words = list(counts)
    special = len(tokenizer.encode(["a"], TOKENS)[0]) - 1
    found = tokenizer.encode(words, TOKENS)
    sizes = {word: max(len(ids) - special, 1) for word, ids in zip(words, found, strict=True)}
    strange = {word for word, ids in zip(words, found, strict=True) if tokenizer.unknown in ids}
    total = counts.total()
    worst = sorted(words, key=lambda word: (-(counts[word] * (sizes[word] - 1 + (word in strange))), word))
    return BrokenWords(
        sum(counts[word] * sizes[word] for word in words) / total,
        sum(counts[word] for word in strange) / total,
        tuple(worst[:SHOWN]),
    )
