"""Column chunks of Parquet files, as our own code and pyarrow read them, and files with a damaged footer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.data.parquet_footer import read_chunks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

READ = """
import sys
from pathlib import Path
from longtail.data.parquet import parquet_columns, parquet_records
from longtail.errors import LongtailError
path, whole = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
length = int.from_bytes(whole[-8:-4], "little") - 2
for place in map(int, sys.argv[3].split(",")):
    path.write_bytes(whole[:place] + bytes([0x26]) + whole[place + 3:-8] + length.to_bytes(4, "little") + whole[-4:])
    try:
        print("read", sum(1 for _ in parquet_records(path, parquet_columns(path))))
    except LongtailError as error:
        print("refused", error)
"""


def footer(path: Path) -> bytes:
    whole = path.read_bytes()
    return whole[len(whole) - 8 - int.from_bytes(whole[-8:-4], "little") : -8]


def lists(path: Path) -> Path:
    """Three groups of few rows, so that a count in the footer is one byte."""
    rng = np.random.default_rng(0)
    texts = [f"text {number}" for number in rng.integers(0, 40, 60)]
    labels = [[f"L{label}" for label in rng.integers(0, 9, number)] for number in rng.integers(0, 4, 60)]
    table = pa.table({"title": texts, "labels": labels, "weight": rng.random(60), "pages": pa.array([{"of": 3}] * 60)})
    pq.write_table(table, path, row_group_size=20)
    return path


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "write_statistics": False}, {"version": "1.0"}])
def test_chunks_are_those_of_pyarrow(tmp_path: Path, options: dict[str, object]) -> None:
    path = lists(tmp_path / "one.parquet")
    pq.write_table(pq.read_table(path), path, row_group_size=20, write_page_index=True, **options)
    facts = pq.ParquetFile(path).metadata
    found = read_chunks(footer(path))
    assert len(found) == facts.num_row_groups == 3
    for group, chunks in enumerate(found):
        theirs = [facts.row_group(group).column(place) for place in range(facts.num_columns)]
        assert [
            (one.path_in_schema, one.num_values, one.total_uncompressed_size, one.has_dictionary_page) for one in theirs
        ] == [tuple(chunk) for chunk in chunks]


def test_a_damaged_histogram_of_sizes_is_refused(tmp_path: Path) -> None:
    """pyarrow ends the process where it describes such a column in Python."""
    path = lists(tmp_path / "whole.parquet")
    whole, first = path.read_bytes(), path.stat().st_size - 8 - len(footer(path))
    places = [place for place in range(first, len(whole) - 8) if whole[place] == 0x46]  # lists of four counts lose two
    assert places
    command = [sys.executable, "-c", READ, str(tmp_path / "one.parquet"), str(path), ",".join(map(str, places))]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert "refused" in found.stdout and len(found.stdout.splitlines()) == len(places)


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b"", "too early"),
        (b"\x49\xf6", "another type|too early"),  # row groups are no structures
        (b"\x49\x1c\x19\x1c\x00\x00\x00", "encrypted"),  # one group, one column without a description
        (b"\x18\xff\xff\xff\xff\x0f", "too early"),  # a text of four billion bytes
        (b"\x16" + b"\xff" * 11, "too long"),
        (b"\x1c" * 100, "nested too deep"),
        (b"\x1f", "does not know"),
        (b"\x19\xfc\xff\xff\xff\xff\x0f", "too early"),  # a list of four billion structures
    ],
)
def test_a_damaged_footer(damaged: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_chunks(damaged)
