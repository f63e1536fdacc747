"""Whatever happens to the bytes of a data set, `load` reads it or tells what is wrong; nothing else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.data.read import load
from longtail.errors import DataError


def folder(path: Path) -> None:
    rows = [{"id": f"r{n}", "text": "a b", "labels": {"x": 0.5, "y": 1}} for n in range(6)]
    (path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "labels.jsonl").write_text('{"id": "x", "text": "X"}\n{"id": "y", "text": "Y"}\n')
    (path / "exclude.jsonl").write_text('{"id": "r1", "labels": ["x"]}\n')
    (path / "corpus.json").write_text('{"name": "n", "propensity": {"a": 0.5, "b": 0.4}, "text": "text"}')


def packed(path: Path) -> None:
    rows = "".join(json.dumps({"id": f"r{n}", "text": "a b", "labels": ["x"]}) + "\n" for n in range(50))
    (path / "train.jsonl.gz").write_bytes(gzip.compress(rows.encode()))


def bag(path: Path) -> None:
    (path / "train.txt").write_text("4 30 9\n1,2 3:0.5 29:1e-3\n 4:-1\n8 \n0,1,2 0:1 1:1 2:1\n")
    (path / "filter_labels_train.txt").write_text("0 1\n3 8\n")


def described(path: Path) -> None:
    rows = [{"uid": f"u{n}", "title": "t", "content": "c", "target_ind": [n % 3], "target_rel": [1]} for n in range(5)]
    (path / "trn.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "lbl.json").write_text("".join(json.dumps({"uid": f"l{n}", "title": "t"}) + "\n" for n in range(3)))
    (path / "trn_X_Xf.txt").write_text("5 7\n0:1\n1:1\n\n6:2 3:1\n\n")


def table(path: Path) -> None:
    (path / "train.csv").write_text('id,text,labels\n1,"a, b",x|y\n2,c,"[""x""]"\n3,d,"{""y"": 0.5}"\n')


def parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    values = {"id": ["1", "2", "3"], "text": ["a", "b", "c"], "labels": [["x"], ["y", "x"], []]}
    pyarrow.parquet.write_table(pyarrow.table(values), path / "train.parquet")


def arrays(path: Path) -> None:
    sparse.save_npz(path / "X.trn.npz", sparse.csr_array(np.eye(4, dtype=np.float32)))
    sparse.save_npz(path / "Y.trn.npz", sparse.csr_array(np.eye(4, dtype=np.float32)))


@pytest.mark.parametrize("make", [folder, packed, bag, described, table, parquet, arrays])
def test_damaged_files(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    assert len(load(tmp_path).train) > 0
    files = sorted(tmp_path.iterdir())
    whole = [path.read_bytes() for path in files]
    rng = np.random.default_rng(7)
    errors = 0
    for _ in range(80):
        which = int(rng.integers(len(files)))
        raw = bytearray(whole[which])
        kind = rng.integers(4)
        place = int(rng.integers(len(raw)))
        if kind == 0:
            raw[place] = int(rng.integers(256))
        elif kind == 1:
            del raw[place:]
        elif kind == 2:
            del raw[place : place + int(rng.integers(1, 9))]
        else:
            raw[place:place] = rng.choice([b"\n", b",", b":", b'"', b"\x00", b"-", b"9", b"\xff", b"{", b"e"])
        files[which].write_bytes(raw)
        try:
            load(tmp_path)
        except DataError as error:
            errors += 1
            assert "\n" not in str(error)
            assert str(tmp_path) in str(error)
        files[which].write_bytes(whole[which])
    assert errors > 15
