"""Words as the terms that count: stems, lemmas, character n-grams, parts of compounds.

`words="stem"` names one form; `words="stem+chars"` joins several: one of plain, stem and lemma, then chars, and
compounds or pieces (see `word_pieces`). Only distinct words of a block of texts are looked up, and each only once, so
the cost does not grow with the length of the texts. Scripts without spaces between words are counted by pairs of
characters in every form but plain.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from threading import Lock

from longtail.errors import RecipeError
from longtail.linear.features.languages import STEMMERS, UNSEGMENTED, folded

BASES, EXTRAS = ("plain", "stem", "lemma"), ("chars", "compounds", "pieces")
SHORTEST_GRAM, LONGEST_GRAM = 2, 5
GRAM = "~"  # begins an n-gram: no word has it, so that an n-gram is never taken for a word
SHORTEST_PART = 4  # letters of a part of a compound
MAX_LETTERS = 100  # of a word; longer runs of letters have no stem and no parts, and are not remembered
LONGEST_RUN = 10_000  # letters of a run that n-grams are made of, so that a file without spaces costs bounded memory
REMEMBERED = 1 << 20  # words whose parts are in memory: a service reads words without end
LINKS = ("", "s", "es", "n", "en", "er", "e")  # what may stand between two parts
UMLAUTS = str.maketrans("äöü", "aou")
_UNSEGMENTED = re.compile(f"[{UNSEGMENTED}]+|[^{UNSEGMENTED}]+")
_HAS_UNSEGMENTED = re.compile(f"[{UNSEGMENTED}]")


def read_forms(words: str) -> tuple[str, frozenset[str]]:
    """What a setting such as "stem+chars" asks for.

    Args:
        words: forms joined by "+".

    Returns:
        The base form ("" where only n-grams or pieces are counted), and the forms beside it.

    Raises:
        RecipeError: a form is unknown, or two base forms or two ways to cut words are given.
    """
    forms = [form.strip() for form in words.split("+")]
    bases = [form for form in forms if form in BASES]
    extras = frozenset(form for form in forms if form in EXTRAS)
    if len(bases) + len(extras) != len(forms) or len(bases) > 1:
        raise RecipeError(
            f"setting 'words' is one of {', '.join(BASES)}, or one of them joined to {' or '.join(EXTRAS)} by '+' "
            f'such as "stem+chars", or "chars" or "pieces" alone, got {words!r}'
        )
    if {"compounds", "pieces"} <= extras:
        raise RecipeError(f"compounds and pieces are two ways to cut words; take one of them, got words={words!r}")
    if "compounds" in extras and not bases:
        bases = ["plain"]
    return (bases[0] if bases else ""), extras


def check_language(words: str, language: str) -> None:
    """Check that the language has what the forms need, and that the packages are installed.

    Args:
        words: forms joined by "+".
        language: ISO 639-1 code, or "auto".

    Raises:
        RecipeError: the language is unknown to the stemmer or the lemmatiser, or a package is missing.
    """
    base, _ = read_forms(words)
    if base == "stem":
        _package("snowballstemmer", "stem")
        if language != "auto" and language not in STEMMERS:
            raise RecipeError(
                f"there is no stemmer for the language {language!r}; there are {', '.join(sorted(STEMMERS))}, and "
                '"auto" guesses the language of each text'
            )
    elif base == "lemma":
        _package("simplemma", "lemma")
        if language not in {"auto", *_lemma_languages()}:
            raise RecipeError(
                f"there is no lemmatiser for the language {language!r}; there are {', '.join(_lemma_languages())}, "
                'and "auto" guesses the language of each text'
            )
    elif language != "auto" and not re.fullmatch(r"[a-z]{2,3}", language):
        raise RecipeError(f"setting 'language' is \"auto\" or a code such as de or en, got {language!r}")


def has_forms(words: str, language: str) -> bool:
    """Whether the base form exists in a language.

    Args:
        words: forms joined by "+".
        language: ISO 639-1 code.

    Returns:
        False where its stemmer or lemmatiser does not know the language.
    """
    base, _ = read_forms(words)
    return language in (STEMMERS if base == "stem" else _lemma_languages()) if base in ("stem", "lemma") else True


def forms_of(word: str, language: str, words: str) -> tuple[str, ...]:
    """The terms of a word, without parts of compounds.

    Args:
        word: in lower case.
        language: ISO 639-1 code.
        words: forms joined by "+".

    Returns:
        The base form, then n-grams.
    """
    return (
        _forms_of(word, language, words) if len(word) <= MAX_LETTERS else _forms_of.__wrapped__(word, language, words)
    )


@lru_cache(maxsize=1 << 20)
def _forms_of(word: str, language: str, words: str) -> tuple[str, ...]:
    base, extras = read_forms(words)
    terms: list[str] = []
    for piece in _UNSEGMENTED.findall(word) if _HAS_UNSEGMENTED.search(word) else (word,):
        if _HAS_UNSEGMENTED.match(piece):
            terms += [piece[start : start + 2] for start in range(max(len(piece) - 1, 1))]
        elif base:
            terms.append(folded(_base(base, language)(piece), language))
        if "chars" in extras:
            terms += grams(folded(piece[:LONGEST_RUN], language))
    return tuple(terms)


def grams(word: str) -> list[str]:
    """Character n-grams of a word with a mark at its beginning and end, as fastText counts them.

    Args:
        word: one word.

    Returns:
        N-grams of 2 to 5 characters, each behind "~".
    """
    marked = f"<{word}>"
    return [
        GRAM + marked[start : start + length]
        for length in range(SHORTEST_GRAM, min(LONGEST_GRAM, len(marked)) + 1)
        for start in range(len(marked) - length + 1)
    ]


class CompoundCutter:
    """Cuts compounds into known words, such as Wirtschaftswissenschaft into wirtschaft and wissenschaft.

    The fewest parts are best; of equals, the cut whose shorter side is the longest.
    """

    def __init__(self, known: Iterable[str], words: str) -> None:
        """Remember the known words.

        Args:
            known: base forms of the words that a compound may consist of.
            words: forms joined by "+".
        """
        self.known, self.words = frozenset(known), words
        # Most cuts are ruled out by the first letters, before the form of the rest is looked up.
        self.beginnings = frozenset(_beginning(word) for word in self.known if len(word) >= SHORTEST_PART)
        self.found: dict[tuple[str, str], tuple[str, ...]] = {}

    def parts(self, word: str, language: str) -> tuple[str, ...]:
        """The parts of a compound.

        Args:
            word: in lower case, not in its base form.
            language: ISO 639-1 code.

        Returns:
            Base forms of the parts; empty where the word cannot be cut.
        """
        key = (word, language)
        if len(word) > MAX_LETTERS:
            return ()
        if key not in self.found:
            if len(self.found) >= REMEMBERED:
                self.found.clear()
            self.found[key] = self._parts(word, base_form(self.words, language))
        return self.found[key]

    def _parts(self, word: str, form: Callable[[str], str]) -> tuple[str, ...]:
        if len(word) < 2 * SHORTEST_PART or _beginning(word) not in self.beginnings:
            return ()
        plain = word.translate(UMLAUTS)
        lefts: dict[int, tuple[str, ...]] = {}  # parts of word[:end]

        def cut(end: int) -> tuple[str, ...]:
            best: tuple[tuple[int, int], tuple[str, ...]] = ((-end, 0), ())
            for begin in range(SHORTEST_PART, end - SHORTEST_PART + 1):
                if plain[begin : begin + SHORTEST_PART] not in self.beginnings:
                    continue
                right = form(word[begin:end])
                if right not in self.known:
                    continue
                for left in _without_link(word[:begin]):
                    if parts := before(len(left)):
                        best = max(best, ((-len(parts), min(len(left), end - begin)), (*parts, right)))
            return best[1]

        # The rest of a cut is always a beginning of the word. Each is cut once: with every way to reach it, the work
        # would double with each part of a long word.
        def before(end: int) -> tuple[str, ...]:
            if end not in lefts:
                whole = form(word[:end])
                lefts[end] = (whole,) if whole in self.known else cut(end)
            return lefts[end]

        return cut(len(word))


def base_form(words: str, language: str) -> Callable[[str], str]:
    """The function from a word to its base form.

    Args:
        words: forms joined by "+".
        language: ISO 639-1 code.

    Returns:
        A function of a word in lower case.
    """
    find = _base(read_forms(words)[0] or "plain", language)
    return lambda word: folded(find(word), language)


def _beginning(word: str) -> str:
    return word[:SHORTEST_PART].translate(UMLAUTS)  # a stem may lose its umlaut


def _without_link(left: str) -> list[str]:
    return [
        left[: len(left) - len(link)]
        for link in LINKS
        if left.endswith(link) and len(left) - len(link) >= SHORTEST_PART
    ]


@cache
def _base(base: str, language: str) -> Callable[[str], str]:
    if base == "stem":
        if language and language not in STEMMERS:
            return str  # a language that a document is said to have, without a stemmer
        stemmer, one_at_a_time = _package("snowballstemmer", "stem").stemmer(STEMMERS.get(language, "english")), Lock()

        @lru_cache(maxsize=1 << 18)
        def stem(word: str) -> str:
            with one_at_a_time:  # a stemmer holds the word that it works on
                return str(stemmer.stemWord(word))

        return lambda word: stem(word) if len(word) <= MAX_LETTERS else word
    if base == "lemma":
        lemmatize = _package("simplemma", "lemma").lemmatize
        code = "nb" if language == "no" else language
        known = code if code in _lemma_languages() else "en"
        return lambda word: str(lemmatize(word, lang=known)).lower() if len(word) <= MAX_LETTERS else word
    return str


@cache
def _lemma_languages() -> tuple[str, ...]:
    """The languages that the lemmatiser has data for."""
    _package("simplemma", "lemma")
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    return tuple(sorted({*SUPPORTED_LANGUAGES, "no"}))


def _package(name: str, form: str):  # type: ignore[no-untyped-def]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise RecipeError(
            f'words="{form}" needs the package {name}; install it with: pip install "longtail[words]"'
        ) from None
