"""Lines in encodings of one byte a letter are read in the one that makes words of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.data.mending import Remedies
from longtail.data.old_encodings import ENCODINGS, spelled
from longtail.data.read import load

WESTERN = ["Größe und Maß der Straße", "café crème à la carte", "El niño y la mañana", "für Müller", "på Ærø"]
TYPESET = ["“Tom’s book” — naïve", "«Déjà vu» — Ólafur", "ÄÖÜ – SAP® für 100 €", "Angle ±2°, § 20"]
RUSSIAN = ["Книга о войне и мире", "Москва", "Пётр I: a life"]
TEXTS = {
    "cp1252": WESTERN + TYPESET,
    "cp850": WESTERN,
    "mac_roman": [*WESTERN, TYPESET[0]],
    "cp1250": ["Książka o łodzi żółtej", "Příliš žluťoučký kůň"],
    "cp1251": RUSSIAN,
    "koi8_r": RUSSIAN,
    "cp866": RUSSIAN,
    "cp1253": ["Το βιβλίο του πολέμου", "Αθήνα"],
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_lines_of_a_file_are_spelled_right(encoding: str) -> None:
    lines = [text.encode(encoding) for text in TEXTS[encoding]]
    assert spelled(lines) == [(text, ENCODINGS[encoding]) for text in TEXTS[encoding]]


def test_a_line_joined_of_two_files_keeps_both() -> None:
    joined = "“Größe” in Köln".encode() + b";" + "Müller für 5 €".encode("cp1252")
    assert spelled([joined]) == [("“Größe” in Köln;Müller für 5 €", "Windows-1252")]
    assert spelled(["Größe".encode() + b"\xc3"])[0][0].startswith("Größe")  # cut within a letter


def test_what_only_latin_1_has_stays_readable() -> None:
    assert spelled([b"caf\xe9 \x81\x8d\x8f\x90\x9d"])[0][0].startswith("caf")
    assert spelled([]) == []


def test_each_line_of_a_file_has_its_own(tmp_path: Path) -> None:
    words = {"utf-8": "Größe 東京", "cp1252": "“für” Müller", "cp850": "Straße für", "cp1251": "Книга о войне"}
    rows = [(f"{words[name]} {row}", name) for row, name in enumerate([*words] * 30)]
    lines = [b"text,labels", *(f"{text},a".encode(encoding) for text, encoding in rows)]
    (tmp_path / "books.csv").write_bytes(b"\n".join(lines))
    corpus = load(tmp_path / "books.csv", valid_share=0, remedies=Remedies(encoding="auto"))
    assert list(corpus.train.texts or ()) == [text for text, _ in rows]
    for name, line in (("Windows-1252", 3), ("DOS 850", 4), ("Windows-1251", 5)):
        assert any(f"lines that are not UTF-8, read as {name}: 30 (books.csv:{line}," in note for note in corpus.notes)
