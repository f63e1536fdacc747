"""WordNet's database files: small ones in the real format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from longtail.data.hierarchy import build
from longtail.data.wordnet_files import by_words, read_wordnet
from longtail.errors import DataError

LICENCE = "  1 This software and database is being provided to you, the LICENSEE, by  \n  2 Princeton University  \n"
ENTITY = "00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is perceived to have its own existence  \n"
DOG = (
    "02084071 05 n 03 dog 0 domestic_dog 0 Canis_familiaris 0 004 @ 00001740 n 0000 @ 01317541 n 0000 "
    '#m 02083863 n 0000 %p 02158846 n 0000 | a member of the genus Canis; "the dog barked | all night"  \n'
)
PET = "01317541 05 n 02 domestic_animal 0 pet 1 001 @ 00001740 n 0000 | tamed  \n"
LASSIE = "02090000 18 n 01 Lassie 0 002 @i 02084071 n 0000 ;c 02083863 n 0000 | a dog of fame  \n"
MANY = "02100000 05 n 0b " + " ".join(f"word_{place} 0" for place in range(11)) + " 001 @ 00001740 n 0000 | many  \n"
BREATHE = "00001740 29 v 02 breathe 0 take_a_breath 0 001 ~ 00002724 v 0000 02 + 02 00 + 08 00 | draw air  \n"
CHOKE = "00002724 29 v 01 choke 0 002 @ 00001740 v 0000 + 14058252 n 0101 01 + 02 00 | breathe with difficulty  \n"
NOUNS = LICENCE + ENTITY + DOG + PET + LASSIE + MANY
VERBS = LICENCE + BREATHE + CHOKE


def written(folder: Path, nouns: str = NOUNS, verbs: str = VERBS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.noun").write_text(nouns, encoding="utf-8", newline="")
    (folder / "data.verb").write_text(verbs, encoding="utf-8", newline="")
    return folder


@pytest.mark.parametrize("inner", ["", "dict"])
def test_synsets(tmp_path: Path, inner: str) -> None:
    written(tmp_path / inner)
    hierarchy = read_wordnet(tmp_path)
    assert hierarchy.name == "wordnet"
    assert list(hierarchy.ids) == [
        "n00001740",
        "n02084071",
        "n01317541",
        "n02090000",
        "n02100000",
        "v00001740",
        "v00002724",
    ]
    assert hierarchy.names[1] == "dog, domestic dog, Canis familiaris"
    assert hierarchy.texts[1] == (
        'dog, domestic dog, Canis familiaris: a member of the genus Canis; "the dog barked | all night"'
    )
    assert hierarchy.names[4] == ", ".join(f"word {place}" for place in range(11))  # 0b words: hexadecimal
    edges = {(hierarchy.ids[a], hierarchy.ids[b]) for a, b in zip(hierarchy.child, hierarchy.parent, strict=True)}
    assert edges == {
        ("n02084071", "n00001740"),
        ("n02084071", "n01317541"),
        ("n01317541", "n00001740"),
        ("n02090000", "n02084071"),  # an instance
        ("n02100000", "n00001740"),
        ("v00002724", "v00001740"),  # the same offset as the noun's, another node
    }


def test_built(tmp_path: Path) -> None:
    corpus = build(read_wordnet(written(tmp_path)))
    assert corpus.labels.ids == ("n00001740", "n02084071", "n01317541", "v00001740")
    assert corpus.labels.texts[2:] == ("domestic animal, pet", "breathe, take a breath")
    assert len(corpus.train) + len(corpus.valid) + len(corpus.test) == 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("02084071 05 n 03 dog 0 002 @ 0000\n", "no gloss"),
        ("02084071 05 n 09 dog 0 001 @ 00001740 n 0000 | short of words\n", "not a synset"),
        ("02084071 05 n 01 dog 0 009 @ 00001740 n 0000 | short of pointers\n", "1 words and 9 pointers do not fit"),
        ("02084071 05 n xx dog 0 001 @ 00001740 n 0000 | not hexadecimal\n", "'xx'"),
        ("2084071 05 n 01 dog 0 001 @ 00001740 n 0000 | seven digits\n", "starts with '2084071'"),
        ("02084071 05 a 01 dog 0 001 @ 00001740 n 0000 | an adjective\n", "type 'a'"),
        ("02084071 05 n 00 000 | no words\n", "0 words"),
        ("hello\n", "not a synset"),
    ],
)
def test_damaged_lines(tmp_path: Path, line: str, words: str) -> None:
    written(tmp_path, nouns=LICENCE + ENTITY + line)
    with pytest.raises(DataError, match=words) as caught:
        read_wordnet(tmp_path)
    assert (caught.value.path, caught.value.line) == (tmp_path / "data.noun", 4)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    written(tmp_path)
    with (tmp_path / "data.verb").open("ab") as file:
        file.write(b"00009999 29 v 01 \xff\xfe 0 000 | broken\n")
    with pytest.raises(DataError, match=r"data.verb:5: byte 0xff is not UTF-8"):
        read_wordnet(tmp_path)


def test_a_hypernym_that_is_nowhere(tmp_path: Path) -> None:
    written(tmp_path, nouns=LICENCE + DOG + ENTITY)
    with pytest.raises(DataError, match=r"data.noun:3: synset n02084071 has the hypernym n01317541"):
        read_wordnet(tmp_path)


def test_a_synset_twice(tmp_path: Path) -> None:
    written(tmp_path, nouns=LICENCE + ENTITY + ENTITY)
    with pytest.raises(DataError, match="'n00001740' occurs twice"):
        read_wordnet(tmp_path)


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data.noun and data.verb"):
        read_wordnet(tmp_path / "nowhere")
    written(tmp_path, verbs=LICENCE)
    with pytest.raises(DataError, match=r"data.verb: has no synsets"):
        read_wordnet(tmp_path)


def test_damage_is_always_a_data_error(tmp_path: Path) -> None:
    """Bytes changed, cut or doubled at random: read, or refused in our own words."""
    written(tmp_path)
    whole = (tmp_path / "data.noun").read_bytes()
    dice = random.Random(0)
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            start = dice.randrange(len(damaged))
            end = min(len(damaged), start + dice.choice([0, 1, 1, 1, 40]))
            damaged[start:end] = dice.choice([b"", b"\n", b" ", b"|", b"\xff", b"7", damaged[start:end] * 2])
        (tmp_path / "data.noun").write_bytes(damaged)
        try:
            read_wordnet(tmp_path)
        except DataError as error:
            assert "data.noun" in str(error) or "stands twice" in str(error)
            refused += 1
    assert refused > 100


def test_words_have_the_hypernyms_of_all_they_mean(tmp_path: Path) -> None:
    """A pet is an animal and, in the one other meaning here, a dog of fame; neither meaning is a label of the word."""
    famous = "02091000 18 n 02 Pet 0 Rex 0 001 @i 02084071 n 0000 | another dog of fame  \n"
    hierarchy = by_words(read_wordnet(written(tmp_path, NOUNS + famous)))
    corpus = build(hierarchy, depth=2, test_share=0.5, valid_share=0)
    found, banned = {}, {}
    for split in (corpus.train, corpus.test):
        for row, (name, text) in enumerate(zip(split.ids, split.texts or (), strict=True)):
            assert name == f"w:{text}" and text == text.lower()
            labels = split.targets.indices[split.targets.indptr[row] : split.targets.indptr[row + 1]]
            found[text] = sorted(corpus.labels.ids[label] for label in labels)
            if split.excluded is not None:
                labels = split.excluded.indices[split.excluded.indptr[row] : split.excluded.indptr[row + 1]]
                banned[text] = sorted(corpus.labels.ids[label] for label in labels)
    entity, dog, animal = "n00001740", "n02084071", "n01317541"
    assert set(corpus.labels.ids) == {entity, dog, animal, "v00001740"}  # synsets with a child, as ever
    # As an animal its parent is entity; as a dog of fame they are dog, then entity and animal, which it means itself.
    assert found["pet"] == [entity, dog] and banned["pet"] == [animal]
    assert found["rex"] == found["lassie"] == sorted([dog, entity, animal])
    assert found["domestic dog"] == sorted([entity, animal]) and banned["domestic dog"] == [dog]
    assert found["choke"] == ["v00001740"] and "entity" not in found  # nothing is above it
    assert found["word 3"] == [entity]
