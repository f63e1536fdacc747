"""Retrieval collections: MS MARCO's files, TREC judgements and BEIR folders, results worked by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from longtail.data.builders.passages import PassageFiles, build_passages, find_files
from longtail.data.builders.requirements import UNKNOWN
from longtail.data.corpus import Corpus, hashed
from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError


def ms_marco(folder: Path) -> Path:
    """Five passages; q3 has no judgement, the judgement of q4 is 0, q9 has no text."""
    folder.mkdir(exist_ok=True)
    passages = "".join(f"{number}\tpassage  {number} é\n" for number in range(5))
    (folder / "collection.tsv").write_bytes(passages.encode())
    (folder / "queries.train.tsv").write_text("1\tfirst query\n2\tsecond query\n3\tnone\n4\tzero\n")
    (folder / "queries.dev.tsv.gz").write_bytes(gzip.compress(b"7\tdev query\n8\tother dev\n"))
    (folder / "qrels.train.tsv").write_text("1\t0\t4\t1\n1\t0\t0\t1\n2 0 4 1\n4\t0\t1\t0\n9\t0\t2\t1\n")
    (folder / "qrels.dev.tsv").write_text("7\t0\t3\t1\n8\t0\t77\t1\n8\t0\t0\t1\n")
    return folder


def build(folder: Path, out: Path, **options: object) -> Corpus:
    build_passages(find_files(folder), out, propensity=Propensity(), accepted=True, **options)  # type: ignore[arg-type]
    return load(out, valid_share=0)


def rows_of(corpus: Corpus, split: str) -> dict[str, dict[str, float]]:
    data = getattr(corpus, split)
    return {
        text: {
            corpus.labels.ids[label]: float(weight)
            for label, weight in zip(data.targets[[row]].indices, data.targets[[row]].data, strict=True)
        }
        for row, text in enumerate(data.texts)
    }


def test_ms_marco_by_hand(tmp_path: Path) -> None:
    corpus = build(ms_marco(tmp_path / "raw"), tmp_path / "built")
    assert rows_of(corpus, "train") == {"first query": {"0": 1, "4": 1}, "second query": {"4": 1}}
    assert rows_of(corpus, "test") == {"dev query": {"3": 1}, "other dev": {"0": 1}}
    assert corpus.labels.texts == tuple(f"passage {number} é" for number in range(5))
    assert corpus.train.ids == ("q1", "q2") and corpus.name == "msmarco-passages"


def test_only_labels_with_a_judgement(tmp_path: Path) -> None:
    raw = ms_marco(tmp_path / "raw")
    done = build_passages(
        find_files(raw), tmp_path / "built", labels="seen", propensity=Propensity(), accepted=True
    )  # fmt: skip
    corpus = load(tmp_path / "built", valid_share=0)
    assert corpus.labels.ids == ("0", "2", "3", "4")
    assert done.counts["labels with a training example"] == 2
    assert [note.split(" ")[0] for note in done.notes] == ["1", "1", "1"]
    assert "not relevant" in done.notes[0] and "no text" in done.notes[1] and "not in the collection" in done.notes[2]
    assert corpus.name == "msmarco-passages-seen" and done.published is None


def test_the_small_dev_split_is_preferred(tmp_path: Path) -> None:
    raw = ms_marco(tmp_path / "raw")
    (raw / "qrels.dev.small.tsv").write_text("8\t0\t0\t1\n")
    assert set(rows_of(build(raw, tmp_path / "built"), "test")) == {"other dev"}


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    passages = [{"_id": f"doc{number}", "title": "T" * (number % 2), "text": f"text {number}"} for number in range(4)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in passages))
    queries = [{"_id": "a", "text": "query a"}, {"_id": "b", "text": "query b"}, {"_id": "c", "text": "query c"}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(header + "a\tdoc1\t2\na\tdoc2\t1\nc\tdoc0\t1\n")
    (folder / "qrels" / "test.tsv").write_text(header + "b\tdoc3\t1\nc\tdoc2\t1\n")
    return folder


def test_a_beir_folder_with_graded_relevance(tmp_path: Path) -> None:
    corpus = build(beir(tmp_path / "fiqa"), tmp_path / "built", counts=True)
    assert rows_of(corpus, "train") == {"query a": {"doc1": 1.0, "doc2": 0.5}}
    assert rows_of(corpus, "test") == {"query b": {"doc3": 1.0}, "query c": {"doc2": 1.0}}  # c is in both: test
    assert corpus.labels.texts == ("text 0", "T text 1", "text 2", "T text 3")
    assert json.loads((tmp_path / "built" / "corpus.json").read_text())["licence"] == UNKNOWN.name


def test_the_dev_judgements_of_a_beir_folder_are_valid(tmp_path: Path) -> None:
    """d is only in dev; b is in dev too, but test comes before dev, and dev before train."""
    raw = beir(tmp_path / "fiqa")
    with (raw / "queries.jsonl").open("a") as file:
        file.write('{"_id": "d", "text": "query d"}\n')
    (raw / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nd\tdoc0\t1\nb\tdoc0\t1\na\tdoc0\t1\n")
    (raw / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\na\tdoc1\t2\nc\tdoc0\t1\ne\tdoc0\t1\n")
    with (raw / "queries.jsonl").open("a") as file:
        file.write('{"_id": "e", "text": "query e"}\n')
    done = build_passages(find_files(raw), tmp_path / "built", propensity=Propensity())
    corpus = load(tmp_path / "built")
    assert [part.texts for part in (corpus.train, corpus.valid, corpus.test)] == [
        ("query e",), ("query a", "query d"), ("query b", "query c")
    ]  # fmt: skip
    assert (done.counts["train"], done.counts["valid"], done.counts["test"]) == (1, 2, 2)
    assert "1 query with judgements in train and valid counts as valid" in done.notes


def test_beir_folders_without_train_judgements(tmp_path: Path) -> None:
    raw = beir(tmp_path / "quora")
    (raw / "qrels" / "train.tsv").rename(raw / "qrels" / "dev.tsv")
    assert set(rows_of(build(raw, tmp_path / "dev"), "train")) == {"query a"}  # dev stands for train
    (raw / "qrels" / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"qrels/test\.tsv: has all judgements.*--test 0\.2"):
        build(raw, tmp_path / "built")
    queries = "".join(json.dumps({"_id": f"z{number}", "text": f"query {number}"}) + "\n" for number in range(200))
    (raw / "queries.jsonl").write_text(queries)
    (raw / "qrels" / "test.tsv").write_text("".join(f"z{number}\t0\tdoc{number % 4}\t1\n" for number in range(200)))
    corpus = build(raw, tmp_path / "built", test=0.3, seed=5)
    drawn = {f"query {number}" for number in range(200) if hashed([f"z{number}"], 5)[0] < int(0.3 * 2**64)}
    assert 40 < len(drawn) < 80 and set(rows_of(corpus, "test")) == drawn and len(corpus.train) == 200 - len(drawn)
    with pytest.raises(DataError, match="--test must be between 0 and 1"):
        build(raw, tmp_path / "other", test=1.0)
    (raw / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match=r"has no corpus\.jsonl; found"):
        find_files(raw)
    with pytest.raises(DataError, match="--test is for collections without judgements of train"):
        build(beir(tmp_path / "full"), tmp_path / "other", test=0.2)


def test_pieces_and_processes_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = ms_marco(tmp_path / "raw")
    lines = "".join(f"{number}\tpassage {number} {'word ' * (number % 7)}\n" for number in range(3000))
    (raw / "collection.tsv").write_text(lines)
    one = build(raw, tmp_path / "one", processes=1)
    monkeypatch.setattr("longtail.data.files.CHUNK", 5000)
    two = build(raw, tmp_path / "two", processes=2)
    assert one.labels == two.labels and len(two.labels) == 3000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("collection.tsv", b"0\ta\nno tab\n", r"collection\.tsv:2: 1 column instead of 2.*1 of 2 lines are damaged"),
        ("collection.tsv", b"0\ta\n0\tb\n", "1 passages have the id of another"),
        ("collection.tsv", b"0\tcaf\xe9\n", "the line is not UTF-8; 1 of 1 lines are damaged"),
        ("qrels.train.tsv", b"1\t4\n", r"qrels\.train\.tsv:1: 2 columns instead of 4"),
        ("qrels.train.tsv", b"1\t0\t4\tyes\n", "the relevance is 'yes'"),
        ("qrels.dev.tsv", b"7\t0\t3\t0\n", "has no relevant pair"),
        ("queries.train.tsv", b"1\ta\n1\tb\n", r"queries\.train\.tsv:2: the query '1' is there twice"),
        ("queries.train.tsv", b"first query\n", "1 column instead of 2: id, query"),
        ("queries.train.tsv", b"55\tother\n", "no query with a train judgement"),
        ("queries.train.tsv", b"1\tcaf\xe9\n", r"queries\.train\.tsv:1: .*UTF-8"),
        ("queries.dev.tsv.gz", gzip.compress(b"7\ta\n8\tb\n", mtime=0)[:-9], "ends too early"),
        ("qrels.train.tsv", b"1\t0\tcaf\xe9\t1\n", r"qrels\.train\.tsv:1: .*UTF-8"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    raw = ms_marco(tmp_path / "raw")
    (raw / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        build(raw, tmp_path / "built")
    assert not (tmp_path / "built").exists()


def test_what_is_missing_is_said_before_the_work(tmp_path: Path) -> None:
    raw = ms_marco(tmp_path / "raw")
    files = find_files(raw)
    with pytest.raises(DataError, match="--accept-licence"):
        build_passages(files, tmp_path / "built", propensity=Propensity())
    (raw / "qrels.train.tsv").unlink()
    (raw / "queries.dev.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"has no qrels\.train\.tsv, no queries\.dev\.tsv; found collection\.tsv"):
        find_files(raw)
    gone = PassageFiles(tmp_path / "none.tsv", files.queries, files.train, files.test, UNKNOWN)
    with pytest.raises(DataError, match=r"no such file: .*none\.tsv"):
        build_passages(gone, tmp_path / "built", propensity=Propensity())
