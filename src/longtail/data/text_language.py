"""The language that a data set says its documents have, as a code that is known."""

from __future__ import annotations

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
UNTOLD = ("", "und")


def text_language(given: str | None) -> str:
    """The language of documents.

    Args:
        given: a code such as de, or with a region, de-AT; several of them, "de,en", say that documents have any; None,
            "" and "und": not known.

    Returns:
        The code in lower case, without its region; "" where each text's language is to be guessed.

    Raises:
        DataError: a code is unknown.
    """
    codes = [code.strip().lower().replace("_", "-").partition("-")[0] for code in (given or "").split(",")]
    wrong = next((code for code in codes if code not in CODES and code not in UNTOLD), None)
    if wrong is not None:
        raise DataError(
            f"language {wrong!r} is no code that is known; give two letters of ISO 639-1 such as de or en, or leave it "
            "out, and the language of each text is guessed"
        )
    return codes[0] if len(codes) == 1 and codes[0] not in UNTOLD else ""
