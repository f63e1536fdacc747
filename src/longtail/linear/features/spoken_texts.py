"""Texts that carry their languages to where words get their forms, where a column of the data told them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from longtail.linear.features.languages import detect


class SpokenText(str):
    """A text and the code of its language; "" where that is not known."""

    language: str

    @classmethod
    def of(cls, text: str, language: str) -> SpokenText:
        """A text in a language."""
        made = cls(text)
        made.language = language
        return made


@dataclass(frozen=True, eq=False)
class SpokenTexts(Sequence[str]):
    """Texts with their languages; a text is copied only while it is read."""

    texts: Sequence[str]
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return SpokenTexts(self.texts[place], self.languages[place])
        return SpokenText.of(self.texts[place], self.languages[place])

    def __iter__(self) -> Iterator[str]:
        return map(SpokenText.of, self.texts, self.languages)


def spoken(texts: Sequence[str], languages: Sequence[str] | None) -> Sequence[str]:
    """Texts in their languages.

    Args:
        texts: the texts.
        languages: the code of each; None where no column told them.

    Returns:
        Texts that carry their languages; the same texts where there are none.
    """
    return texts if languages is None else SpokenTexts(texts, languages)


def languages_of(texts: Sequence[str], known: str, main: str, by_text: bool) -> list[str]:
    """The languages of texts.

    Args:
        texts: the texts.
        known: the language of those that carry none; "": theirs is guessed.
        main: of most texts, for texts that give no sign.
        by_text: whether the language counts that a text carries.

    Returns:
        The code of each.
    """
    own = [getattr(text, "language", "") if by_text else "" for text in texts]
    return [code or known or detect(text, main) for code, text in zip(own, texts, strict=True)]
