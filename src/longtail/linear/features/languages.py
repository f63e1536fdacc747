"""Which language a text is in, and how its letters fold. Enough to choose a stemmer; no data files.

A text's script decides where only one language of ours uses it. Among languages in Latin letters, function words
decide, and letters that only some languages have. A text that gives no sign gets the language that most texts have.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from longtail.data.subsample import evenly_spaced

# ISO 639-1 codes to the names of the Snowball stemmers.
STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
# Frequent function words, of which a language shares few with its neighbours.
FUNCTION_WORDS = {
    "ca": "i el la els les de del dels amb per una un en què és com més als aquest",
    "cs": "a v na je se z že do o pro jako s k od po za při podle nebo jeho české",
    "da": "og af i en et at til for på det med den der som er til fra om ikke har ved",
    "de": "der die das und in im von zu den des dem ein eine einer für mit auf über als zur zum aus nach bei ist am",
    "en": "the of and in a to for on with by from an at as its is are this that how into between or",
    "es": "el la los las de del y en una un para por con que al como su sobre entre desde",
    "et": "ja on ei et ning kui eesti oma või aasta ka mis see aga",
    "eu": "eta da ez du bat dira izan dute hau ere zuen baina",
    "fi": "ja on ei se että oli sekä suomen vuoden myös tai kuin ovat joka kun sen",
    "fr": "le la les de du des et en un une dans pour par sur au aux avec est que qui d l son ses",
    "ga": "agus an na ar le go do sa is mar ó leis seo bhí",
    "hu": "a az és egy hogy nem is magyar meg volt de vagy mint ezt két",
    "id": "dan yang di dari untuk dengan pada ini itu dalam adalah ke tidak oleh",
    "it": "il lo la gli le di del della dei delle e in un una per con da che nel al alla come sul",
    "lt": "ir kad į iš su kaip yra bei ar tai už apie jo buvo",
    "nl": "de het een en van in op voor met te dat die is aan door om bij naar uit over tot",
    "no": "og i av en et på til for med som er det den fra om ved ikke har å ble",
    "pl": "w i na z do się jest nie o że od przez po dla oraz jak za czy jego",
    "pt": "o os a as de do da dos das e em um uma para por com que no na ao como sobre entre",
    "ro": "și în de la cu pe un o din pentru că este nu ale al care prin sau",
    "sv": "och i att en ett av på för med till den det som är om från vid inte har under",
    "tr": "ve bir bu için ile da de olarak çok gibi daha olan kadar sonra ya",
}
LETTERS = {"ß": "de", "ä": "de fi sv et", "ö": "de fi sv hu tr et", "ü": "de hu tr et", "å": "sv da no", "ø": "da no"}
LETTERS |= {"æ": "da no", "ñ": "es", "ç": "fr pt ca tr", "è": "fr it ca", "é": "fr es hu pt cs", "ê": "fr pt"}
LETTERS |= {"ã": "pt", "õ": "pt et hu", "ő": "hu", "ű": "hu", "ı": "tr", "ğ": "tr", "ş": "tr ro", "ș": "ro", "ț": "ro"}
LETTERS |= {"ă": "ro", "ł": "pl", "ą": "pl lt", "ę": "pl lt", "ż": "pl", "ř": "cs", "ů": "cs", "ě": "cs", "ė": "lt"}
SCRIPTS = {
    "el": r"[\u0370-\u03ff]",
    "ru": r"[\u0400-\u04ff]",
    "hy": r"[\u0530-\u058f]",
    "yi": r"[\u0590-\u05ff]",
    "ar": r"[\u0600-\u06ff]",
    "hi": r"[\u0900-\u097f]",
    "ta": r"[\u0b80-\u0bff]",
}
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han, and their extensions.
UNSEGMENTED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
UNSEGMENTED += "\U00020000-\U0003ffff"
# Languages whose marked letters are letters of their own: å is not a, and folding it would merge different words.
OWN_LETTERS = frozenset({"cs", "da", "de", "et", "fi", "hu", "lt", "no", "pl", "ro", "sv", "tr"})

SAMPLE = 2000  # texts whose language is guessed, to find the most common one
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z]")
_SCRIPTS = {language: re.compile(pattern) for language, pattern in SCRIPTS.items()}
_BY_WORD: dict[str, tuple[str, ...]] = {}
for _language, _words in FUNCTION_WORDS.items():
    for _word in _words.split():
        _BY_WORD[_word] = (*_BY_WORD.get(_word, ()), _language)


def detect(text: str, fallback: str = "") -> str:
    """Guess the language of a text.

    Args:
        text: the text; its first 2,000 characters are read.
        fallback: the answer where the text gives no sign.

    Returns:
        An ISO 639-1 code, or the fallback.
    """
    text = text[:2000].lower()
    if not text.isascii() and not _LATIN.search(text):
        for language, script in _SCRIPTS.items():
            if script.search(text):
                return language
    votes: dict[str, float] = {}
    for word in _WORD.findall(text):
        shared = _BY_WORD.get(word, ())
        for language in shared:
            votes[language] = votes.get(language, 0.0) + 1 / len(shared)
    if not text.isascii():
        for letter, languages in LETTERS.items():
            if letter in text:
                shared = tuple(languages.split())
                for language in shared:
                    votes[language] = votes.get(language, 0.0) + 1 / len(shared)
    if not votes:
        return fallback
    best = max(votes.values())
    if votes.get(fallback, 0.0) == best:  # of equals the language that most texts have
        return fallback
    return min(language for language, vote in votes.items() if vote == best)


def main_language(texts: Iterable[str]) -> str:
    """The language that most of these texts have.

    Args:
        texts: some texts.

    Returns:
        An ISO 639-1 code; "en" where no text gives a sign.
    """
    counts = Counter(detect(text) for text in texts)
    counts.pop("", None)
    return min(counts, key=lambda language: (-counts[language], language)) if counts else "en"


def usual_language(texts: Sequence[str]) -> str:
    """The language that most of many texts have: some of them, evenly spaced, are looked at.

    Args:
        texts: the texts.

    Returns:
        An ISO 639-1 code; "en" where no text gives a sign.
    """
    return main_language(texts[row] for row in evenly_spaced(len(texts), SAMPLE).tolist())


def lowered(text: str, language: str) -> str:
    """A text in lower case, as the language writes it.

    Args:
        text: the text.
        language: its ISO 639-1 code; "" for none.

    Returns:
        The text in lower case.
    """
    if language == "tr":  # capital dotless i
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def folded(word: str, language: str) -> str:
    """A word without accents, where the language does not count them as letters of their own.

    Args:
        word: a word in lower case.
        language: its ISO 639-1 code.

    Returns:
        The folded word.
    """
    if word.isascii():
        return word
    if language == "de":
        return word.replace("ß", "ss")
    if language in OWN_LETTERS:
        return word
    decomposed = unicodedata.normalize("NFKD", word)
    return unicodedata.normalize("NFC", "".join(letter for letter in decomposed if not unicodedata.combining(letter)))
