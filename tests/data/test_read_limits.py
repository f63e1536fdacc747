"""What a file declares is believed only up to what it holds, and everything that could be endless has a limit."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import longtail
from longtail.data.edges import read_edges
from longtail.data.files import chunks, lines, shown, whole_text
from longtail.data.hierarchy import build
from longtail.data.limits import FREE_LABELS, MAX_FIELD, MAX_LINE, MAX_RATIO, MAX_WHOLE, RATIO_FROM
from longtail.data.numpy_files import read_array
from longtail.data.opening import open_file
from longtail.data.read import load
from longtail.data.unpack import Unpacked
from longtail.data.wikipedia_sql import open_table
from longtail.errors import MAX_MESSAGE, DataError, WillNotFit

SOURCE = Path(longtail.__file__).parent
RAW = ("click_titles", "judgements", "manpages", "wiki_dump", "wikitext")  # read what users give
ROW = '{"id": "1", "text": "a", "labels": ["x"]}\n'


def complaint(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(path)
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def test_data_files_are_opened_in_one_place() -> None:
    """So that nobody forgets to look at the type of a file before reading it."""
    readers = [*(SOURCE / "data").glob("*.py"), SOURCE / "predictions_file.py", SOURCE / "inspection.py"]
    readers += [SOURCE / "cli" / name for name in ("check.py", "shared.py", "predict.py", "evaluate.py")]
    readers += (SOURCE / "cli" / "build").glob("*.py")
    readers += [SOURCE / "nn" / "shallow" / "pretrained_word_vectors.py", SOURCE / "saved_predictions.py"]
    readers += (SOURCE / "data" / "builders" / f"{name}.py" for name in RAW)
    opens = re.compile(
        r"(?<![\w.])open\(|\.open\((?!\"wb\"|member)|gzip\.(open|decompress)|lzma\.(open|decompress)|np\.load\(|"
        r"\.read_(text|bytes)\(|LZMAFile|fromfile|load_npz|loadtxt|ParquetFile\((?!raw)"
    )
    allowed = {"opening.py": {"os.open(path, FLAGS)"}}
    for path in readers:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if opens.search(line) and not any(word in line for word in allowed.get(path.name, set())):
                raise AssertionError(
                    f"{path.name}:{number} opens a file itself; use longtail.data.opening: {line.strip()}"
                )


@pytest.mark.parametrize(
    "name", ["train.jsonl", "train.csv", "train.parquet", "train.txt", "trn_X_Y.txt", "Y.trn.npz", "corpus.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "loop", "nowhere", "/dev/zero", "/dev/full"])
def test_what_is_not_a_file_is_refused_at_once(
    tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    if name == "corpus.json":
        Path("train.jsonl").write_text(ROW)
    if kind == "pipe":
        os.mkfifo(name)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(name)
    elif kind == "folder":
        Path(name).mkdir()
    else:
        Path(name).symlink_to(name if kind == "loop" else kind)
    wanted = {
        "pipe": "is a named pipe, and a file is expected",
        "socket": "is a socket",
        "folder": "is a folder" if name != "train.txt" else "has no data set",
        "loop": "leads back to itself",
        "nowhere": "is a link to a file that is not there",
        "/dev/zero": "is a link to a device",
        "/dev/full": "is a link to a device",
    }
    assert wanted[kind] in complaint(tmp_path)
    if kind != "folder":
        assert wanted[kind] in complaint(tmp_path / name)


def test_labels_and_features_of_a_header(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("2 10 2000000000\n1 1:1\n2 2:1\n")
    assert f"declares 2,000,000,000 labels for 4 entries of targets and features; at most {FREE_LABELS:,}" in complaint(
        tmp_path
    )
    assert "2,000,000,000 labels" in complaint(tmp_path / "train.txt")
    (tmp_path / "train.txt").write_text("2 2000000000 10\n1 1:1\n2 2:1\n")
    assert "declares 2,000,000,000 features" in complaint(tmp_path)
    (tmp_path / "train.txt").write_text("2000000000 10 10\n1 1:1\n2 2:1\n")
    assert "the header says 2,000,000,000 rows, but there are 2" in complaint(tmp_path)
    (tmp_path / "train.txt").write_text("2 10 3000\n1 1:1\n2 2:1\n")  # a sample of few rows keeps its label set
    assert len(load(tmp_path).labels) == 3000


def test_a_label_number_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "trn.json").write_text('{"uid": "a", "title": "t", "target_ind": [2147483646]}\n')
    assert "declares 2,147,483,647 labels for 1 entries" in complaint(tmp_path)


def test_blank_lines_after_raw_texts_take_no_time(tmp_path: Path) -> None:
    (tmp_path / "trn_X_Y.txt").write_text("1 2\n0:1\n")
    (tmp_path / "trn_X.txt").write_text("a\n" + "\n" * 300_000)
    assert load(tmp_path).train.texts == ("a",)


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_one_line_that_unpacks_without_end(tmp_path: Path, ending: str) -> None:
    once = (gzip.compress if ending == ".gz" else lzma.compress)(b"a" * (MAX_LINE // 2))
    path = tmp_path / f"train.jsonl{ending}"
    path.write_bytes(once * 8)
    assert re.search(
        r"train\.jsonl\.(gz|xz):1: (the line is longer than 67.1 MB|unpacks to more than 200)", complaint(tmp_path)
    )


def test_short_lines_that_unpack_without_end(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress((b" " * 1000 + b"\n") * (RATIO_FROM // 1000)))
    assert f"unpacks to more than {MAX_RATIO} times its size" in complaint(tmp_path)


def test_joined_and_padded_archives(tmp_path: Path) -> None:
    for ending, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"a{ending}"
        path.write_bytes(pack(b"one\n") + pack(b"") + pack(b"two\n" * 400_000) + b"\0" * 70_000)
        assert sum(1 for _ in lines(path)) == 400_001
        with open_file(path) as raw:
            unpacked = Unpacked(raw, ending)
            assert unpacked.read(6) == b"one\ntw" and len(unpacked.read(1 << 20)) == 1 << 20
        path.write_bytes(b"\0" * 100)
        with pytest.raises(DataError, match="not whole"):
            list(chunks(path))


def test_the_window_of_xz(tmp_path: Path) -> None:
    """A header may ask for 4 GB before the first byte."""
    import zlib

    raw = bytearray(lzma.compress(ROW.encode()))
    size = (raw[12] + 1) * 4
    raw[raw.index(b"\x21\x01", 12) + 2] = 39
    raw[12 + size - 4 : 12 + size] = zlib.crc32(raw[12 : 12 + size - 4]).to_bytes(4, "little")
    (tmp_path / "train.jsonl.xz").write_bytes(raw)
    assert "asks for more than" in complaint(tmp_path)


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(b'id,text,labels\n1,"' + b"a\n" * (MAX_FIELD // 2 + 10))
    assert f"train.csv:2: a field is longer than {MAX_FIELD:,} characters" in complaint(tmp_path)


def test_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,text,labels" + "," * 200_000 + "\n")
    assert "has more than 100,000 columns" in complaint(tmp_path)


@pytest.mark.parametrize(
    "cell", ["[" + "(" * 50_000 + ")" * 50_000 + "]", "[" + "-" * 50_000 + "1]", "['" + "a" * 2_000_000 + "',]"]
)
def test_cells_that_python_could_not_parse(tmp_path: Path, cell: str) -> None:
    (tmp_path / "train.csv").write_text(f'id,text,labels\n1,a,"{cell}"\n')
    assert "train.csv:2: labels in brackets must be a" in complaint(tmp_path)


def test_lists_as_python_prints_them_are_still_read(tmp_path: Path) -> None:
    cells = ["['it\\'s', \"a\"]", "[ 'b' , 3 ]", "['c',]", "{'d': 0.5, 'e': 1}", "[]"]
    rows = "".join('%d,t,"%s"\n' % (n, cell.replace('"', '""')) for n, cell in enumerate(cells))  # noqa: UP031
    (tmp_path / "train.csv").write_text("id,text,labels\n" + rows)
    assert load(tmp_path).labels.ids == ("it's", "a", "b", "3", "c", "d", "e")


def test_messages_stay_short(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    for row in (
        f'{{"id": {deep}, "text": "a", "labels": []}}',
        f'{{"id": "1", "text": "a", "labels": ["{"x" * 9_000_000}"]}}',
    ):
        (tmp_path / "labels.jsonl").write_text('{"id": "x"}\n')
        (tmp_path / "train.jsonl").write_text(row + "\n")
        assert "train.jsonl:1" in complaint(tmp_path)
    assert shown(["a" * 1000] * 1000).count("a") < 500


def test_a_number_of_many_digits(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 10 10\n1 1:" + "1" * 5000 + "\n")
    assert "train.txt:2: a number of more than 1000 digits" in complaint(tmp_path)


def test_whole_files_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("#\n" * (MAX_WHOLE // 2 + 1))
    with pytest.raises(DataError, match=r"more than 16\.8 MB"):
        whole_text(tmp_path / "a.toml")


@pytest.mark.parametrize(
    "header",
    [
        "'descr': '<f4', 'fortran_order': False, 'shape': (1, 4000000000000)",
        "'descr': '|O', 'fortran_order': False, 'shape': (1, 1)",
        "'descr': '<f4', 'fortran_order': False, 'shape': (1.0, 1)",
        "'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1)",
        "((((((((",
    ],
)
def test_headers_of_arrays(tmp_path: Path, header: str) -> None:
    (tmp_path / "train.jsonl").write_text(ROW)
    raw = ("{" + header + ", }").ljust(117) + "\n"
    path = tmp_path / "train.vectors.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw.encode() + bytes(4))
    assert "train.vectors.npy: is not a NumPy array of numbers" in complaint(tmp_path)


def test_an_array_that_memory_cannot_hold(tmp_path: Path) -> None:
    """Its header tells the truth; the file has holes, so that it takes no room on the disk."""
    (tmp_path / "train.jsonl").write_text(ROW)
    raw = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1000000000000), }".ljust(117) + "\n"
    path = tmp_path / "train.vectors.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw.encode())
    os.truncate(path, 128 + 4 * 10**12)
    with pytest.raises(WillNotFit, match=r"the array needs about 12\.0 TB of memory, but only"):
        load(tmp_path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read_as_they_were_written(tmp_path: Path, order: str) -> None:
    given = np.asarray(np.arange(12.0).reshape(3, 4), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", given)
    for mapped in (False, True):
        np.testing.assert_array_equal(read_array(tmp_path / "a.npy", mapped=mapped), given)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"indptr": [0, 0, 0, 0, 0]}, "row starts"),  # SciPy checks no index where the last start is 0
        ({"indptr": [0, 3, 2, 3, 4]}, "row starts"),
        ({"indices": [0, 1, 2, -1]}, "an index"),
        ({"indices": [0, 1, 2, 4]}, "an index"),
        ({"indices": np.array([0, 1, 2, 2**32])}, "an index"),
        ({"indptr": np.array([0, 1, 2, 2**64 - 1, 4], np.uint64)}, "row starts"),
        ({"shape": [2**31 - 1, 4]}, "row starts do not match"),
        ({"shape": [4, 2**40]}, "at most 2147483647"),
        (
            {"format": b"coo", "row": [0], "col": [0], "data": np.ones(1), "shape": [2**31 - 1, 4]},
            "declares 2147483647 rows",
        ),
        ({"format": b"dia"}, "use .tocsr"),
        ({"data": np.ones((4, 1))}, "its entries"),
        ({"data": np.array([1, 1, 1, 1j])}, "complex"),
    ],
)
def test_sparse_matrices_that_are_none(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    sound = {"indptr": np.arange(5), "indices": np.arange(4), "data": np.ones(4), "shape": [4, 4], "format": b"csr"}
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csr_array(np.eye(4)))
    np.savez(tmp_path / "Y.trn.npz", **{**sound, **changes})  # type: ignore[arg-type]
    assert problem in complaint(tmp_path)


@pytest.mark.parametrize("form", ["tocsr", "tocsc", "tocoo"])
def test_sparse_matrices_in_three_forms(tmp_path: Path, form: str) -> None:
    dense = np.array([[0, 1, 0.5], [0, 0, 0], [1, 0, 0]], np.float32)
    for name in ("X.trn.npz", "Y.trn.npz"):
        sparse.save_npz(tmp_path / name, getattr(sparse.csr_array(dense), form)())
    whole = load(tmp_path, valid_share=0)
    np.testing.assert_array_equal(whole.train.targets.toarray(), dense)


def test_parquet_that_unfolds(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train.parquet"
    nothing = pa.nulls(2_000_000, pa.string())
    parquet.write_table(pa.table({"text": nothing, "labels": nothing}), path)
    assert "declares 2,000,000 rows, and at most 1,048,576 are believed" in complaint(tmp_path)
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, np.int32)), pa.array(["x" * 100_000]))
    parquet.write_table(pa.table({"text": texts, "labels": ["x"] * 3000}), path)
    assert "unfolds to more than 200 times its size" in complaint(tmp_path)
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * 100_000]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), values)
    parquet.write_table(pa.table({"text": ["a"], "labels": lists}), path)
    with pytest.raises((DataError, WillNotFit), match=r"labels\.list\.element"):
        load(tmp_path)


def test_a_hub_of_a_hierarchy_is_built_in_parts(tmp_path: Path) -> None:
    """Every child has every parent as an ancestor, through one node; parts of few documents keep the memory low."""
    number = 1500
    (tmp_path / "edges.tsv").write_text("".join(f"c{n}\thub\nhub\tp{n}\n" for n in range(number)))
    corpus = build(read_edges(tmp_path / "edges.tsv"), valid_share=0)
    entries = sum(split.targets.nnz for split in (corpus.train, corpus.valid, corpus.test))
    assert entries == number * (number + 1) + number  # of each child the hub and its parents; of the hub its parents


def test_a_dump_without_its_table(tmp_path: Path) -> None:
    path = tmp_path / "x-page.sql.gz"
    with gzip.GzipFile(path, "wb", 1) as file:
        for _ in range(40):
            file.write(b"-- a comment\n" * 80_000)
    with pytest.raises(DataError, match="has no CREATE TABLE"):
        open_table(path, "page")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process")
def test_reading_stops_before_memory_is_used_up(tmp_path: Path) -> None:
    """A plain file of sound rows, in a process that may take little more than it starts with."""
    text = "a" * 4000
    with (tmp_path / "train.jsonl").open("w") as file:
        file.writelines(f'{{"id": "{n}", "text": "{text}", "labels": ["x"]}}\n' for n in range(120_000))
    code = (
        "import resource, sys, longtail\nfrom longtail.data.read import load\nfrom longtail.errors import WillNotFit\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (400 << 20),) * 2)\n"
        "try:\n    load(sys.argv[1])\nexcept WillNotFit as error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )
    assert "of memory" in told.stdout and ("are left" in told.stdout or "more memory than there is" in told.stdout), (
        told
    )


def test_fuzzed_files_in_short() -> None:
    script = SOURCE.parents[1] / "benchmarks" / "fuzz_data.py"
    if not script.exists():
        pytest.skip("the benchmarks are not installed")
    pytest.importorskip("pyarrow")
    words = [sys.executable, str(script), "--files", "360", "--seed", "7", "--no-bombs"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 crashes, 0 foreign exceptions, 0 timeouts, 0 over the memory bound" in done.stdout


def test_an_error_is_not_as_long_as_what_the_file_holds() -> None:
    assert str(DataError("x" * 1_000_000 + "\n", "a.jsonl", 3)).startswith("a.jsonl:3: xxx")
    assert len(str(DataError("x" * 1_000_000, "a.jsonl", 3))) <= MAX_MESSAGE + 20
