"""Parses many numbers of a text at once: three multiplications turn eight digits into an integer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Bytes, Doubles, Longs

SPACE, COMMA, COLON, NEWLINE = 32, 44, 58, 10
_DOT, _MINUS, _PLUS = 46, 45, 43
_FRONT = 16  # spaces before the text, so that loading eight or sixteen bytes never starts before it
_DIGITS = 16  # the longest run of digits that is parsed at once
_EXACT = 2.0**53  # below this whole doubles are exact, and so is one multiplication or division by 10^22 or less
_POWERS = 10.0 ** np.arange(23)
_KEEP = np.array([0] + [(2**64 - 1) << (64 - 8 * n) & (2**64 - 1) for n in range(1, 9)], dtype=np.uint64)

_SEPARATORS = np.array([SPACE, 9, 13, NEWLINE, COMMA, COLON], dtype=np.uint8)  # bytes between numbers


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of a piece of text, in order."""

    values: Doubles
    whole: Bools  # digits only: usable as an index
    starts: Longs  # first byte of each number
    after: Bytes  # the byte that follows each number
    text: Bytes


def numbers(piece: bytes) -> Numbers | None:
    """Parses every number of a piece of text. Spaces, tabs, line ends, commas and colons separate them.

    Args:
        piece: ends with a line feed.

    Returns:
        The numbers; None where the piece has anything else in it. Then the caller parses it slowly, since some numbers,
        such as ".5", are beyond this function.
    """
    padded = np.frombuffer(b" " * _FRONT + piece, dtype=np.uint8)
    text = padded[_FRONT:]
    digit = (text - np.uint8(48)) < 10
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    if digit.size and digit[0]:
        edges = np.concatenate([[0], edges])
    starts, ends = edges[0::2], edges[1::2]  # runs of digits; the line feed at the end closes the last
    after = text[ends]
    lengths = ends - starts
    if lengths.max(initial=0) > _DIGITS:
        return None

    # A run of digits belongs to the number before it where only a dot or the mark of an exponent is between them.
    none = np.zeros(starts.size, dtype=np.bool_)
    gap, before = np.zeros(starts.size, dtype=np.int64), np.zeros(starts.size, dtype=np.uint8)
    gap[1:], before[1:] = starts[1:] - ends[:-1], after[:-1]
    fraction = (before == _DOT) & (gap == 1)
    exponent = negative = none
    sign = before
    if b"-" in piece or b"+" in piece:
        sign = padded[_FRONT - 1 + starts]
        negative = (sign == _MINUS) & np.isin(padded[_FRONT - 2 + starts], _SEPARATORS)
    if b"e" in piece or b"E" in piece:
        signed = (gap == 2) & ((sign == _MINUS) | (sign == _PLUS))
        exponent = ((before | 32) == ord("e")) & ((gap == 1) | signed)
    head = ~(fraction | exponent)
    heads = np.flatnonzero(head)
    if (fraction[1:] & ~head[:-1]).any() or (exponent[1:] & exponent[:-1]).any():
        return None
    explained = np.count_nonzero(fraction) + gap[exponent].sum() + np.count_nonzero(negative)
    separators = sum(np.count_nonzero(text == byte) for byte in _SEPARATORS)
    if explained != text.size - np.count_nonzero(digit) - separators:  # there is something else in the text
        return None

    amounts = _amounts(padded, ends, lengths)
    values, scale = amounts[heads], np.zeros(heads.size, dtype=np.int64)
    whole = np.append(head[1:], True)[heads] & ~negative[heads]
    owner = np.cumsum(head) - 1  # the number each run belongs to
    parts = np.flatnonzero(fraction)
    of, decimals = owner[parts], lengths[parts]
    values[of] = values[of] * _POWERS[decimals] + amounts[parts]
    scale[of] = -decimals
    parts = np.flatnonzero(exponent)
    power = amounts[parts].clip(max=1000).astype(np.int64)
    scale[owner[parts]] += np.where(sign[parts] == _MINUS, -power, power)

    far = (scale > 22) | (scale < -22) | (values >= _EXACT)
    down = np.flatnonzero((scale < 0) & ~far)
    values[down] /= _POWERS[-scale[down]]
    up = np.flatnonzero((scale > 0) & ~far)
    values[up] *= _POWERS[scale[up]]
    minus = np.flatnonzero(negative[heads])
    values[minus] *= -1
    last = np.append(heads, starts.size)[1:] - 1
    for number in np.flatnonzero(far).tolist():
        start = int(starts[heads[number]]) - int(negative[heads[number]])
        values[number] = float(piece[start : int(ends[last[number]])])
    return Numbers(values, whole, starts[heads], after[last], text)


def _amounts(padded: Bytes, ends: Longs, lengths: Longs) -> Doubles:
    """Runs of up to sixteen digits as numbers; `ends` count from the first byte of the text."""
    amounts = _eight(padded, ends + (_FRONT - 8), np.minimum(lengths, 8)).astype(np.float64)
    long = np.flatnonzero(lengths > 8)
    if long.size:
        amounts[long] += 1e8 * _eight(padded, ends[long] + (_FRONT - 16), lengths[long] - 8)
    return amounts


def _eight(padded: Bytes, places: Longs, lengths: Longs) -> Longs:
    """The last `lengths` digits of the eight bytes at each place: pairs, then fours, then all eight."""
    words = np.ndarray(padded.size - 7, dtype="<u8", buffer=padded, strides=(1,))
    digits = (words[places] ^ np.uint64(0x3030303030303030)) & _KEEP[lengths]
    digits = (digits * np.uint64(2561)) >> np.uint64(8)
    digits = ((digits & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    digits = ((digits & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return digits.astype(np.int64)
