"""Numbers and names as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MINUS = "−"
NOTHING = "–"
_UNSHOWABLE = dict.fromkeys(
    [*(code for code in range(0x20) if chr(code) not in "\n\t"), *range(0x7F, 0xA0), *range(0xD800, 0xE000)],
    "\ufffd",
)


def percent(value: float | None) -> str:
    """38.2 for a value in percent.

    Args:
        value: in percent.

    Returns:
        One decimal; a dash where there is no finite value.
    """
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.1f}".replace("-", MINUS)


def share(part: float, whole: float) -> str:
    """12% for a part of a whole.

    Args:
        part: at most `whole`.
        whole: the total.

    Returns:
        Whole percent. "0%" and "100%" only where that is exact, else "<1%" and ">99%"; a dash where the whole is 0.
    """
    if whole <= 0:
        return NOTHING
    rounded = f"{100 * part / whole:.0f}%"
    if part > 0 and rounded == "0%":
        return "<1%"
    return ">99%" if part < whole and rounded == "100%" else rounded


def count(value: float) -> str:
    """12,044 for a whole number.

    Args:
        value: the number; decimals are dropped.

    Returns:
        Digits in groups of three.
    """
    return f"{int(value):,}".replace("-", MINUS)


def short_count(value: int) -> str:
    """4.6k for 4,564 and 12k for 12,044, where a chart has little room.

    Args:
        value: the number.

    Returns:
        At most four letters up to a million, a few more beyond.
    """
    if value < 1000:
        return str(value)
    if value < 9_950:
        return f"{value / 1000:.1f}".removesuffix(".0") + "k"
    return f"{value / 1000:.0f}k" if value < 999_500 else f"{value / 1e6:.1f}M"


def seconds(value: float) -> str:
    """A duration, such as 12 ms, 3.4 s, 2 m 05 s or 1 h 10 m.

    Args:
        value: in seconds.

    Returns:
        The duration with its unit; a dash where it is not finite.
    """
    if not math.isfinite(value):
        return NOTHING
    if value < 0:
        return MINUS + seconds(-value)
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 99.5:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} m"


def size(value: float) -> str:
    """A size in B, kB, MB, GB or TB, in steps of 1000.

    Args:
        value: in bytes.

    Returns:
        Three digits with their unit.
    """
    if value < 0:
        return MINUS + size(-value)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def clean(text: str) -> str:
    """Replaces control characters and lone surrogates, which browsers or UTF-8 cannot hold.

    Args:
        text: any text.

    Returns:
        Text of the same length.
    """
    return text.translate(_UNSHOWABLE)


def cut(text: str, length: int) -> str:
    """Shortens a text, at a space where one is near.

    Args:
        text: any text.
        length: the most letters to keep.

    Returns:
        The text on one line, ending in an ellipsis where it was shortened.
    """
    text = " ".join(text[: 4 * length].split())
    if len(text) <= length:
        return text
    head = text[: length - 1]
    space = head.rfind(" ")
    return (head[:space] if space > 0.8 * length else head).rstrip(" ,;:.-") + "…"


def short_names(names: Sequence[str], length: int) -> list[str]:
    """Recipe names for narrow places: without settings where that is still unique, else cut in the middle.

    Args:
        names: of the recipes.
        length: the most letters of a name.

    Returns:
        A short name for each.
    """
    bare = [" ".join(re.sub(r"\([^()]*\)", "", name).split()) for name in names]
    short = []
    for name, without in zip(names, bare, strict=True):
        if len(name) <= length:
            short.append(name)
        elif 0 < len(without) <= length and bare.count(without) == 1:
            short.append(without)
        else:
            ends = length // 2
            short.append(f"{name[: length - ends - 1].rstrip()}…{name[-ends:].lstrip()}")
    return short
