"""Documents with subjects: folders of NAME.txt with NAME.tsv or NAME.key, tables without a header, and vocabularies."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.data import Corpus
from longtail.data.read import VocabularyFile, load
from longtail.data.subjects import is_subject_table
from longtail.data.write import write_folder
from longtail.data.write_subjects import uri_of, write_subjects
from longtail.errors import DataError

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://e.org/> .
:animals a skos:Concept ; skos:prefLabel "animals"@en, "Tiere"@de .
:dogs a skos:Concept ; skos:prefLabel "dogs"@en, "Hunde"@de ; skos:altLabel "canines"@en ; skos:broader :animals .
:leads a skos:Concept ; skos:prefLabel "leads \\"x\\\\y\\""@en ; skos:related :dogs .
"""


@pytest.fixture
def annif(tmp_path: Path) -> Path:
    """A folder as Annif's tutorial has it: train with both kinds of subject files, and a test table."""
    pytest.importorskip("rdflib", reason="rdflib is not installed")
    folder = tmp_path / "annif"
    (folder / "train").mkdir(parents=True)
    (folder / "vocab.ttl").write_text(TURTLE)
    (folder / "train" / "one.txt").write_bytes("\ufeffA book about dogs\r\nand más".encode())
    (folder / "train" / "one.tsv").write_text("<http://e.org/dogs>\tdogs\n<http://e.org/gone>\tgone\n")
    (folder / "train" / "two.txt.gz").write_bytes(gzip.compress(b"Leads for dogs"))
    (folder / "train" / "two.key").write_text('leads "x\\y"\nDogs\nDogs\n')
    (folder / "train" / "three.txt").write_text("nothing here")
    (folder / "test.tsv.gz").write_bytes(gzip.compress(b"cats\t<http://e.org/animals>  <http://e.org/dogs>\nnone\t\n"))
    return folder


def labels_of(corpus: Corpus, split: str) -> dict[str, set[str]]:
    data = getattr(corpus, split)
    return {
        name: {corpus.labels.ids[label] for label in data.targets[[row]].indices} for row, name in enumerate(data.ids)
    }


def test_folders_and_tables_are_read_with_their_vocabulary(annif: Path) -> None:
    corpus = load(annif, valid_share=0)
    assert corpus.labels.ids == ("http://e.org/animals", "http://e.org/dogs", "http://e.org/leads")
    assert corpus.labels.texts == ("animals", "dogs", 'leads "x\\y"') and corpus.labels.names[1] == ("canines",)
    assert corpus.label_language == "en" and not corpus.language  # what the names are in says nothing of documents
    assert labels_of(corpus, "train") == {
        "one": {"http://e.org/dogs"},
        "three": set(),
        "two": {"http://e.org/leads", "http://e.org/dogs"},
    }
    assert dict(zip(corpus.train.ids, corpus.train.texts or (), strict=True))["one"] == "A book about dogs\nand más"
    assert labels_of(corpus, "test") == {"test-1": {"http://e.org/animals", "http://e.org/dogs"}, "test-2": set()}
    said = "\n".join(corpus.notes)
    assert "1 label that vocab.ttl does not have: 'http://e.org/gone'" in said
    assert "1 document of train has no NAME.tsv or NAME.key" in said and "three" in said
    assert load(annif, valid_share=0, vocabulary=VocabularyFile(annif / "vocab.ttl", "de")).labels.texts == (
        "Tiere",
        "Hunde",
        'leads "x\\y"',
    )


def test_names_that_two_folders_have_are_different_documents(annif: Path) -> None:
    (annif / "test.tsv.gz").unlink()
    (annif / "test").mkdir()
    for name in ("one", "four"):
        (annif / "test" / f"{name}.txt").write_text(f"A test on dogs: {name}")
        (annif / "test" / f"{name}.key").write_text("dogs\n")
    corpus = load(annif, valid_share=0)
    assert corpus.train.ids == ("one", "three", "two") and corpus.test.ids == ("four", "test/one")
    assert "1 document of test has the name of one in another folder" in "\n".join(corpus.notes)
    assert labels_of(corpus, "test")["test/one"] == {"http://e.org/dogs"}


def test_without_a_vocabulary_the_files_name_the_labels(annif: Path) -> None:
    (annif / "vocab.ttl").unlink()
    corpus = load(annif / "train", valid_share=0)
    assert dict(zip(corpus.labels.ids, corpus.labels.texts, strict=True)) == {
        "http://e.org/dogs": "dogs",
        "http://e.org/gone": "gone",
        'leads "x\\y"': 'leads "x\\y"',
        "Dogs": "Dogs",
    }
    table = load(annif / "test.tsv.gz", valid_share=0)
    assert table.labels.ids == ("http://e.org/animals", "http://e.org/dogs") and len(table.train) == 2


def test_a_table_of_a_vocabulary_joins_any_data(tmp_path: Path) -> None:
    (tmp_path / "v.tsv").write_text("<http://e.org/a>\tApples\n<http://e.org/b>\tBears\n<http://e.org/c>\tCups\n")
    (tmp_path / "x.csv").write_text("text,labels\nsome,Apples|BEARS\nother,http://e.org/b|Chairs\n")
    corpus = load(tmp_path / "x.csv", valid_share=0, vocabulary=VocabularyFile(tmp_path / "v.tsv"))
    assert labels_of(corpus, "train") == {
        "train-1": {"http://e.org/a", "http://e.org/b"},
        "train-2": {"http://e.org/b"},
    }
    assert any("'Chairs'" in note for note in corpus.notes) and len(corpus.labels) == 3


def test_subjects_are_found_by_further_names_notations_and_successors(annif: Path) -> None:
    more = """:old a skos:Concept ; skos:prefLabel "hounds"@en ; <http://www.w3.org/2002/07/owl#deprecated> true ;
        <http://purl.org/dc/terms/isReplacedBy> :dogs .
    :animals skos:notation "590" ; skos:altLabel "beings"@en . :leads skos:altLabel "beings"@en ."""
    (annif / "vocab.ttl").write_text(TURTLE + more)
    (annif / "train" / "one.tsv").write_text("<http://e.org/old>\thounds\n")
    (annif / "train" / "two.key").write_text("590\nCanines\nbeings\n")
    corpus = load(annif, valid_share=0)
    found = labels_of(corpus, "train")
    assert found["one"] == {"http://e.org/dogs"} and found["two"] == {"http://e.org/dogs", "http://e.org/animals"}
    said = "\n".join(corpus.notes)
    assert "3 labels found by a further name, a notation or a successor: 'http://e.org/old = dogs'" in said
    assert "1 label that vocab.ttl does not have: 'beings'" in said  # two labels have that name


@pytest.mark.parametrize("tables", [False, True])
def test_what_is_written_is_read_back(annif: Path, tmp_path: Path, tables: bool) -> None:
    first = load(annif, valid_share=0)
    again = load(write_subjects(first, tmp_path / "again", tables=tables), valid_share=0)
    assert again.labels == first.labels and again.labels.names == first.labels.names
    for kind in ("broader", "related"):
        assert (getattr(again.labels, kind) != getattr(first.labels, kind)).nnz == 0
    for split in ("train", "test"):
        before, after = getattr(first, split), getattr(again, split)
        assert np.array_equal(after.targets.toarray(), before.targets.toarray())
        assert tables or (after.ids, after.texts) == (before.ids, before.texts)
    assert (again.name, again.label_language, again.propensity) == ("annif", "en", first.propensity)
    write_subjects(first, tmp_path / "again", tables=tables, overwrite=True)  # knows its own folder
    ours = load(write_folder(again, tmp_path / "ours", undivided=True))
    assert ours.labels.names == first.labels.names and (ours.labels.broader != first.labels.broader).nnz == 0
    assert len(ours.valid) == 1  # held out again, since none was written


def test_ids_that_are_no_uris_come_back(tiny: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("rdflib", reason="rdflib is not installed")
    assert uri_of("gnd:1 a/b") == "urn:longtail:gnd%3A1%20a%2Fb" and uri_of("http://e.org/x") == "http://e.org/x"
    again = load(write_subjects(tiny, tmp_path / "tiny"))
    assert set(again.labels.ids) == set(tiny.labels.ids)
    for split in ("train", "valid", "test"):
        assert labels_of(again, split) == labels_of(tiny, split)


def test_a_table_with_a_header_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabels\nabout\t<http://e.org/a>\n")
    assert not is_subject_table(path) and load(path, valid_share=0).train.texts == ("about",)
    path.write_text("a text\t<http://e.org/a>\nbroken\n")
    with pytest.raises(DataError, match=r"x.tsv:2: expected text<TAB><uri>"):
        load(path)


def test_wrong_folders_are_errors(annif: Path) -> None:
    (annif / "other.ttl").write_text(TURTLE)
    assert load(annif, valid_share=0).label_language == "en"  # "vocab" is the usual name
    (annif / "vocab.ttl").rename(annif / "mine.ttl")
    with pytest.raises(DataError, match=r"several vocabularies \(mine.ttl, other.ttl\); name one with --vocabulary"):
        load(annif)
    with pytest.raises(DataError, match="no vocabulary by its name"):
        VocabularyFile(annif / "x.txt")
    (annif / "none.tsv").write_text("<http://e.org/z>\tz\n")
    with pytest.raises(DataError, match="has none of the 5 labels"):
        load(annif, vocabulary=VocabularyFile(annif / "none.tsv"))
    (annif / "train" / "one.txt.gz").write_bytes(gzip.compress(b"x"))
    with pytest.raises(DataError, match=r"one.txt is here twice"):
        load(annif)


def test_relations_in_labels_jsonl_name_known_labels(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"id": "1", "text": "x", "labels": ["a"]}\n')
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "a", "text": "a", "names": ["b c"], "broader": ["z"]}\n')
    with pytest.raises(DataError, match="broader label 'z', which is not in the file"):
        longtail.load(tmp_path)
    labels.write_text('{"id": "a", "text": "a", "names": "b"}\n')
    with pytest.raises(DataError, match='"names" must be a list of strings'):
        longtail.load(tmp_path)
