"""A store against the same data read into memory; damaged stores; strings that lie in files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.arrays import pack_strings
from longtail.data.corpus import Corpus
from longtail.data.fingerprint import fingerprint
from longtail.data.mapped_texts import JoinedTexts, MappedTexts, as_strings, characters_of, joined, taken
from longtail.data.store_convert import write_store
from longtail.data.store_reader import verify_store
from longtail.data.store_streaming import StreamedSplit, read_pieces
from longtail.data.write import write_folder
from longtail.errors import DataError, LongtailError

ROWS = 300


def lines(folder: Path, rows: int = ROWS, splits: tuple[str, ...] = ("train",), **more: str) -> Path:
    """Documents with a text, some of them with weights or the same label twice."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for split in splits:
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for row in range(rows):
                own = [f"l{label}" for label in rng.integers(0, 17, rng.integers(0, 4))]
                labels = dict.fromkeys(own, 0.25) if row % 7 == 0 else own
                text = ["", "ein Äpfel\tund\nZeile", "\ud83d kaputt", f"wort{row % 5} eins zwei"][min(row % 9, 3)]
                file.write(json.dumps({"id": f"{split}{row}", "text": text, "labels": labels}) + "\n")
    for name, content in more.items():
        (folder / name).with_suffix(".jsonl").write_text(content)
    return folder


def same(one: Corpus, other: Corpus) -> None:
    assert one.labels == other.labels and one.drawn == other.drawn and one.notes == other.notes
    for split in ("train", "valid", "test"):
        ours, theirs = getattr(one, split), getattr(other, split)
        assert len(ours) == len(theirs) and fingerprint(ours) == fingerprint(theirs), split


@pytest.mark.parametrize(
    ("splits", "how"),
    [
        (("train",), {}),
        (("train",), {"test_share": 0.2, "seed": 3}),
        (("train", "test"), {"valid_share": 0.0}),
        (("train", "valid", "test"), {}),
    ],
)
@pytest.mark.parametrize("block", [64, 1 << 16])
def test_a_store_is_the_data_that_load_reads(tmp_path, splits, how, block, monkeypatch) -> None:
    monkeypatch.setattr("longtail.data.store_streaming.BLOCK", block)
    source = lines(tmp_path / "data", splits=splits)
    write_store(source, tmp_path / "store", **how)
    found = longtail.load(tmp_path / "store")
    same(found, _named(longtail.load(source, **how), found.name))
    assert isinstance(found.train.texts, MappedTexts) and isinstance(found.train.ids, MappedTexts)
    assert not found.train.targets.data.flags.owndata


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("labelled", [False, True])
def test_several_processes_write_the_same_store(tmp_path, processes, labelled, monkeypatch) -> None:
    """To the byte; a piece is a few lines here, and one process stands for the arithmetic alone."""
    names = "".join(json.dumps({"id": f"l{label}", "text": f"name {label}"}) + "\n" for label in range(17))
    source = lines(tmp_path / "data", splits=("train", "test"), **({"labels": names} if labelled else {}))
    write_store(source, tmp_path / "one", test_share=0.1)
    monkeypatch.setattr("longtail.data.files.CHUNK", 1500)
    if processes == 1:
        monkeypatch.setattr(StreamedSplit, "take_lines", in_pieces)
    write_store(source, tmp_path / "several", test_share=0.1, processes=processes)
    assert contents(tmp_path / "several") == contents(tmp_path / "one")


def in_pieces(part: StreamedSplit, text: str) -> bool:
    read_pieces(part, text, part.writer, 1)
    return True


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "x", "text": \n', "train.jsonl:301: broken JSON"),
        ('{"id": "x", "text": "t", "labels": ["unknown"]}\n', "train.jsonl:301: unknown label id 'unknown'"),
    ],
)
def test_a_piece_that_is_wrong_is_named_by_its_line(tmp_path, line, said, monkeypatch) -> None:
    names = "".join(json.dumps({"id": f"l{label}", "text": ""}) + "\n" for label in range(17))
    source = lines(tmp_path / "data", labels=names)
    with (source / "train.jsonl").open("a") as file:
        file.write(line)
    monkeypatch.setattr("longtail.data.files.CHUNK", 1500)
    monkeypatch.setattr(StreamedSplit, "take_lines", in_pieces)
    with pytest.raises(DataError, match=said):
        write_store(source, tmp_path / "store")


def _named(corpus: Corpus, name: str) -> Corpus:
    return replace(corpus, name=name)


def test_tables_and_one_file_become_stores(tmp_path) -> None:
    table = tmp_path / "books.csv"
    table.write_text("id,text,labels\n" + "".join(f"{row},text {row},a|b{row % 3}\n" for row in range(50)))
    source = lines(tmp_path / "data") / "train.jsonl"
    for number, place in enumerate((table, source)):
        write_store(place, tmp_path / f"store{number}")
        found = longtail.load(tmp_path / f"store{number}")
        expected = longtail.load(place)
        same(found, expected)
        assert found.table == expected.table and found.text_field == expected.text_field


def test_features_excluded_pairs_and_label_features_are_kept(tmp_path) -> None:
    folder = lines(tmp_path / "data", exclude=json.dumps({"id": "train3", "labels": ["l1", "l2"]}) + "\n")
    np.save(folder / "train.vectors.npy", np.random.default_rng(0).normal(size=(ROWS, 5)).astype(np.float32))
    write_store(folder, tmp_path / "store")
    same(longtail.load(tmp_path / "store"), longtail.load(folder))


@pytest.mark.parametrize(
    "recipe",
    [
        "parabel",
        "bm25",
        "parabel + gandalf",
        "centroid + rerank",
        "dismec",
        "knn",
        "parabel + ranknet",
        'fuse("knn", "bm25")',
    ],
)
def test_a_model_trained_on_a_store_has_the_same_bytes(tmp_path, tiny, recipe) -> None:
    write_folder(tiny, tmp_path / "data")
    write_store(tmp_path / "data", tmp_path / "store")
    models = []
    for place in ("data", "store"):
        corpus = longtail.load(tmp_path / place)
        model = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
        model.save(tmp_path / f"model-{place}")
        models.append(
            {
                file.name: file.read_bytes()
                for file in sorted((tmp_path / f"model-{place}").rglob("*"))
                if file.suffix in (".safetensors", ".jsonl")
            }
        )
    assert models[0] == models[1] and len(models[0]) > 0


def test_an_id_that_occurs_twice_is_named_with_both_places(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("longtail.data.store_streaming.BLOCK", 64)  # else all ids are in memory, with their lines
    folder = lines(tmp_path / "data", splits=("train", "test"))
    with (folder / "test.jsonl").open("a") as file:
        file.write(json.dumps({"id": "train7", "text": "x", "labels": []}) + "\n")
    with pytest.raises(
        DataError, match=r"'train7' occurs twice: document \d+ of (train|valid) and document 301 of test"
    ):
        write_store(folder, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_wrong_line_is_named_and_nothing_is_left(tmp_path) -> None:
    folder = lines(tmp_path / "data")
    with (folder / "train.jsonl").open("a") as file:
        file.write('{"id": "x", "labels": []}\n')
    with pytest.raises(DataError, match=r"train.jsonl:301: the document has no \"text\""):
        write_store(folder, tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", ["train.texts", "train.targets.labels", "labels.counts", "train.ids.starts"])
@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_a_damaged_store_is_refused(tmp_path, name, how) -> None:
    write_store(lines(tmp_path / "data"), tmp_path / "store")
    path = tmp_path / "store" / name
    content = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(content[:-8])
    elif how == "gone":
        path.unlink()
    else:
        content[8:12] = b"\xff\xff\xff\x7f"
        path.write_bytes(content)
        with pytest.raises(DataError, match="has changed since it was written"):
            verify_store(tmp_path / "store")
        return
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        longtail.load(tmp_path / "store")


@pytest.mark.parametrize(
    "name", ["train.targets.labels", "train.targets.starts", "train.texts.starts", "train.targets"]
)
def test_numbers_that_point_nowhere_are_refused(tmp_path, name) -> None:
    write_store(lines(tmp_path / "data"), tmp_path / "store")
    path = tmp_path / "store" / name
    content = bytearray(path.read_bytes())
    content[16:24] = b"\xff\xff\xff\x7f" * 2
    path.write_bytes(content)
    with pytest.raises(LongtailError):
        longtail.load(tmp_path / "store")


def test_verify_reads_every_byte_and_a_store_is_no_source(tmp_path) -> None:
    store = write_store(lines(tmp_path / "data"), tmp_path / "store")
    files = [path for path in store.iterdir() if path.name != "store.json"]
    assert verify_store(store) == sum(path.stat().st_size for path in files)
    with pytest.raises(DataError, match="is a store already"):
        write_store(store, tmp_path / "other")
    with pytest.raises(DataError, match="exists"):
        write_store(tmp_path / "data", store)
    write_store(tmp_path / "data", store, overwrite=True)


def test_mapped_strings_are_those_of_a_tuple(tmp_path) -> None:
    store = longtail.load(write_store(lines(tmp_path / "data"), tmp_path / "store"))
    texts = store.train.texts
    assert isinstance(texts, MappedTexts)
    plain = tuple(texts)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(plain), 50)
    views = [
        (texts, plain), (texts[5:-7], plain[5:-7]), (texts[10:3], ()), (texts[::3], plain[::3]),
        (texts.take(rows), tuple(plain[row] for row in rows)), (texts[3:].take(np.array([0, 2]))[1:], (plain[5],)),
        (joined(texts[:4], ["neu", "alt"]), (*plain[:4], "neu", "alt")),
        (joined(("vor",), texts[:2]), ("vor", *plain[:2])),
        (joined(joined(texts[:4], ["neu"]), ["alt"])[2:6], (*plain[2:4], "neu", "alt")),
        (taken(joined(texts, ["neu"]), np.array([len(plain), 0])), ("neu", plain[0])),
    ]  # fmt: skip
    for found, expected in views:
        assert found == expected and len(found) == len(expected) and tuple(found) == expected
        assert [found[place] for place in range(-len(expected), len(expected))] == list(expected) * 2
        assert found != (*expected, "more")
        for wrong in (len(expected), -len(expected) - 1):
            with pytest.raises(IndexError):
                found[wrong]
    assert isinstance(joined(texts, ["a"]), JoinedTexts) and as_strings(["a"]) == ("a",)
    assert isinstance(taken(joined(texts, ["a"]), np.array([1, 2])), MappedTexts)


FACTS = {
    "texts that are no flag": lambda facts: facts["splits"]["train"].update(texts="yes"),
    "no texts": lambda facts: facts["splits"]["train"].pop("texts"),
    "columns below none": lambda facts: facts["splits"]["train"]["matrices"].update(features=-1),
    "columns of a word": lambda facts: facts["splits"]["valid"]["matrices"].update(targets="many"),
    "constants of a list": lambda facts: facts.update(propensity=[1, 2]),
    "a constant of a word": lambda facts: facts.update(propensity={"a": "0.5"}),
    "a constant that is not there": lambda facts: facts.update(propensity={"c": 0.5}),
    "notes that are numbers": lambda facts: facts.update(notes=[1]),
    "splits drawn from a number": lambda facts: facts.update(drawn=3),
    "a language of a list": lambda facts: facts.update(language=["en"]),
    "a language that nobody knows": lambda facts: facts.update(language="English"),
    "labels held out below none": lambda facts: facts.update(held_out_labels=-1),
    "labels in a word": lambda facts: facts.update(labels="ten"),
    "no checksum": lambda facts: facts["files"]["labels.jsonl"].update(blake2b=None),
}


@pytest.mark.parametrize("case", FACTS)
def test_facts_of_a_store_that_nobody_writes(tmp_path, case: str) -> None:
    write_store(lines(tmp_path / "data"), tmp_path / "store")
    path = tmp_path / "store" / "store.json"
    facts = json.loads(path.read_text())
    FACTS[case](facts)
    path.write_text(json.dumps(facts))
    with pytest.raises(DataError, match="is damaged") as refused:
        longtail.load(tmp_path / "store")
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize("rows", [slice(None), [3, 1]])
def test_a_text_of_a_store_that_is_no_utf_8(tmp_path, rows) -> None:
    """Texts are read when they are asked for: a damaged one is an error then, not a failure of the decoder."""
    write_store(lines(tmp_path / "data"), tmp_path / "store")
    texts = tmp_path / "store" / "train.texts"
    texts.write_bytes(b"\xff" * texts.stat().st_size)
    found = longtail.load(tmp_path / "store").train.texts
    with pytest.raises(DataError, match="no UTF-8 any more"):
        list(taken(found, np.arange(len(found))[rows]))
    with pytest.raises(DataError, match="no UTF-8 any more"):
        list(found)


@pytest.mark.parametrize("words", ["plain words", "Großmütterchen", "東京 の 図書館"])
def test_characters_of_texts_in_a_file_are_estimated_without_reading_them_all(words: str, monkeypatch) -> None:
    strings = [words * (row % 7) for row in range(20_000)]
    stored = MappedTexts(*pack_strings(strings))
    decoded = []
    real = MappedTexts._decoded
    monkeypatch.setattr(MappedTexts, "_decoded", lambda own, *span: decoded.extend(found := real(own, *span)) or found)
    whole = sum(map(len, strings))
    assert characters_of(stored) == pytest.approx(whole, rel=0.01)
    assert len(decoded) < 1100
    part = slice(500, 15_000)
    assert characters_of(stored[part]) == pytest.approx(sum(map(len, strings[part])), rel=0.01)
    assert characters_of(stored.take(np.arange(0, 20_000, 2))) == pytest.approx(sum(map(len, strings[::2])), rel=0.01)
    assert characters_of(joined(stored, ["äöü"])) == pytest.approx(whole + 3, rel=0.01)
    assert characters_of(strings) == whole
    assert characters_of(stored[:0]) == characters_of(MappedTexts(*pack_strings(["", ""]))) == 0
