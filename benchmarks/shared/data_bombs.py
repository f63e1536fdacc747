"""Bombs: files that are small on the disk and declare, or unpack to, far more than they hold."""

from __future__ import annotations

import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from shared.raw_bombs import RAW_BOMBS, read_raw

MIB = 1 << 20
ROW = '{"id": "%d", "text": "a", "labels": ["x"]}\n'


def _gz(path: Path, pieces: Iterable[bytes]) -> None:
    with gzip.GzipFile(path, "wb", 1) as file:
        for piece in pieces:
            file.write(piece)


def _same(piece: bytes, times: int) -> Iterable[bytes]:
    for _ in range(times):
        yield piece


def header_of_labels(folder: Path) -> None:
    """30 bytes that declare two billion labels."""
    (folder / "train.txt").write_text("2 10 2000000000\n1 1:1\n2 2:1\n")


def header_of_features(folder: Path) -> None:
    (folder / "train.txt").write_text("2 2000000000 10\n1 1:1\n2 2:1\n")


def header_of_rows(folder: Path) -> None:
    (folder / "train.txt").write_text("2000000000 10 10\n1 1:1\n2 2:1\n")


def header_that_is_believed(folder: Path) -> None:
    """Four million labels in thirty bytes are the most that is believed."""
    (folder / "train.txt").write_text("2 10 4000000\n1 1:1\n2 2:1\n")


def label_number(folder: Path) -> None:
    (folder / "trn.json").write_text('{"uid": "a", "title": "t", "target_ind": [2147483646]}\n')


def label_number_in_matrix(folder: Path) -> None:
    (folder / "trn_X_Y.txt").write_text("1 2147483647\n2147483646:1\n")
    (folder / "trn_X.txt").write_text("a\n")


def line_gz(folder: Path) -> None:
    """One line of 6 GB in 6 MB."""
    once = gzip.compress(b"a" * (64 * MIB), 9)
    (folder / "train.jsonl.gz").write_bytes(gzip.compress(b'{"id": "') + once * 96)


def line_near_the_limit(folder: Path) -> None:
    _gz(folder / "train.jsonl.gz", [b'{"id": "1", "labels": [], "text": "', *_same(b"a" * MIB, 62), b'"}\n'])


def blank_lines_gz(folder: Path) -> None:
    (folder / "trn_X_Y.txt").write_text("1 2\n0:1\n")
    once = gzip.compress(b"\n" * (64 * MIB), 9)
    (folder / "trn_X.txt.gz").write_bytes(gzip.compress(b"a\n") + once * 20)


def rows_gz(folder: Path) -> None:
    """Twenty million equal rows."""
    once = gzip.compress((ROW % 1).encode() * 1_000_000, 9)
    (folder / "train.jsonl.gz").write_bytes(once * 20)


def line_xz(folder: Path) -> None:
    once = lzma.compress(b"a" * (64 * MIB), preset=1)
    (folder / "train.jsonl.xz").write_bytes(once * 96)


def window_xz(folder: Path) -> None:
    """A header that asks for a window of 1.5 GB."""
    packing = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 3 << 29, "mf": lzma.MF_HC3, "nice_len": 8}]
    raw = bytearray(
        lzma.compress((ROW % 1).encode(), format=lzma.FORMAT_XZ, filters=[{**packing[0], "dict_size": 1 << 20}])
    )
    size = (raw[12] + 1) * 4
    place = raw.index(b"\x21\x01", 12, 12 + size) + 2
    raw[place] = 39  # 3 GiB
    raw[12 + size - 4 : 12 + size] = zlib.crc32(raw[12 : 12 + size - 4]).to_bytes(4, "little")
    (folder / "train.jsonl.xz").write_bytes(raw)


def members_gz(folder: Path) -> None:
    """A hundred thousand empty files joined."""
    (folder / "train.jsonl.gz").write_bytes(gzip.compress(b"") * 100_000 + gzip.compress((ROW % 1).encode()))


def quote_in_csv(folder: Path) -> None:
    _gz(folder / "train.csv.gz", [b'id,text,labels\n1,"', *_same(b"a b\n" * (MIB // 4), 100)])


def columns_of_csv(folder: Path) -> None:
    (folder / "train.csv").write_bytes(b"id,text,labels" + b"," * 10_000_000 + b"\n")


def deep_cell(folder: Path) -> None:
    """Python's own parser crashes on this in some versions."""
    (folder / "train.csv").write_text('id,text,labels\n1,a,"[' + "(" * 200_000 + ")" * 200_000 + ']"\n')


def long_cell(folder: Path) -> None:
    (folder / "train.csv").write_text('id,text,labels\n1,a,"[' + "-" * 5_000_000 + '1]"\n')


def deep_json(folder: Path) -> None:
    (folder / "train.jsonl").write_text('{"id": "1", "text": "a", "labels": ' + "[" * 5_000_000 + "\n")


def deep_json_within_limits(folder: Path) -> None:
    (folder / "train.jsonl").write_text('{"id": ' + "[" * 900 + "]" * 900 + ', "text": "a", "labels": []}\n')


def digits(folder: Path) -> None:
    (folder / "train.txt").write_text("1 10 10\n1 1:" + "1" * 20_000_000 + "\n")


def long_id(folder: Path) -> None:
    (folder / "labels.jsonl").write_text('{"id": "x"}\n')
    (folder / "train.jsonl").write_text('{"id": "1", "text": "a", "labels": ["' + "x" * 20_000_000 + '"]}\n')


def array_header(folder: Path) -> None:
    (folder / "train.jsonl").write_text(ROW % 1)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4000000000000), }".ljust(117) + "\n"
    (folder / "train.vectors.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    )


def sparse_array(folder: Path) -> None:
    """A header that tells the truth about a file of 4 TB, which takes no room on the disk."""
    array_header(folder)
    with (folder / "train.vectors.npy").open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) + 4 * 4_000_000_000_000)


def sparse_text(folder: Path) -> None:
    with (folder / "train.jsonl").open("wb") as file:
        file.truncate(1 << 40)


def zip_of_zeros(folder: Path) -> None:
    for name in ("X.trn.npz", "Y.trn.npz"):
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for member in ("indptr", "indices", "data", "shape", "format"):
                with file.open(f"{member}.npy", "w", force_zip64=True) as packed:
                    packed.write(b"\x93NUMPY\x01\x00")
                    for _ in range(300):
                        packed.write(bytes(MIB))


def rows_of_coo(folder: Path) -> None:
    for name in ("X.trn.npz", "Y.trn.npz"):
        one = np.zeros(1, np.int32)
        np.savez(folder / name, row=one, col=one, data=np.ones(1, np.float32), shape=[2**31 - 1, 4], format=b"coo")


def parquet_rows(folder: Path) -> None:
    """A hundred million rows without a value."""
    import pyarrow as pa
    from pyarrow import parquet

    nothing = pa.nulls(10_000_000, pa.string())
    table = pa.table({"id": nothing, "text": nothing, "labels": nothing})
    with parquet.ParquetWriter(folder / "train.parquet", table.schema) as file:
        for _ in range(10):
            file.write_table(table, row_group_size=10_000_000)


def parquet_dictionary(folder: Path) -> None:
    """A text of 1 MB, stored once and used ten thousand times."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, np.int32)), pa.array(["x" * 1_000_000]))
    table = pa.table({"text": texts, "title": texts, "labels": pa.array(["x"] * 10_000)})
    parquet.write_table(table, folder / "train.parquet", compression="none")


def parquet_list(folder: Path) -> None:
    """One row with a list of a million labels of 100 kB."""
    import pyarrow as pa
    from pyarrow import parquet

    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * 100_000]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), values)
    parquet.write_table(pa.table({"text": ["a"], "labels": lists}), folder / "train.parquet", compression="none")


def hub(folder: Path) -> None:
    """Thirty thousand nodes below one that has thirty thousand above: 900 million ancestors in 700 kB."""
    lines = [f"c{n}\thub\nhub\tp{n}\n" for n in range(30_000)]
    (folder / "edges.tsv").write_text("".join(lines))


def places(folder: Path) -> None:
    """One long line of predictions makes a wide table of all rows."""
    label = '{"id": "x", "score": 0.5}'
    first = '{"id": "0", "labels": [' + ", ".join([label] * 200_000) + "]}\n"
    (folder / "predictions.jsonl").write_text(
        first + "".join(f'{{"id": "{n}", "labels": []}}\n' for n in range(1, 200_000))
    )


def toml_depth(folder: Path) -> None:
    (folder / "a.toml").write_text("recipes = " + "[" * 200_000)


def toml_size(folder: Path) -> None:
    (folder / "a.toml").write_text("#" * (20 * MIB))


def recipe_depth(folder: Path) -> None:
    (folder / "a.toml").write_text('recipes = ["' + "fuse(" * 20_000 + '"]')


def sql_quote(folder: Path) -> None:
    for name in ("category", "page", "categorylinks"):
        head = f"CREATE TABLE `{name}` (\n  `cat_title` int,\n) X;\nINSERT INTO `{name}` VALUES ('".encode()
        _gz(folder / f"x-{name}.sql.gz", [head, *_same(b"a\n" * (MIB // 2), 200)])


def sql_head(folder: Path) -> None:
    """No CREATE TABLE in 500 MB."""
    for name in ("category", "page", "categorylinks"):
        _gz(folder / f"x-{name}.sql.gz", _same(b"-- a\n" * (MIB // 5), 500))


_KINDS: dict[str, Callable[[Path], None]] = {
    make.__name__: make
    for make in (
        header_of_labels, header_of_features, header_of_rows, header_that_is_believed, label_number,
        label_number_in_matrix, line_gz,
        line_near_the_limit, blank_lines_gz, rows_gz, line_xz, window_xz, members_gz, quote_in_csv, columns_of_csv,
        deep_cell,
        long_cell, deep_json, deep_json_within_limits, digits, long_id, array_header, sparse_array, sparse_text,
        zip_of_zeros,
        rows_of_coo, parquet_rows, parquet_dictionary, parquet_list, hub, places, toml_depth, toml_size,
        recipe_depth, sql_quote,
        sql_head,
        *RAW_BOMBS,
    )
}  # fmt: skip
BOMBS = tuple(_KINDS)


def make_bomb(name: str, folder: Path) -> Callable[[], object]:
    """Writes a bomb; returns what reads it."""
    _KINDS[name](folder)

    def read() -> None:
        from longtail.data.read import load

        if (folder / "edges.tsv").exists():
            from longtail.data.edges import read_edges
            from longtail.data.hierarchy import build

            build(read_edges(folder / "edges.tsv"))
        elif (folder / "a.toml").exists():
            from longtail.cli.shared import read_recipes

            read_recipes([str(folder / "a.toml")])
        elif (folder / "predictions.jsonl").exists():
            _read_predictions(folder / "predictions.jsonl")
        elif (folder / "x-page.sql.gz").exists():
            from longtail.data.wikipedia import read_wikipedia

            read_wikipedia(folder)
        elif read_raw(folder):
            return
        else:
            load(folder)

    return read


def _read_predictions(path: Path) -> None:
    from scipy import sparse

    from longtail.data.dataset import Dataset
    from longtail.data.labels import LabelSet
    from longtail.predictions_file import read_predictions

    rows = 200_000
    targets = sparse.csr_array((rows, 1), dtype=np.float32)
    ids = tuple(map(str, range(rows)))
    read_predictions(path, Dataset(labels=LabelSet(ids=("x",)), targets=targets, ids=ids, texts=("a",) * rows))
