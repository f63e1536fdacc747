"""Small data sets of every format that longtail reads, and what reads them."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Rng = np.random.Generator
Reader = Callable[[], object]


def pick(rng: Rng, choices: list[Any]) -> Any:
    """One of them."""
    return choices[int(rng.integers(len(choices)))]


def _lines_of(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _load(folder: Path) -> Reader:
    def read() -> None:
        from longtail.data.read import load
        from longtail.inspection import inspect

        inspect(load(folder))

    return read


def _folder(folder: Path, rng: Rng, pack: Callable[[bytes], bytes] = bytes, ending: str = "") -> Reader:
    rows = [{"id": f"r{n}", "title": "t", "text": "a b é", "labels": {"x": 0.5, "y": 1}} for n in range(12)]
    files = {
        "train.jsonl": _lines_of(rows),
        "test.jsonl": _lines_of([{"id": f"t{n}", "text": "a b", "labels": ["x"]} for n in range(4)]),
        "labels.jsonl": '{"id": "x", "text": "X"}\n{"id": "y", "text": "Y"}\n',
        "exclude.jsonl": '{"id": "r1", "labels": ["x"]}\n',
        "corpus.json": '{"name": "n", "propensity": {"a": 0.5, "b": 0.4}, "text": "title+text"}',
    }
    for name, content in files.items():
        (folder / (name + ending)).write_bytes(pack(content.encode()))
    return _load(folder)


def _vectors(folder: Path, rng: Rng) -> Reader:
    rows = [{"id": f"r{n}", "text": "a b", "labels": ["xy"[n % 2]]} for n in range(6)]
    (folder / "train.jsonl").write_text(_lines_of(rows))
    np.save(folder / "train.vectors.npy", rng.normal(size=(6, 3)).astype(np.float32))
    return _load(folder)


def _bag(folder: Path, rng: Rng) -> Reader:
    (folder / "train.txt").write_text("4 30 9\n1,2 3:0.5 29:1e-3\n 4:-1\n8 \n0,1,2 0:1 1:1 2:1\n")
    (folder / "test.txt").write_text("2 30 9\n1,2 3:0.5\n8 4:1\n")
    (folder / "filter_labels_train.txt").write_text("0 1\n3 8\n")
    return _load(folder)


def _described(folder: Path, rng: Rng) -> Reader:
    rows = [{"uid": f"u{n}", "title": "t", "content": "c", "target_ind": [n % 3], "target_rel": [1]} for n in range(5)]
    (folder / "trn.json").write_text(_lines_of(rows))
    if rng.random() < 0.5:
        (folder / "lbl.json").write_text(_lines_of([{"uid": f"l{n}", "title": "t"} for n in range(3)]))
    (folder / "trn_X_Xf.txt").write_text("5 7\n0:1\n1:1\n\n6:2 3:1\n\n")
    return _load(folder)


def _matrices(folder: Path, rng: Rng) -> Reader:
    (folder / "trn_X_Y.txt").write_text("4 5\n0:1 4:0.5\n1:1\n\n2:1\n")
    (folder / "trn_X_Xf.txt").write_text("4 7\n0:1 3:1e-3\n1:1\n\n6:2 3:1\n")
    (folder / "raw").mkdir()
    (folder / "raw" / "trn_X.txt").write_text("a\nb\nc é\nd\n")
    (folder / "Y.txt").write_text("v\nw\nx\ny\nz\n")
    (folder / "Yf.txt").write_text("5 7\n0:1\n1:1\n2:1\n3:1\n4:1\n")
    (folder / "filter_labels_train.txt").write_text("0 1\n3 4\n")
    return _load(folder)


def _arrays(folder: Path, rng: Rng) -> Reader:
    form = pick(rng, ["tocsr", "tocsc", "tocoo"])
    for name in ("X.trn.npz", "Y.trn.npz"):
        sparse.save_npz(folder / name, getattr(sparse.csr_array(np.eye(4, dtype=np.float32)), form)())
    return _load(folder)


def _whole(folder: Path, rng: Rng) -> Reader:
    (folder / "Bibtex_data.txt").write_text("4 9 3\n0,1 1:1\n2 2:1\n1 3:1\n0 8:0.5\n")
    (folder / "bibtex_trSplit.txt").write_text("1 2\n2 3\n3 4\n")
    (folder / "bibtex_tstSplit.txt").write_text("4 1\n")
    return _load(folder)


def _table(folder: Path, rng: Rng, ending: str = ".csv") -> Reader:
    mark = "," if ending == ".csv" else "\t"
    rows = [["id", "text", "labels"], ["1", '"a, b"', "x|y"], ["2", "c", '"[""x""]"'], ["3", "d", '"{""y"": 0.5}"']]
    rows += [["4", "e", "\"['x', 'y']\""], ["5", '"two\nlines"' if mark == "," else "f", "z"]]
    (folder / f"train{ending}").write_text("".join(mark.join(row) + "\n" for row in rows))
    (folder / f"labels{ending}").write_text(f"id{mark}text\nx{mark}X\ny{mark}Y\nz{mark}Z\n")
    return _load(folder)


def _parquet(folder: Path, rng: Rng) -> Reader:
    import pyarrow as pa
    import pyarrow.parquet

    texts: Any = pa.array(["a", "b", None, "d"] * 3)
    labels: Any = pa.array([["x"], ["y", "x"], [], None] * 3)
    kind = int(rng.integers(9))
    if kind == 0:
        texts = pa.array([b"\xff", b"a", None, b"\0"] * 3, pa.binary())
    elif kind == 1:
        texts = pa.array([1, 2, 3, 2**62] * 3)
    elif kind == 2:
        labels = pa.array([[("x", 0.5)], [], None, [("y", 2.0)]] * 3, pa.map_(pa.string(), pa.float64()))
    elif kind == 3:
        labels = pa.array([{"x": 0.5, "y": None}] * 12)
    elif kind == 4:
        labels = pa.array([[["x"]], [[]], None, [None]] * 3)
    elif kind == 5:
        labels = pa.array([0.5, float("nan"), 1.0, None] * 3)
    elif kind == 6:
        texts = pa.array(["a"] * 12).dictionary_encode()
    elif kind == 7:
        labels = pa.array([["\U0001f600", "\0"], ["x" * 9000], [""], [None]] * 3)
    else:
        texts = pa.array([10**18, 0, -1, None] * 3, pa.timestamp("ns"))
    columns = {"id": pa.array([str(n) for n in range(12)]), "text": texts, "labels": labels}
    packing = pick(rng, ["none", "snappy", "gzip", "zstd"])
    pa.parquet.write_table(pa.table(columns), folder / "train.parquet", compression=packing, row_group_size=5)
    return _load(folder)


def _edges(folder: Path, rng: Rng) -> Reader:
    (folder / "edges.tsv").write_text("a\tb\nb\tc\nc\ta\nd\tb\nd\td\n# x\n")
    (folder / "names.tsv").write_text("a\tA\tone\nb\tB\nc\tC\nd\tD\n")

    def read() -> None:
        from longtail.data.edges import read_edges
        from longtail.data.hierarchy import build

        build(read_edges(folder / "edges.tsv", folder / "names.tsv"), depth=3)

    return read


def _wordnet(folder: Path, rng: Rng) -> Reader:
    head = "  1 the licence\n"
    (folder / "data.noun").write_text(
        head + "00001740 03 n 01 entity 0 000 | that which is\n"
        "00001930 03 n 02 thing 0 object 1 001 @ 00001740 n 0000 | a thing\n"
        "00002137 03 n 01 dog 0 001 @ 00001930 n 0000 | barks\n"
    )
    (folder / "data.verb").write_text(
        head + "00001740 29 v 01 breathe 0 001 @ 00002000 v 0000 01 + 02 00 | air\n00002000 29 v 01 act 0 000 | do\n"
    )

    def read() -> None:
        from longtail.data.hierarchy import build
        from longtail.data.wordnet_files import by_words, read_wordnet

        found = read_wordnet(folder)
        build(found)
        build(by_words(found))

    return read


def _wikipedia(folder: Path, rng: Rng) -> Reader:
    def dump(name: str, columns: list[str], tuples: str) -> None:
        create = "".join(f"  `{column}` int NOT NULL,\n" for column in columns)
        text = f"CREATE TABLE `{name}` (\n{create}  PRIMARY KEY (`x`)\n) ENGINE=InnoDB;\n"
        text += f"INSERT INTO `{name}` VALUES {tuples};\n"
        (folder / f"xwiki-1-{name}.sql.gz").write_bytes(gzip.compress(text.encode(), 1))

    dump("category", ["cat_id", "cat_title"], "(1,'A'),(2,'B\\'s'),(3,'C'),(4,'Stubs')")
    dump("page", ["page_id", "page_namespace", "page_title"], "(10,14,'A'),(11,14,'B\\'s'),(12,14,'C'),(13,0,'D')")
    dump(
        "categorylinks",
        ["cl_from", "cl_to", "cl_type"],
        "(10,'C','subcat'),(11,'C','subcat'),(12,'A','subcat'),(13,'A','page')",
    )

    def read() -> None:
        from longtail.data.hierarchy import build
        from longtail.data.wikipedia import read_wikipedia

        build(read_wikipedia(folder))

    return read


def _predictions(folder: Path, rng: Rng) -> Reader:
    rows = [
        {"id": f"row {n}", "labels": [{"id": "xyz"[n % 3], "score": 0.5}, {"id": "y", "score": 0.1}]} for n in range(5)
    ]
    (folder / "predictions.jsonl").write_text(_lines_of(rows))

    def read() -> None:
        from longtail.data.dataset import Dataset
        from longtail.data.labels import LabelSet
        from longtail.predictions_file import read_predictions

        labels = LabelSet(ids=("x", "y", "z"))
        targets = sparse.csr_array(np.eye(5, 3, dtype=np.float32))
        ids = tuple(f"row {n}" for n in range(5))
        read_predictions(
            folder / "predictions.jsonl", Dataset(labels=labels, targets=targets, ids=ids, texts=("a",) * 5)
        )

    return read


def _recipes(folder: Path, rng: Rng) -> Reader:
    (folder / "a.toml").write_text(
        'recipes = ["parabel + rerank", "renee(epochs=30) + lever(tau=15) + rerank"]\n'
        '[[recipe]]\nlearner = { name = "knn", neighbours = 5 }\ntail = [{ name = "rerank" }, "calibrate"]\n'
    )

    def read() -> None:
        from longtail.cli.shared import read_recipes

        read_recipes([str(folder / "a.toml")])

    return read


def _word_vectors(folder: Path, rng: Rng) -> Reader:
    (folder / "glove.txt").write_text("3 2\nred 0.5 1\nant 1e-3 -2\nhill 1 1\n")
    (folder / "words.txt").write_text("red\nant\nhill\n")
    np.save(folder / "words.npy", np.ones((3, 2), np.float32))

    def read() -> None:
        from longtail.nn.shallow.pretrained_word_vectors import read_vectors

        for name in ("glove.txt", "words.npy"):
            read_vectors(folder / name, {"red": 0, "hill": 1}, 2, np.ones((2, 2), np.float32))

    return read


def _store(folder: Path, rng: Rng) -> Reader:
    from longtail.data.store_convert import write_store
    from longtail.data.store_reader import verify_store

    rows = [{"id": f"r{n}", "text": f"a b é {n}", "labels": {"x": 0.5, "yz"[n % 2]: 1}} for n in range(9)]
    (folder / "given").mkdir()
    (folder / "given" / "train.jsonl").write_text(_lines_of(rows))
    if rng.random() < 0.5:
        np.save(folder / "given" / "train.vectors.npy", rng.normal(size=(9, 3)).astype(np.float32))
    place = write_store(folder / "given", folder / "store")
    shutil.rmtree(folder / "given")

    def read() -> None:
        from longtail.data.read import load
        from longtail.inspection import inspect

        corpus = load(place)
        inspect(corpus)
        list(corpus.train.take(np.arange(len(corpus.train))[::-1]).texts or ())
        if rng.random() < 0.3:
            verify_store(place)

    return read


FORMATS: dict[str, Callable[[Path, Rng], Reader]] = {
    "folder": _folder,
    "folder gz": partial(_folder, pack=gzip.compress, ending=".gz"),
    "folder xz": partial(_folder, pack=lzma.compress, ending=".xz"),
    "vectors": _vectors,
    "bag": _bag,
    "described": _described,
    "store": _store,
    "matrices": _matrices,
    "npz": _arrays,
    "whole": _whole,
    "csv": _table,
    "tsv": partial(_table, ending=".tsv"),
    "parquet": _parquet,
    "edges": _edges,
    "wordnet": _wordnet,
    "wikipedia": _wikipedia,
    "predictions": _predictions,
    "recipes": _recipes,
    "word vectors": _word_vectors,
}
