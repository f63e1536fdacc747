"""The language that a data set, or a document, says it has, as a code that is known."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from longtail.errors import DataError

ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv
ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne
ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss
st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
LONGER = "ast enm grc hbs"  # codes of three letters that a lemmatiser has
CODES = frozenset(f"{ISO_639_1} {LONGER}".split())
# Codes of three letters, as library catalogues write them (ISO 639-2, both forms), of languages with words= forms.
ISO_639_2 = """
ara ar hye hy arm hy eus eu baq eu bul bg cat ca zho zh chi zh hrv hr ces cs cze cs dan da nld nl dut nl eng en est et
fin fi fra fr fre fr deu de ger de ell el gre el heb he hin hi hun hu isl is ice is ind id gle ga ita it jpn ja kat ka
geo ka kor ko lat la lav lv lit lt mkd mk mac mk msa ms may ms nep ne nor no nob nb nno nn fas fa per fa pol pl por pt
ron ro rum ro rus ru srp sr slk sk slo sk slv sl spa es swe sv tam ta tha th tur tr ukr uk vie vi yid yi
"""
_SHORT = dict(zip(ISO_639_2.split()[::2], ISO_639_2.split()[1::2], strict=True))
UNTOLD = ("", "und", "mul", "mis", "zxx")  # undetermined, several, one without a code, no language
SEVERAL = re.compile(r"[,;|+/\s]+")
SHOWN = 5  # unknown codes that a note names


def text_language(given: str | None) -> str:
    """The language of documents.

    Args:
        given: a code such as de, or with a region, de-AT, or of three letters, ger; several of them, "de,en", say that
            documents have any; None, "" and "und": not known.

    Returns:
        The code in lower case, without its region; "" where each text's language is to be guessed.

    Raises:
        DataError: a code is unknown.
    """
    codes = _codes(given or "")
    wrong = next((code for code in codes if code not in CODES and code not in UNTOLD), None)
    if wrong is not None:
        raise DataError(
            f"language {wrong!r} is no code that is known; give two letters of ISO 639-1 such as de or en, or leave it "
            "out, and the language of each text is guessed"
        )
    return codes[0] if len(codes) == 1 and codes[0] not in UNTOLD else ""


class LanguageCells:
    """The cells of a column of languages, one a document."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.told: Counter[str] = Counter()  # documents by code; "": without one
        self.unknown: Counter[str] = Counter()
        self.first = ""  # place of the first unknown code

    def code(self, cell: Any, path: Path, line: int) -> str:
        """The language of a document.

        Args:
            cell: any value.
            path: the file, for the note.
            line: the line, for the note.

        Returns:
            Its code; "" where the cell is empty, names several, or has a code that is not known, which is counted.
        """
        try:
            found = text_language(None if cell is None else str(cell).strip())
        except DataError:
            self.first = self.first or f"{path.name}:{line}"
            self.unknown[str(cell).strip()[:20]] += 1
            return ""
        self.told[found] += 1
        return found

    def notes(self, column: str) -> list[str]:
        """What was found.

        Args:
            column: its name.

        Returns:
            Notes for people.
        """
        if not self.told and not self.unknown:
            return []
        usual = [f"{count:,} {code}" for code, count in self.told.most_common() if code]
        more = f" and {len(usual) - SHOWN} more" if len(usual) > SHOWN else ""
        without = f"; {self.told['']:,} have none or several" if self.told[""] else ""
        notes = [f"languages of documents by column {column!r}: {', '.join(usual[:SHOWN]) or 'none'}{more}{without}"]
        if self.unknown:
            named = ", ".join(f"{code!r} {count:,}" for code, count in self.unknown.most_common(SHOWN))
            notes.append(
                f"{self.unknown.total():,} documents have a language in column {column!r} that is no known code "
                f"({named}; the first at {self.first}) and counts as missing; give codes such as de or ger"
            )
        return notes


def _codes(given: str) -> list[str]:
    """The codes of a string, of two letters where there are such, without regions."""
    parts = (code.strip().lower().replace("_", "-").partition("-")[0] for code in SEVERAL.split(given.strip()))
    return [_SHORT.get(code, code) for code in parts]
