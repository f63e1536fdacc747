"""Lines of the encodings of one byte a letter, from before UTF-8: which of them makes the likeliest words of a line.

    spelled(b"caf\\xe9")         "café", Windows-1252
    spelled(b"caf\\x82")         "café", DOS 850

A byte above 127 is another letter, or a sign, in each encoding. In the right one, words hold no sign inside, no capital
behind a small letter, and letters of one script. Where that leaves a line open, the lines around it decide, and then
Windows-1252, which is by far the commonest. A line may be joined of two files: letters of the West in UTF-8 stay so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from longtail.arrays import Doubles

ENCODINGS = {  # as Python names them, and as people do; the commoner first
    "cp1252": "Windows-1252",
    "cp850": "DOS 850",
    "mac_roman": "Mac Roman",
    "cp1250": "Windows-1250",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp866": "DOS 866",
    "cp1253": "Windows-1253",
}
COMMON = frozenset("äöüßéèàáñóçåøíúôêâоаеинтсрвл")  # letters; others occur too, but less often
QUOTES = frozenset("“”„‘’‚«»‹›–—…®™")  # signs that touch words
SIGNS = frozenset("•·§°©€£\u00a0")  # signs that stand apart
INSIDE = frozenset("´·–—…\u00a0\u00ad")  # signs that stand inside words
FIRST = 0.4  # points of Windows-1252 before anything is read
LOOKED_AT = 100  # words of a line: more would change nothing
AROUND = 0.25  # weight of the lines around
_UTF8 = re.compile(rb"((?:\xc3[\x80-\xbf]|\xe2\x80[\x93-\xa6])+)")
_WORDS = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")


def spelled(lines: Sequence[bytes]) -> list[tuple[str, str]]:
    """Decode lines that are not UTF-8.

    Args:
        lines: that stand near each other in a file.

    Returns:
        Each line as text, and the name of its encoding.
    """
    likely = np.array([_line(line) for line in lines]).reshape(-1, len(ENCODINGS))
    best = (likely + AROUND * likely.mean(0)).argmax(1) if len(lines) else []
    found = []
    for line, place in zip(lines, best, strict=True):
        encoding, name = list(ENCODINGS.items())[place]
        pieces = _UTF8.split(line)  # every second one is UTF-8
        text = [_decoded(piece, "utf-8" if odd % 2 else encoding) for odd, piece in enumerate(pieces)]
        found.append(("".join(text), name))
    return found


def _decoded(piece: bytes, encoding: str) -> str:
    try:
        return piece.decode(encoding)
    except UnicodeDecodeError:  # a byte that means nothing there; Latin-1 has a letter for every byte
        return piece.decode("latin-1")


def _line(line: bytes) -> Doubles:
    """(encodings,) how likely the words of a line are in each encoding, as a mean over the words."""
    words = _WORDS.findall(_UTF8.sub(b"", line))[:LOOKED_AT]
    points: Doubles = sum(map(_word, words), np.zeros(len(ENCODINGS))) / max(len(words), 1)
    points[0] += FIRST
    return points


@lru_cache(maxsize=1 << 16)
def _word(word: bytes) -> Doubles:
    """(encodings,) how likely a word is in each encoding."""
    return np.array([_likely(word.decode(encoding, "replace")) for encoding in ENCODINGS])


def _likely(word: str) -> float:
    """Points of the letters and signs beyond ASCII, as a mean."""
    points = []
    for place, letter in enumerate(word):
        if not letter.isascii():
            before, behind = word[place - 1 : place], word[place + 1 : place + 2]
            points.append(_of_letter(letter, before, behind) if letter.isalpha() else _of_sign(letter, before, behind))
    return sum(points) / len(points)


def _of_sign(sign: str, before: str, behind: str) -> float:
    if sign == "\ufffd" or not (sign.isprintable() or sign in INSIDE):
        return -10  # a byte that means nothing
    if before.isalpha() and sign in "„‚":
        return -2  # they open
    if before.isalpha() and behind.isalpha():
        return 0.8 if sign == "’" else 0 if sign in INSIDE else -2
    apart = not (before.isalpha() or behind.isalpha())
    return 0.8 if sign in QUOTES or (sign in SIGNS and apart) else -0.5


def _of_letter(letter: str, before: str, behind: str) -> float:
    western = letter < "\u0370"
    if any(one.isalpha() and (one < "\u0370") != western for one in (before, behind)):
        return -2  # two scripts in a word
    if (letter.isupper() and before.islower()) or (letter.islower() and behind.isupper()):
        return -2  # a capital behind a small letter
    if western and before and behind and not (before.isascii() or behind.isascii()):
        return -1  # three marked letters in a row
    points = 1.0 if letter.lower() in COMMON else 0.6
    return points if before or behind else points / 4  # a letter alone may be a sign in another encoding
