"""SKOS vocabularies: the same small one in three notations, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.data.skos import Concept, read_skos
from longtail.errors import DataError

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix : <http://example.org/> .
:animals a skos:Concept ; skos:prefLabel "animals"@en, "Tiere"@de ; skos:narrower :dogs ; skos:inScheme :main .
:dogs a skos:Concept ; skos:prefLabel "dogs"@en, "Hunde"@de ; skos:altLabel "canines"@en, "Köter"@de, "dogs"@en ;
    skos:hiddenLabel "doggs"@en ; skos:notation "636.7" ; skos:related :leads .
:leads a skos:Concept ; skos:prefLabel "leads"@en ; skos:broader :things, :leads .
:things a skos:Concept, :Group ; skos:prefLabel "things"@en, "Dinge"@de .
:old a skos:Concept ; skos:prefLabel "old word"@en ; owl:deprecated true .
:paris a skos:Concept ; skos:prefLabel "Paris"@en, "Paris"@de ; skos:inScheme :places .
:outer a skos:Collection ; skos:member :inner, :outer .
:inner a skos:Collection ; skos:member :animals .
"""


@pytest.fixture
def turtle(tmp_path: Path) -> Path:
    path = tmp_path / "small.ttl"
    path.write_text(TURTLE)
    return path


def test_concepts_have_names_and_relations(turtle: Path) -> None:
    found = read_skos(turtle)  # most prefLabels are English
    base = "http://example.org/"
    assert found.language == "en" and found.left_out == {"deprecated": 1}
    assert [concept.name for concept in found.concepts] == ["animals", "dogs", "leads", "Paris", "things"]
    assert found.concepts[1] == Concept(
        base + "dogs", "dogs", ("canines", "doggs"), "636.7", (base + "animals",), (base + "leads",)
    )
    labels = found.label_set()
    assert labels.ids[1] == base + "dogs" and labels.names[1] == ("canines", "doggs") and labels.names[0] == ()
    assert labels.broader is not None and labels.related is not None
    assert labels.broader.toarray().tolist()[1] == [1, 0, 0, 0, 0]  # animals are broader, as they state themselves
    assert labels.broader.toarray().tolist()[2] == [0, 0, 0, 0, 1]  # nothing is broader than itself
    assert labels.related.toarray().tolist()[2] == [0, 1, 0, 0, 0] and labels.related.nnz == 2  # both ways


def test_what_has_no_name_in_a_language_keeps_one_in_another(turtle: Path) -> None:
    found = read_skos(turtle, "de")
    assert [concept.name for concept in found.concepts] == ["Tiere", "Hunde", "leads", "Paris", "Dinge"]
    assert found.concepts[1].others == ("Köter",)
    assert found.left_out == {"deprecated": 1} and found.named_otherwise == 1


def test_names_in_further_languages_are_further_names(turtle: Path) -> None:
    found = read_skos(turtle, "de,en")
    assert found.language == "de" and [one.name for one in found.concepts] == [
        one.name for one in read_skos(turtle, "de").concepts
    ]
    assert [one.others for one in found.concepts] == [
        ("animals",),
        ("Köter", "dogs", "canines", "doggs"),
        (),
        (),
        ("things",),
    ]
    with pytest.raises(DataError, match="has no prefLabel in 'xx'; it has en, de"):
        read_skos(turtle, "de,xx")
    with pytest.raises(DataError, match="with a prefLabel in 'xx'; it has names in en, de"):
        read_skos(turtle, "xx")


def test_a_form_of_a_region_is_a_name_in_the_language(turtle: Path) -> None:
    colours = """:c a skos:Concept ; skos:prefLabel "colours"@en-GB, "Farben"@de ; skos:altLabel "hues"@en-GB .
    :none a skos:Concept . :top a skos:Concept ; skos:prefLabel "tops"@en ; skos:topConceptOf :places ."""
    turtle.write_text(TURTLE + colours)
    found = read_skos(turtle, "en", exclude_schemes=["http://example.org/places"])
    assert [(one.name, one.others) for one in found.concepts][1] == ("colours", ("hues",))
    assert found.named_otherwise == 0
    assert found.left_out == {"deprecated": 1, "in scheme http://example.org/places": 2, "without a prefLabel": 1}


def test_successors_are_followed_to_a_concept_that_is_there(turtle: Path) -> None:
    old = """@prefix dct: <http://purl.org/dc/terms/> . :old dct:isReplacedBy :older .
    :older a skos:Concept ; skos:prefLabel "x"@en ; owl:deprecated true ; dct:isReplacedBy :dogs .
    :two a skos:Concept ; skos:prefLabel "y"@en ; owl:deprecated true ; dct:isReplacedBy :dogs, :leads .
    :ring a skos:Concept ; skos:prefLabel "z"@en ; owl:deprecated true ; dct:isReplacedBy :ring .
    :lost a skos:Concept ; skos:prefLabel "w"@en ; owl:deprecated true ; dct:isReplacedBy :nowhere ."""
    turtle.write_text(TURTLE + old)
    base = "http://example.org/"
    assert read_skos(turtle).replaced == {base + "old": base + "dogs", base + "older": base + "dogs"}


def test_types_schemes_and_collections_are_excluded(turtle: Path) -> None:
    base = "http://example.org/"
    found = read_skos(
        turtle,
        exclude_types=[base + "Group"],
        exclude_schemes=[base + "places"],
        exclude_collections=[base + "outer"],
    )
    assert [concept.name for concept in found.concepts] == ["dogs", "leads"]
    assert found.left_out == {
        "deprecated": 1,
        f"of type {base}Group": 1,
        f"in scheme {base}places": 1,
        f"in collection {base}outer": 1,
    }
    labels = found.label_set()
    assert labels.broader is not None and labels.broader.nnz == 0  # links to what is left out are dropped
    with pytest.raises(DataError, match=r"has no concept of type http://example.org/Grup.*check the URI"):
        read_skos(turtle, exclude_types=[base + "Grup"])


@pytest.mark.parametrize(("ending", "form"), [(".rdf", "xml"), (".nt", "nt")])
def test_every_notation_gives_the_same(turtle: Path, tmp_path: Path, ending: str, form: str) -> None:
    import rdflib

    other = tmp_path / f"other{ending}"
    rdflib.Graph().parse(str(turtle)).serialize(str(other), format=form)
    assert read_skos(other) == read_skos(turtle)


def test_labels_are_taken_and_added_with_names_and_relations(turtle: Path) -> None:
    labels = read_skos(turtle).label_set()
    import numpy as np

    few = labels.take(np.array([1, 2]))
    assert few.texts == ("dogs", "leads") and few.names == (("canines", "doggs"), ())
    assert few.related is not None and few.related.toarray().tolist() == [[0, 1], [1, 0]]
    more = labels.with_more(["new"], ["a new label"])
    assert more.broader is not None and more.broader.shape == (6, 6) and more.broader.nnz == 2
    assert more.names[5] == () and more.counts[5] == 0 and more.texts[5] == "a new label"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.ttl", "this is no turtle", "cannot be read as turtle"),
        ("x.rdf", "<rdf", "cannot be read as xml"),
        ("x.json", "{}", "is not known as RDF by its name"),
        ("x.nt", "", "holds no skos:Concept"),
        ("x.rdf", b'<?xml version="1.0" encoding="u\xa0"?><a/>', "its encoding is not one of"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: str | bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=problem):
        read_skos(path)
    with pytest.raises(DataError, match=r"cannot be read|no such file|No such file"):
        read_skos(tmp_path / "nowhere.ttl")


def test_an_external_entity_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    path = tmp_path / "x.rdf"
    path.write_text(
        f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e SYSTEM "file://{secret}">]>'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="http://example.org/a">'
        "<skos:prefLabel>a &e;</skos:prefLabel></skos:Concept></rdf:RDF>"
    )
    try:
        names = [concept.name for concept in read_skos(path).concepts]
    except DataError:
        return
    assert "secret" not in " ".join(names)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp037"])
def test_entities_that_multiply_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.rdf"
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    path.write_bytes(
        (
            f'<?xml version="1.0" encoding="{encoding}"?><!-- {"long " * 300_000}-->'
            f'<!DOCTYPE r [<!ENTITY e0 "ha">{entities}]>'
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
            'xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="http://example.org/a">'
            "<skos:prefLabel>&e11;</skos:prefLabel></skos:Concept></rdf:RDF>"
        ).encode(encoding)
    )
    with pytest.raises(DataError, match="cannot be read as xml"):
        read_skos(path)
